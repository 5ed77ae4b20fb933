#!/usr/bin/env python3
"""Tests of sizes.py: which lines belong to a function, and which complaints a house of a few files gets.

  sizes_test.py
"""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from rooms import House
from sizes import check_sizes, functions

CODE = '''\
#define OPEN {
namespace house {
struct Window : Frame<int> {
  Window(int width) : width_{width}, panes_{1, 2} {
    open();
  }
  int width() const { return width_; }
  int panes_[2] = {1, 2};
};
const char* const kBrace = "{";  // {
constexpr char kOther = '}';
template <typename T = int, int N = (3 > 2)>
void clean(T window) {
  const auto wipe = [&](int pane) {
    if (pane) return R"(}})";
  };
  wipe(1'000);
}
}  // namespace house
'''

MAP = '''
room = [ { folder = "a", in = "library", holds = "all" } ]
users = []
packages = ["p"]
functions_of = ["t"]
strangers = []
[limits]
files_in_a_folder = 2
file = 12
function = 4
least_concept = 3
[exceptions]
'''


class Sizes(unittest.TestCase):
    def test_a_function_goes_from_its_head_to_its_brace(self):
        self.assertEqual(list(functions(CODE)), [
            (4, 6, "Window"), (7, 7, "int width"), (12, 18, "void clean")])

    def complaints(self, files, exceptions=""):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "rooms.toml").write_text(MAP + exceptions, encoding="utf-8")
            for name, text in files.items():
                file = root / (name if "/" in name else f"a/{name}")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return list(check_sizes(House(root)))

    def test_what_keeps_the_limits_gets_no_complaint(self):
        self.assertEqual(self.complaints({"b.h": "\n", "b.cc": '#include "a/b.h"\n\n\n'}), [])

    def test_each_limit_is_measured(self):
        long = "void f() {\n\n\n\n}\n" + "\n" * 10
        said = self.complaints({"b.h": "\n\n", "c.h": long, "d.h": "\n\n\n", "README.md": "\n"})
        self.assertEqual(len(said), 4, said)
        for start in ("a/b: a header", "a/c.h has 15 lines", "a/c.h: void f has 5", "a has 3 files"):
            self.assertTrue(any(one.startswith(start) for one in said), (start, said))

    def test_python_keeps_the_limits_without_what_is_said_of_a_function(self):
        text = 'class C:\n    def f(self):\n        """a\n\n\n        """\n        return [\n'
        self.assertEqual(self.complaints({"p/b.py": text + "            1]\n"}), [])
        said = self.complaints({"p/b.py": text + "            1,\n\n        ]\n\n\n\n"})
        self.assertEqual([one.split(" ")[0] for one in said], ["p/b.py:", "p/b.py"], said)

    def test_functions_of_some_folders_alone_keep_their_limit(self):
        said = self.complaints({"t/b.cc": "void f() {\n\n\n\n}\n" + "\n" * 20})
        self.assertEqual([one.split(" has")[0] for one in said], ["t/b.cc: void f"], said)

    def test_an_exception_counts_as_long_as_it_is_needed(self):
        exceptions = 'least_concept = ["a/b"]\n'
        self.assertEqual(self.complaints({"b.h": "\n"}, exceptions), [])
        self.assertEqual(len(self.complaints({"b.h": "\n\n\n"}, exceptions)), 1)


if __name__ == "__main__":
    unittest.main()
