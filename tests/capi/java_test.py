#!/usr/bin/env python3
"""Java code that reads streams; its virtual machine handles SIGSEGV, from before or after a stream.

  java_test.py SOURCE_ROOT BUILD_ROOT SANITIZED

For every Java on this machine that a C program can start.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD_ROOT = pathlib.Path(sys.argv[2]).resolve()
SANITIZED = sys.argv[3] == "true"
SKIPPED = 77


def homes():
    found = {path.resolve().parents[1] for path in pathlib.Path("/usr/lib/jvm").glob("*/include/jni.h")}
    return sorted(home for home in found if (home / "lib/server/libjvm.so").exists())


def why_not():
    if SANITIZED:
        return "Java's signals are not for a sanitizer's runtime"
    if not homes():
        return "no Java with jni.h and libjvm.so below /usr/lib/jvm"
    if shutil.which("gcc") is None:
        return "the program that starts Java needs gcc"
    return None


class Java(unittest.TestCase):
    def run_host(self, order):
        for home in homes():
            with self.subTest(home=str(home)), tempfile.TemporaryDirectory() as folder:
                host = pathlib.Path(folder) / "host"
                subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", f"-I{SOURCE_ROOT}",
                                f"-I{SOURCE_ROOT / 'include'}", f"-I{home / 'include'}",
                                f"-I{home / 'include' / 'linux'}", SOURCE_ROOT / "tests/capi/java/host.c",
                                "-o", host, f"-L{BUILD_ROOT}", "-lvortex", f"-Wl,-rpath,{BUILD_ROOT}"],
                               check=True)
                result = subprocess.run([host, home / "lib/server/libjvm.so", order], text=True,
                                        cwd=folder, capture_output=True, timeout=120)
                self.assertEqual((result.returncode, result.stdout), (0, "done\n"), result.stderr)

    def test_before_the_first_stream(self):
        self.run_host("before")

    def test_after_it(self):
        self.run_host("after")


if __name__ == "__main__":
    if reason := why_not():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
