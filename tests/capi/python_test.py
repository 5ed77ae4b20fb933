#!/usr/bin/env python3
"""Python's faulthandler, which handles SIGSEGV on a signal stack of its own, enabled before and after a
stream was made, and Python functions as callbacks.

  python_test.py SOURCE_ROOT BUILD_ROOT SANITIZED
"""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

BUILD_ROOT = pathlib.Path(sys.argv[2]).resolve()
SANITIZED = sys.argv[3] == "true"
SKIPPED = 77

BEGINNING = """
import ctypes, faulthandler, sys
library = ctypes.CDLL({library!r})
Fill = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64)
library.vtx_input_data.restype = ctypes.c_void_p
BLOCK = 16 << 10

class Options(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("pool", ctypes.c_void_p), ("block_bytes", ctypes.c_size_t),
                ("comeback_blocks", ctypes.c_size_t), ("stale_blocks", ctypes.c_size_t),
                ("length_bytes", ctypes.c_uint64), ("reserve_bytes", ctypes.c_uint64),
                ("least_reserve_bytes", ctypes.c_uint64), ("unspecified_gaps", ctypes.c_int)]

def sum_of(text):
    return sum(text) if text else 0

@Fill
def fill(context, block, size, offset):
    # Work for the interpreter, which has a stack of its own to look after.
    number = sum_of([offset // size + 1]) % 256
    ctypes.memset(block, number, size)
    return size

def read(blocks=32):
    options = Options(block_bytes=BLOCK)
    stream = ctypes.c_void_p()
    assert library.vtx_input_from_callback(fill, None, ctypes.byref(options), ctypes.byref(stream)) == 0
    data = library.vtx_input_data(stream)
    for block in range(blocks):
        text = ctypes.string_at(data + block * BLOCK, 8)
        assert text == bytes([block + 1]) * 8, (block, text)
    library.vtx_input_close(stream)
"""


def run(program, **more):
    text = BEGINNING.format(library=str(BUILD_ROOT / "libvortex.so")) + program
    return subprocess.run([sys.executable, "-c", text],
                          env={**os.environ, **more}, text=True, capture_output=True, timeout=120)


class Python(unittest.TestCase):
    def expect_done(self, program, **more):
        result = run(program + "\nprint('done')\n", **more)
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"), result.stderr)
        return result.stderr

    def test_enabled_before(self):
        for engine in ("signal", "native"):
            stderr = self.expect_done("faulthandler.enable()\nread()\nread()", VORTEX_ENGINE=engine)
            self.assertEqual(stderr, "")

    def test_enabled_after_and_reclaimed(self):
        stderr = self.expect_done("read()\nfaulthandler.enable()\n"
                                  "assert library.vtx_reclaim_faults() == 0\nread()\nread()")
        self.assertEqual(stderr, "")

    def test_enabled_after_is_warned_of(self):
        result = run("read()\nfaulthandler.enable()\nread()\n")
        self.assertIn("SIGSEGV is handled by", result.stderr)
        self.assertIn("vtx_reclaim_faults()", result.stderr)
        self.assertEqual(result.returncode, -signal.SIGSEGV)

    def test_a_crash_is_reported_by_python(self):
        for program in ("faulthandler.enable()\nread()\n",
                        "read()\nfaulthandler.enable()\nlibrary.vtx_reclaim_faults()\nread()\n"):
            result = run(program + "ctypes.string_at(8)\n")
            self.assertEqual(result.returncode, -signal.SIGSEGV)
            self.assertIn("Fatal Python error: Segmentation fault", result.stderr)
            self.assertIn("string_at", result.stderr)

    def test_an_exhausted_stack_is_reported_by_python(self):
        result = run("faulthandler.enable()\nread()\nfaulthandler._stack_overflow()\n")
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.assertIn("Fatal Python error: Segmentation fault", result.stderr)


if __name__ == "__main__":
    if SANITIZED:
        print("skipped: this Python has no sanitizer's runtime")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
