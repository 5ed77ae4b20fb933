#!/usr/bin/env python3
"""Random command lines in random circumstances, given to vortex-sort and to GNU sort.

  sort_fuzz_test.py VORTEX_SORT [--sanitized]

Options come from the whole grammar of GNU sort: long ones, cut short, with their values behind `=` or
in the next word, short ones in clusters, and values that are none. Inputs are files, standard input,
pipes, names in a file, and files that grow meanwhile. Limits are on address space, data, descriptors and
processes. Output, exit status and messages must be the same. Where GNU sort itself cannot work within
the limit, nothing is compared.
"""

import contextlib
import os
import resource
import threading
import unittest

from folder_case import GNU, LONG, PROGRAMS, SANITIZED, SEED, WORDS, FolderCase, main, under

OURS, = PROGRAMS

KEYS = ["2", "2,2", "1,1n", "2n,2", "1.2,1.3", "2.2b,3.1b", "3,1", "2,2nr", "2V", " 1,1fb", "99", "1M",
        "2,2h", "1.3d", "1,1g"]
WRONG_KEYS = ["0", "-1", "1.0", "x", "1,", "1.", "1,0", "1nn,2", "1nM", "", "2;2", "1,1x", "1hn"]
NUMBERS = ["1", "2", "4", "16"]
WRONG_NUMBERS = ["0x", "-1", "abc", "", "1x", "1.5"]
SIZES = ["1M", "4M", "10%", "20000", "1024b", "5000K", "1T", "99999999999999999999"]
WRONG_SIZES = ["", "x", "-1", "1Q1", "10%%", "1 M"]


class Grammar:
    """A random command line, as a list of words; each value is none with the probability `wrong`, and
    one at most."""

    def __init__(self, chooser, wrong):
        self.chooser = chooser
        self.wrong = wrong

    def value(self, right, wrong):
        if self.chooser.random() >= self.wrong:
            return self.chooser.choice(right)
        self.wrong = 0  # which of several wrong values is told is nobody's business
        return self.chooser.choice(wrong)

    def long_option(self, name, value=None):
        shortest = {"reverse": 3, "unique": 1, "stable": 2, "key": 1, "field-separator": 3,
                    "ignore-case": 8, "ignore-leading-blanks": 8, "ignore-nonprinting": 8,
                    "dictionary-order": 3, "general-numeric-sort": 1, "human-numeric-sort": 2,
                    "month-sort": 2, "numeric-sort": 1, "version-sort": 8, "zero-terminated": 1,
                    "buffer-size": 2, "batch-size": 2, "parallel": 1, "sort": 2,
                    "temporary-directory": 1}[name]
        word = "--" + name[:self.chooser.randint(shortest, len(name))]
        if value is None:
            return [word]
        return [f"{word}={value}"] if self.chooser.random() < 0.6 else [word, value]

    def short_option(self, letter, value=None):
        if value is None:
            return [f"-{letter}"]
        return [f"-{letter}{value}"] if value and self.chooser.random() < 0.6 else [f"-{letter}", value]

    def order(self):
        letter, name = self.chooser.choice([
            ("n", "numeric-sort"), ("g", "general-numeric-sort"), ("h", "human-numeric-sort"),
            ("M", "month-sort"), ("V", "version-sort"), ("d", "dictionary-order"),
            ("f", "ignore-case"), ("i", "ignore-nonprinting"), ("b", "ignore-leading-blanks")])
        how = self.chooser.random()
        if how < 0.4:
            return self.short_option(letter)
        if how < 0.8:
            return self.long_option(name)
        return self.long_option("sort", self.value(
            ["numeric", "n", "general-numeric", "human", "month", "version", "v"],
            ["", "x", "numericx", "m-"]))

    def flags(self):
        return "-" + "".join(self.chooser.sample("rsubfd", self.chooser.randint(1, 3)))

    def words(self):
        chooser, made = self.chooser, []
        for _ in range(chooser.randrange(5)):
            made += chooser.choice([
                self.order,
                lambda: [self.flags()],
                lambda: self.short_option("k", self.value(KEYS, WRONG_KEYS)),
                lambda: self.long_option("key", self.value(KEYS, WRONG_KEYS)),
                lambda: self.short_option("t", self.value([",", ":", "\\0", " "], ["", "ab", "\\t"])),
                lambda: self.long_option("field-separator", self.value([",", ":"], ["", "xy"])),
                lambda: self.short_option("S", self.value(SIZES, WRONG_SIZES)),
                lambda: self.long_option("buffer-size", self.value(SIZES, WRONG_SIZES)),
                lambda: self.long_option("parallel", self.value(NUMBERS, WRONG_NUMBERS)),
                lambda: self.long_option("batch-size", self.value(["2", "7"], WRONG_NUMBERS)),
                lambda: self.long_option(chooser.choice(["reverse", "unique", "stable"])),
                lambda: self.short_option("T", "."),
            ])()
        if chooser.random() < self.wrong / 2:
            made.append(chooser.choice(["--qqq", "-Q", "--s", "-j4", "--key", "--reverse=1"]))
        return made


