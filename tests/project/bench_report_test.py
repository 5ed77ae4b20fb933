#!/usr/bin/env python3
"""Checks bench/report against a file of Google Benchmark's form with known figures."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPORT = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "report"


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
            done = subprocess.run([sys.executable, REPORT, *arguments, file.with_suffix("")],
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


if __name__ == "__main__":
    unittest.main()
