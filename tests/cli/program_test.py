#!/usr/bin/env python3
"""Runs the program from end to end, and compares with what Python makes of the same files.

  program_test.py PROGRAM [--sanitized]
"""

import ctypes
import fcntl
import json
import os
import pathlib
import pty
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import termios
import unittest

from folder_case import PROGRAMS, SANITIZED, FolderCase, main, under

PROGRAM, = PROGRAMS
MIB = 1 << 20


class Program(FolderCase):
    def run_vortex(self, *arguments, **how):
        return self.run_verb(PROGRAM, *arguments, **how)

    def refusal(self, *arguments, **how):
        return self.refusal_of(PROGRAM, *arguments, **how)

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def gen(self, name, *arguments):
        return json.loads(self.run_vortex("gen", name, *arguments, "--json").stdout)

    def check(self, *arguments, code=0, **options):
        return json.loads(self.run_vortex("check", *arguments, "--json", code=code,
                                          **options).stdout)

    def records(self, name, length):
        data = self.bytes_of(name)
        self.assertEqual(len(data) % length, 0)
        return [data[at:at + length] for at in range(0, len(data), length)]

    def sort_file(self, name, to, length, key):
        records = sorted(self.records(name, length), key=key)
        self.put(to, b"".join(records))
        return records

    def sorted_records(self, name):
        """Of 100 bytes, by the first 10."""
        return b"".join(sorted(self.records(name, 100), key=lambda record: record[:10]))


class Gen(Program):
    def test_parts_joined_are_the_whole(self):
        for form in ("records", "ascii", "pairs", "u32be"):
            whole = self.gen("whole", "-n", 10007, "--form", form, "--seed", 5)
            data, checksum = b"", 0
            for k in (1, 2, 3):
                part = self.gen("part", "-n", 10007, "--form", form, "--seed", 5, "--part", f"{k}/3")
                data += self.bytes_of("part")
                checksum += int(part["checksum"], 16)
            self.assertEqual(data, self.bytes_of("whole"))
            self.assertEqual(f"{checksum % 2**64:016x}", whole["checksum"])

    def test_standard_output_is_the_file(self):
        self.gen("file", "--bytes", "5MiB")
        done = self.run_vortex("gen", "-", "--bytes", "5MiB")
        self.assertEqual(done.stdout, self.bytes_of("file"))
        self.assertIn("checksum", done.stderr.decode())

    def test_no_records_make_an_empty_file(self):
        self.assertEqual(self.gen("none", "-n", 0)["checksum"], "0" * 16)
        self.assertEqual(self.bytes_of("none"), b"")
        self.assertTrue(self.check("none")["sorted"])

    def test_errors(self):
        self.assertIn("--records or --bytes", self.refusal("gen", "x"))
        self.assertIn("--records or --bytes", self.refusal("gen", "x", "-n", 1, "--bytes", 1))
        self.assertIn("no distribution 'gauss'",
                      self.refusal("gen", "x", "-n", 1, "--distribution", "gauss"))
        self.assertIn("'zipf' is one of numbers",
                      self.refusal("gen", "x", "-n", 1, "--distribution", "zipf"))
        self.assertIn("no type 'u7'", self.refusal("gen", "x", "-n", 1, "--form", "u7"))
        self.assertIn("K/N", self.refusal("gen", "x", "-n", 1, "--part", "3/2"))
        self.assertIn("'1.5k'", self.refusal("gen", "x", "-n", "1.5k"))
        self.assertIn("no/such/folder", self.refusal("gen", "no/such/folder/x", "-n", 1))
        self.assertEqual(self.names(), [])


class Check(Program):
    def test_sorting_by_python_keeps_the_checksum(self):
        for form, length in (("records", 100), ("ascii", 100)):
            for distribution in ("uniform", "skewed"):
                made = self.gen("in", "-n", 30000, "--form", form, "--distribution", distribution)
                self.assertFalse(self.check("in", code=1)["sorted"])
                records = self.sort_file("in", "out", length, lambda record: record[:10])
                found = self.check("out")
                self.assertTrue(found["sorted"])
                self.assertEqual(found["records"], 30000)
                self.assertEqual(found["checksum"], made["checksum"])
                keys = [record[:10] for record in records]
                self.assertEqual(found["duplicates"], len(keys) - len(set(keys)))
                self.assertEqual(found["first"], records[0].hex())
                self.assertEqual(found["last"], records[-1].hex())

    def test_numbers_and_several_keys(self):
        made = self.gen("in", "-n", 20000, "--form", "u32", "--distribution", "few")
        # Records of 8 bytes: a number, descending, then a signed one in the other byte order.
        self.sort_file("in", "out", 8, lambda record: (
            -int.from_bytes(record[:4], "little"), int.from_bytes(record[4:], "big", signed=True)))
        keys = ("--record", 8, "--key", "0:4:u32:desc", "--key", "4:4:i32be")
        found = self.check("out", *keys)
        self.assertEqual(found["keys"], ["0:4:u32le:desc", "4:4:i32be"])
        self.assertEqual(self.check("out", *keys, "-r", code=1)["sorted"], False)
        self.assertEqual(self.check("out", "--form", "u32", code=1)["checksum"], made["checksum"])
        self.run_vortex("check", "out", *keys, "--unique", code=1)

    def test_the_first_descent_is_named(self):
        numbers = list(range(100000))
        numbers[77777] = 5
        numbers[88888] = 6
        self.put("x", b"".join(n.to_bytes(4, "big") for n in numbers))
        done = self.run_vortex("check", "x", "--record", "4", "--json", code=1)
        self.assertIn("record 77778 of 'x' (byte 311108)", done.stderr.decode())
        found = json.loads(done.stdout)
        self.assertEqual((found["first_descent"], found["descents"]), (77777, 2))
        # In two files, one after the other, it is counted from the beginning of its own.
        data = self.bytes_of("x")
        self.put("a", data[:4 * 60000])
        self.put("b", data[4 * 60000:])
        done = self.run_vortex("check", "a", "b", "--record", "4", code=1)
        self.assertIn("record 17778 of 'b' (byte 71108)", done.stderr.decode())

    def test_parts_combine(self):
        source = random.Random(3)
        made = self.gen("in", "-n", 5000, "--form", "u16be")
        self.sort_file("in", "out", 2, lambda record: record)
        data = self.bytes_of("out")
        cuts = [0, *sorted(2 * source.randrange(5000) for _ in range(5)), len(data)]
        parts = []
        for i, (begin, end) in enumerate(zip(cuts, cuts[1:])):
            self.put(f"part{i}", data[begin:end])
            summary = self.run_vortex("check", f"part{i}", "--form", "u16be", "--json").stdout
            self.put(f"part{i}.json", summary)
            parts.append(f"part{i}.json")
        whole = self.check("out", "--form", "u16be")
        joined = self.check("--combine", *parts)
        self.assertEqual(joined["checksum"], made["checksum"])
        for name in ("records", "checksum", "duplicates", "descents", "first", "last", "sorted"):
            self.assertEqual(joined[name], whole[name], name)
        done = self.run_vortex("check", "--combine", *reversed(parts), code=1)
        self.assertIn("belongs before", done.stderr.decode())

    def test_summaries_that_cannot_be_are_refused(self):
        self.gen("in", "-n", 100, "--form", "u16", "--distribution", "few")
        summary = self.check("in", "--form", "u16", code=1)
        for name, value in (("records", -5), ("records", 1.5), ("duplicates", -1),
                            ("duplicates", 100), ("descents", 100), ("descents", -1),
                            ("first_descent", 100), ("first_descent", -1), ("first", "00"),
                            ("records", "100"), ("record_bytes", -2), ("record_bytes", 2.5)):
            files = [{"path": "in", "records": value if name == "records" else 100}]
            (self.folder / "wrong").write_text(json.dumps({**summary, "files": files, name: value}))
            self.assertIn("'wrong' is no summary", self.refusal("check", "--combine", "wrong"))
        (self.folder / "right").write_text(json.dumps(summary))
        self.assertEqual(self.check("--combine", "right", code=1)["duplicates"],
                         summary["duplicates"])
        piped = self.run_vortex("check", "--combine", "-", code=1,
                                stdin=json.dumps(summary).encode())
        self.assertIn(summary["checksum"], piped.stdout.decode())
        self.assertIn("read the summary '.': Is a directory",
                      self.refusal("check", "--combine", "."))

    def test_pipes(self):
        for records in (0, 1, 20971, 20972, 62914, 200000):
            made = self.gen("in", "-n", records, "--form", "records")
            with open(self.folder / "in", "rb") as file:
                producer = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)
                found = self.check("-", stdin=producer.stdout, code=int(records > 1))
                producer.stdout.close()
                producer.wait()
            self.assertEqual(found["checksum"], made["checksum"])
            self.assertEqual(found["records"], records)
        # Whole blocks of 2 MiB, and then a record that is cut off.
        data = bytes(4 << 20)
        for extra in (0, 1, 7):
            self.run_vortex("check", "-", "--record", "8", "--json", stdin=data + bytes(extra),
                            code=0 if extra == 0 else 2)

    def test_long_records(self):
        for length in (3, 9000, 100_003, 1 << 20):
            source = random.Random(length)
            records = sorted(source.randbytes(length) for _ in range(9))
            self.put("x", b"".join(records))
            self.assertEqual(self.check("x", "--record", length)["records"], 9)
            self.put("x", b"".join(reversed(records)))
            self.assertEqual(self.check("x", "--record", length, code=1)["descents"], 8)

    def test_errors(self):
        self.put("x", bytes(250))
        line = self.refusal("check", "x")
        self.assertIn("'x' has 250 bytes", line)
        self.assertIn("100", line)
        self.assertIn("missing", self.refusal("check", "missing"))
        self.assertIn("is no summary", self.refusal("check", "--combine", "x"))
        self.assertIn("no-summary", self.refusal("check", "--combine", "no-summary"))
        self.assertIn("key '95:10:bytes'",
                      self.refusal("check", "x", "--record", 100, "--key", "95:10"))
        self.assertIn("--record", self.refusal("check", "x", "--key", "0:1"))
        self.assertIn("one or the other",
                      self.refusal("check", "x", "--form", "u8", "--record", 1))
        self.assertIn("--combine", self.refusal("check", "--combine", "x", "--form", "u8"))

    def test_a_full_device_is_an_error(self):
        self.gen("x", "-n", 1)
        with open("/dev/full", "wb") as full:
            done = self.run_program(PROGRAM, ["check", "x"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.decode().splitlines()), 1)


