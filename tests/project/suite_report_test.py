#!/usr/bin/env python3
"""Checks what `./dev test` prints and exits with against logs made by hand."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPORT = pathlib.Path(__file__).resolve().parent.parent / "suite_report.py"


class SuiteReport(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "meson-logs").mkdir()
        (self.folder / "meson-info").mkdir()
        self.output = self.folder / "output"
        self.output.write_text("what meson printed")
        self.totals = self.folder / "totals"
        self.totals.touch()
        self.runs = []

    def add_run(self, name, suite, result, cases=None, returncode=0, stdout="", stderr=""):
        """`cases` is the inside of GoogleTest's <testsuite>; None for a program without it."""
        self.runs.append((name, suite))
        with open(self.folder / "meson-logs" / "testlog.json", "a", encoding="utf-8") as file:
            entry = {"name": f"vortex:{suite} / {name}", "result": result, "duration": 1.25,
                     "returncode": returncode, "stdout": stdout, "stderr": stderr}
            file.write(json.dumps(entry) + "\n")
        if cases is not None:
            (self.folder / f"{name}.xml").write_text(
                f"<testsuites><testsuite>{cases}</testsuite></testsuites>")

    def report(self, *arguments):
        tests = [{"name": name, "suite": [f"vortex:{suite}"]} for name, suite in self.runs]
        (self.folder / "meson-info" / "intro-tests.json").write_text(json.dumps(tests))
        done = subprocess.run([sys.executable, REPORT, *arguments], stdout=subprocess.PIPE,
                              text=True, check=False)
        return done.returncode, done.stdout

    def suites(self):
        return self.report("suites", "gcc", self.folder, self.output, self.totals)

    def close(self):
        return self.report("close", self.totals)

    def test_cases_are_counted_by_suite_and_in_the_closing_line(self):
        good = '<testcase status="run" classname="A" name="x"/>'
        self.add_run("one", "vortex", "OK", good * 2)
        self.add_run("two", "vortex", "OK", good)
        self.add_run("three", "io", "OK", good)
        self.add_run("script", "project", "OK")
        status, text = self.suites()
        self.assertEqual(status, 0)
        self.assertRegex(text, r"(?m)^gcc +vortex +3 passed, 2\.5 s$")
        self.assertRegex(text, r"(?m)^gcc +io +1 passed, 1\.2 s$")
        self.assertEqual(self.close(), (0, "5 passed, 0 failed\n"))

    def test_a_failed_case_fails_all_and_prints_the_output(self):
        seed = "random seed: repeat with VORTEX_TEST_SEED=77 --gtest_filter=A."
        self.add_run("one", "vortex", "FAIL", returncode=1, stdout=f"something\n{seed}w\n{seed}x\n",
                     cases='<testcase status="run" classname="A" name="x"><failure>7 is not\n8</failure></testcase>')
        status, text = self.suites()
        self.assertEqual(status, 1)
        self.assertIn("something", text)
        self.assertEqual(self.close(), (1, f"failed  gcc: one, A.x\n        7 is not\n        8\n        {seed}x\n"
                                           "0 passed, 1 failed\n"))

    def test_a_failure_after_the_last_case_counts(self):
        self.add_run("leaky", "vortex", "FAIL", returncode=23,
                     cases='<testcase status="run" classname="A" name="x"/>')
        self.assertEqual(self.suites()[0], 1)
        self.assertEqual(self.close(), (1, "failed  gcc: leaky\n1 passed, 1 failed\n"))

    def test_a_crash_without_a_log_of_cases_counts(self):
        for number, result in enumerate(("FAIL", "TIMEOUT", "ERROR", "INTERRUPT")):
            self.add_run(f"program_{number}", "vortex", result, returncode=-11,
                         stdout=f"{'long ' * 100}\n\nthe end\n" * 10)
        self.assertEqual(self.suites()[0], 1)
        status, text = self.close()
        self.assertEqual(status, 1)
        self.assertRegex(text, r"(?s)^failed  gcc: program_0\n( {8}[^\n]{1,400}\n){12}failed  gcc: program_1\n")
        self.assertRegex(text, r" {8}the end\n0 passed, 4 failed\n$")

    def test_a_failure_far_from_the_end_of_what_was_printed_is_shown(self):
        """Of a program that an error of memory ended: the failed case, and where the error was found."""
        chatter = "talk of another case\n" * 1000
        seed = "random seed: repeat with VORTEX_TEST_SEED=5 --gtest_filter=A."
        stdout = (f"{chatter}[ RUN      ] A.good\n{seed}good\n[       OK ] A.good (3 ms)\n"
                  f"[ RUN      ] A.bad\n{seed}bad\n../tests/a.cc:12: Failure\nExpected equality\n  7\n  8\n"
                  f"a.cc:13: Failure\nand that\n[  FAILED  ] A.bad (1 ms)\n{chatter}")
        frames = "".join(f"    #{number} 0x1 in f{number} a.cc:{number}\n" for number in range(30))
        stderr = (f"{chatter}==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n"
                  f"READ of size 8 at 0x1 thread T0\n{frames}\nfreed by thread T0 here:\n{frames}\n"
                  f"SUMMARY: AddressSanitizer: heap-use-after-free a.cc:0 in f0\n" + "  0x0c: fa fa\n" * 500)
        self.add_run("crashed", "io", "FAIL", returncode=1, stdout=stdout, stderr=stderr)
        status, text = self.suites()
        self.assertEqual(status, 1)
        for line in ("a.cc:12: Failure", "a.cc:13: Failure", "    #0 0x1 in f0 a.cc:0", "SUMMARY: "):
            self.assertEqual(text.count(line), 1, line)
        failures = [f"[ RUN      ] A.bad\n{seed}bad\n../tests/a.cc:12: Failure\nExpected equality\n  7\n  8",
                    f"[ RUN      ] A.bad\n{seed}bad\na.cc:13: Failure\nand that",
                    "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n"
                    "READ of size 8 at 0x1 thread T0\n"
                    + "".join(frames.splitlines(keepends=True)[:9])
                    + "SUMMARY: AddressSanitizer: heap-use-after-free a.cc:0 in f0"]
        shown = "".join(f"        {line}\n" for line in "\n".join(failures).splitlines())
        self.assertEqual(self.close(), (1, f"failed  gcc: crashed\n{shown}0 passed, 1 failed\n"))

    def test_a_leak_behind_the_last_case_is_shown(self):
        stack = "    #0 0x1 in malloc\n    #1 0x2 in leak a.cc:3\n\n"
        self.add_run("leaky", "io", "FAIL", returncode=23, cases='<testcase status="run" classname="A" name="x"/>',
                     stdout="[ RUN      ] A.x\n[       OK ] A.x (0 ms)\n" + "the last words\n" * 50,
                     stderr=f"==9==ERROR: LeakSanitizer: detected memory leaks\n\nDirect leak of 8 byte(s):\n{stack}"
                            f"Indirect leak of 9 byte(s):\n{stack}SUMMARY: AddressSanitizer: 17 byte(s) leaked\n")
        self.suites()
        self.assertEqual(self.close()[1], "failed  gcc: leaky\n"
                         "        ==9==ERROR: LeakSanitizer: detected memory leaks\n        Direct leak of 8 byte(s):\n"
                         "            #0 0x1 in malloc\n            #1 0x2 in leak a.cc:3\n"
                         "        SUMMARY: AddressSanitizer: 17 byte(s) leaked\n1 passed, 1 failed\n")

    def test_the_errors_of_a_script_are_shown(self):
        rule, frame, shown_frame = "-" * 70, "  a frame\n", "          a frame\n"
        told = "".join(f"{'=' * 70}\nFAIL: test_{name} (__main__.T)\n{rule}\nTraceback (most recent call last):\n"
                       f"{frame * 40}AssertionError: {name}\n\n" for name in ("one", "two"))
        self.add_run("script", "cli", "FAIL", returncode=1, stderr=f"{told}{rule}\nRan 2 tests\n\nFAILED\n")
        self.suites()
        shown = "".join(f"        FAIL: test_{name} (__main__.T)\n{shown_frame * 10}        AssertionError: {name}\n"
                        for name in ("one", "two"))
        self.assertEqual(self.close()[1], f"failed  gcc: script\n{shown}0 passed, 1 failed\n")

    def test_a_broken_log_of_cases_counts_as_a_failure(self):
        self.add_run("torn", "vortex", "FAIL", returncode=-9)
        (self.folder / "torn.xml").write_text("<testsuites><testsu")
        self.assertEqual(self.suites()[0], 1)
        self.assertEqual(self.close(), (1, "failed  gcc: torn\n0 passed, 1 failed\n"))

    def test_skips_are_counted_and_their_reason_printed(self):
        self.add_run("one", "vortex", "OK", '<testcase status="run" classname="A" name="x"/>'
                     '<testcase status="run" classname="A" name="y">'
                     "<skipped>file:3\nthe kernel has no io_uring</skipped></testcase>")
        self.add_run("script", "project", "SKIP", stdout="no network here\n")
        status, text = self.suites()
        self.assertEqual(status, 0)
        self.assertIn("skipped A.y: the kernel has no io_uring", text)
        self.assertIn("skipped script: no network here", text)
        self.assertEqual(self.close(), (0, "1 passed, 0 failed, 2 skipped\n"))

    def test_skips_for_one_reason_share_a_line(self):
        skip = '<testcase status="run" classname="A" name="{}"><skipped>f\nwhy</skipped></testcase>'
        self.add_run("one", "io", "OK", "".join(skip.format(name) for name in "xyz"))
        self.assertIn("skipped A.x and 2 more: why\n", self.suites()[1])
        self.assertEqual(self.close(), (1, "0 passed, 0 failed, 3 skipped\n"))

    def test_a_run_without_tests_fails(self):
        status, text = self.suites()
        self.assertEqual(status, 1)
        self.assertIn("what meson printed", text)
        self.assertEqual(self.close(), (1, "0 passed, 1 failed\n"))

    def test_nothing_at_all_fails(self):
        self.assertEqual(self.close(), (1, "0 passed, 0 failed\n"))

    def test_named_tests_bring_what_they_depend_on(self):
        folder = self.folder.resolve()
        targets = [{"id": "tool@exe", "filename": [str(folder / "cli" / "tool")]},
                   {"id": "page@cus", "filename": [str(folder / "man" / "page")]}]
        tests = [{"name": "one", "cmd": [str(folder / "tests" / "one")], "depends": []},
                 {"name": "script", "cmd": ["/usr/bin/python3", "x.py"], "depends": ["tool@exe"]},
                 {"name": "other", "cmd": ["/usr/bin/python3", "y.py"], "depends": ["page@cus"]}]
        (self.folder / "meson-info" / "intro-targets.json").write_text(json.dumps(targets))
        (self.folder / "meson-info" / "intro-tests.json").write_text(json.dumps(tests))
        done = subprocess.run([sys.executable, REPORT, "programs", self.folder, "one", "script"],
                              stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout.splitlines(), ["cli/tool", "tests/one"])
        done = subprocess.run([sys.executable, REPORT, "programs", self.folder, "one", "skript"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no test skript;", done.stderr)

    def test_a_broken_build_fails(self):
        status, text = self.report("broken", "tsan", "build", "12", self.totals)
        self.assertEqual(status, 1)
        self.assertIn("tsan", text)
        self.assertEqual(self.close(), (1, "0 passed, 1 failed\n"))


if __name__ == "__main__":
    unittest.main()
