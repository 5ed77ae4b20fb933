#!/usr/bin/env python3
"""Compiles calls of vortex::sort() that habits of std::sort() lead to; each must fail with one error, a
sentence that says what to write, while the calls that are right compile.

  sort_mistakes_test.py SOURCE_ROOT COMPILER...
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

INCLUDE = pathlib.Path(sys.argv[1]).resolve() / "include"
COMPILER = sys.argv[2:]
HEAD = """
#include <algorithm>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>
#include <vortex/sort.h>
struct Item { unsigned price; char name[12]; };
std::vector<int> numbers;
std::vector<Item> items;
std::vector<std::string> strings;
std::vector<std::string_view> views;
std::vector<std::pair<int, int>> pairs;
std::deque<int> deque;
std::list<int> list;
"""


class SortMistakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        # What all calls stand on, compiled once.
        (cls.folder / "head.h").write_text(HEAD)
        subprocess.run([*COMPILER, "-std=c++20", f"-I{INCLUDE}", "-x", "c++-header", cls.folder / "head.h",
                        "-o", cls.folder / "head.h.gch"], check=True)

    def compile(self, call, *options):
        source = self.folder / "call.cc"
        source.write_text(f"void call() {{ {call}; }}\n")
        done = subprocess.run([*COMPILER, "-std=c++20", f"-I{INCLUDE}", "-include", self.folder / "head.h",
                               *(options or ["-fsyntax-only"]), source],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        return done.returncode, done.stdout

    def refused(self, sentence, *calls):
        for call in calls:
            with self.subTest(call):
                status, said = self.compile(call)
                self.assertNotEqual(status, 0)
                errors = [line for line in said.splitlines() if "error:" in line]
                self.assertEqual(len(errors), 1, said)
                self.assertIn(sentence, errors[0])
                self.assertLess(len(said.splitlines()), 20, said)

    def test_what_is_right_compiles(self):
        calls = ("vortex::sort(numbers)",
                 "vortex::sort(numbers, {.order = vortex::Order::kDescending})",
                 "vortex::sort(items, &Item::price)",
                 "vortex::sort(items.begin(), items.end(), &Item::price, {.stable = true})",
                 "vortex::sort(numbers.data(), numbers.data() + numbers.size(), vortex::SortOptions{})",
                 "vortex::sort(std::span(items), [](const Item& item) { return item.price; })",
                 "vortex::sort(items, [](const Item& item) { return std::tuple(item.price, item.name[0]); })",
                 "vortex::sort(views)", "vortex::sort(strings)",
                 "vortex::sort(views, [](std::string_view view) { return view; })")
        status, said = self.compile("; ".join(calls))
        self.assertEqual(status, 0, said)

    def test_the_library_has_compiled_what_sorts_usual_records(self):
        made = self.folder / "call.o"
        status, said = self.compile("vortex::sort(items, &Item::price); vortex::sort(numbers);"
                                    " vortex::sort(items, [](const Item& item) { return item.name[1] - 7; })",
                                    "-c", "-o", made)
        self.assertEqual(status, 0, said)
        self.assertIn(b"sort_records", made.read_bytes())
        self.assertNotIn(b"Sorter", made.read_bytes())

    def test_an_older_language(self):
        done = subprocess.run([*COMPILER, "-std=c++17", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"],
                              input="#include <vortex/version.h>\n", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("vortex needs C++20: compile with -std=c++20", done.stdout)

    def test_an_older_language_includes_the_headers_for_c(self):
        subprocess.run([*COMPILER, "-std=c++11", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"],
                       input="#include <vortex/c.h>\nint main() { return vtx_version() == nullptr; }\n",
                       text=True, check=True)

    def test_a_comparator_is_no_key(self):
        self.refused("takes a key, not a comparator",
                     "vortex::sort(numbers, std::greater<>{})",
                     "vortex::sort(numbers.begin(), numbers.end(), std::greater<int>())",
                     "vortex::sort(items, [](const Item& a, const Item& b) { return a.price < b.price; })",
                     "vortex::sort(items, [](const auto& a, const auto& b) { return a.price < b.price; })",
                     "vortex::sort(std::span(items), [](const Item& a, const Item& b) {"
                     " return a.price < b.price; })")

    def test_records_without_an_order_need_a_key(self):
        self.refused("needs a key for records of this type",
                     "vortex::sort(items)", "vortex::sort(items.begin(), items.end())")

    def test_records_that_are_no_bytes(self):
        self.refused("must be trivially copyable", "vortex::sort(pairs)",
                     "vortex::sort(pairs, [](const auto& pair) { return pair.first; })",
                     "vortex::sort(strings, [](const std::string& s) { return std::string_view(s); })")

    def test_keys_of_another_type(self):
        self.refused("is a number, a std::tuple of numbers or a std::string_view",
                     "vortex::sort(items, [](const Item& item) { return std::tuple(item.price, &item); })",
                     "vortex::sort(items, [](const Item& item) { return std::pair(item.price, std::string()); })")
        self.refused("or a function of one record", "vortex::sort(items, 3)")

    def test_what_is_no_array(self):
        self.refused("what is one array in memory",
                     "vortex::sort(deque)", "vortex::sort(list)",
                     "vortex::sort(deque.begin(), deque.end())",
                     "vortex::sort(deque, [](int value) { return value; })",
                     "vortex::sort(deque.begin(), deque.end(), std::greater<>{})")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
