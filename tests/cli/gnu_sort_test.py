#!/usr/bin/env python3
"""Compares the program vortex-sort with GNU sort: output, exit code, and what both say.

  gnu_sort_test.py VORTEX_SORT VORTEX [--sanitized]
"""

import os
import signal
import socket
import subprocess
import tempfile
import unittest

from folder_case import GNU, LONG, PROGRAMS, SANITIZED, SEED, WORDS, FolderCase, main

OURS, VORTEX = PROGRAMS

ORDERS = ["", "", "-n", "-g", "-h", "-M", "-V", "-d", "-f", "-i", "-df", "-b", "--sort=numeric",
          "--sort=v", "--numeric", "--human-num", "--ignore-c"]
KEYS = ["-k2", "-k2,2", "-k1,1n", "-k2n,2", "-k1.2,1.3", "-k2.2b,3.1b", "-k3,1", "-k1,1r", "-k2,2nr",
        "--key=2V", "-k 1,1fb", "-k1.3", "-k99", "-k2,2h", "-k1M"]
SEPARATORS = ["", "", "-t,", "-t:", "-t\\0", "-t ", "--field-separator=a"]


class Comparison(FolderCase):
    variables = {}  # of the environment

    def run_sort(self, program, arguments, stdin=b"", locale="C", **how):
        return self.run_program(program, arguments, stdin, variables={"LC_ALL": locale, **self.variables},
                                **how)

    def compare(self, *arguments, stdin=b"", locale="C", errors=True):
        """Runs both, which find the same files, and expects the same of them."""
        theirs = self.run_sort(GNU, arguments, stdin, locale)
        ours = self.run_sort(OURS, arguments, stdin, locale)
        self.expect_same(ours, theirs, f"LC_ALL={locale} sort {arguments}", errors)
        return ours

    def lines(self, count, end=b"\n"):
        made = []
        for _ in range(count):
            words = self.random.choices(WORDS, k=self.random.randrange(5))
            made.append(self.random.choice([b" ", b",", b":", b"  "]).join(words))
        return [line.replace(end, b"") for line in made]

    def text(self, count, end=b"\n"):
        data = end.join(self.lines(count, end))
        return data + end if self.random.random() < 0.7 else data


class LongLines(Comparison):
    """Lines that are kept apart, since they are long beside 8 MiB."""

    ORDERS = [[], ["-u"], ["-s"], ["-r"], ["-r", "-u"], ["-f"], ["-f", "-s"], ["-f", "-u"], ["-V"], ["-V", "-s"],
              ["-d", "-s"], ["-i", "-u"], ["-k2"], ["-k2", "-s"], ["-k2", "-u"], ["-k1,1", "-s"],
              ["-k1,1", "-u"], ["-k1,1n", "-s"], ["-k1,1n", "-u"], ["-k3,3M", "-k2,2g", "-s"], ["-h"], ["-g", "-s"]]

    def long_lines(self):
        made = []
        for _ in range(1500):
            made.append(b"%d %d %s" % (self.random.randrange(40), self.random.randrange(5),
                                       self.random.choice(WORDS[2:13])))
        for _ in range(14):
            words = self.random.choices([word for word in WORDS if len(word) < 10], k=100)
            body = b" ".join(words) * self.random.randrange(600, 3000)
            line = b"%d %d %s" % (self.random.randrange(40), self.random.randrange(5), body)
            made += [line.replace(b"\n", b""), line.upper(), line[:-1], line][:self.random.randrange(1, 5)]
        self.random.shuffle(made)
        return b"\n".join(made)

    def test_every_order(self):
        self.put("in", self.long_lines())
        orders = self.ORDERS if LONG else self.random.sample(self.ORDERS, 2 if SANITIZED else 9)
        for order in orders:
            for locale in ("C", "en_US.UTF-8"):
                self.compare("-S8M", "-T.", *order, "in", locale=locale)
                self.assertEqual([path.name for path in self.folder.iterdir()], ["in"])


    def test_a_pipe_that_fits_needs_no_folder(self):
        text = self.long_lines()
        for order in ["-k1,1", "-s"], ["-k2", "-u"], []:
            self.compare("-S64M", "-Tmissing", *order, stdin=text, locale="en_US.UTF-8")


