#!/usr/bin/env python3
"""Runs the folder that `./dev scaling` makes for other machines.

  scaling_test.py SOURCE_ROOT PROGRAM

The program is static. The script measures each kind of work with each number of threads, whatever fails,
keeps to its time, and leaves nothing but its results.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
PROGRAM = pathlib.Path(sys.argv[2]).resolve()
IN_MEMORY = {"copy", "read", "u64", "heavy_u64", "pairs", "heavy_pairs", "records_100", "records_300", "structs",
             "strings", "string_keys", "pipelines", "pipelines_moves"}
IN_TMPFS = {"external_u64", "external_pairs", "external_records_100", "lines_urls", "lines_random",
            "lines_words", "stream_write", "stream_read"}
# Stands in for the program where all but the script is of no interest: with a speed of the disk, and what it does
# for u64.
STAND_IN = """#!/usr/bin/env bash
case $1 in
  machine) echo '{"disk_copy_MiB_s": %d}' ;;
  chart) echo '<svg xmlns="http://www.w3.org/2000/svg"/>' ;;
  u64) %s ;;
  *) echo "{\\"name\\": \\"$1/$2\\", \\"run_type\\": \\"iteration\\", \\"real_time\\": 1, \\"time_unit\\": \\"s\\"}" ;;
esac
"""


class Scaling(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "disk").mkdir()
        shutil.copy(SOURCE_ROOT / "bench" / "scaling" / "run", self.folder)

    def run_script(self, *arguments, threads="1 2"):
        """What the script leaves, as JSON."""
        before = set(pathlib.Path("/dev/shm").iterdir())
        done = subprocess.run([self.folder / "run", "--small", "--disk", self.folder / "disk", "--results",
                               self.folder / "results", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env=dict(os.environ, SCALING_THREADS=threads, SECONDS="100"))
        self.assertEqual(done.returncode, 0, done.stdout)
        left = {path.name for path in set(pathlib.Path("/dev/shm").iterdir()) - before}
        self.assertEqual({name for name in left if name.startswith("scaling.")}, set())
        self.assertEqual(list((self.folder / "disk").iterdir()), [])
        self.assertEqual({path.name for path in (self.folder / "results").iterdir()},
                         {"scaling.json", "scaling.svg"})
        return json.loads((self.folder / "results" / "scaling.json").read_text())

    def stand_in(self, for_u64, speed=100):
        program = self.folder / "scaling"
        program.write_text(STAND_IN % (speed, for_u64))
        program.chmod(0o755)

    def test_the_program_is_static(self):
        headers = subprocess.run(["readelf", "--program-headers", PROGRAM], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        self.assertIn("LOAD", headers)
        self.assertNotIn("INTERP", headers)

    def test_each_kind_of_work_has_a_rate_for_each_number_of_threads(self):
        shutil.copy(PROGRAM, self.folder / "scaling")
        results = self.run_script()
        rows = results["benchmarks"]
        self.assertEqual([row for row in rows if "error_occurred" in row], [])
        self.assertTrue(all(row["bytes_per_second"] > 0 and row["real_time"] > 0 for row in rows), rows)
        found = {(row["name"].split("/")[0], row["name"].split("/")[1], row["threads"]) for row in rows}
        for threads in (1, 2):
            in_memory = {kind for kind, place, count in found
                         if count == threads and place not in ("tmpfs", "disk")}
            self.assertEqual(in_memory, {kind for kind in IN_MEMORY if threads > 1 or "pipelines" not in kind})
            self.assertEqual({kind for kind, place, count in found if count == threads and place == "tmpfs"},
                             IN_TMPFS)
            self.assertEqual({kind for kind, place, count in found if count == threads and place == "disk"},
                             {"external_u64", "external_records_100", "lines_urls"})
        in_memory = [row for row in rows if row["name"].startswith("lines_urls/tmpfs") and row["runs"] == 0]
        self.assertEqual([row["threads"] for row in in_memory], [1, 2])
        formed = {row["name"]: row["runs"] for row in rows if row["name"].startswith("external_")}
        self.assertTrue(formed and all(runs > 1 for runs in formed.values()), formed)
        self.assertIn(results["context"]["engine"], ("libsigsegv", "native", "userfaultfd"))
        self.assertIn("backend", results["context"])

        chart = xml.etree.ElementTree.parse(self.folder / "results" / "scaling.svg")
        names = {text.text for text in chart.iter("{http://www.w3.org/2000/svg}text")}
        self.assertLessEqual({row["name"].split("/threads:")[0] for row in rows}, names)

        table = subprocess.run([SOURCE_ROOT / "bench" / "report", "--pivot", "threads",
                                self.folder / "results" / "scaling.json"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("| GB/s at threads | 1 | 2 |\n", table)

    def model_of(self, kind, place):
        """Rows of [threads, disks, model, of processors, both measured, limits of both phases], and the bytes that
        pass the disks."""
        told = subprocess.run([PROGRAM, "model", kind, "--threads=2", "--mib=16", "--memory-mib=4",
                               f"--folder={self.folder}", f"--place={place}"],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in told.splitlines()
                if line.startswith("| ")]
        self.assertEqual(rows[0], ["threads", "disks, GB/s", "model, s", "of processors", "measured, s",
                                   "of processors", "limits: forming, merging"])
        of_one = told.split(" threads:\n")[1]
        mebibytes = sum(int(some) for some in re.findall(r" (\d+) MiB of transfers", of_one))
        return [[int(row[0]), row[1], float(row[2]), float(row[3]), row[4:6], row[6].split(", ")]
                for row in rows[1:]], mebibytes << 20

    def test_the_model_tells_what_limits_whom(self):
        rows, transfers = self.model_of("external_u64", "disk")
        expected = ([(1, "here"), (2, "here")] + [(2 << i, "any") for i in range(7)] +
                    [(threads, speed) for speed in ("2", "7", "14", "50") for threads in (2, 8, 32, 128)])
        self.assertEqual([(threads, disks) for threads, disks, *_ in rows], expected)
        for row in rows:
            self.assertTrue(all((float(measured or "nan") > 0) == (row[1] == "here") for measured in row[4]), rows)
        self.assertGreaterEqual(transfers, 2 * (16 << 20))  # the input and the output
        known = {"threads", "processors", "disks", "one thread", "moves of pages", "faults", "partition", "sort",
                 "pass on", "merge", "copy", "fault", "free"}
        any_disk = {threads: seconds for threads, disks, seconds, *_ in rows if disks == "any"}
        rounding = 0.011
        for threads, disks, seconds, of_processors, _, limits in rows:
            self.assertLessEqual(set(limits), known)
            self.assertGreaterEqual(seconds + rounding, of_processors / max(threads, os.cpu_count()))
            if disks not in ("any", "here"):
                self.assertGreaterEqual(seconds, any_disk[threads])
                self.assertGreaterEqual(seconds + rounding, transfers / float(disks) / 1e9)

        rows, _ = self.model_of("lines_urls", "tmpfs")
        self.assertEqual([(threads, disks) for threads, disks, *_ in rows], expected)
        self.assertLessEqual({limit for row in rows for limit in row[5]}, known | {"take", "reading", "writing"})

    def test_what_fails_is_named_and_the_rest_goes_on(self):
        self.stand_in("exit 3")
        rows = self.run_script()["benchmarks"]
        failed = {row["name"]: row["error_message"] for row in rows if "error_occurred" in row}
        self.assertEqual(failed, {"u64/threads:1": "exit code 3", "u64/threads:2": "exit code 3"})
        self.assertIn("records_300/--threads=2", {row["name"] for row in rows})

    def test_the_time_is_kept(self):
        self.stand_in("exec sleep 1000")
        rows = self.run_script("0.1")["benchmarks"]
        self.assertEqual(rows[-1], {"name": "u64/threads:1", "error_occurred": True,
                                    "error_message": "the time was up"})

    def test_a_disk_sorts_by_as_many_numbers_of_threads_as_there_is_time_for(self):
        for minutes, speed, by in (("10", 100, ["8", "1", "2", "4"]), ("3", 1, ["8", "1"])):
            self.stand_in("true", speed)
            rows = self.run_script(minutes, threads="1 2 4 8")["benchmarks"]
            of_disk = [row["name"] for row in rows][-5 * 4 - len(by):]  # five curves follow
            self.assertEqual(of_disk[:len(by)], [f"external_u64/--threads={count}" for count in by])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