class Circumstances:
    """Limits that a process is given; none without a chooser, and none under sanitizers, whose shadow takes
    address space, and which take descriptors and threads."""

    def __init__(self, chooser=None):
        self.limits, self.threads = {}, None
        if chooser is None:
            return
        choices = {resource.RLIMIT_AS: [None, None, None, 200 << 20, 500 << 20, 2 << 30],
                   resource.RLIMIT_DATA: [None, None, None, 200 << 20, 1 << 30],
                   resource.RLIMIT_NOFILE: [None, None, 16, 64]}
        chosen = {which: chooser.choice(values) for which, values in choices.items()}
        no_threads = os.geteuid() == 0 and chooser.random() < 0.15
        if not SANITIZED:
            self.limits = {which: value for which, value in chosen.items() if value is not None}
            self.threads = 1 if no_threads else None

    def apply(self):
        return under(self.limits, self.threads)

    def __str__(self):
        value = self.limits.get
        return (f"ulimit -v {value(resource.RLIMIT_AS)} -d {value(resource.RLIMIT_DATA)} "
                f"-n {value(resource.RLIMIT_NOFILE)} {'-u 1' if self.threads else ''}")


class Fuzz(FolderCase):
    def setUp(self):
        super().setUp()
        self.chooser = self.random

    def text(self, lines):
        chooser = self.chooser
        # One in ten is beyond what little memory holds.
        if lines and chooser.random() < 0.1:
            few = self.text(40)
            return few * (chooser.choice([200 << 10, 2 << 20, 6 << 20]) // (len(few) + 1))
        made = [chooser.choice([b" ", b",", b":", b"  "]).join(chooser.choices(WORDS, k=chooser.randrange(5)))
                for _ in range(lines)]
        return b"\n".join(made) + (b"\n" if chooser.random() < 0.7 else b"")

    def same(self, words, stdin=b"", circumstances=None, inputs=contextlib.nullcontext):
        """`inputs` makes anew what a run uses up."""
        circumstances = circumstances or Circumstances()
        with inputs():
            theirs = self.run_program(GNU, words, stdin, limit=circumstances.apply())
        refused = (b"memory exhausted", b"cannot allocate", b"Cannot allocate", b"Too many open files")
        if any(word in theirs.stderr for word in refused):
            return False
        with inputs():
            ours = self.run_program(OURS, words, stdin, limit=circumstances.apply())
        self.expect_same(ours, theirs, f"{circumstances}: sort {words}")
        return True

    def test_command_lines(self):
        compared = 0
        for _ in range(20000 if LONG else 20 if SANITIZED else 250):
            chooser = self.chooser
            words = Grammar(chooser, chooser.choice([0, 0, 0.3])).words()
            files = []
            for i in range(chooser.randrange(4)):
                files.append(self.put(f"in{i}", self.text(chooser.randrange(40))))
            if chooser.random() < 0.2:
                files.append(chooser.choice(["-", "missing", "."]))
            chooser.shuffle(files)
            if files and chooser.random() < 0.15:
                (self.folder / "names").write_bytes(b"\0".join(name.encode() for name in files) + b"\0")
                words += ["--files0-from=names"]
                files = []
            # Operands and options in any order.
            words = files + words if chooser.random() < 0.3 else words + files
            compared += self.same(words, self.text(chooser.randrange(40)), Circumstances(chooser))
        self.assertGreater(compared, 10, f"seed {SEED}: GNU sort could do next to nothing")

    def test_pipes_under_limits(self):
        for _ in range(100 if LONG else 2 if SANITIZED else 8):
            chooser = self.chooser
            circumstances = Circumstances(chooser)
            count = chooser.choice([1, 3, 12, 40])
            merge = chooser.random() < 0.5
            texts = [b"".join(sorted(b"%x\n" % chooser.getrandbits(32)
                                     for _ in range(chooser.randrange(200)))) for _ in range(count)]
            self.same(["-m"] * merge + [f"pipe{i}" for i in range(count)], b"", circumstances,
                      lambda: self.pipes(texts))

    def test_files_that_grow(self):
        """What was there before the sort is in the output, and whole lines only."""
        for _ in range(40 if LONG else 2 if SANITIZED else 4):
            chooser = self.chooser
            before = [b"%08x" % chooser.getrandbits(32) for _ in range(50000)]
            path = self.folder / "live"
            path.write_bytes(b"".join(line + b"\n" for line in before))
            ended = threading.Event()

            def append(to, stop):
                with open(to, "ab", buffering=0) as file:
                    while not stop.is_set() and file.tell() < 8 << 20:
                        file.write(b"zzzz\n")

            writer = threading.Thread(target=append, args=(path, ended))
            writer.start()
            try:
                words = [["live"], ["-r", "live"], ["-S", "2M", "live"], ["-m", "live"], ["-u", "live"]]
                chosen = chooser.choice(words)
                done = self.run_program(OURS, chosen)
            finally:
                ended.set()
                writer.join()
            context = f"seed {SEED}: sort {chosen}: {done.stderr}"
            self.assertEqual((done.returncode, done.stderr), (0, b""), context)
            lines = done.stdout.split(b"\n")
            self.assertEqual(lines.pop(), b"", context)
            old = [line for line in lines if not b"zzzz".startswith(line)]
            # The last line of the appended ones may have been read in parts.
            expected = before if "-m" in chosen else sorted(set(before) if "-u" in chosen else before,
                                                            reverse="-r" in chosen)
            self.assertTrue(old == expected, context)


if __name__ == "__main__":
    main()
