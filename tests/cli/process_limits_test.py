#!/usr/bin/env python3
"""Sorts under the limits of a process, against GNU sort: address space, private memory, threads; and
what sorts of small inputs start and take. Of the limits some by chance, unless VORTEX_LONG_TESTS is set.

  process_limits_test.py VORTEX_SORT VORTEX [--sanitized]
"""

import array
import functools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import unittest

from folder_case import GNU, LONG, PROGRAMS, SANITIZED, SEED, FolderCase, main, under

OURS, VORTEX = PROGRAMS
MIB = 1 << 20


@functools.cache
def sorted_numbers():
    return array.array("Q", (i << 42 | i * 0x9E3779B97F4A7C15 & (1 << 42) - 1 for i in range(1 << 22)))


class Limits(FolderCase):
    def setUp(self):
        super().setUp()
        self.expected = {}  # GNU sort's output of a call, which is the same under each limit of ours

    def put(self, name, data):
        self.expected.clear()
        return super().put(name, data)

    def lines(self, count):
        return b"".join(b"%d %s\n" % (self.random.randrange(10**9), self.random.randbytes(9).hex().encode())
                        for _ in range(count))

    def some(self, limits, count):
        """So many of them, by chance."""
        return limits if LONG else sorted(self.random.sample(limits, count))

    def numbers(self):
        """4 Mi different numbers, and the same sorted, as bytes."""
        expected = sorted_numbers()
        slices = [expected[at::1021] for at in range(1021)]
        self.random.shuffle(slices)
        return b"".join(slices), expected.tobytes()

    def outcome(self, program, *arguments, stdin=b"", limit=None):
        done = self.run_program(program, arguments, stdin, limit=limit)
        return done.returncode, done.stdout, done.stderr.decode()

    def compare(self, *arguments, stdin=b"", limit=None):
        call = (arguments, stdin)
        if call not in self.expected:
            _, self.expected[call], _ = self.outcome(GNU, *arguments, stdin=stdin)
        code, out, errors = self.outcome(OURS, *arguments, stdin=stdin, limit=limit)
        self.assertEqual((code, errors), (0, ""), f"seed {SEED}: {arguments}")
        self.assertEqual(out, self.expected[call], f"seed {SEED}: {arguments}")

    def calls_of(self, command, *options, code=0):
        """What strace writes about a program, which ends with the code; skips the test where it cannot."""
        strace = shutil.which("strace")
        if strace is None:
            self.skipTest("strace is not there")
        traced = self.run_program(strace, ["-f", *options, "-o", "calls", *command])
        if b"ptrace" in traced.stderr.lower():
            self.skipTest("this container does not let strace in")
        self.assertEqual(traced.returncode, code, traced.stderr)
        return (self.folder / "calls").read_text()


