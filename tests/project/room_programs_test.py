#!/usr/bin/env python3
"""Asks the programs of all rooms for their tests.

  room_programs_test.py BUILD_ROOT

A room's tests are one program, which `meson test` runs once a file: every test is in one of its files and no
more, a filter takes some of them, and a file that has no test is an error.
"""

import collections
import json
import pathlib
import subprocess
import sys
import unittest

BUILD_ROOT = pathlib.Path(sys.argv[1]).resolve()


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def tests_in(*command):
    """Full names of what a program would run."""
    suite, names = "", []
    for line in run(*command, "--gtest_list_tests").stdout.splitlines():
        line = line.split("  # ")[0].rstrip()
        if line.startswith("  "):
            names.append(suite + line.strip())
        elif line.endswith("."):
            suite = line
    return names


class RoomPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tests = json.loads((BUILD_ROOT / "meson-info" / "intro-tests.json").read_text(encoding="utf-8"))
        cls.files_of = collections.defaultdict(list)
        for test in tests:
            if test["protocol"] == "gtest":
                cls.files_of[test["cmd"][0]].append(next(arg for arg in test["cmd"] if arg.startswith("--file=")))

    def test_every_test_is_in_one_file(self):
        self.assertGreater(len(self.files_of), 9)
        for program, files in self.files_of.items():
            of_files = [name for file in files for name in tests_in(program, file)]
            self.assertEqual(sorted(of_files), sorted(tests_in(program)), program)

    def test_a_filter_takes_some_of_a_file(self):
        program, files = next(iter(self.files_of.items()))
        names = tests_in(program, files[0])
        first, last = names[0], names[-1]
        self.assertEqual(tests_in(program, files[0], f"--gtest_filter={first}:none.*"), [first])
        self.assertEqual(tests_in(program, files[0], f"--gtest_filter=*-{last}"), names[:-1])
        self.assertEqual(run(program, files[1], f"--gtest_filter={first}").returncode, 2)

    def test_a_file_without_tests_is_an_error(self):
        program = next(iter(self.files_of))
        done = run(program, "--file=nothing_test")
        self.assertEqual((done.returncode, done.stdout), (2, f"{program}: no test is in nothing_test\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
