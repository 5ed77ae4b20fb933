#!/usr/bin/env python3
"""Goroutines that touch streams, in a Go program and in a library that a C program loads.

  go_test.py SOURCE_ROOT BUILD_ROOT SANITIZED

Go starts goroutines on stacks of some kilobytes, moves them, and handles SIGSEGV itself: by handlers from
before ours in a program of its own, from after ours in a library. Skipped where there is no Go with cgo.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD_ROOT = pathlib.Path(sys.argv[2]).resolve()
SANITIZED = sys.argv[3] == "true"
GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
SOURCES = SOURCE_ROOT / "tests" / "capi" / "go"
SKIPPED = 77


def environment(**more):
    include = f"-I{SOURCE_ROOT / 'include'}"
    # Compiled parts of Go's library stay in the build folder.
    return {**os.environ, "CGO_ENABLED": "1", "CGO_CFLAGS": f"{include} -O1",
            "CGO_LDFLAGS": f"-L{BUILD_ROOT} -lvortex -Wl,-rpath,{BUILD_ROOT}",
            "GOCACHE": str(BUILD_ROOT / "go-cache"), "GOPROXY": "off", "GOTOOLCHAIN": "local",
            "GOFLAGS": "-mod=mod", **more}


def why_not():
    if GO is None:
        return "Go is not installed"
    if SANITIZED:
        return "a Go program has no sanitizer's runtime"
    if shutil.which("gcc") is None:
        return "cgo needs gcc"
    return None


class Go(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        subprocess.run([GO, "build", "-o", cls.folder / "program", "./program"], cwd=SOURCES,
                       env=environment(), check=True)

    def run_case(self, case, **more):
        return subprocess.run([self.folder / "program", case], env=environment(**more), text=True,
                              capture_output=True, timeout=120)

    def expect_done(self, case, **more):
        result = self.run_case(case, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.splitlines()[-1], "done")

    def test_goroutines_read_streams(self):
        for engine in ("signal", "native"):
            self.expect_done("read", VORTEX_ENGINE=engine)

    def test_goroutines_read_streams_under_userfaultfd(self):
        result = self.run_case("recover", VORTEX_ENGINE="userfaultfd")
        if "a stream was made" in result.stderr:
            self.skipTest("no userfaultfd here")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_done("read", VORTEX_ENGINE="userfaultfd")

    def test_nil_pointers_are_recovered_from(self):
        self.expect_done("recover")

    def test_an_error_of_a_stream_is_a_panic(self):
        self.expect_done("broken")

    def test_go_begins_to_handle_the_signal_later(self):
        self.expect_done("notify")

    def test_a_crash_is_reported_by_go(self):
        result = self.run_case("crash")
        self.assertEqual(result.returncode, 2)
        self.assertIn("invalid memory address or nil pointer dereference", result.stderr)
        self.assertIn("main.main", result.stderr)

    def test_a_library_in_go(self):
        library = self.folder / "libplugin.so"
        subprocess.run([GO, "build", "-buildmode=c-shared", "-o", library, "./plugin"], cwd=SOURCES,
                       env=environment(), check=True)
        subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", f"-I{SOURCE_ROOT}",
                        f"-I{SOURCE_ROOT / 'include'}", SOURCES / "host.c", "-o", self.folder / "host",
                        f"-L{BUILD_ROOT}", "-lvortex", f"-Wl,-rpath,{BUILD_ROOT}"], check=True)
        result = subprocess.run([self.folder / "host", library], text=True, capture_output=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "done\n")


if __name__ == "__main__":
    if reason := why_not():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