@unittest.skipIf(SANITIZED, "a sanitizer's own memory counts against the limits")
class Memory(Limits):
    def test_small_inputs_need_little_address_space(self):
        self.put("four", b"b\na\n")
        for mib in (64, 97, 195, 976, 1953):
            for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
                limit = under({which: mib * MIB})
                self.compare("four", limit=limit)
                self.compare(stdin=b"c\nb\na\n", limit=limit)
                self.compare("-u", "-k1,1n", "four", "four", limit=limit)

    def test_the_default_memory_follows_the_limits(self):
        data = self.lines(400_000)  # 11 MB
        self.put("in", data)
        for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            for mib in self.some([150, 300, 976, 2000, 3000], 2):
                limit = under({which: mib * MIB})
                with self.subTest(which=which, mib=mib):
                    self.compare("in", limit=limit)
                    self.compare("--parallel=16", "-k2", stdin=data, limit=limit)
                    self.compare("-S1G", "-s", "-n", "in", limit=limit)
                    self.outcome(OURS, "in", "-o", "sorted", limit=limit)
                    self.compare("-m", "sorted", "sorted", limit=limit)

    def test_long_lines_beyond_the_size_of_files_are_an_error(self):
        self.put("in", b"\n".join(b"%d" % i + b"x" * (3 * MIB) for i in range(8)) + b"\n")
        code, _, errors = self.outcome(OURS, "-S24M", "in", "-o", "out",
                                           limit=under({resource.RLIMIT_FSIZE: 2 * MIB}))
        self.assertEqual(code, 2, errors)  # and no signal
        self.assertIn("File too large", errors)
        self.assertEqual(sorted(os.listdir(self.folder)), ["in"])

    def test_marks_that_do_not_fit_are_an_error(self):
        self.put("in", b"x" * (16 * MIB) + b"\n")
        code, _, errors = self.outcome(OURS, "--debug", "-S64M", *[f"-k1.{16 * MIB}"] * 40, "in",
                                       limit=under({resource.RLIMIT_AS: 600 * MIB}))
        self.assertEqual(code, 2, errors)
        self.assertIn("write failed: Cannot allocate memory", errors)

    def test_sorts_in_runs_fit_as_well(self):
        self.put("in", self.lines(700_000))  # 19 MB
        limit = under({resource.RLIMIT_AS: 160 * MIB})
        self.compare("-S8M", "in", limit=limit)
        self.compare("-S8M", "-k2", "--parallel=8", "in", limit=limit)

    def test_pipes_of_records_leave_room_for_their_runs(self):
        numbers, expected = self.numbers()
        for mib in self.some(range(2500, 3400, 150), 3):
            code, _, errors = self.outcome(
                VORTEX, "sort", "-", "-o", "out", "--form", "u64", "-S", "32M", "--parallel", 1,
                stdin=numbers, limit=under({resource.RLIMIT_AS: mib * MIB}))
            self.assertEqual((code, errors), (0, ""), mib)
            self.assertTrue((self.folder / "out").read_bytes() == expected)

    def test_records_take_the_memory_that_is_private(self):
        numbers, expected = self.numbers()
        self.put("numbers", numbers)
        for memory, limit in (("64M", 60 * MIB), ("256M", 150 * MIB)):
            for threads in (1, 2):
                code, _, errors = self.outcome(
                    VORTEX, "sort", "numbers", "-o", "out", "--form", "u64", "-S", memory,
                    "--parallel", threads, limit=under({resource.RLIMIT_DATA: limit}))
                self.assertEqual((code, errors), (0, ""))
                self.assertTrue((self.folder / "out").read_bytes() == expected)

    def test_what_is_too_long_is_refused_by_name(self):
        # An output under a name takes address space as long as it is; what goes through a pipe does not.
        self.put("long", (b"e" * 999 + b"\n") * 320_000)
        limit = under({resource.RLIMIT_AS: 300 * MIB})
        code, _, errors = self.outcome(OURS, "long", "-o", "out", limit=limit)
        self.assertEqual(code, 2)
        self.assertIn("RLIMIT_AS is 300 MiB; raise it (ulimit -v)", errors)
        self.assertIn("-S says how much memory is taken", errors)
        self.assertFalse((self.folder / "out").exists())
        code, output, errors = self.outcome(OURS, "long", limit=limit)
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(len(output), 320_000_000)

    def test_stacks_of_records_threads_are_counted(self):
        self.put("in", self.random.randbytes(24_000_000))
        for mib in (300, 600, 1100, 2246):
            for threads in self.some([2, 5, 16, 64], 2):
                arguments = ("sort", "in", "-o", "out", "--form", "u64", "-S", "16M", "--parallel", threads)
                code, _, errors = self.outcome(VORTEX, *arguments,
                                                   limit=under({resource.RLIMIT_AS: mib * MIB}))
                self.assertEqual((code, errors), (0, ""), (mib, threads))
                code, _, errors = self.outcome(VORTEX, "check", "out", "--form", "u64")
                self.assertEqual(code, 0, errors)

    def test_small_inputs_take_little_memory(self):
        self.put("four", b"b\na\n")
        self.put("small", self.lines(60_000))  # 1.7 MB
        peaks = {}
        for name in ("four", "small"):
            code, out, errors = self.outcome(VORTEX, "sort", "--lines", name, "-o", "out", "--json")
            self.assertEqual(code, 0, errors)
            peaks[name] = json.loads(out)["peak_resident_bytes"]
        self.assertLess(peaks["four"], 16 * MIB)
        # The text, its copy with an index of 16 bytes a line, and a part of that to sort with.
        self.assertLess(peaks["small"] - peaks["four"], 9 * MIB)

    def test_small_inputs_keep_to_the_default_memory(self):
        # With keys that are much longer than the lines: of what the limit leaves a quarter is the memory.
        self.put("in", self.lines(66_000))  # 1.9 MB
        for limit, in_runs in ((100 * MIB, True), (1000 * MIB, False)):
            keys = [argument for _ in range(8) for argument in ("-k", "1,9", "-k", "2,9")]
            code, out, errors = self.outcome(VORTEX, "sort", "--lines", "in", "-o", "out", "--json", *keys,
                                                 limit=under({resource.RLIMIT_DATA: limit}))
            self.assertEqual(code, 0, errors)
            self.assertEqual(json.loads(out)["runs"] > 0, in_runs, limit)


