#!/usr/bin/env python3
"""Runs `./dev` with a meson and a ninja that only say what a real one would.

  dev_test.py SOURCE_ROOT

Whatever keeps a test from being run makes it fail: a name that no test has, and a `meson test` that
ends before all have run. What is measured is optimised.
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

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
MESON = """
echo "$*" >>meson.calls
if [[ $1 == setup ]]; then
  mkdir -p build/meson-info build/meson-logs
  touch build/build.ninja
  echo "$TESTS" >build/meson-info/intro-tests.json
  echo '[]' >build/meson-info/intro-targets.json
else
  echo "$RUN" >build/meson-logs/testlog.json
  echo 'meson ends here'
  exit "$STATUS"
fi
"""
# Without a package for Python.
NINJA = 'if [[ $* == *query* ]]; then exit 1; fi; echo "built: $*"'


class Dev(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        for name in ("dev", "tests/suite_report.py"):
            (self.folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(SOURCE_ROOT / name, self.folder / name)
        (self.folder / "bin").mkdir()
        for name, script in {"meson": MESON, "ninja": NINJA, "dpkg-query": "echo installed"}.items():
            (self.folder / "bin" / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
            (self.folder / "bin" / name).chmod(0o755)

    def run_tests(self, *names, status):
        """`./dev test NAME...` where the test `one` is good, and meson ends with a status."""
        tests = [{"name": "one", "suite": ["vortex:io"], "cmd": [f"{self.folder}/build/one"], "depends": []}]
        run = {"name": "vortex:io / one", "result": "OK", "duration": 1, "returncode": 0}
        return self.run_dev("test", *names, TESTS=json.dumps(tests), RUN=json.dumps(run), STATUS=str(status))

    def run_dev(self, *arguments, **variables):
        environment = dict(os.environ, PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}", **variables)
        done = subprocess.run([self.folder / "dev", *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=environment, check=False)
        return done.returncode, done.stdout

    def test_good_tests_are_good(self):
        for names in ((), ("one",)):
            status, text = self.run_tests(*names, status=0)
            self.assertEqual(status, 0, text)
            self.assertRegex(text, r"(?m)^1 passed, 0 failed$")

    def test_a_meson_that_dies_is_a_failure(self):
        status, text = self.run_tests(status=137)
        self.assertEqual(status, 1, text)
        self.assertIn("meson ends here", text)
        self.assertIn("meson test (status 137)", text)
        self.assertRegex(text, r"(?m)^1 passed, 1 failed$")

    def test_a_name_that_no_test_has_is_a_failure(self):
        status, text = self.run_tests("one", "tow", status=0)
        self.assertEqual(status, 1, text)
        self.assertIn("no test tow;", text)
        self.assertRegex(text, r"(?m)^0 passed, 1 failed$")

    def test_those_for_other_machines_are_tests(self):
        known = {path.stem for path in SOURCE_ROOT.glob("tests/*/*_test.cc")}
        for names in "kAarch64Tests", "kDebianKernelTests":
            named = re.search(names + r"=\((.*?)\)", (SOURCE_ROOT / "dev").read_text(encoding="utf-8"), re.DOTALL)[1]
            self.assertEqual(set(named.split()) - known, set())

    def test_what_is_measured_is_optimised(self):
        for verb in (["scaling"], ["bench", "none"], ["bench", "python"], ["bench", "ray"]):
            self.run_dev(*verb, TESTS="[]")
            with open(self.folder / "build/.dev-parts", "a", encoding="utf-8") as parts:
                parts.write("light_benchmarks\n")  # as `test --all` leaves it
            (self.folder / "meson.calls").unlink()
            self.run_dev(*verb, TESTS="[]")
            calls = (self.folder / "meson.calls").read_text(encoding="utf-8").splitlines()
            self.assertIn("setup --reconfigure build -Dlight_benchmarks=false", calls, verb)

    def test_a_package_for_python_that_cannot_be_built_says_why(self):
        (self.folder / "python").mkdir()
        (self.folder / "python/environment.py").write_text('raise SystemExit("is the network there?")')
        status, text = self.run_dev("bench", "python", TESTS="[]")
        self.assertEqual(status, 1, text)
        self.assertIn("is the network there?", text)
        self.assertNotIn("built:", text)

    def test_soak_installs_what_it_uses_and_names_its_commit(self):
        (self.folder / "tests/trust").mkdir()
        (self.folder / "tests/trust/soak.py").write_text('print("seed: 7")')
        asked = 'for name; do :; done; echo "$name" >>packages.asked; echo installed'
        (self.folder / "bin/dpkg-query").write_text(f"#!/usr/bin/env bash\n{asked}\n")

        def git(*words):
            return subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words],
                                  cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.assertIn("commit: none\n", self.run_dev("soak", "1", TESTS="[]")[1])
        git("init", "-q")
        git("add", "dev")
        git("commit", "-q", "--message=one")
        for changes in ("", ", with changes"):
            status, text = self.run_dev("soak", "1", TESTS="[]")
            self.assertEqual(status, 0, text)
            self.assertTrue(text.endswith(f"commit: {git('rev-parse', '--short', 'HEAD')}{changes}\nseed: 7\n"), text)
            with open(self.folder / "dev", "a", encoding="utf-8") as script:
                script.write("# changed\n")
        asked = (self.folder / "packages.asked").read_text(encoding="utf-8").split()
        self.assertLessEqual({"strace", "xfsprogs"}, set(asked))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
