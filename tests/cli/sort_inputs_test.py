#!/usr/bin/env python3
"""Compares sorts and merges of unusual inputs with GNU sort's: very many, pipes, files that the
output is appended to.

  sort_inputs_test.py VORTEX_SORT [--sanitized]
"""

import resource
import unittest

from folder_case import GNU, PROGRAMS, SANITIZED, SEED, FolderCase, main, under

OURS, = PROGRAMS
GIB = 1 << 30


class Inputs(FolderCase):
    def run_sort(self, program, arguments, limits=None, **how):
        if SANITIZED and limits:  # sanitizers need descriptors of their own
            limits = {which: value for which, value in limits.items() if which != resource.RLIMIT_NOFILE}
        done = self.run_program(program, arguments, limit=under(limits) if limits else None, **how)
        self.assertEqual(done.returncode, 0, f"seed {SEED}: {program} {arguments[:5]}: {done.stderr}")
        return done.stdout

    def compare(self, arguments, limits=None):
        theirs = self.run_sort(GNU, arguments)
        ours = self.run_sort(OURS, arguments, limits)
        self.assertTrue(ours == theirs, f"seed {SEED}: {arguments[:5]}")

    def put_files(self, count, lines, length=8):
        names = []
        for i in range(count):
            text = sorted(b"%0*x %d" % (length, self.random.getrandbits(4 * length), i)
                          for _ in range(lines))
            if i % 7 == 3:
                text[-1] = text[0]  # which is no longer sorted where there are more than two
                text.sort()
            data = b"\n".join(text)
            names.append(self.put(f"f{i}", data if i % 11 == 5 else data + b"\n"))
        return names

    def test_very_many_files(self):
        names = self.put_files(5000, 2)
        limits = {resource.RLIMIT_NOFILE: 64}
        for options in ([], ["-u"], ["-s", "-k1.2,1.3"], ["-m"], ["-m", "-u"],
                        ["-m", "-s", "-k1,1"]):
            self.compare([*options, *names], limits)

    def test_more_files_than_a_buffer_has_bytes(self):
        self.put("empty", b"")
        self.put("names", b"/dev/stdin\0" + b"empty\0" * (1 << 16))
        text = b"".join(b"%x\n" % self.random.getrandbits(40) for _ in range(1000))
        for program in (GNU, OURS):
            done = self.run_program(program, ["--files0-from=names"], text)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual(done.stdout, b"".join(sorted(text.splitlines(True))))

    def test_long_files_in_rounds(self):
        # None of them is read at once, and few can be open.
        names = self.put_files(24, 600, 2000)
        for options in ([], ["-m"], ["-m", "-u"]):
            self.compare([*options, *names], {resource.RLIMIT_NOFILE: 28})

    def merge_pipes(self, names, options, limits=None):
        theirs = self.run_sort(GNU, [*options, *names])
        with self.pipes([(self.folder / name).read_bytes() for name in names]) as pipes:
            ours = self.run_sort(OURS, [*options, *pipes], limits)
        self.assertTrue(ours == theirs, f"seed {SEED}: {options}")

    def test_many_pipes(self):
        names = self.put_files(600, 40)
        self.merge_pipes(names, ["-m"])
        self.merge_pipes(names, ["-m", "-u"], {resource.RLIMIT_NOFILE: 64})

    @unittest.skipIf(SANITIZED, "shadow memory is address space")
    def test_pipes_within_an_address_space(self):
        names = self.put_files(600, 40)
        for options in (["-m"], ["-m", "-s", "-k1.2,1.3"]):
            for limits in ({resource.RLIMIT_AS: 3 * GIB},
                           {resource.RLIMIT_AS: 3 * GIB, resource.RLIMIT_NOFILE: 100}):
                self.merge_pipes(names if "-s" not in options else names[:1], options, limits)
        self.merge_pipes(names[:1], [], {resource.RLIMIT_AS: 3 * GIB})
        # More than is read before blocks are taken, and than the buffer of a pipe holds.
        self.put("long", b"".join(b"%08d\n" % i for i in range(500000)))
        self.merge_pipes(["long", names[0]], ["-m"], {resource.RLIMIT_AS: 3 * GIB})
        self.merge_pipes(["long", names[0]], [], {resource.RLIMIT_AS: 3 * GIB})

    @unittest.skipIf(SANITIZED, "shadow memory is address space")
    def test_outputs_beyond_the_address_space(self):
        limits = {resource.RLIMIT_AS: 400 << 20}
        for name in ("first", "second"):
            self.put(name, b"".join(b"%s %0*d\n" % (name.encode(), 990, i)
                                    for i in range(100000)))
        self.merge_pipes(["first", "second"], ["-m", "-S", "16M"], limits)
        # Equal ones are kept once, with a count.
        self.put("equal", (b"e" * 999 + b"\n") * 250000)
        self.compare(["-S", "16M", "equal"], limits)

    def test_the_output_is_appended_to_an_input(self):
        lines = b"".join(sorted(b"%d\n" % self.random.getrandbits(30) for _ in range(3000)))
        self.put("other", b"1\n3\n")
        for text in (b"b\na\n", lines, lines * 30):
            for options in ([], ["-u"], ["-s", "-k1,1n"], ["-m"], ["-m", "-u"]):
                for inputs in (["it"], ["other", "it"], ["it", "it"], ["-"]):
                    if "-m" in options and text[:2] == b"b\n":
                        continue
                    found = []
                    for program in (GNU, OURS):
                        data = text if "-m" not in options else b"".join(sorted(
                            line + b"\n" for line in text.splitlines()))
                        self.put("it", data)
                        with open(self.folder / "it", "ab") as out, \
                                open(self.folder / "it", "rb") as standard_input:
                            self.run_sort(program, [*options, *inputs], stdout=out, stdin=standard_input)
                        found.append((self.folder / "it").read_bytes())
                    self.assertTrue(found[0] == found[1],
                                    f"seed {SEED}: {options} {inputs} of {len(text)} bytes")


if __name__ == "__main__":
    main()