@unittest.skipIf(os.geteuid() != 0, "only root can become a user who has no threads yet")
@unittest.skipIf(SANITIZED, "sanitizers start threads of their own")
class Threads(Limits):
    def test_a_sort_ends_where_no_signal_can_be_queued(self):
        self.put("in", self.lines(200_000))
        self.compare("in", limit=under({resource.RLIMIT_SIGPENDING: 0}))

    def test_sorts_do_with_the_threads_there_are(self):
        data = self.lines(200_000)  # 5.5 MB
        self.put("in", data)
        self.put("sorted", self.outcome(GNU, stdin=data)[1])
        self.put("small", data[:1000])
        for count in [1, *self.some(range(2, 8), 2)]:
            limit = under({}, threads=count)
            with self.subTest(threads=count):
                self.compare("small", limit=limit)
                self.compare("in", limit=limit)
                self.compare("-S8M", "--parallel=4", "in", "in", limit=limit)
                self.compare("-k2", stdin=data, limit=limit)
                self.compare("-m", "sorted", "sorted", limit=limit)
                self.outcome(OURS, "in", "-o", "out", limit=limit)
                self.assertEqual((self.folder / "out").read_bytes(), (self.folder / "sorted").read_bytes())
                (self.folder / "out").unlink()
                code, _, errors = self.outcome(OURS, "-c", "sorted", limit=limit)
                self.assertEqual((code, errors), (0, ""))

    def test_marks_need_no_thread(self):
        data = self.lines(2000)
        code, expected, _ = self.outcome(OURS, "--debug", "-k2", stdin=data)
        self.assertEqual(code, 0)
        for count in (1, 2, 3):
            code, out, _ = self.outcome(OURS, "--debug", "-k2", stdin=data, limit=under({}, threads=count))
            self.assertEqual((code, out), (0, expected))

    def test_records_do_as_well(self):
        data = self.random.randbytes(6_000_000)
        self.put("in", data)
        words = sorted(data[at:at + 8][::-1] for at in range(0, len(data), 8))
        expected = b"".join(word[::-1] for word in words)
        for count in [1, *self.some(range(2, 6), 1)]:
            for memory in ("2M", "64M"):
                for stdin, name in ((b"", "in"), (data, "-")):
                    code, out, errors = self.outcome(
                        VORTEX, "sort", name, "-o", "-", "--form", "u64", "-S", memory, "--parallel", 4,
                        stdin=stdin, limit=under({}, threads=count))
                    self.assertEqual((code, errors), (0, ""), (count, memory, name))
                    self.assertEqual(out, expected, (count, memory, name))

    def test_an_output_that_nobody_reads_ends_a_sort_without_threads(self):
        self.put("in", self.lines(200_000))
        for name in ("in", "small"):
            self.put("small", self.lines(20_000))
            reading, writing = os.pipe()
            os.close(reading)
            process = self.run_program(OURS, [name], stdout=writing, stderr=subprocess.PIPE,
                                       limit=under({}, threads=1))
            os.close(writing)
            self.assertEqual((process.returncode, process.stderr), (-signal.SIGPIPE, b""), name)


