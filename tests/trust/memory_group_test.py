#!/usr/bin/env python3
"""Sorts in a control group of exactly their -S and BESIDE: none is killed, and the output is right.

  memory_group_test.py VORTEX_SORT VORTEX [--sanitized]

Each prints its peak, page cache included. Without VORTEX_LONG_TESTS two kinds have one number of threads each.
"""

import array
import json
import os
import pathlib
import subprocess
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from folder_case import GNU, LONG, PROGRAMS, SANITIZED, SEED, FolderCase, main  # noqa: E402
from memory_group import MemoryGroup, Refused  # noqa: E402

OURS, VORTEX = PROGRAMS
MIB = 1 << 20
MEMORY = 64 * MIB
BESIDE = 16 * MIB  # the program, its libraries and stacks, and what the kernel keeps for it
BYTES = 80 * MIB
THREADS = [1, 2, 5, 16]
USUAL = ["test_records", "test_words"]


@unittest.skipIf(SANITIZED, "a sanitizer's own memory counts against the limits")
class InAGroup(FolderCase):
    def setUp(self):
        super().setUp()
        if not LONG and self._testMethodName not in USUAL:
            self.skipTest("takes long: VORTEX_LONG_TESTS=1 runs it")
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.folder], stdout=subprocess.PIPE, text=True, check=True)
        if kind.stdout.strip() in ("tmpfs", "ramfs"):
            self.skipTest(f"{self.folder} lies in memory, which files would take from the group")
        self.memory = MEMORY
        self.locale = "C"
        self.group = self.new_group(1)

    def new_group(self, sorts):
        """With the memory of so many sorts at a time, in place of the one before."""
        if hasattr(self, "group"):
            self.group.close()
        try:
            return self.enterContext(MemoryGroup(sorts * (self.memory + BESIDE)))
        except Refused as refusal:
            self.skipTest(str(refusal))

    def threads(self):
        return THREADS if LONG else self.random.sample(THREADS, 1)

    def lines(self, count, make):
        """So many lines, of which some come several times."""
        return b"".join(self.random.choices([make(i) for i in range(100_000)], k=count))

    def expect(self, command, expected, threads, stdin=None):
        output = self.folder / "out"
        feeding = None
        read = None
        if stdin is not None:
            read, write = os.pipe()

            def feed():
                with os.fdopen(write, "wb") as pipe, open(self.folder / stdin, "rb") as data:
                    while piece := data.read(MIB):
                        pipe.write(piece)
            feeding = threading.Thread(target=feed)
            feeding.start()
        if isinstance(command, list):
            command = [*map(str, command), *self.resources(threads), "-o", str(output)]
        else:
            command = ["/bin/sh", "-c", f"{command(' '.join(self.resources(threads)))} -o {output}"]
        outcome = self.group.run(command, cwd=self.folder, stdin=read, env=self.environment(LC_ALL=self.locale))
        if feeding:
            os.close(read)
            feeding.join()
        about = f"seed {SEED}, {self.id()}, threads {threads}"
        print(f"{about}: {outcome}, limit {self.group.limit / MIB:.0f} MiB", flush=True)
        self.assertEqual((outcome.code, outcome.errors), (0, b""), about)
        self.assertEqual(self.digest(output), expected, about)
        output.unlink()

    def resources(self, threads):
        return ["-S", f"{self.memory // MIB}M", f"--parallel={threads}", "-T", str(self.folder)]

    def digest(self, path):
        return subprocess.run(["cksum", "-a", "blake2b", "--untagged", path], stdout=subprocess.PIPE,
                              check=True).stdout.split()[0]

    def of_lines(self, options, inputs, locale="C", stdin=None):
        self.locale = locale
        subprocess.run([GNU, *options, *inputs, *([stdin] if stdin else []), "-S", "1G", "-o", "expected"],
                       cwd=self.folder, env=self.environment(LC_ALL=locale), check=True)
        expected = self.digest(self.folder / "expected")
        (self.folder / "expected").unlink()
        for threads in self.threads():
            self.expect([OURS, *options, *inputs], expected, threads, stdin)

    def words(self, _):
        return b"%x\n" % self.random.randrange(1 << 40)

    def url(self, i):
        return b"https://example.org/%d/articles/%x/of/a/section?page=%d\n" % (i % 7, self.random.randrange(1 << 60), i)

    def test_words(self):
        self.put("in", self.lines(BYTES // 11, self.words))
        self.of_lines([], ["in"])

    def test_urls_through_a_pipe(self):
        self.put("in", self.lines(BYTES // 60, self.url))
        self.of_lines([], [], stdin="in")

    def test_numbers_once_each(self):
        self.put("in", self.lines(BYTES // 2 // 11, self.words))
        self.of_lines(["-n", "-u", "-s"], ["in"])

    def test_a_locale(self):
        self.put("in", self.lines(BYTES // 4 // 11, self.words))
        self.of_lines(["-f"], ["in"], locale="C.UTF-8")

    def test_a_collating_locale(self):
        """Its keys are longer than its lines, and its tables are beside the memory of the sort."""
        locales = self.folder / "locales"
        locales.mkdir()
        try:
            subprocess.run(["localedef", "-i", "en_US", "-f", "UTF-8", locales / "en_US.UTF-8"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no locale en_US.UTF-8 can be made: {error}")
        self.enterContext(unittest.mock.patch.dict(os.environ, LOCPATH=str(locales)))
        words = ["zeta", "Alpha", "alpha", "été", "ete", "co-op", "coop", "Zeta", "be ta", "beta", "Ärger", "argon"]
        self.put("in", self.lines(BYTES // 2 // 16, lambda _: "{} {} {:x}\n".format(
            self.random.choice(words), self.random.choice(words), self.random.randrange(1 << 20)).encode()))
        self.of_lines([], ["in"], locale="en_US.UTF-8")
        self.of_lines(["-k2", "-s"], ["in"], locale="en_US.UTF-8")
        # Lines of nearly a quarter of the memory, whose keys have no room beside them.
        lines = [" ".join(self.random.choices(words, k=15 * MIB // 6))[:15 * MIB // 10 * 9] for _ in range(3)]
        self.put("in", b"".join(self.lines(50_000, self.words) + line.encode() + b"\n" for line in lines))
        for options in ([], ["-k2,2", "-s"], ["-u"]):
            self.of_lines(options, ["in"], locale="en_US.UTF-8")

    def test_long_lines(self):
        text = self.random.randbytes(3 * MIB).replace(b"\n", b" ")
        self.put("in", b"".join(text[at:at + self.random.choice([10, 1000, 300_000, 2 * MIB])] + b"\n"
                                for at in (self.random.randrange(MIB) for _ in range(BYTES // MIB))))
        self.of_lines([], ["in"])

    def test_many_sorted_inputs(self):
        names = []
        for i in range(600):
            lines = sorted(b"%d %d\n" % (self.random.randrange(10**9), i) for _ in range(2000))
            names.append(self.put(f"in{i}", b"".join(lines)))
        self.of_lines(["-m"], names)

    def numbers(self):
        """The digest of the numbers of a file, sorted. They are made so, and cut into slices that are shuffled."""
        count = BYTES // 8
        step = self.random.randrange(2**63, 2**64) // count
        numbers = array.array("Q", range(0, count * step, step))
        (self.folder / "expected").write_bytes(numbers.tobytes())
        slices = [numbers[at::1021] for at in range(1021)]
        self.random.shuffle(slices)
        self.put("in", b"".join(slices))
        expected = self.digest(self.folder / "expected")
        (self.folder / "expected").unlink()
        return expected

    def test_records(self):
        expected = self.numbers()
        for threads in self.threads():
            self.expect([VORTEX, "sort", "--form", "u64", "in"], expected, threads)
            self.expect([VORTEX, "sort", "--form", "u64", "-"], expected, threads, stdin="in")

    def test_passes(self):
        """Blocks so long that few runs are merged at a time."""
        self.of_form("u64", 5 * MEMORY, ["--block", "4M"])

    def test_a_chain(self):
        """Two sorts at a time, of which one feeds the other."""
        expected = self.numbers()
        self.group = self.new_group(2)
        for threads in self.threads():
            self.expect(lambda resources: f"{VORTEX} sort --form u64 --reverse in -o - {resources} | "
                                          f"{VORTEX} sort --form u64 - {resources}", expected, threads)

    def test_more_memory(self):
        for memory in (256 * MIB, 1 << 30):
            self.memory = memory
            self.group = self.new_group(1)
            for form in ("u64", "ascii"):
                self.of_form(form, memory * 5 // 4)

    def of_form(self, form, size, options=()):
        """What comes out has the same records, by their sum, and is in order."""
        self.vortex("gen", "--form", form, "--bytes", str(size), "in")
        expected = {**self.summary(form, "in"), "sorted": True}
        for threads in self.threads():
            outcome = self.group.run([VORTEX, "sort", "--form", form, "in", *options, *self.resources(threads),
                                      "-o", "out"], cwd=self.folder)
            print(f"{self.id()}, {form}, threads {threads}: {outcome}, limit {self.group.limit / MIB:.0f} MiB",
                  flush=True)
            self.assertEqual((outcome.code, outcome.errors), (0, b""))
            self.assertEqual(self.summary(form, "out"), expected)

    def vortex(self, *words):
        return subprocess.run([VORTEX, *words], cwd=self.folder, stdout=subprocess.PIPE, check=words[0] != "check")

    def summary(self, form, name):
        """How many records there are, their sum, and whether they are sorted."""
        told = json.loads(self.vortex("check", "--form", form, "--json", name).stdout)
        return {"records": told["records"], "checksum": told["checksum"], "sorted": told["sorted"]}


if __name__ == "__main__":
    main()