class Names(Program):
    # CLI11 would take them for lists of other names.
    def test_in_brackets(self):
        for name, other in (("[x]", "x"), ("[a,b]", "a"), ("[]", "none"), ("{}", "none"), ("[[x]]", "[x]")):
            self.put(other, b"zzzz")
            for inputs in ([name], ["--", name], ["-vS", "8M", name]):
                self.put(name, b"bbbbaaaa")
                self.run_vortex("sort", "--form", "u32be", "-o", name, *inputs)
                self.assertEqual(self.bytes_of(name), b"aaaabbbb")
                self.assertEqual(self.check("--form", "u32be", name)["records"], 2)
            self.run_vortex("split", "--form", "u32be", "-n", 1, "-o", "part", name)
            self.assertEqual(self.bytes_of("part.00000"), b"aaaabbbb")
            self.run_vortex("gen", name, "-n", 3, "--form", "u32be")
            self.assertEqual(len(self.bytes_of(name)), 12)
            self.assertEqual(self.bytes_of(other), b"zzzz")

    def test_values_in_brackets_are_kept(self):
        self.put("in", b"[b],c\n1,2\n0,3\n")
        self.run_vortex("sort", "--csv", "--header", 1, "-k", "[b]", "in", "-o", "out")
        self.assertEqual(self.bytes_of("out"), b"[b],c\n0,3\n1,2\n")