class Orders(Comparison):
    def test_random_command_lines(self):
        for _ in range(3000 if LONG else 15 if SANITIZED else 150):
            choose = self.random.choice
            arguments = [choose(ORDERS), choose(SEPARATORS)]
            arguments += self.random.sample(KEYS, self.random.randrange(3))
            arguments += [flag for flag in ("-r", "-s", "-u", "-z") if self.random.random() < 0.25]
            arguments += choose([[], [], ["-c"], ["-C"], ["--check"]])
            arguments = [argument for argument in arguments if argument]
            end = b"\0" if "-z" in arguments else b"\n"
            files = []
            if "-c" not in arguments and "-C" not in arguments and "--check" not in arguments:
                for i in range(self.random.randrange(4)):
                    files.append(self.put(f"in{i}", self.text(self.random.randrange(30), end)))
                if files and self.random.random() < 0.3:
                    files.insert(self.random.randrange(len(files) + 1), "-")
            self.compare(*arguments, *files, stdin=self.text(self.random.randrange(40), end))

    def test_checks_find_the_first_line(self):
        lines = [b"%05d" % i for i in range(3000)]
        self.compare("-c", stdin=b"\n".join(lines))
        self.compare("-cu", stdin=b"\n".join(lines))
        lines[1999] = lines[1998]
        for option in ("-c", "-cu", "-C", "-Cu", "-cr", "-crs", "--check=quiet", "--check=diag"):
            self.compare(option, stdin=b"\n".join(lines))
        lines[777] = b"text \x01 with\tbytes"
        for option in ("-c", "-cz", "-cn", "-C"):
            self.compare(option, stdin=b"\n".join(lines))
            self.compare(option, self.put("file", b"\n".join(lines)))

    def test_runs_and_merges_in_little_memory(self):
        count = 2000 if SANITIZED else 100000
        prefix = b"the same beginning of many lines " * 3
        numbers = [b"%d" % self.random.randrange(-5000, 5000) for _ in range(count)]
        inputs = {
            "numbers": b"\n".join(numbers) + b"\n",
            "prefixes": b"".join(prefix + number + b"\n" for number in numbers),
            "columns": b"".join(b"%s,%d,%s\n" % (number, i % 97, number[::-1])
                                for i, number in enumerate(numbers)),
            "equal": (prefix + b"\n") * count,
            "sorted": b"".join(sorted(number + b"\n" for number in numbers)),
        }
        for name, data in inputs.items():
            self.put(name, data)
            for options in (["-S1M"], ["-S1M", "-n"], ["-S1M", "-u"], ["-S1500K", "-t,", "-k3,3n"],
                            ["-S1M", "-t,", "-k2,2nr", "-s"], ["-S1M", "-t,", "-k2,2", "-u"],
                            ["-S1M", "-V", "-r"], ["-S1M", "--compress-program=gzip"]):
                self.compare(*options, name)
        # More than the least memory, 8 MiB, has room for.
        numbers = self.random.choices(numbers, k=2000 if SANITIZED else 600000)
        self.put("many", b"".join(b"%s,%d,%s\n" % (number, i % 97, number[::-1]) for i, number in enumerate(numbers)))
        for options in (["-n"], ["-t,", "-k3,3n"], ["-t,", "-k2,2nr", "-s"], ["-t,", "-k2,2", "-u"]):
            self.compare("-S1M", *options, "many")
        self.put("long", b"".join(self.random.choice((b"a", b"b")) * (1 << 20) + b"%d\n" % i
                                  for i in range(5)))
        for options in (["-S10K"], ["-S1M", "-s", "-k1,1"], ["-S1b", "-u"]):
            self.compare(*options, "long")
        self.compare("-S1M", *inputs)
        self.compare("-S1M", *inputs, "-o", "-")  # a file
        self.assertGreater((self.folder / "-").stat().st_size, 0)

    def test_the_first_lines(self):
        """As GNU sort and head -n write them, in memory, in runs, merged, from pipes."""
        def first_of(lines, first):
            return b"".join(line + b"\n" for line in lines[:first])

        text = self.text(60000)
        self.put("in", text)
        self.put("in2", self.text(300))
        for options in ([], ["-r"], ["-u"], ["-n", "-u"], ["-s", "-k2,2"], ["-k2,2nr"], ["-f", "-u"], ["-V"],
                        ["-s", "-n", "-r"]):
            locale = self.random.choice(["C", "en_US.UTF-8"])
            names = ["-", "in2"] if self.random.random() < 0.5 else ["in", "in2"]
            whole = self.run_sort(GNU, [*options, *names], text, locale).stdout.split(b"\n")[:-1]
            for first in (1, 2000, 30000, len(whole) - 1, len(whole), 1 << 63):
                ours = self.run_sort(OURS, ["-S8M", "--parallel", str(self.random.choice([1, 2, 7])), *options,
                                            f"--first={first}", *names], text, locale)
                self.assertEqual((ours.returncode, ours.stderr), (0, b""))
                self.assertEqual(ours.stdout, first_of(whole, first), (options, first, locale, names))
        for name in ("in", "in2"):
            self.run_sort(OURS, [name, "-o", name])
        whole = self.run_sort(GNU, ["-m", "in", "in2"]).stdout.split(b"\n")[:-1]
        for first in (1, 500, 1 << 20):
            self.assertEqual(self.run_sort(OURS, ["-m", "--first", str(first), "in", "in2"]).stdout,
                             first_of(whole, first))
        self.assertEqual(self.run_sort(OURS, ["--first=3", "in", "-o", "in"]).stdout, b"")
        self.assertEqual((self.folder / "in").read_bytes().count(b"\n"), 3)

    def test_first_lines_that_cannot_be(self):
        for arguments, said in ((["--first=0"], b"sort: number of first lines must be nonzero\n"),
                                (["--first=x"], b"sort: invalid --first argument 'x'\n"),
                                (["-c", "--first=1"], b"sort: options '-c --first' are incompatible\n"),
                                (["-C", "--first=1"], b"sort: options '-C --first' are incompatible\n")):
            done = self.run_sort(OURS, arguments)
            self.assertEqual((done.returncode, done.stderr), (2, said))

    def test_merges(self):
        # An input must be sorted by the options of the merge, else any output is right.
        files = [f"m{i}" for i in range(5)]
        texts = [b"".join(line + b"\n" for line in self.lines(200)) for _ in files]
        for merge, order in ((["-m"], []), (["-mu"], []), (["-ms"], ["-k1,1"]), (["-m"], ["-nr"]),
                             (["--merge", "--batch-size=2"], []), (["-m", "--parallel=1"], ["-V"])):
            for name, text in zip(files, texts):
                stable = ["-s"] if "-ms" in merge else []
                self.put(name, self.run_sort(GNU, [*stable, *order], text).stdout)
            self.compare(*merge, *order, *files)
            self.compare(*merge, *order, *files, "-", stdin=(self.folder / "m0").read_bytes())

    def test_merges_of_many_pipes(self):
        # Three pipes are merged at once in so little memory, and three hold more than the 16 MiB
        # of a run.
        count = 8
        texts = []
        for i in range(count):
            lines = sorted(b"%x %s" % (self.random.getrandbits(40), b"y" * 220)
                           for _ in range(30000))
            texts.append(b"\n".join(lines) + b"\n" if i != 5 else b"")
            (self.folder / f"m{i}").write_bytes(texts[-1])
        files = [f"m{i}" for i in range(count)]
        # vortex-sort would take 8 MiB of memory.
        for options in (["-m"], ["-m", "-u"]):
            theirs = self.run_sort(GNU, [*options, *files])
            with self.pipes(texts) as pipes:
                ours = self.run_sort(VORTEX, ["sort", "--lines", *options, "-S", "1M", "-o", "/dev/stdout",
                                              *pipes], name="vortex")
            self.assertEqual(ours.stderr, b"", f"seed {SEED}")
            self.assertTrue(ours.stdout == theirs.stdout, f"seed {SEED}")

    def test_locales(self):
        words = [b"zeta", b"Alpha", b"alpha", b"\xc3\xa9t\xc3\xa9", b"ete", b"co-op", b"coop", b"Zeta",
                 b"e\xcc\x81te", b"", b"be ta", b"beta", b"\xc3\x84rger", b"argon"]
        lines = [self.random.choice(words) + b" " + self.random.choice(words) for _ in range(200)]
        for options in ([], ["-r"], ["-u"], ["-f"], ["-k2"], ["-k2,2", "-s"], ["-k1,1", "-u"],
                        ["-c"], ["-k2r", "-k1"]):
            self.compare(*options, stdin=b"\n".join(lines), locale="en_US.UTF-8")
        self.compare("-n", stdin=b"1,000\n999\n1,5\n-2,000\n", locale="en_US.UTF-8")
        self.compare("-h", stdin=b"1,000K\n999K\n1,5M\n-2,000\n", locale="en_US.UTF-8")
        # A separator of thousands above 0x7f ends the value of a number, but not what bears a unit.
        for data in (b"1\xa0000\n5\n", b"\xa05\n3\n", b"1\xa0000K\n5K\n2\xa0M\n-1\xa0000\n01\xa05\n1\n"):
            for option in ("-n", "-h", "-nu", "-hr"):
                self.compare(option, stdin=data, locale="fr_FR.ISO-8859-1")
        # The name of a month may begin another's.
        months = [b"Met", b"me", b"Meu", b"Ebr", b"Gen", b"M", b"Metx", b"Kev", b"", b"zzz"]
        for options in (["-s"], ["-u"], ["-r"], ["--debug"]):
            self.compare("-M", *options, stdin=b"\n".join(self.random.choices(months, k=40)),
                         locale="kw_GB.UTF-8")
        # One that is not installed is as none.
        self.compare(stdin=b"b\nA\na\nB\n", locale="xx_YY.UTF-8")


    def test_debug(self):
        words = WORDS + [b"1,234", b"-5", b"+7", b"5.", b"1,", b"12Kx", b"\xe6\x97\xa5", b"e\xcc\x81",
                         b"mayor", b" ", b"\x01", b"\x7f", b"0x1p3", b"-", b"--1"]
        keys = KEYS + ["-k2.3,1", "-k3n,2.1", "-k2M,1", "-k1g,1", "-k2,3h", "-k2b,2", "-k1n", "-k2.2n,2.4"]
        for _ in range(1500 if LONG else 10 if SANITIZED else 100):
            choose = self.random.choice
            arguments = ["--debug", choose(ORDERS), choose(SEPARATORS + ["-t-", "-t+", "-t."])]
            arguments += self.random.sample(keys, self.random.randrange(4))
            arguments += [flag for flag in ("-r", "-s", "-u", "-z", "-b") if self.random.random() < 0.2]
            end = b"\0" if "-z" in arguments else b"\n"
            lines = [choose([b" ", b",", b"\t", b"  "]).join(self.random.choices(words, k=choose(range(5))))
                     for _ in range(self.random.randrange(12))]
            locale = choose(["C", "en_US.UTF-8", "xx_YY.UTF-8"])
            self.compare(*filter(None, arguments), stdin=end.join(line.replace(end, b"") for line in lines),
                         locale=locale)
        for option in ("-n", "-h"):
            self.compare("--debug", option, stdin=b"1,\n1,234,x\n12,,3\n1.K\n1.5,6\n12.5K\n5Kx\n-.5G\n",
                         locale="en_US.UTF-8")
        # Its separator of thousands has several bytes.
        self.compare("--debug", "-n", stdin="1\u202f234,5\n5\n".encode(), locale="fr_FR.UTF-8")
        self.compare("--debug", "-k3n,1", stdin=b"a b   5\n1 2 3\n")
        self.compare("--debug", "-k2b,3.2", stdin=b"a b c d\n a  b  c\n")
        files = [self.put("a", b"1\n3\n"), self.put("b", b"2\n4\n")]
        self.compare("--debug", "-m", "-n", *files)
        self.compare("--debug", stdin=(b"x" * 100000 + b"\n") * 30)
        for refused in (["-c"], ["-C"], ["-o", "x"]):
            self.compare("--debug", *refused, "a")
        self.compare("--debug", "missing")