class SmallInputs(Limits):
    def test_small_and_a_little_more(self):
        for size in (0, 1, 1000, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB):
            data = (self.lines(size // 24 + 1) if size else b"")[:size]
            self.put("in", data)
            self.put("end", b"no newline")
            self.compare("in")
            self.compare(stdin=data)
            self.compare("in", "end", "-", "in", stdin=data)
            self.compare("-", "-k2,2", "-u", "end", stdin=data)

    def test_pipes_that_turn_out_to_be_long(self):
        data = self.lines(120_000)
        os.mkfifo(self.folder / "fifo")
        for cut in (1, 24_000, 3 * MIB):
            with subprocess.Popen([OURS, "fifo", "-", "-o", "out"], cwd=self.folder, stdin=subprocess.PIPE,
                                  env={"LC_ALL": "C"}) as process:
                with open(self.folder / "fifo", "wb") as fifo:
                    fifo.write(data[:cut])
                process.stdin.write(data[cut:])
                process.stdin.close()
                self.assertEqual(process.wait(timeout=60), 0)
            self.put("first", data[:cut])
            self.put("second", data[cut:])
            _, expected, _ = self.outcome(GNU, "first", "second")
            self.assertEqual((self.folder / "out").read_bytes(), expected)

    @unittest.skipIf(SANITIZED, "sanitizers start threads of their own")
    def test_a_small_sort_starts_no_thread_and_no_ring(self):
        self.put("in", self.lines(30_000))
        for arguments in (("in",), ("in", "-o", "out"), ("-k2n", "--parallel=8", "in")):
            calls = self.calls_of([OURS, *arguments], "-c")
            for call in ("clone", "io_uring", "memfd", "eventfd", "sysinfo"):
                self.assertNotIn(call, calls, arguments)

    def test_the_output_is_synced_unless_it_need_not_be(self):
        self.put("small", self.lines(100))
        self.put("large", self.lines(200_000))
        self.put("records", self.random.randbytes(80_000))
        sorts = [[OURS, "small", "-o", "out"], [OURS, "large", "-o", "out"],
                 [VORTEX, "sort", "--lines", "small", "-o", "out"],
                 [VORTEX, "sort", "--form", "u64", "records", "-o", "out"]]
        for command in sorts:
            for option in ([], ["--no-sync"]):
                self.put("out", b"before")
                calls = self.calls_of([*command, *option], "-e", "trace=fsync,fdatasync,syncfs")
                self.assertEqual("sync(" in calls, not option, command + option)
                self.assertNotEqual((self.folder / "out").read_bytes(), b"before")
                self.assertFalse(list(self.folder.glob(".*")))

    def test_each_folder_is_synced_whichever_of_them_cannot_be(self):
        self.put("in", self.random.randbytes(800_000))
        command = [VORTEX, "split", "-n", "3", "--form", "u64", "in", "-o", "part"]
        synced = self.calls_of(command, "-e", "trace=fsync").count("fsync(")
        self.assertEqual(synced, 6)  # of each part, and of each part's folder
        for failing in (4, 5, 6):
            calls = self.calls_of(command, "-e", "trace=fsync", "-e", f"inject=fsync:error=EIO:when={failing}", code=2)
            self.assertEqual(calls.count("fsync("), synced, calls)

    def test_a_hole_is_made_again_after_a_signal(self):
        self.put("in", self.random.randbytes(8_000_000))
        command = [VORTEX, "sort", "--form", "u64", "-S", "1M", "in", "-o", "out"]
        calls = self.calls_of(command, "-e", "trace=fallocate", "-e", "signal=none", "-e",
                              "inject=fallocate:error=EINTR:when=1+2")
        holes = {}  # of each thread, in their order
        for thread, hole in re.findall(r"^(\d+) +(fallocate\(.*PUNCH_HOLE.*)$", calls, re.MULTILINE):
            holes.setdefault(thread, []).append(hole)
        self.assertTrue(holes, "no holes")
        for made in holes.values():
            for interrupted, again in zip(made[::2], made[1::2], strict=True):
                self.assertIn("EINTR", interrupted)
                self.assertEqual(again.split("=")[0].strip(), interrupted.split("=")[0].strip())

    def test_an_input_that_is_the_output(self):
        data = self.lines(1000)
        self.put("in", data)
        _, expected, _ = self.outcome(GNU, "in")
        self.assertEqual(self.outcome(OURS, "in", "-o", "in"), (0, b"", ""))
        self.assertEqual((self.folder / "in").read_bytes(), expected)


if __name__ == "__main__":
    main()