class Sort(Program):
    def sort(self, *arguments):
        return json.loads(self.run_vortex("sort", *arguments, "--json").stdout)

    def sorted_parts(self, parts, length, most, seed):
        """Makes sorted files of less than `most` records each; their names, and what they merge to."""
        source = random.Random(seed)
        names, everything = [], []
        for part in range(parts):
            records = sorted(source.randbytes(length) for _ in range(source.randrange(most)))
            self.put(f"part{part}", b"".join(records))
            names.append(f"part{part}")
            everything += records
        return names, b"".join(sorted(everything))

    def test_one_run_many_runs_and_several_passes(self):
        (self.folder / "a").mkdir()
        (self.folder / "b").mkdir()
        for records in (0, 1, 1000, 30000):
            self.gen("in", "-n", records, "--distribution", "skewed")
            expected = self.sorted_records("in")
            for memory in ("64M", "1M"):
                report = self.sort("in", "-o", "out", "--form", "records", "-S", memory,
                                   "-T", "a", "-T", "b")
                self.assertEqual(self.bytes_of("out"), expected)
                self.assertEqual(report["records_out"], records)
                if records == 30000:
                    self.assertEqual(report["runs"] > 1, memory != "64M")
                # Everything is read and written once, and what lies in runs once more. The first of
                # several passes may merge a part only.
                passes = report["passes"]
                self.assertEqual(report["least_io_bytes"], records * 100 * (4 if passes else 2))
                self.assertGreaterEqual(report["run_bytes"], records * 100 * min(passes, 1))
                self.assertLessEqual(report["run_bytes"], records * 100 * passes)
                moved = 2 * (records * 100 + report["run_bytes"])
                self.assertGreaterEqual(report["io_bytes"], moved)
                self.assertLessEqual(report["io_bytes"], moved + (report["runs"] + 3) * 8192)
        self.assertEqual(list((self.folder / "a").iterdir()), [])

    def test_runs_are_compressed_as_told(self):
        self.gen("numbers", "-n", 400000, "--form", "u64")
        self.gen("lines", "-n", 50000, "--form", "ascii")
        for name, how_told in (("numbers", ("--form", "u64")), ("lines", ("--lines",))):
            arguments = [name, "-o", "out", *how_told, "-S", "2M", "--compress"]
            plain = self.sort(*arguments, "never")
            sorted_bytes = self.bytes_of("out")
            packed = self.sort(*arguments, "always")
            self.assertEqual(self.bytes_of("out"), sorted_bytes)
            self.assertGreater(packed["runs"], 1)
            self.assertLess(packed["run_bytes"] / packed["passes"],
                            plain["run_bytes"] / plain["passes"] * 0.95)
            self.assertIn("auto, always or never", self.refusal("sort", *arguments, "maybe"))
            for how, words in (("always", "of all runs"), ("never", "none")):
                plan = self.run_vortex("sort", *arguments, how, "--plan").stdout.decode()
                self.assertRegex(plan, f"(?m)^compression +{words}$")

    def test_folders_get_shares_by_their_speeds(self):
        for name in ("a", "b", "odd:name"):
            (self.folder / name).mkdir()
        self.gen("in", "-n", 30000)
        expected = self.sorted_records("in")

        def folder_bytes(*folders):
            arguments = [argument for folder in folders for argument in ("-T", folder)]
            report = self.sort("in", "-o", "out", "--form", "records", "-S", "1M", *arguments)
            self.assertEqual(self.bytes_of("out"), expected)
            self.assertGreaterEqual(sum(report["folder_bytes"]), report["run_bytes"])
            return report["folder_bytes"]
        fast, slow = folder_bytes("a:300M", "b:100MB")
        self.assertGreater(fast, 2.5 * slow)
        self.assertLess(fast, 4 * slow)
        one, other = folder_bytes("a", "odd:name/")
        self.assertLess(abs(one - other), one / 4)
        self.assertGreater(min(folder_bytes("a:auto", "odd:name/:auto")), 0)
        for folders, words in (
                (("a:fast",), ("'fast'", "a slash behind it: 'a:fast/'")),
                (("a:",), ("the speed ''",)),
                (("a:0",), ("is 0",)),
                (("a:-5M",), ("'-5M'",)),
                (("a:100M", "b"), ("give one to each",)),
                (("missing:100M",), ("missing",))):
            arguments = [argument for folder in folders for argument in ("-T", folder)]
            refusal = self.refusal("sort", "in", "-o", "new", "--form", "records", *arguments)
            for word in words:
                self.assertIn(word, refusal)
        self.assertFalse((self.folder / "new").exists())

    @unittest.skipIf(SANITIZED, "a sanitizer's shadow memory is resident too")
    def test_peak_memory_is_the_budget_and_the_program(self):
        self.gen("in", "-n", 300000)
        for memory in ("1M", "4M", "16M", "64M"):
            report = self.sort("in", "-o", "out", "--form", "records", "-S", memory)
            self.assertLess(report["peak_resident_bytes"], report["memory_bytes"] + (32 << 20))

    def test_phases_tell_how_disks_and_threads_overlapped(self):
        self.gen("in", "-n", 200000)
        for arguments, phases in (
                (("-S", "1M", "--block", "64K"), ["reading", "merging", "writing"]),
                (("-S", "8M"), ["reading", "writing"])):
            report = self.sort("in", "-o", "out", "--form", "records", *arguments)
            overlap = report["overlap"]
            self.assertLessEqual(set(overlap), set(phases))
            self.assertLessEqual({"reading", "writing"}, set(overlap))
            for phase in overlap.values():
                for share in ("disks_busy", "threads_busy", "both_busy"):
                    self.assertGreaterEqual(phase[share], 0)
                    self.assertLessEqual(phase[share], 1)
                self.assertLessEqual(phase["both_busy"], phase["disks_busy"])
                self.assertLessEqual(phase["both_busy"], phase["threads_busy"])
                self.assertGreaterEqual(phase["both_busy"] + 1 + 1e-9,
                                        phase["disks_busy"] + phase["threads_busy"])
                self.assertGreater(phase["disks_busy"], 0)
                self.assertGreater(phase["threads_busy"], 0)
                self.assertGreaterEqual(phase["mean_disks_busy"] + 1e-9, phase["disks_busy"])
                self.assertGreaterEqual(phase["mean_threads_busy"] + 1e-9, phase["threads_busy"])
        done = self.run_vortex("sort", "in", "-o", "out", "--form", "records", "-S", "8M", "-v")
        self.assertRegex(done.stderr.decode(), r"(?m)^busy +reading: disks \d+ %, threads \d+ %")

    def expect_trace(self, report, work, threads):
        """The trace holds what was reported, these kinds of work, and so many threads."""
        trace = json.loads(self.bytes_of("trace"))
        self.assertEqual(trace["otherData"]["spans_lost"], 0)
        events = trace["traceEvents"]
        moved = {"read": 0, "write": 0}
        begun = {}
        kinds = {"X": set(), "b": set(), "e": set(), "M": set()}
        for event in events:
            kinds[event["ph"]].add(event["name"])
            if event["ph"] == "X":
                self.assertGreaterEqual(event["ts"], 0)
                self.assertGreaterEqual(event["dur"], 0)
            elif event["ph"] == "b":
                moved[event["name"]] += event["args"]["bytes"]
                begun[event["id"]] = event
            elif event["ph"] == "e":
                begin = begun.pop(event["id"])
                self.assertEqual((begin["pid"], begin["name"]), (event["pid"], event["name"]))
                self.assertGreaterEqual(event["ts"], begin["ts"])
        self.assertFalse(begun)
        self.assertEqual(moved["read"], report["read_bytes"])
        self.assertEqual(moved["write"], report["written_bytes"])
        self.assertLessEqual(work, kinds["X"])
        names = {event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertLessEqual({"threads of the sort", "sort", "inputs and output", "runs in ."}, names)
        self.assertLessEqual({name for name in names if name.startswith("worker")},
                             {f"worker {i}" for i in range(1, threads)})
        # No more threads start than there are processors.
        self.assertEqual("writing runs" in names, min(threads, len(os.sched_getaffinity(0))) > 1)

    def test_trace_has_every_transfer_and_every_thread(self):
        self.gen("in", "-n", 400000, "--form", "pairs")
        for threads in (1, 2, 7):
            report = self.sort("in", "-o", "out", "--form", "pairs", "-S", "2M", "--trace", "trace",
                               "--parallel", threads)
            self.expect_trace(report, {"fault", "partition", "sort", "merge"}, threads)

    def test_trace_of_lines(self):
        self.gen("in", "-n", 100000, "--form", "ascii")
        for threads in (1, 2, 7):
            report = self.sort("in", "-o", "out", "--lines", "-S", "4M", "--trace", "trace",
                               "--parallel", threads)
            self.assertEqual((report["runs"] > 1, report["passes"]), (True, 1))
            self.assertGreaterEqual(report["io_bytes"], report["least_io_bytes"])
            self.assertEqual(report["least_io_bytes"],
                             report["output_bytes"] + report["input_bytes"] +
                             2 * min(report["run_bytes"], report["output_bytes"]))
            self.expect_trace(report, {"fault", "take", "sort", "copy", "merge"}, threads)
            for phase in ("reading", "writing"):
                self.assertGreater(report["overlap"][phase]["threads_busy"], 0)
        self.assertEqual(self.bytes_of("out").splitlines(),
                         sorted(self.bytes_of("in").splitlines()))

    def expect_no_room_for_traces(self, *sort):
        """A trace takes the name of none of the files of a sort of "in" into "out"."""
        before = self.bytes_of("in")
        self.assertIn("'in' is an input", self.refusal(*sort, "--trace", "in"))
        self.assertEqual(self.bytes_of("in"), before)
        self.assertIn("'out' is the output", self.refusal(*sort, "--trace", "out"))
        self.run_vortex(*sort, "--trace", "trace")
        self.assertTrue(json.loads(self.bytes_of("trace"))["traceEvents"])
        (self.folder / "trace").unlink()
        os.link(self.folder / "out", self.folder / "other")
        self.assertIn("'other' is the output", self.refusal(*sort, "--trace", "other"))
        self.assertIn("no/trace", self.refusal(*sort, "--trace", "no/trace"))
        self.assertIn("'/dev/full'", self.refusal(*sort, "--trace", "/dev/full"))

    def expect_trace_of_failure(self, *sort):
        self.refusal(*sort, "--trace", "trace")
        self.assertTrue(json.loads(self.bytes_of("trace"))["traceEvents"])
        (self.folder / "trace").unlink()

    def test_trace_of_lines_that_fail_or_have_no_room(self):
        self.put("in", b"b\na\n")
        self.expect_no_room_for_traces("sort", "in", "-o", "out", "--lines")
        self.assertEqual(self.bytes_of("out"), b"a\nb\n")
        self.put("open", b'"b\n')
        self.expect_trace_of_failure("sort", "open", "-o", "out", "--csv", "--strict")
        with open(self.folder / "in", "rb") as source:
            self.assertIn("'in' is an input", self.refusal(
                "sort", "-", "-o", "out", "--lines", "--trace", "in", stdin=source))

    def test_trace_of_a_failure_and_where_no_trace_can_be(self):
        self.put("in", b"b" * 100 + b"a" * 100)
        sort = ("sort", "in", "-o", "out", "--form", "records")
        self.expect_trace_of_failure(*sort, "-m")
        self.expect_no_room_for_traces(*sort)

    def test_bound_is_reckoned_from_the_disks_alone(self):
        self.gen("in", "-n", 20000)
        report = self.sort("in", "-o", "out", "--form", "records", "-S", "1M", "--bound")
        self.assertGreater(report["runs"], 1)
        self.assertGreater(report["io_bound_seconds"], 0)
        self.assertGreater(report["cpu_seconds"], 0)
        self.assertAlmostEqual(
            report["times_io_bound"] * report["io_bound_seconds"], report["seconds"], places=6)
        gib = report["records_in"] * report["record_bytes"] / (1 << 30)
        self.assertAlmostEqual(
            report["cpu_seconds_per_gib"] * gib, report["cpu_seconds"], places=6)
        self.assertEqual([disk["folder"] for disk in report["disks"]], ["."])
        speed = report["disks"][0]
        for kind in ("read", "write", "copy"):
            self.assertGreater(speed[f"{kind}_bytes_per_second"], 0)
        bytes_each_way = report["records_in"] * report["record_bytes"]
        self.assertAlmostEqual(
            report["io_bound_seconds"] * speed["copy_bytes_per_second"], 2 * bytes_each_way, 0)
        self.assertEqual(self.names(), ["in", "out"])
        self.assertNotIn("io_bound_seconds", self.sort("in", "-o", "out", "--form", "records"))

    def test_bound_of_lines(self):
        self.gen("in", "-n", 20000, "--form", "ascii")
        report = self.sort("in", "-o", "out", "--lines", "-S", "1M", "--bound")
        self.assertGreater(report["runs"], 1)
        # Runs are a little shorter than their lines.
        speed = report["disks"][0]
        in_runs = min(report["run_bytes"], report["output_bytes"])
        seconds = 2 * in_runs / speed["copy_bytes_per_second"]
        for kind in ("read", "write"):
            seconds += (report["output_bytes"] - in_runs) / speed[kind + "_bytes_per_second"]
        self.assertAlmostEqual(report["io_bound_seconds"], seconds, 6)
        self.assertAlmostEqual(
            report["times_io_bound"] * report["io_bound_seconds"], report["seconds"], places=6)
        self.assertNotIn("io_bound_seconds", self.sort("in", "-o", "out", "--lines"))

    def test_plan_of_lines_touches_nothing(self):
        self.gen("in", "-n", 100000, "--form", "ascii")
        size = (self.folder / "in").stat().st_size
        for memory in (4 << 20, 64 << 20):
            plan = self.sort("in", "-o", "out", "--lines", "-S", memory, "--plan")
            self.assertEqual((plan["input_bytes"], plan["memory_bytes"]), (size, memory))
            self.assertLess(plan["arena_bytes"], memory)
            self.assertLessEqual(plan["pool_blocks"] * plan["block_bytes"], memory)
            self.assertIn("merge order     " + str(plan["merge_order"]), self.run_vortex(
                "sort", "in", "-o", "-", "--lines", "-S", memory, "--plan").stdout.decode())
        self.assertEqual(self.names(), ["in"])
        plan = self.sort("in", "in", "-m", "-o", "out", "--lines", "--plan")
        self.assertEqual(plan["merged_inputs"], 2)
        plan = json.loads(self.run_vortex("sort", "-", "-o", "out", "--lines", "--plan", "--json",
                                          stdin=b"").stdout)
        self.assertEqual(plan["input_bytes"], None)
        self.assertIn("at least", self.refusal("sort", "in", "-o", "out", "--lines", "-S", "10k",
                                               "--plan"))
        told = self.run_vortex("sort", "in", "-o", "out", "--lines", "-S", "4M", "-v").stderr.decode()
        plan = self.sort("in", "-o", "out", "--lines", "-S", "4M", "--plan")
        self.assertIn(f"merge order     {plan['merge_order']}\n", told)
        self.assertRegex(told, r"(?m)^busy +reading: disks \d+ %, threads \d+ %")
        # Where requests are expensive, fewer of them move more at a time.
        small, large = (self.sort("in", "-o", "out", "--lines", "-S", "64M", "--plan", "--request-cost",
                                  cost)["block_bytes"] for cost in ("0", "4M"))
        self.assertEqual(small, large)  # it fits in memory
        with open(self.folder / "in", "r+b") as file:
            file.truncate(1 << 30)
        small, large = (self.sort("in", "-o", "out", "--lines", "-S", "64M", "--plan", "--request-cost",
                                  cost)["block_bytes"] for cost in ("0", "4M"))
        self.assertGreater(large, 2 * small)

    def test_the_first_records(self):
        source = random.Random(12)
        records = [source.randrange(5000).to_bytes(2, "big") + source.randbytes(5) for _ in range(250000)]
        data = b"".join(records)
        self.put("in", data)
        ordered = sorted(records, key=lambda record: record[:2])
        options = ["--record", 7, "--key", "0:2", "-S", "700k"]
        for first in (1, 1000, 100000, 1 << 40):
            done = self.run_vortex("sort", "-", "-o", "-", *options, "--first", first, stdin=data)
            self.assertEqual(done.stdout, b"".join(ordered[:first]))
            plan = self.sort("in", "-o", "out", *options, "--first", first, "--plan")
            report = self.sort("in", "-o", "out", *options, "--first", first)
            self.assertEqual(self.bytes_of("out"), b"".join(ordered[:first]))
            self.assertEqual(plan["in_memory"], first <= 1000)
            self.assertEqual(report["runs"] == 0, first <= 1000)
            self.assertEqual(plan.get("first_records"), first if first < 250000 else None)
            self.assertEqual((report["records_in"], report["records_out"]), (250000, min(first, 250000)))
        told = self.run_vortex("sort", "in", "-o", "out", *options, "--first", 9, "--plan").stdout.decode()
        self.assertIn("kept in memory while the others pass", told)
        self.assertIn("--first", self.refusal("sort", "in", "-o", "out", *options, "--first", 0))

    def test_plan_touches_nothing(self):
        self.gen("in", "-n", 100000)
        for memory, word in (("64M", "in memory"), ("2M", "merge order")):
            done = self.run_vortex("sort", "in", "-o", "out", "--form", "records", "-S", memory,
                                   "--plan")
            self.assertIn(word, done.stdout.decode())
            plan = self.sort("in", "-o", "out", "--form", "records", "-S", memory, "--plan")
            self.assertEqual(plan["input_bytes"], 10000000)
            self.assertEqual(plan["in_memory"], memory == "64M")
            if memory == "2M":
                report = json.loads(self.run_vortex(
                    "sort", "in", "-o", "-", "--form", "records", "-S", memory,
                    "--json").stderr)
                self.assertEqual(plan["block_bytes"], report["block_bytes"])
                self.assertEqual(plan["expected_passes"], report["passes"])
                self.assertGreaterEqual(plan["passes"], report["passes"])
                self.assertAlmostEqual(plan["expected_runs"], report["runs"], delta=1)
                self.assertGreaterEqual(plan["most_runs"], report["runs"])
            self.assertEqual(self.names(), ["in"])
        plan = json.loads(self.run_vortex("sort", "-", "-o", "out", "--form", "records", "--plan",
                                          "--json", stdin=b"").stdout)
        self.assertEqual((plan["input_bytes"], plan["most_runs"], plan["passes"]),
                         (None, None, None))
        self.assertIn("at least", self.refusal("sort", "in", "-o", "out", "--form", "records", "-S",
                                               "10k", "--plan"))

    def usable_memory(self):
        self.put("empty", b"")
        usable = self.sort("empty", "-o", "out", "--form", "records", "-S", "100%")["memory_bytes"]
        for name in ("empty", "out"):
            (self.folder / name).unlink()
        return usable

    def test_more_memory_than_there_is_is_taken_for_all_of_it(self):
        self.gen("in", "-n", 1000)
        usable = self.usable_memory()
        for size in (str(usable + 1), "1T", "9000T"):
            report = self.sort("in", "-o", "out", "--form", "records", "-S", size)
            self.assertIn(report["memory_bytes"] - usable, range(100), size)  # which a percentage rounds off

    def test_memory_as_a_percentage(self):
        self.gen("in", "-n", 1000)
        usable = self.usable_memory()
        self.assertLessEqual(usable, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        report = self.sort("in", "-o", "out", "--form", "records", "-S", "3%")
        self.assertLess(abs(report["memory_bytes"] - usable * 0.03), usable * 0.001)
        if not SANITIZED:  # a small input needs little
            self.assertLess(report["peak_resident_bytes"], 256 << 20)
        for wrong in ("0%", "101%", "x%", "-3%", "%"):
            self.assertIn("--memory", self.refusal("sort", "in", "-o", "y", "--form", "records",
                                                   "-S=" + wrong))

    def test_merging_more_inputs_than_fit(self):
        names, expected = self.sorted_parts(60, 16, 300, seed=12)
        arguments = ("-m", *names, "-o", "out", "--record", 16, "--block", "16k", "-S")
        plan = self.sort(*arguments, "600k", "--plan")
        report = self.sort(*arguments, "600k")
        self.assertGreater(report["passes"], 1)
        self.assertEqual(plan["passes"], report["passes"])
        self.assertEqual(-(-60 // plan["inputs_at_a_time"]), report["runs"])
        self.assertEqual(self.sort(*arguments, "64M", "--plan")["passes"], 1)
        self.assertIn("merging         60 sorted inputs, at most", self.run_vortex(
            "sort", *arguments, "64M", "--plan").stdout.decode())
        self.assertEqual(self.bytes_of("out"), expected)

    def test_in_place_through_a_link_keeps_mode_and_link(self):
        self.gen("in", "-n", 5000)
        expected = self.sorted_records("in")
        (self.folder / "in").chmod(0o640)
        (self.folder / "link").symlink_to("in")
        self.sort("in", "-o", "link", "--form", "records")
        self.assertEqual(self.bytes_of("in"), expected)
        self.assertEqual((self.folder / "in").stat().st_mode & 0o777, 0o640)
        self.assertTrue((self.folder / "link").is_symlink())
        self.gen("link", "-n", 5000)
        self.assertEqual((self.folder / "in").stat().st_size, 500000)
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual(self.names(), ["in", "link"])

    def test_pipes_keys_unique_and_merge(self):
        source = random.Random(11)
        data = b"".join(source.randrange(500).to_bytes(2, "big") + bytes([source.randrange(256)] * 5)
                        for _ in range(150000))
        records = [data[at:at + 7] for at in range(0, len(data), 7)]
        first = {}
        for record in records:
            first.setdefault(record[:2], record)
        for memory in ("32M", "700k"):
            done = self.run_vortex("sort", "-", "-o", "-", "--record", 7, "--key", "0:2", "-u",
                                   "-S", memory, stdin=data)
            self.assertEqual(done.stdout, b"".join(first[key] for key in sorted(first)))
        parts = []
        for part in range(3):
            here = sorted(records[part::3], key=lambda record: record[:2], reverse=True)
            self.put(f"part{part}", b"".join(here))
            parts += here
        self.sort("-m", "part0", "part1", "part2", "-o", "out", "--record", 7, "--key", "0:2", "-r")
        self.assertEqual(self.bytes_of("out"),
                         b"".join(sorted(parts, key=lambda record: record[:2], reverse=True)))

    def test_errors_leave_nothing(self):
        self.put("x", bytes(250))
        for arguments, word in (
                (("x", "-o", "y", "--record", 100), "'x' has 250 bytes"),
                (("x", "-o", "y"), "for text, --lines or --csv"),
                (("x", "--record", 10), "-o OUT"),
                (("x", "-o", "y", "--record", 10, "-T", "missing"), "missing"),
                (("x", "-o", "y", "--record", 10, "-S", "10k"), "at least"),
                (("x", "-o", "y", "--record", 10, "--io", "tape"), "--io"),
                (("x", "-o", "y", "--record", 10, "--key", f"{2**64 - 1}:2"),
                 f"2 bytes from byte {2**64 - 1} on"),
                (("x", "-o", "/dev/full", "--record", 10), "space")):
            self.assertIn(word, self.refusal("sort", *arguments))
        self.assertEqual(self.names(), ["x"])
        self.run_vortex("sort", "-", "-o", "y", "--record", "100", stdin=bytes(250), code=2)
        self.assertEqual(self.names(), ["x"])

    @unittest.skipIf(SANITIZED, "a sanitizer's shadow takes terabytes of address space")
    def test_little_address_space_is_enough_or_named(self):
        limit_address_space = under({resource.RLIMIT_AS: 160 * MIB})
        self.run_vortex("gen", "in", "-n", "100k", limit=limit_address_space)
        arguments = ("sort", "in", "-o", "out", "--form", "records", "-S")
        self.run_vortex(*arguments, "2M", limit=limit_address_space)
        self.assertTrue(self.check("out")["sorted"])
        message = self.refusal(*arguments, "64M", limit=limit_address_space)
        self.assertIn("RLIMIT_AS is 160 MiB: raise it (ulimit -v), or sort with less memory",
                      message)

    @unittest.skipIf(SANITIZED, "a sanitizer's shadow takes terabytes of address space")
    def test_more_address_space_is_never_worse(self):
        """Each limit is enough, or is refused before any work with what is needed. Sorts have the least that is
        enough, and some of the others."""
        expected = self.gen("in", "--bytes", "24M", "--form", "u64")["checksum"]
        for memory, io in (("1M", "best"), ("8M", "best"), ("3M", "threads"), ("64M", "best")):
            enough = False
            for limit in (*range(80, 240, 16), 300, 500, 1000):
                limit_address_space = under({resource.RLIMIT_AS: limit * MIB})
                arguments = ("sort", "in", "-o", "out", "--form", "u64", "-S", memory, "--io", io)
                plan = self.run_program(PROGRAM, [*arguments, "--plan"], limit=limit_address_space)
                if plan.returncode == 0:
                    if enough and self.random.randrange(4) != 0:
                        continue
                    enough = True
                    self.run_vortex(*arguments, limit=limit_address_space)
                    self.assertEqual(self.check("out", "--form", "u64")["checksum"], expected)
                    (self.folder / "out").unlink()
                    continue
                message = self.refusal(*arguments, limit=limit_address_space)
                self.assertFalse(enough, f"{limit} MiB with {memory}: {message}")
                self.assertRegex(message, r"the sort takes .* of address space for its streams")
                self.assertIn(f"RLIMIT_AS is {limit} MiB", message)
            self.assertTrue(enough, memory)
        # Nobody knows the length of a pipe: a gigabyte at least is asked for, and what there is.
        data = self.bytes_of("in")
        arguments = ("sort", "-", "-o", "out", "--form", "u64", "-S", "4M")
        enough = False
        for limit in (600, 1000, *sorted(self.random.sample(range(1050, 1200, 10), 5)), 1300, 1500, 2000, 3000):
            done = self.run_program(PROGRAM, arguments, data,
                                    limit=under({resource.RLIMIT_AS: limit * MIB}))
            if done.returncode == 0:
                enough = True
                self.assertEqual(self.check("out", "--form", "u64")["checksum"], expected)
                continue
            self.assertFalse(enough, f"{limit} MiB: {done.stderr}")
            self.assertIn(b"of address space for its streams and threads", done.stderr)
        self.assertTrue(enough)

    def test_the_plan_refuses_what_the_sort_refuses(self):
        """Maps for the blocks: two for each, of seven eighths of the kernel's limit."""
        maps = int(pathlib.Path("/proc/sys/vm/max_map_count").read_text()) // 8 * 7
        memory = maps // 2 * (16 << 10)
        with open(self.folder / "in", "wb") as file:
            file.truncate(8 * memory // 100 * 100)
        arguments = ("sort", "in", "-o", "out", "--form", "records", "--block", "16k", "-S")
        if memory * 5 // 4 > self.usable_memory():
            self.skipTest(f"{memory * 5 // 4} bytes of memory are more than there are")
        for share, enough in ((3, True), (5, False)):
            sized = (*arguments, memory // 4 * share)
            done = self.run_vortex(*sized, "--plan", code=0 if enough else 2)
            if not enough:
                self.assertIn(b"vm.max_map_count", done.stderr)
                self.assertEqual("vortex: " + self.refusal(*sized), done.stderr.decode().strip())
        self.assertEqual(self.names(), ["in"])

    def test_a_folder_that_may_not_be_written_to_is_named(self):
        self.gen("in", "-n", 20000)
        (self.folder / "mine").mkdir(mode=0o555)

        def obey_modes():  # root, too: CAP_DAC_OVERRIDE leaves the bounding set
            ctypes.CDLL(None).prctl(24, 1)
        for arguments, word in (
                (("-o", "mine/out"), "create 'mine/out': its folder 'mine' may not be written to"),
                (("-o", "out", "-T", "mine", "-S", "1M"), "a temporary file in 'mine'")):
            self.assertIn(word, self.refusal("sort", "in", *arguments, "--form", "records",
                                             limit=obey_modes))
        self.assertEqual(self.names(), ["in", "mine"])
        self.put("kept", b"before")
        (self.folder / "kept").chmod(0o444)
        for arguments in (("sort", "in", "-o", "kept", "--form", "records"), ("gen", "kept", "-n", 1)):
            self.assertIn("replace 'kept', which may not be written to",
                          self.refusal(*arguments, limit=obey_modes))
        self.assertEqual(self.bytes_of("kept"), b"before")

    def test_closed_standard_descriptors_stay_closed(self):
        self.gen("in", "-n", 3000)
        expected = self.sorted_records("in")
        for closed in ((2,), (0,), (1,), (0, 1, 2)):
            def close(closed=closed):
                for descriptor in closed:
                    os.close(descriptor)
            done = self.run_program(
                PROGRAM, ["sort", "in", "-o", "out", "--form", "records", "-S", "1M", "--progress", "-v"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, limit=close)
            self.assertEqual(done.returncode, 0, closed)
            self.assertEqual(self.bytes_of("out"), expected, closed)
            (self.folder / "out").unlink()
        done = self.run_program(PROGRAM, ["sort", "in", "-o", "-", "--form", "records"],
                                stderr=subprocess.PIPE, limit=lambda: os.close(1))
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"standard output", done.stderr)
        self.assertEqual(self.names(), ["in"])

    def test_progress_on_a_terminal_and_silence_elsewhere(self):
        self.gen("in", "-n", 30000)
        command = ["sort", "in", "-o", "out", "--form", "records", "-S", "1M"]
        shown = self.on_terminal(80, PROGRAM, *command)
        # A line that is written over, and wiped at the end.
        lines = shown.split(b"\r\x1b[K")
        self.assertEqual(lines[0], b"")
        self.assertEqual(lines[-1], b"")
        for step in (b"reading", b"writing"):
            self.assertTrue(any(step in line for line in lines), step)
        # The percentages are those of the whole sort: writing begins where reading has ended.
        self.assertIn(b"50 %", next(line for line in lines if b"writing" in line))
        self.assertNotIn(b"\n", shown)
        done = self.run_vortex(*command)
        self.assertEqual((done.stdout, done.stderr), (b"", b""))

    def on_terminal(self, columns, *command, **options):
        """What a terminal of so many columns is shown."""
        terminal, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        running = subprocess.Popen(command, cwd=self.folder, stderr=inside,
                                   stdout=subprocess.DEVNULL, **options)
        os.close(inside)
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:
            pass  # how a terminal says that the other side is gone
        os.close(terminal)
        self.assertEqual(running.wait(), 0)
        return shown

    def test_progress_fits_in_narrow_terminals_and_leaves_reports_alone(self):
        self.gen("in", "-n", 30000)
        for columns in (40, 12):
            shown = self.on_terminal(columns, PROGRAM, "sort", "in", "-o", "out", "--form", "records",
                                     "-S", "1M", "-v")
            progress, _, report = shown.rpartition(b"\r\x1b[K")
            for line in progress.split(b"\r\x1b[K"):
                self.assertLess(len(line), columns)
                self.assertNotIn(b"\n", line)
            # The report begins at the beginning of a line, and is whole.
            self.assertTrue(report.startswith(b"input"), report[:80])
            self.assertIn(b"sorted          30000", report)

    def test_progress_of_all_verbs(self):
        for command, code in ((("gen", "in", "-n", 60000), 0),
                              (("check", "in", "--form", "records"), 1),
                              (("check", "in", "--lines"), 1)):
            silent = self.run_vortex(*command, code=code)
            self.assertNotIn(b" %", silent.stderr)
            asked = self.run_vortex(*command, "--progress", code=code)
            self.assertIn(f"vortex {command[0]}: ".encode(), asked.stderr)
            self.assertIn(b" %", asked.stderr)

    def test_misspelt_verbs_and_options_are_answered(self):
        for arguments, answer in (
                (["srot"], "'srot' is no verb; did you mean 'sort'?"),
                (["xyzzy"], "'xyzzy' is no verb (verbs: gen, sort, split, check, info)"),
                ([], "a verb is missing: gen, sort, split, check, info"),
                (["--record", "8"], "--record is no option here; a verb is first"),
                (["sort", "--paralel", "3", "in", "-o", "out"],
                 "--paralel is no option of sort; did you mean '--parallel'?"),
                (["sort", "--csv", "--heder=1", "in", "-o", "out"],
                 "--heder is no option of sort; did you mean '--header'?"),
                (["gen", "out", "-n", "1", "--quux"], "--quux is no option of gen (see")):
            self.assertIn(answer, self.refusal(*arguments))

    def test_what_cannot_be_written_is_told_without_blocks(self):
        self.gen("in", "-n", 3000)
        for arguments in (("sort", "in", "-o", "/dev/full", "--form", "records"),
                          ("sort", "in", "-o", "/dev/full", "--lines")):
            self.assertIn("write failed: /dev/full: No space left on device",
                          self.refusal(*arguments))
            self.assertNotIn("offset", self.refusal(*arguments))
        self.assertIn("keep runs in '/nodir': No such file",
                      self.refusal("sort", "in", "-o", "out", "--form", "records", "--plan", "-T",
                                   "/nodir"))

    def test_owners_keep_what_they_lent(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files away")
        self.gen("in", "-n", 100)
        for owner, mode in ((65534, 0o6755), (65534, 0o640), (0, 0o4711)):
            self.put("out", b"")
            os.chown(self.folder / "out", owner, owner)
            (self.folder / "out").chmod(mode)
            self.sort("in", "-o", "out", "--form", "records")
            status = (self.folder / "out").stat()
            self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o7777),
                             (owner, owner, mode))

    def test_what_cannot_be_replaced_is_refused_at_once(self):
        self.gen("in", "-n", 100)
        long = "x" * 250
        self.put(long, b"before")
        self.sort("in", "-o", long, "--form", "records")
        self.assertEqual((self.folder / long).stat().st_size, 10000)
        if os.geteuid() != 0:
            self.skipTest("only root makes files immutable and mounts")
        self.put("out", b"before")
        for command, undo, word in (
                (["chattr", "+i", "out"], ["chattr", "-i", "out"], "immutable"),
                (["chattr", "+a", "out"], ["chattr", "-a", "out"], "appended"),
                (["mount", "--bind", "in", "out"], ["umount", "out"], "mounted")):
            if subprocess.run(command, cwd=self.folder, check=False,
                              stderr=subprocess.DEVNULL).returncode != 0:
                print(f"skipped: {command[0]} is not possible here")
                continue
            try:
                # The length of the input is wrong too, which is seen later.
                self.assertIn(word, self.refusal("sort", "in", "-o", "out", "--record", "10"))
            finally:
                subprocess.run(undo, cwd=self.folder, check=True)
        self.assertEqual(self.bytes_of("out"), b"before")

    def test_more_inputs_than_open_files_are_usual(self):
        names, expected = self.sorted_parts(500, 8, 20, seed=13)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for arguments in (("-m",), ()):
            self.run_vortex("sort", *arguments, *names, "-o", "out", "--record", 8, "-S", "4M",
                            limit=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard)))
            self.assertEqual(self.bytes_of("out"), expected)
        if SANITIZED:
            return  # The undefined sanitizer needs a descriptor to look at an exception's type.
        self.assertIn("ulimit -n", self.refusal(
            "sort", *names, "-o", "y", "--record", 8,
            limit=under({resource.RLIMIT_NOFILE: 200})))

    def test_threads_merge_sorted_inputs_in_parts(self):
        names, expected = self.sorted_parts(7, 8, 40000, seed=15)
        for threads in (1, 2):
            parts = min(threads, len(os.sched_getaffinity(0)))
            options = ("-m", *names, "-o", "out", "--record", 8, "-S", "16M", "--block", "16k",
                       "--parallel", threads)
            self.assertEqual(self.sort(*options)["merge_parts"], parts)
            self.assertEqual(self.bytes_of("out"), expected)
            plan = self.run_vortex("sort", *options, "--plan").stdout.decode()
            self.assertEqual(", in 2 parts" in plan, parts == 2)

    def test_merging_what_is_not_sorted_is_refused(self):
        source = random.Random(14)
        names = []
        for part in range(60):
            records = sorted(source.randbytes(8) for _ in range(300))
            if part == 33:
                records[200], records[201] = records[201], records[200]
            self.put(f"part{part}", b"".join(records))
            names.append(f"part{part}")
        for memory, threads in (("64M", 1), ("64M", 2), ("600k", 2)):
            for policy in ("optimal", "srm", "srm-async", "naive", "striped"):
                message = self.refusal("sort", "-m", *names, "-o", "out", "--record", 8, "-S",
                                       memory, "--prefetch", policy, "--block", "16k",
                                       "--parallel", threads)
                self.assertIn("'part33' is not sorted", message)
                self.assertIn("record 202, at offset 1608", message)
        self.assertFalse((self.folder / "out").exists())

    def end_while_it_waits(self, number, *arguments, blocked=()):
        """Starts the program, and ends it by a signal when it waits. The blocked ones come to it before, while it
        sleeps: most of them when it waits for the FIFO."""
        def prepare():
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_BLOCK, blocked)

        waiter = subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.folder,
                                  stderr=subprocess.DEVNULL, preexec_fn=prepare)
        self.addCleanup(waiter.kill)
        # Its second thread is the one that takes the signals.
        self.wait_for(waiter, r"^Threads:\s+([2-9]|\d\d)")
        for other in blocked:
            for _ in range(20):
                self.wait_for(waiter, r"^State:\s+S")
                waiter.send_signal(other)
        waiter.send_signal(number)
        self.assertEqual(waiter.wait(timeout=60), -number)

    def wait_for(self, process, words):
        """Until its status says so; it must not end before."""
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while not re.search(words, status.read_text(), re.MULTILINE):
            self.assertIsNone(process.poll())

    def test_signals_that_were_blocked_leave_the_others_their_way(self):
        os.mkfifo(self.folder / "fifo")
        for blocked in signal.SIGUSR2, signal.SIGURG:
            self.end_while_it_waits(signal.SIGTERM, "check", "fifo", blocked=[blocked])

    def test_signals_that_are_none_of_the_programs_end_it(self):
        os.mkfifo(self.folder / "fifo")
        for number in signal.SIGUSR1, signal.SIGUSR2:
            self.end_while_it_waits(number, "check", "fifo")

    def test_a_signal_ends_a_sort_that_waits_for_a_fifo(self):
        os.mkfifo(self.folder / "fifo")
        self.gen("in", "-n", 100)
        for arguments in (("fifo", "-o", "out"), ("in", "-o", "fifo")):
            self.end_while_it_waits(signal.SIGTERM, "sort", *arguments, "--form", "records")
        self.assertEqual(self.names(), ["fifo", "in"])

    def test_a_signal_ends_gen_and_check_while_they_wait_for_a_fifo(self):
        os.mkfifo(self.folder / "fifo")
        for arguments in (("gen", "fifo", "-n", 100), ("check", "fifo")):
            self.end_while_it_waits(signal.SIGINT, *arguments)
        self.assertEqual(self.names(), ["fifo"])

    def test_a_signal_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.end_by(number)

    def end_by(self, number):
        reader = subprocess.Popen([PROGRAM, "sort", "-", "-o", self.folder / "y", "--record", "100",
                                   "--progress"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                                  preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
        # From its first word on it waits for input, with its signals in place.
        self.assertIn(b"reading", reader.stderr.readline())
        reader.send_signal(number)
        self.assertEqual(reader.wait(), -number)
        reader.stdin.close()
        reader.stderr.close()
        self.assertEqual(self.names(), [])


class FirstProcess(Program):
    """The first process of a container, which the kernel spares signals that it does not handle."""

    def end_first_process(self, *arguments, **options):
        contained = ["unshare", "--pid", "--fork"]
        if subprocess.run([*contained, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("no process namespace can be had: unshare --pid needs root")
        outside = subprocess.Popen(
            [*contained, PROGRAM, *arguments], cwd=self.folder, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL), **options)
        try:
            children = pathlib.Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
            inside = None
            while inside is None or not self.waits(inside):
                self.assertIsNone(outside.poll())
                inside = next(iter(children.read_text().split()), None)
            os.kill(int(inside), signal.SIGTERM)
            try:
                self.assertEqual(outside.wait(timeout=60), 128 + signal.SIGTERM)
            except subprocess.TimeoutExpired:
                os.kill(int(inside), signal.SIGKILL)
                self.fail(f"{arguments}: SIGTERM is ignored")
        finally:
            outside.wait()
            for pipe in (outside.stdin, outside.stdout):
                if pipe:
                    pipe.close()

    @staticmethod
    def waits(process):
        """With more threads than one, of which the first waits in the kernel."""
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        return (re.search(r"^Threads:\s+([3-9]|\d\d)", status, re.MULTILINE)
                and re.search(r"^State:\s+S", status, re.MULTILINE))

    def test_a_signal_ends_gen(self):
        self.end_first_process("gen", "-", "--bytes", "1G", stdout=subprocess.PIPE)

    def test_a_signal_ends_check(self):
        self.end_first_process("check", "-", stdin=subprocess.PIPE)

    def test_a_signal_ends_sort(self):
        self.end_first_process("sort", "-", "-o", "out", "--form", "records",
                               stdin=subprocess.PIPE)
        self.assertEqual(self.names(), [])


class Info(Program):
    def test_agrees_with_the_system(self):
        report = json.loads(self.run_vortex("info", "--json", self.folder).stdout)
        self.assertIn(os.uname().release, report["system"]["kernel"]["value"])
        self.assertEqual(report["processor"]["cores for this process"]["value"],
                         len(os.sched_getaffinity(0)))
        self.assertEqual(report["memory"]["machine"]["value"],
                         os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        self.assertEqual(report["pages"]["vm.max_map_count"]["value"],
                         pathlib.Path("/proc/sys/vm/max_map_count").read_text().strip())
        self.assertIn(report["disks"]["backend"]["value"], ("io_uring", "threads"))
        if report["disks"]["backend"]["value"] == "threads":
            self.assertTrue(report["disks"]["backend"]["note"])
        folder = report[f"folder {self.folder}"]
        self.assertTrue(folder["direct I/O"]["value"] or folder["direct I/O"]["note"])
        self.assertEqual(self.names(), [])

    def test_says_what_userfaultfd_lacks(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give its rights away")
        if pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd").read_text().strip() != "0":
            self.skipTest("this machine allows userfaultfd to everybody")

        def become_nobody():
            os.setgid(65534)
            os.setuid(65534)
        # Nobody can read a build below a home of root's.
        program = shutil.copy(PROGRAM, self.folder)
        self.folder.chmod(0o755)
        report = json.loads(self.run_verb(program, "info", "--json", "/dev/shm",
                                          limit=become_nobody).stdout)
        fact = report["pages"]["faults by userfaultfd"]
        self.assertFalse(fact["value"])
        for remedy in ("vm.unprivileged_userfaultfd=1", "/dev/userfaultfd", "CAP_SYS_PTRACE"):
            self.assertIn(remedy, fact["note"])

    def test_for_people(self):
        text = self.run_vortex("info").stdout.decode()
        for group in ("system", "processor", "memory", "pages", "disks", "folder ."):
            self.assertIn(f"\n{group}\n", "\n" + text)

    def test_errors(self):
        self.assertIn("missing", self.refusal("info", "missing"))


class CommandLine(Program):
    def test_help_names_what_there_is(self):
        text = self.run_vortex("--help").stdout.decode()
        for verb in ("gen", "sort", "check", "info"):
            self.assertIn(verb, text)
            self.assertIn("--json", self.run_vortex(verb, "--help").stdout.decode())
        self.assertTrue(self.run_vortex("--version").stdout.startswith(b"vortex "))

    def test_help_groups_what_is_for_lines(self):
        text = self.run_vortex("sort", "--help").stdout.decode()
        group = text.split("Lines (--lines) and CSV (--csv):\n")[1].split("\n\n")[0]
        for option in ("--lines", "--csv", "--header", "--field-separator", "--version-sort"):
            self.assertIn(option, group)
            self.assertEqual(text.count(f"{option} "), group.count(f"{option} "), option)
        for option in ("--form", "--memory", "--stable"):
            self.assertNotIn(f"{option} ", group)

    def test_names_reach_the_terminal_escaped(self):
        name = "a\nb\x1b[2J"
        shown = "a\\nb\\x1b[2J"
        for arguments in (("sort", name, "-o", "x", "--record", 8), ("check", name),
                          ("sort", "x", "-o", "x", "--form", name), ("gen", "x", name, "-n", 1),
                          ("gen", f"{name}/x", "-n", 1), ("gen", "x", "-n", name),
                          ("info", name), ("check", "--combine", name)):
            self.assertIn(shown, self.refusal(*arguments))
        self.put(name, b"20" * 50 + b"10" * 50)
        for arguments in ((), ("--json",)):
            done = self.run_vortex("check", name, *arguments, code=1)
            self.assertIn(f"record 2 of '{shown}'", done.stderr.decode())
            self.assertNotIn(b"\x1b", done.stdout + done.stderr)
        self.assertNotIn(b"\x1b", self.run_vortex("gen", name, "-n", 1).stdout)
        (self.folder / name).unlink()
        (self.folder / name).mkdir()
        self.assertIn(f"folder {shown}", self.run_vortex("info", name).stdout.decode())

    def test_errors(self):
        for arguments in ((), ("frobnicate",), ("gen",), ("check",), ("gen", "x", "--nonsense"),
                          ("gen", "x", "--seed", "y", "-n", "1")):
            self.assertTrue(self.refusal(*arguments))

    # Every option of every verb that takes a number.
    def test_numbers_that_do_not_fit_are_refused_in_a_short_line(self):
        self.put("in", bytes(64))
        sort = ("sort", "in", "-o", "out", "--record", "8")
        for verb, options in (
                (("gen", "out"), ("-n", "--records", "--bytes")),
                (("gen", "out", "-n", "1", "--form", "u64"), ("--seed", "--part", "--distinct")),
                (("check", "in"), ("--record",)),
                (("check", "in", "--record", "8"), ("--key",)),
                (("sort", "in", "-o", "out"), ("--record",)),
                (sort, ("-k", "-S", "--memory", "--block", "--request-cost", "--parallel", "--seed", "-T"))):
            for option in options:
                for number in ("-1", "99999999999999999999999", "18446744073709551616", "1e3", ""):
                    if option == "--part" and number:
                        number = f"1/{number}"
                    if option in ("-k", "--key") and number:
                        number = f"{number}:1"
                    if option == "-T":
                        number = f".:{number}"
                    line = self.refusal(*verb, f"{option}{'=' if option.startswith('--') else ''}{number}"
                                        if number else option, *(() if number else ("",)))
                    self.assertLess(len(line), 260, line)
        for option in ("--header", "--seed", "--parallel"):
            for number in ("-1", "99999999999999999999999", "18446744073709551616"):
                self.assertIn(f"{option} '{number}'",
                              self.refusal("sort", "in", "-o", "out", "--lines", option, number))
        self.assertLess(len(self.refusal(*sort, "--parallel", 0)), 100)
        self.assertIn("4096", self.refusal(*sort, "--parallel", 4294967295))
        # Numbers that fit and are more than there is.
        for arguments in (("gen", "out", "-n", 2**64 - 1, "--form", "u8"), ("gen", "out", "--bytes", 2**64 - 1),
                          ("gen", "-", "--bytes", 2**64 - 1), (*sort, "--block", 2**63), ("check", "in", "--record", 2**64 - 1),
                          ("sort", "in", "-o", ""), ("gen", "", "-n", 1), (*sort[:3], "", *sort[4:])):
            self.assertTrue(self.refusal(*arguments))
        self.run_vortex(*sort, "--seed", 2**64 - 1)
        self.run_vortex(*sort, "--request-cost", 2**64 - 1)
        self.run_vortex(*sort, "-S", 2**64 - 1)
        self.assertEqual(self.names(), ["in", "out"])

    def test_messages_that_cannot_be_told_are_errors(self):
        self.put("in", bytes(64))
        for arguments in (("sort", "in", "-o", "out", "--record", "8", "-v"), ("frobnicate",),
                          ("sort", "in", "-o", "out", "--lines", "-v")):
            with open("/dev/full", "wb") as full:
                done = self.run_program(PROGRAM, arguments, stderr=full, stdout=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 2, arguments)


if __name__ == "__main__":
    main()