class Files(Comparison):
    def test_edges_of_inputs(self):
        for data in (b"", b"\n", b"a", b"\n\n", b"b\na", b"b\r\na\r\n", b"\0\n\0", b"\0\0", b"a\0b\n"):
            for option in ([], ["-z"], ["-n"], ["-u"]):
                self.compare(*option, stdin=data)
                self.compare(*option, self.put("file", data), "-", stdin=data)
                self.compare(*option, "-", "-", stdin=data)

    def test_an_output_that_is_an_input(self):
        data = self.text(500)
        for options in (["-o"], ["--output"]):
            results = []
            for program in (GNU, OURS):
                self.put("same", data)
                self.put("other", b"x\n")
                done = self.run_sort(program, ["same", "other", *options, "same"])
                self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)
                results.append((self.folder / "same").read_bytes())
            self.assertEqual(*results)

    def test_options_behind_operands(self):
        self.put("a", b"2\n1\n")
        self.put("b", b"10\n9\n")
        for self.variables in ({}, {"POSIXLY_CORRECT": "1"}):
            for arguments in (["a", "-o", "x"], ["a", "-ox", "b"], ["a", "-n", "b"], ["a", "-o"],
                              ["-n", "a", "-o", "x", "b", "-r"], ["a", "--", "-o", "x"],
                              ["--", "a", "-o", "x"], ["a", "--output=x"], ["-c", "a", "-o", "x"],
                              ["a", "-o", "x", "b", "-o", "x"], ["a", "-o", "x", "-o", "y"],
                              ["-", "a", "-o", "x"], ["a", "-onx"], ["a", "+x"], ["--", "+1"]):
                outputs = []
                for program in (GNU, OURS):
                    done = self.run_sort(program, arguments, b"3\n")
                    outputs.append((done.returncode, done.stdout, done.stderr.replace(b"'", b""), *(
                        file.read_bytes() for file in self.folder.iterdir()
                        if file.name not in "ab")))
                    for file in self.folder.iterdir():
                        if file.name not in "ab":
                            file.unlink()
                self.assertEqual(*outputs, (self.variables, arguments))

    def test_folders_that_are_missing_and_not_needed(self):
        self.put("a", b"2\n1\n")
        self.put("b", b"1\n2\n")
        for arguments in (["a"], ["-m", "b", "b"], ["-c", "b"], ["-u", "-"]):
            self.compare("-T", "missing", *arguments, stdin=b"2\n1\n")
        self.put("many", b"".join(b"%d\n" % i for i in range(1000000)))
        for size in "1M", "0", "0%", "M", "k":
            self.compare("-T", "missing", "-S", size, "many", errors=False)

    def test_standard_input_that_is_a_file_is_left_at_its_end(self):
        self.put("in", b"b\na\n" * 3000)
        self.put("more", b"c\n")
        for arguments in (), ("-m",), ("-", "more"), ("-o", "out"), ("-c",), ("-C", "-r"):
            left = []
            for program in GNU, OURS:
                with open(self.folder / "in", "rb") as stdin:
                    subprocess.run([program, *arguments], cwd=self.folder, stdin=stdin, check=False,
                                   env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
                    left.append(os.lseek(stdin.fileno(), 0, os.SEEK_CUR))
            self.assertEqual(left[0], left[1], arguments)

    def test_names_from_a_file(self):
        self.put("a", b"2\n1\n")
        self.put("b", b"0\n")
        self.put("names", b"a\0b\0")
        self.compare("--files0-from=names")
        self.compare("--files0-from=-", stdin=b"b\0a")
        # From where it stands, and what cannot be opened by its name.
        self.put("rest", b"xx\0b\0a")
        self.assertEqual(*(self.sorted_names_behind(3, program) for program in (GNU, OURS)))
        reading, writing = socket.socketpair()
        with reading, writing:
            writing.sendall(b"b\0a\0")
            writing.shutdown(socket.SHUT_WR)
            self.assertEqual(self.run_sort(OURS, ["--files0-from=-"], reading).stdout, b"0\n1\n2\n")
        with open(os.devnull, "wb") as unreadable:
            self.assertEqual(*(self.run_sort(program, ["--files0-from=-"], unreadable).stderr
                               for program in (GNU, OURS)))
        for names in (b"", b"a\0\0b", b"a\0missing", b"a\0-\0"):
            self.put("names", names)
            self.compare("--files0-from", "names")
        self.compare("--files0-from=-", stdin=b"-\0")
        self.compare("--files0-from=names", "a")
        for missing in ("missing", "", "."):
            self.compare(f"--files0-from={missing}")

    def sorted_names_behind(self, offset, program):
        with open(self.folder / "rest", "rb") as names:
            os.lseek(names.fileno(), offset, os.SEEK_SET)
            done = self.run_sort(program, ["--files0-from=-"], names)
            return done.returncode, done.stdout, os.lseek(names.fileno(), 0, os.SEEK_CUR)

    def test_randomness_from_a_file(self):
        self.put("source", bytes(range(100, 140)))
        lines = b"".join(b"%d\n" % (i % 50) for i in range(200))
        self.compare("-R", "--random-source=source", stdin=lines)
        self.compare("-R", "-u", "--random-source=source", stdin=lines)
        self.compare("-R", "--random-source=missing", stdin=lines)
        self.compare("-R", "--random-source=/dev/null", stdin=lines)
        # Where no key is random it is not looked at.
        self.compare("-R", "-k1n", "--random-source=missing", stdin=lines)
        self.compare("-R", "-k1b", "--random-source=missing", stdin=lines)
        self.compare("-R", "-k1,1", "-k1n", "--random-source=missing", stdin=lines)
        shuffled = self.run_sort(OURS, ["-R"], lines).stdout
        self.assertEqual(sorted(shuffled.split()), sorted(lines.split()))
        groups = [line for i, line in enumerate(shuffled.split())
                  if i == 0 or line != shuffled.split()[i - 1]]
        self.assertEqual(len(groups), 50)


class Refusals(Comparison):
    def test_what_gnu_sort_says(self):
        self.put("a", b"2\n1\n")
        for arguments in (
                ["--foo"], ["-q"], ["--s"], ["-k"], ["-k0"], ["-k1.0"], ["-kx"], ["-k1,0"], ["-k1x"],
                ["-dn"], ["-n", "-M"], ["-hV"], ["-k1,1iM"], ["-gn", "-r"], ["-t", "ab"], ["-t", ""],
                ["-t,", "-t:"], ["-S", "abc"], ["-S1x"], ["-S", "99999999999999999999"], ["-S1%%"],
                ["-S", "99999999999999999999%"], ["-S", "9999999999999999999%"],
                ["-S10e"], ["-S1p"], ["-S1z"], ["-S1y"], ["-S1B"], ["-Sb"], ["-S%"], ["-S", " M"], ["-Sg"], ["-SMM"],
                ["-o", "x", "-o", "y"], ["-cC"], ["-c", "a", "b"], ["-C", "-o", "x", "a"],
                ["--parallel=0"], ["--parallel=x"], ["--batch-size=x"], ["--sort=n"], ["missing"], ["-c", "missing"], ["a", "missing"], ["-m", "missing"],
                ["--parallel=-1"], ["--parallel=1x"], ["--batch-size=-1"], ["-S", "-1"], ["-S", "16E"],
                ["-k99999999999999999999x"], ["-k-1"], ["-o", ""], ["-o", "", "-o", "x"], ["-c", "-o", ""],
                ["-o", "", "missing"], ["-R", "--random-source="],
                ["--numeric-sort=1"], ["--key"], ["--random-source=x", "--random-source=y"]):
            self.compare(*arguments, stdin=b"1\n2\n")

    # GNU sort takes what there is, however much is asked for.
    def test_numbers_that_are_too_large_are_taken_for_the_largest(self):
        self.put("a", b"2\n1\n")
        self.put("sorted", b"1\n2\n")
        for threads in ("4294967295", "99999999999999999999"):  # GNU sort may find no memory for them
            done = self.run_sort(OURS, [f"--parallel={threads}", "a"])
            self.assertEqual((done.returncode, done.stdout), (0, b"1\n2\n"), done.stderr)
        # More text than few lines are: there is a plan, which takes 4096 threads at most.
        text = b"".join(b"%d\n" % number for number in range(500_000, 0, -1))
        done = self.run_sort(OURS, ["--parallel=4294967297", "-n"], stdin=text)
        self.assertEqual((done.returncode, done.stdout[:4], done.stdout.count(b"\n")), (0, b"1\n2\n", 500_000))
        for arguments in (["-S3T"], ["-S15E"], ["-S1000%"], ["-k99999999999999999999"]):
            self.compare(*arguments, "a")
            self.compare(*arguments, "-m", "sorted", "sorted")

    def test_an_argument_of_y_that_is_no_number_is_a_file(self):
        self.put("a", b"2\n1\n")
        self.put("b", b"4\n3\n")
        for arguments in (["-y", "a", "b"], ["-y", "100", "b"], ["-y100", "a"], ["-yx", "a"], ["a", "-y", "b"],
                          ["-y", "10x", "b"], ["-ny", "a"], ["-y", "-n", "a"], ["-y"], ["-y", "", "a"]):
            self.compare(*arguments)

    def test_messages_that_cannot_be_told_are_errors(self):
        self.put("a", b"2\n1\n")
        for arguments in (["--debug", "a"], ["-c", "a"], ["-C", "a"], ["a"], ["--foo"], ["missing"]):
            codes = []
            for program in (GNU, OURS):
                with open("/dev/full", "wb") as full:
                    codes.append(self.run_sort(program, arguments, stdout=subprocess.DEVNULL,
                                               stderr=full).returncode)
                codes.append(self.run_sort(program, arguments, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL, limit=lambda: os.close(2)).returncode)
            self.assertEqual(codes[:2], codes[2:], arguments)

    def test_numbers_may_have_a_sign(self):
        for number in ("-S+1M", "-S 1M", "-S\t+1M", "--parallel=+2", "--parallel= 2", "--batch-size=+2"):
            self.compare(number, stdin=b"b\na\n")
        for number in ("-S+", "-S++1M", "-S+ 1M", "-S-1M", "-S -1M", "--parallel=+"):
            self.compare(number, errors=False)

    def test_names_are_no_commands_of_a_terminal(self):
        for arguments in ("a\x1b[31mb",), ("-c", "x", "a\x1b\nb"), ("-S", "\x1b"), ("--random-source=\x1b", "-R"):
            ours = self.run_sort(OURS, arguments)
            self.assertEqual(ours.returncode, 2)
            self.assertNotIn(b"\x1b", ours.stderr)
            self.assertEqual(ours.stderr.count(b"\n"), 1, ours.stderr)

    def test_words_that_are_none(self):
        # GNU sort ends with 1 here, which is for what is not sorted.
        for argument in ("--sort=foo", "--check=foo", "--sort=", "--check="):
            self.compare(argument)

    def test_misspelt_options_are_answered(self):
        for wrong, right in (("--paralel=2", "--parallel"), ("--unqiue", "--unique"),
                             ("--numeric_sort", "--numeric-sort")):
            theirs, ours = (self.run_sort(program, [wrong]) for program in (GNU, OURS))
            self.assertEqual((ours.returncode, theirs.returncode), (2, 2))
            told = theirs.stderr.splitlines()
            told.insert(1, f"sort: did you mean '{right}'?".encode())
            self.assertEqual(ours.stderr.splitlines(), told)

    def test_what_is_not_there_is_named(self):
        for arguments, name in ((["+1", "-2"], "'+1'"), (["-n", "a", "+1.3", "-2n"], "'+1.3'"), (["+1"], "'+1'"),
                                (["--batch-size=1"], "--batch-size"), ([self.folder], "directory")):
            done = self.run_sort(OURS, arguments, b"1\n")
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(name, done.stderr.decode())
            self.assertTrue(done.stderr.startswith(b"sort: "), done.stderr)
            self.assertEqual(done.stdout, b"")

    def test_a_full_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = self.run_sort(OURS, [], b"b\na\n", stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.partition(b": ")[2],
                             b"write failed: 'standard output': No space left on device\n")
            done = self.run_sort(OURS, ["--debug"], b"b\na\n" * 100000, stdout=full,
                                 stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"No space left", done.stderr)

    def test_what_cannot_be_read_or_written_is_told_as_by_gnu_sort(self):
        lines = b"".join(b"%d\n" % i for i in range(300000))
        done = self.run_sort(OURS, ["-o", "/dev/full"], lines)
        self.assertEqual((done.returncode, done.stderr),
                         (2, b"sort: write failed: /dev/full: No space left on device\n"))
        self.compare("/proc/self/mem")  # read failed

    def test_progress_where_asked(self):
        self.put("in", b"".join(b"%d\n" % i for i in range(300000)))
        self.assertEqual(self.run_sort(OURS, ["in", "-o", "out"]).stderr, b"")
        told = self.run_sort(OURS, ["--progress", "-S", "8M", "in", "-o", "out"]).stderr
        self.assertIn(b"sort: 0 %, reading", told)
        self.assertIn(b"left, writing", told)

    def test_an_output_in_place(self):
        lines = b"".join(b"%d\n" % (i * 7919 % 30000) for i in range(30000))
        self.put("in", lines)
        os.link(self.folder / "in", self.folder / "link")
        for options in ([], ["-u"], ["-m", "-u", "in"]):
            self.run_sort(OURS, ["--in-place", *options, "in", "-o", "in"])
            theirs = self.run_sort(GNU, [*options, "link"]).stdout
            self.assertEqual((self.folder / "link").read_bytes(), theirs)
        if os.geteuid() != 0:
            self.skipTest("only root mounts")
        self.put("mounted", b"")
        if subprocess.run(["mount", "--bind", "in", "mounted"], cwd=self.folder, check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("nothing can be mounted here")
        try:
            done = self.run_sort(OURS, ["-r", "mounted", "-o", "mounted"])
            self.assertEqual((done.returncode, done.stderr), (0, b""))
        finally:
            subprocess.run(["umount", "mounted"], cwd=self.folder, check=True)
        self.assertEqual((self.folder / "in").read_bytes(), self.run_sort(GNU, ["-r", "link"]).stdout)

    def test_an_output_that_nobody_reads(self):
        self.put("in", b"".join(b"%d\n" % i for i in range(100000)))

        def end_of(program, *arguments, ignored):
            ours, theirs = os.pipe()
            os.close(ours)
            try:
                return self.run_sort(
                    program, arguments, stdout=theirs, stderr=subprocess.PIPE, restore_signals=False,
                    limit=lambda: signal.signal(
                        signal.SIGPIPE, signal.SIG_IGN if ignored else signal.SIG_DFL))
            finally:
                os.close(theirs)

        for ignored, code in ((False, -signal.SIGPIPE), (True, 2)):
            self.assertEqual(end_of(GNU, "in", ignored=ignored).returncode, code)
            for command in ([OURS, "in"], [OURS, "--debug", "in"],
                            [VORTEX, "sort", "--lines", "in", "-o", "-"],
                            [VORTEX, "sort", "--record", "2", "in", "-o", "-"]):
                done = end_of(*command, ignored=ignored)
                self.assertEqual(done.returncode, code, done.stderr)
                if ignored:
                    self.assertIn(b"Broken pipe", done.stderr)
                else:
                    self.assertNotIn(b"Broken pipe", done.stderr)

    def test_help_and_version(self):
        help_text = self.run_sort(OURS, ["--help", "--foo"]).stdout.decode()
        self.assertTrue(help_text.startswith("Usage: sort "))
        self.assertIn("vortex", self.run_sort(OURS, ["--version"]).stdout.decode())


class Verb(Comparison):
    """`vortex sort --lines` and `--csv`."""

    def vortex(self, *arguments, **how):
        return self.run_verb(VORTEX, "sort", *arguments, **how)

    def test_lines_as_gnu_sort(self):
        self.put("in", self.text(3000))
        self.put("in2", self.text(100))
        for options in ([], ["-r"], ["-n"], ["-u"], ["-k2,2n", "-s"], ["-t,", "-k2"], ["-V"], ["-z"],
                        ["-f", "-k1,1"], ["-M"], ["-g", "-r"], ["-b", "-d"]):
            theirs = self.run_sort(GNU, [*options, "in", "in2"]).stdout
            ours = self.vortex("--lines", *options, "in", "in2", "-o", "-").stdout
            self.assertEqual(ours, theirs, options)

    def test_headers_stay_on_top(self):
        self.put("a", b"name\nunit\nb\na\n")
        self.put("b", b"name\nunit\nd\nc\n")
        done = self.vortex("--lines", "--header", 2, "-r", "a", "b", "-o", "-")
        self.assertEqual(done.stdout, b"name\nunit\nd\nc\nb\na\n")

    def test_csv(self):
        rows = [b'pen,1.50,"two\nlines"', b'"big, red",12,x', b'"a ""b""",2.5,', b"cup,3,z\r"]
        head = b'name,"price, EUR",note'
        self.put("in", b"\n".join([head, *rows]))
        by_price = self.vortex("--csv", "--header", 1, "-k", "price, EUR:n", "in", "-o", "-").stdout
        self.assertEqual(by_price, b"\n".join([head, rows[0], rows[2], rows[3], rows[1], b""]))
        by_name = self.vortex("--csv", "--header", 1, "-k", "name", "in", "-o", "-").stdout
        self.assertEqual(by_name, b"\n".join([head, rows[2], rows[1], rows[3], rows[0], b""]))
        by_number = self.vortex("--csv", "--header", 1, "-k", "2:nr", "in", "-o", "-").stdout
        self.assertEqual(by_number, b"\n".join([head, rows[1], rows[3], rows[2], rows[0], b""]))
        self.put("blanks", b" b,1\na,2\n")
        for options in (["-k", "1:b"], ["-b", "-k1"], ["-b"]):
            self.assertEqual(self.vortex("--csv", *options, "blanks", "-o", "-").stdout,
                             b"a,2\n b,1\n")
        self.put("tabs", b"b\t2\na\t1\n")
        self.assertEqual(self.vortex("--csv", "-t", "\t", "-k2:n", "tabs", "-o", "-").stdout,
                         b"a\t1\nb\t2\n")

    def test_refusals(self):
        self.put("in", b"head\na\n")
        self.put("open", b'a\n"b\n')
        for arguments, text in (
                (["--csv", "--header", 1, "-k", "price:n", "in"], "no column is called 'price'"),
                (["--csv", "-k", "price", "in"], "--header 1"),
                (["--csv", "--header", 1, "-k", "price", "-"], "standard input"),
                (["--csv", "-z", "in"], "--zero-terminated"),
                (["--csv", "--strict", "open"], "'open', line 2, column 1"),
                (["--lines", "--csv", "in"], "contradict"),
                (["--lines", "-nM", "in"], "options '-Mn' are incompatible"),
                (["--lines", "--form", "u32", "in"], "--form"),
                (["--lines", "--record", 4, "in"], "--record"),
                (["--lines", "-k", "0", "in"], "field number is zero"),
                (["-n", "--record", 4, "in"], "--lines"),
                *((["--lines", option, number, "in"], f"{option} '{number}'")
                  for option in ("--header", "--seed", "--parallel")
                  for number in ("-1", "99999999999999999999", "18446744073709551616", "1.5", "1k", "")),
                (["--lines", "--parallel", 0, "in"], "--parallel '0': it is a whole number from 1 to 4096"),
                (["--lines", "--parallel", 4097, "in"], "from 1 to 4096"),
                (["--lines", "--parallel", 4294967295, "in"], "from 1 to 4096"),
                (["--lines", "-k", "-1", "in"], "invalid"),
                (["in"], "--lines")):
            done = self.vortex(*arguments, "-o", "-", code=2)
            self.assertIn(text, done.stderr.decode())
            self.assertEqual(done.stdout, b"")

    def test_names_that_look_like_numbers(self):
        head = b'1b,2020,2nd,1,"n, m"'
        rows = [b"a,30,x,4,1", b"b,4,z,30,2", b"c,200,y,200,3"]
        self.put("in", b"\n".join([head, *rows, b""]))
        self.put("open", b'"head')  # what is wrong is the sort's to tell
        for key, order in (("2020:n", (1, 0, 2)), ("1b", (0, 1, 2)), ("1b:r", (2, 1, 0)),
                           ("2nd", (0, 2, 1)), ("1:n", (0, 1, 2)), ("3:r", (1, 2, 0)),
                           ("n, m:nr", (2, 1, 0)), ("5:n", (0, 1, 2))):
            done = self.vortex("--csv", "--header", 1, "-k", key, "in", "-o", "-")
            self.assertEqual(done.stdout, b"\n".join([head, *(rows[i] for i in order), b""]), key)
        for arguments, text in ((["--header", 1, "-k", "6", "in"], "the head has 5 columns"),
                                (["--header", 1, "-k", "9" * 30, "in"], "the head has 5 columns"),
                                (["--header", 1, "-k", "0", "in"], "field number is zero"),
                                (["--header", 1, "-k", "2nr", "in"], "no column is called '2nr'"),
                                (["--strict", "--header", 1, "-k", "2", "open"],
                                 "'open', line 1, column 1"),
                                (["-k", "2nr", "in"], "2:nr")):
            done = self.vortex("--csv", *arguments, "-o", "-", code=2)
            self.assertIn(text, done.stderr.decode())
        # A title above the names has fewer columns.
        self.put("titled", b"Report\nname,age\nb,1\na,2\n")
        done = self.vortex("--csv", "--header", 2, "-k", "2:nr", "titled", "-o", "-")
        self.assertEqual(done.stdout, b"Report\nname,age\na,2\nb,1\n")
        self.put("empty", b"")
        self.vortex("--csv", "--header", 1, "-k", "2:n", "empty", "-o", "-")

    def test_names_of_columns_need_a_file(self):
        self.put("in", b"name,age\nb,2\na,10\n")
        os.mkfifo(self.folder / "pipe")  # which nobody writes
        for path in ("pipe", "/dev/stdin", "-", "."):
            done = self.vortex("--csv", "--header", 1, "-k", "age:n", path, "-o", "-",
                               stdin=b"name,age\nb,2\na,10\n", code=2)
            self.assertIn("can be read twice", done.stderr.decode())
            self.assertIn("numbers of the columns", done.stderr.decode())
            self.assertEqual(done.stdout, b"")
        done = self.vortex("--csv", "--header", 1, "-k", "age:n", "missing", "-o", "-", code=2)
        self.assertIn("No such file", done.stderr.decode())
        # A later one may be a pipe, and with a number the first, too.
        for arguments in (["-k", "age:n", "in", "-"], ["-k", "2:n", "-", "in"]):
            done = self.vortex("--csv", "--header", 1, *arguments, "-o", "-",
                               stdin=b"name,age\nc,9\n")
            self.assertEqual(done.stdout, b"name,age\nb,2\nc,9\na,10\n")

    def test_report(self):
        self.put("in", b"b\na\nb\n")
        done = self.vortex("--lines", "-u", "--json", "-v", "in", "-o", "out")
        self.assertEqual((self.folder / "out").read_bytes(), b"a\nb\n")
        self.assertIn(b'"records_out": 2', done.stdout)
        self.assertIn(b"3 lines", done.stderr)


def make_locales(folder):
    for name in ("en_US.UTF-8", "fr_FR.UTF-8", "fr_FR.ISO-8859-1", "kw_GB.UTF-8"):
        language, characters = name.split(".")
        subprocess.run(["localedef", "-i", language, "-f", characters, f"{folder}/{name}"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    os.environ["LOCPATH"] = folder


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as locales:
        make_locales(locales)
        main()
