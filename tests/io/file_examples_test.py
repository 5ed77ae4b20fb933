#!/usr/bin/env python3
"""Runs the examples that copy, count, search and sort a file, and compares with cmp, wc, grep and
sort.

usage: file_examples_test.py FOLDER_OF_EXAMPLES FOLDER_OF_TEXTS
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(sys.argv[1])
TEXTS = pathlib.Path(sys.argv[2])


def output(*command, **options):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=False, **options)


class FileExamples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        # Real text: the project's own sources, again and again, to a size of many blocks.
        once = b"".join(file.read_bytes() for pattern in ("vortex/*/*.cc", "vortex/*/*.h", "io/*/*.cc")
                        for file in sorted(TEXTS.glob(pattern)))
        self.texts = {"once": once, "empty": b"", "no newline": b"one line",
                      "many": once * (24_000_000 // len(once))}
        for name, text in self.texts.items():
            (self.path / name).write_bytes(text)

    def test_copy_as_cmp_says(self):
        for name in self.texts:
            copy = self.path / "copy"
            self.assertEqual(output(EXAMPLES / "copy_file", self.path / name, copy).returncode, 0)
            self.assertEqual(output("cmp", self.path / name, copy).returncode, 0, name)

    def test_copy_through_pipes(self):
        for name, text in self.texts.items():
            copied = output(EXAMPLES / "copy_file", "-", "-", input=text)
            self.assertEqual(copied.returncode, 0)
            self.assertEqual(copied.stdout, text, name)

    def test_count_as_wc_does(self):
        for name in self.texts:
            ours = output(EXAMPLES / "count_lines", self.path / name).stdout.split()
            wc = output("wc", self.path / name, env={"LC_ALL": "C"}).stdout.split()[:3]
            self.assertEqual(ours, wc, name)

    def test_search_as_grep_does(self):
        for name in self.texts:
            for word in ("noexcept", "reservation", "one", "no such words here"):
                ours = output(EXAMPLES / "search_file", word, self.path / name)
                grep = output("grep", "-F", "-a", word, self.path / name, env={"LC_ALL": "C"})
                self.assertEqual(ours.stdout, grep.stdout, (name, word))
                self.assertEqual(ours.returncode, grep.returncode, (name, word))

    def test_sort_as_fold_and_sort_do(self):
        for name in self.texts:
            fold = output("fold", "-b", "-w", "80", self.path / name)
            ordered = output("sort", env={"LC_ALL": "C"}, input=fold.stdout).stdout
            for memory in ("1", "128"):
                ours = output(EXAMPLES / "sort_lines", self.path / name, memory,
                              stderr=subprocess.PIPE)
                self.assertEqual(ours.returncode, 0, ours.stderr)
                self.assertEqual(ours.stdout, ordered, (name, memory))
                on_disk = name in ("once", "many") and memory == "1"
                self.assertEqual(b" 0 runs" not in ours.stderr, on_disk, (name, ours.stderr))

    def test_errors_are_told(self):
        failed = output(EXAMPLES / "copy_file", self.path / "absent", self.path / "copy",
                        stderr=subprocess.PIPE)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(b"absent", failed.stderr)
        self.assertFalse((self.path / "copy").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
