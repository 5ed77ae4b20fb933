#!/usr/bin/env python3
"""Checks bench/report and bench/trace_picture against files with known figures: Google Benchmark's and
Chrome's."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
REPORT = BENCH / "report"
# Debian's matplotlib belongs to Debian's Python, with which the scripts run, too.
HAS_MATPLOTLIB = subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], stderr=subprocess.DEVNULL,
                                check=False).returncode == 0
NEEDS_MATPLOTLIB = unittest.skipUnless(HAS_MATPLOTLIB, "no matplotlib (Debian: python3-matplotlib)")


def entry(name, nanoseconds, **fields):
    return {"name": name, "run_name": name, "run_type": "iteration", "real_time": nanoseconds,
            "time_unit": "ns", **fields}


def aggregate(name, kind, value, **fields):
    return {"name": f"{name}_{kind}", "run_name": name, "run_type": "aggregate",
            "aggregate_name": kind, "real_time": value, "time_unit": "ns", **fields}


class BenchReport(unittest.TestCase):
    def report(self, benchmarks, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "some.json"
            file.write_text(json.dumps({"context": {"num_cpus": 2}, "benchmarks": benchmarks}))
            done = subprocess.run([REPORT, *arguments, file.with_suffix("")],
                                  stdout=subprocess.PIPE, text=True, check=True)
        rows = [[cell.strip() for cell in line.strip("|").split("|")]
                for line in done.stdout.splitlines() if line.startswith("|")]
        return done.stdout, [dict(zip(rows[0], cells)) for cells in rows[2:]] if rows else []

    def test_rates_and_counters_are_columns(self):
        _, rows = self.report([entry("copy/64", 1500, bytes_per_second=12.5e9, peak_mib=3),
                               entry("sort/64", 2e9, items_per_second=220e6)])
        self.assertEqual(rows[0], {"benchmark": "`copy/64`", "time": "1.5 µs", "GB/s": "12.5",
                                   "M items/s": "", "peak_mib": "3"})
        self.assertEqual(rows[1], {"benchmark": "`sort/64`", "time": "2 s", "GB/s": "",
                                   "M items/s": "220", "peak_mib": ""})

    def test_a_ratio_is_taken_at_the_same_arguments(self):
        _, rows = self.report([entry("copy/64/real_time", 10, bytes_per_second=10e9),
                               entry("copy/128/real_time", 10, bytes_per_second=20e9),
                               entry("remap/64", 10, bytes_per_second=30e9),
                               entry("remap/128", 10, bytes_per_second=50e9)],
                              "--against", "copy")
        self.assertEqual([row["ratio"] for row in rows], ["1", "1", "3", "2.5"])

    def test_a_ratio_falls_back_to_the_benchmark_without_arguments(self):
        _, rows = self.report([entry("copy", 10), entry("remap/64", 5)], "--against", "copy")
        self.assertEqual([row["ratio"] for row in rows], ["1", "2"])

    def test_repetitions_become_their_median(self):
        _, rows = self.report([entry("a", 1), entry("a", 9), entry("a", 2)])
        self.assertEqual([row["time"] for row in rows], ["2 ns"])
        _, rows = self.report([aggregate("a", "mean", 5), aggregate("a", "median", 4),
                               aggregate("a", "cv", 0.125)])
        self.assertEqual([(row["time"], row["spread"]) for row in rows], [("4 ns", "12.5 %")])

    def test_rows_stand_in_the_order_of_their_definition(self):
        _, rows = self.report([entry("b", 1, family_index=1), entry("a/2", 1, family_index=0,
                               per_family_instance_index=1), entry("a/1", 1, family_index=0)])
        self.assertEqual([row["benchmark"] for row in rows], ["`a/1`", "`a/2`", "`b`"])

    def test_a_pivot_has_a_column_for_each_value(self):
        text, _ = self.report([entry("copy/block:128/huge:1", 1, bytes_per_second=3e9),
                               entry("copy/block:64/huge:1/real_time", 1, bytes_per_second=2e9),
                               entry("remap/block:64", 1, bytes_per_second=5e9),
                               entry("other", 1, bytes_per_second=1e9)], "--pivot", "block")
        self.assertIn("| GB/s at block | 64 | 128 |\n|---|--:|--:|\n"
                      "| `copy/huge:1` | 2 | 3 |\n| `remap` | 5 |  |\n", text)

    def test_a_failed_benchmark_is_named(self):
        text, rows = self.report([entry("a", 0, error_occurred=True, error_message="no memory")])
        self.assertIn("`a` failed: no memory", text)
        self.assertEqual(rows, [])


@NEEDS_MATPLOTLIB
class Page(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def page(self, name, benchmarks):
        file = self.folder / f"{name}.json"
        context = {"num_cpus": 2, "mhz_per_cpu": 3000, "date": "2026-11-22T18:24:27+00:00",
                   "caches": [{"type": "Data", "level": 1, "size": 49152}]}
        file.write_text(json.dumps({"context": context, "benchmarks": benchmarks}))
        file.with_suffix(".command").write_text(f"./dev bench {name} '--rounds=2'")
        subprocess.run([REPORT, "--page", self.folder / "page", file], check=True)
        svg = self.folder / "page" / f"{name}.svg"
        return ((self.folder / "page" / "index.md").read_text(encoding="utf-8"),
                svg.read_text(encoding="utf-8") if svg.is_file() else "")

    def test_ours_and_peers_stand_side_by_side_with_their_spread(self):
        text, svg = self.page("file_io", [
            entry("read/mmap/iterations:1/real_time", 1, bytes_per_second=1e9),
            entry("read/mmap/iterations:1/real_time", 1, bytes_per_second=3e9),
            entry("read/mmap/iterations:1/real_time", 1, bytes_per_second=2e9),
            aggregate("read/mmap/iterations:1/real_time", "median", 1, bytes_per_second=2e9),
            entry("read/vortex_best/iterations:1/real_time", 1, bytes_per_second=2.5e9),
            entry("write/mmap/iterations:1/real_time", 1, bytes_per_second=2e9),
            entry("write/vortex_best/iterations:1/real_time", 1, bytes_per_second=1.25e9)])
        for shown in ("mmap", "vortex_best", ">read<", ">write<", ">2.5<", ">2<", ">1.25<"):
            self.assertIn(shown, svg)
        # Two of the four bars are ours.
        self.assertEqual(svg.count("fill: #2f6ba6"), 2)
        self.assertEqual(svg.count("fill: #b9c2cc"), 2)
        self.assertIn("Reading and writing a file", text)
        self.assertIn("./dev bench file_io '--rounds=2'", text)
        self.assertIn("2026-11-22 18:24, 2 processors of 3000 MHz", text)
        self.assertIn("caches L1 48 KiB", text)
        self.assertIn("| `read/mmap` |", text)

    def test_losses_are_told(self):
        text, _ = self.page("file_io", [
            entry("read/mmap", 1, bytes_per_second=1e9), entry("read/vortex_best", 1, bytes_per_second=2e9),
            entry("write/mmap", 1, bytes_per_second=2e9), entry("write/fio", 1, bytes_per_second=3e9),
            entry("write/vortex_best", 1, bytes_per_second=2.5e9),
            entry("write/vortex_a", 1, bytes_per_second=1e9)])
        self.assertIn("**Where a peer is faster:** write: `fio` 3 GB/s, `vortex_best` 2.5.\n", text)

    def test_only_the_largest_size_is_drawn(self):
        _, svg = self.page("sort_inplace", [
            entry("std_sort/u64/uniform/10/manual_time", 1, items_per_second=51.7e6),
            entry("std_sort/u64/uniform/20/manual_time", 1, items_per_second=20e6),
            entry("vortex_sort/u64/uniform/20/manual_time", 1, items_per_second=200e6)])
        self.assertIn(">200<", svg)
        self.assertIn(">20<", svg)
        self.assertNotIn(">51.7<", svg)

    def test_a_cell_of_a_map_is_ours_over_the_best_peer(self):
        rates = {"vortex_sort/u64/uniform/10": 300, "vortex_sort_threads/u64/uniform/10": 200,
                 "highway/u64/uniform/10": 200, "std_sort/u64/uniform/10": 50, "tbb/u64/uniform/10": 250,
                 "vortex_sort/struct_16/uniform/20": 130, "vortex_into/struct_16/uniform/20": 260,
                 "std_sort/struct_16/uniform/20": 65, "vortex_sort/u64/equal/20": 7}
        text, _ = self.page("sort_inplace", [entry(f"{name}/manual_time", 1, items_per_second=rate)
                                             for name, rate in rates.items()])
        svg = (self.folder / "page" / "sort_inplace_map.svg").read_text(encoding="utf-8")
        self.assertIn("(sort_inplace_map.svg)", text)
        for shown in (">one thread: our", ">1.5<", ">2<", ">all threads: our", ">0.8<", ">u64, uniform<", ">2^20<"):
            self.assertIn(shown, svg)
        for left_out in (">1.2<", ">4<", ">7<", ">u64, equal<"):
            self.assertNotIn(left_out, svg)

    def test_a_failed_row_is_named(self):
        text, _ = self.page("file_io", [entry("read/fio", 0, error_occurred=True, error_message="no fio"),
                                        entry("read/mmap", 1, bytes_per_second=1e9)])
        self.assertIn("`read/fio` did not run: no fio", text)

    def test_every_benchmark_has_a_chart(self):
        patterns = (BENCH / "charts.py").read_text(encoding="utf-8")
        for source in BENCH.glob("*.cc"):
            self.assertIn(f'    "{source.stem}": (', patterns)


@NEEDS_MATPLOTLIB
class TracePicture(unittest.TestCase):
    def draw(self, text):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "trace.json"
            file.write_text(text)
            done = subprocess.run([BENCH / "trace_picture", file], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, check=False)
            svg = file.with_suffix(".svg")
            return done, svg.read_text(encoding="utf-8") if svg.is_file() else ""

    def test_threads_and_disks_have_lanes(self):
        def thread(what, begin, duration, number):
            return {"ph": "X", "name": what, "pid": 1, "tid": number, "ts": begin, "dur": duration}

        def request(phase, at, number):
            return {"ph": phase, "name": "read", "pid": 3, "tid": 3, "ts": at, "cat": "disk", "id": number}

        done, svg = self.draw(json.dumps({"traceEvents": [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "the sorter"}},
            {"ph": "M", "name": "process_name", "pid": 3, "tid": 3, "args": {"name": "the disk"}},
            thread("partition", 0, 5e5, 1), thread("wait", 1e5, 2e5, 1), thread("merge", 0, 1e6, 2),
            request("b", 0, 1), request("b", 10, 2), request("e", 5e5, 1), request("e", 6e5, 2)]}))
        self.assertEqual(done.returncode, 0, done.stderr)
        for shown in ("the sorter", "1.2", "the disk", "partition", "wait", "merge",
                      "read requests under way", "seconds"):
            self.assertIn(f"<!-- {shown} -->", svg)

    def test_what_is_no_trace_is_refused(self):
        for text in ("", "[1]", '{"benchmarks": []}', '{"traceEvents": []}'):
            done, svg = self.draw(text)
            self.assertEqual((done.returncode, svg), (1, ""), text)
            self.assertIn("trace.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
