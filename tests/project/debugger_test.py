#!/usr/bin/env python3
"""Types into gdb what the documents say.

  debugger_test.py SOURCE_ROOT BUILD_ROOT

docs/limits.md and vortex(7) give the same commands. With them, gdb runs a program through its faults
without a stop, and stops at the error of a stream, below whose handler the backtrace shows the access;
also where the library was stripped of what it does not export, as a distribution does.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD_ROOT = pathlib.Path(sys.argv[2]).resolve()
SKIPPED = 77
# The first 20 blocks can be read.
PROGRAM = """
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <vortex/c.h>

static int64_t fill(void* context, void* block, size_t bytes, uint64_t offset) {
  (void)context;
  memset(block, 1, bytes);
  return offset < 20 * bytes ? (int64_t)bytes : -EDOM;
}

int main(int count, char** arguments) {
  (void)arguments;
  const vtx_stream_options options = {.block_bytes = 16 << 10};
  vtx_input* in;
  if (vtx_input_from_callback(fill, NULL, &options, &in) != 0) return 1;
  const char* const data = vtx_input_data(in);
  long sum = 0;
  for (long i = 0; i < (count > 1 ? 21 : 20) * (16 << 10); ++i) sum += data[i];
  printf("the sum is %ld\\n", sum);
  vtx_input_close(in);
  return 0;
}
"""


def snippets():
    text = (SOURCE_ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    return re.findall(r"^```gdb\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


class Debugger(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.folder / "program.c").write_text(PROGRAM)
        for name in ("vortex", "vortex-streams", "vortex-arrays"):
            library = (BUILD_ROOT / f"lib{name}.so").resolve()
            subprocess.run(["strip", "-o", cls.folder / f"lib{name}.so.0.1", library], check=True)
        subprocess.run(["gcc", "-g", "-O1", f"-I{SOURCE_ROOT / 'include'}", "program.c", "libvortex.so.0.1",
                        "-Wl,--allow-shlib-undefined", "-o", "program"], cwd=cls.folder, check=True)

    def gdb(self, *arguments):
        commands = [line for snippet in snippets() for line in snippet.splitlines()] + ["run", "backtrace"]
        done = subprocess.run(
            ["gdb", "-nx", "-batch", *(word for command in commands for word in ("-ex", command)),
             "--args", "./program", *arguments],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env=dict(os.environ, LD_LIBRARY_PATH=str(self.folder)))
        return done.stdout

    def test_manual_says_the_same(self):
        manual = (SOURCE_ROOT / "man" / "vortex.7.scd").read_text(encoding="utf-8")
        commands = [line for snippet in snippets() for line in snippet.splitlines()]
        self.assertGreater(len(commands), 1)
        for command in commands:
            self.assertIn(f"\n\t{command}\n", manual)

    def test_faults_do_not_stop_a_program(self):
        said = self.gdb()
        self.assertIn(f"the sum is {20 * (16 << 10)}", said)
        self.assertIn("exited normally", said)

    def test_the_error_of_a_stream_stops_it_where_the_access_is_seen(self):
        said = self.gdb("further")
        self.assertRegex(said, r"Breakpoint 1(\.1)?, 0x\w+ in vortex::v0::write_line")
        below = said.split("<signal handler called>")[1]
        self.assertRegex(below, r"^\s*#\d+\s+(0x\w+ in )?main ")


if __name__ == "__main__":
    missing = [tool for tool in ("gdb", "strip") if not shutil.which(tool)]
    if missing:
        print(f"without {', '.join(missing)} nothing can be debugged (./dev setup installs it)")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
