#!/usr/bin/env python3
"""Runs the demo with programs that are quick, or that fail, in place of the examples.

  demo_test.py SOURCE_ROOT

The demo ends with a chart of what the programs said, in colour on terminals alone and never against
NO_COLOR. Whatever fails, the demo says what to do, and leaves nothing in $TMPDIR.
"""

import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
CHART = SOURCE_ROOT / "examples" / "demo_chart"
# What the programs of the demo print, as far as the chart looks at it.
PROGRAMS = {
    "examples/find_text": "echo 'found at offset 10737418240 after 2.50 s (4.29 GB/s), 5120 page faults'\n"
                          "echo 'peak memory 8.0 MiB, page tables 0.05 MiB'",
    "examples/jump_sum": "echo 'sum over 1 TiB in 45811 jumps: 12 (right), 0.75 s'\n"
                         "echo 'peak memory 4.0 MiB, page tables 0.05 MiB'",
    "examples/copy_file": 'cp "$1" "$2"',
    "examples/count_lines": 'wc <"$1"',
    "examples/search_file": 'grep -F "$1" "$2"',
    "examples/sort_lines": 'fold -b -w 80 "$1" | LC_ALL=C sort',
    "cli/vortex-sort": 'LC_ALL=C sort "$@"',
    "cli/vortex": 'if [[ $1 == sort ]]; then\n'
                  '  printf \'{\\n  "seconds": 5.25,\\n  "peak_resident_bytes": 260046848\\n}\\n\'\nfi',
}


class Demo(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "tmp").mkdir()
        for name, script in PROGRAMS.items():
            self.program(f"build/{name}", script)
        self.program("bin/find", "echo '#define HEADER'")  # instead of all of the system's headers

    def program(self, name, script):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/usr/bin/env bash\n{script}\n")
        file.chmod(0o755)

    def demo(self, **changes):
        environment = dict(os.environ, TMPDIR=str(self.folder / "tmp"),
                           PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}", **changes)
        done = subprocess.run([SOURCE_ROOT / "examples" / "demo", self.folder / "build"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                              check=False)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        return done

    def test_it_ends_with_a_chart(self):
        done = self.demo()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        *chart, scale, meaning = done.stdout.splitlines()[-8:]
        self.assertRegex(chart[0], r"^text searched +10 GiB █+ 2\.5 s$")
        self.assertRegex(chart[1], r"^  in memory of +8 MiB █+$")
        self.assertRegex(chart[2], r"^array, in jumps +1 TiB █+ 0\.75 s$")
        self.assertRegex(chart[3], r"^  in memory of +4 MiB █+$")
        self.assertRegex(chart[4], r"^records sorted +2 GiB █+ 5\.2 s$")
        self.assertRegex(chart[5], r"^  in memory of +248 MiB █+$")
        # Equal steps are equal factors: from 4 MiB to 8 MiB as from 1 GiB to 2 GiB.
        bars = [line.count("█") for line in chart]
        self.assertGreater(bars[2], bars[0])
        self.assertEqual(sorted(bars, reverse=True), [bars[i] for i in (2, 0, 4, 5, 1, 3)])
        # The scale begins where the bars do; 2 GiB end behind its mark of 1 GiB, 248 MiB before it.
        begin = chart[0].index("█")
        self.assertEqual(scale.index("|256 KiB"), begin)
        gibibyte = scale.index("|1 GiB") - begin
        self.assertTrue(bars[5] <= gibibyte < bars[4], (bars, gibibyte))
        self.assertIn("each | is 64 times the one before", meaning)

    def test_whatever_fails_says_what_to_do(self):
        for name in PROGRAMS:
            script = self.folder / "build" / name
            good = script.read_text()
            self.program(f"build/{name}", f"echo '{name}: it is broken' >&2; exit 1")
            done = self.demo()
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(f"{name}: it is broken", done.stderr)
            self.assertIn("demo: stopped at: ", done.stderr)
            self.assertRegex(done.stderr, r"demo: what to do: .{20}")
            self.program(f"build/{name}", good.split("\n", 1)[1])

    def test_a_wrong_result_says_what_to_do(self):
        self.program("build/examples/copy_file", 'echo wrong >"$2"')
        done = self.demo()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("demo: what to do: ", done.stderr)

    def test_a_small_disk_is_noticed_before_anything_runs(self):
        self.program("bin/df", "printf 'Avail\\n  3\\n'")
        done = self.demo()
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("text searched", done.stdout)
        self.assertIn("has 3 GiB, the demo takes 6", done.stderr)
        self.assertIn("TMPDIR=/a/folder ./dev demo", done.stderr)

    def test_a_folder_that_is_not_there_says_what_to_do(self):
        done = subprocess.run([SOURCE_ROOT / "examples" / "demo", self.folder / "build"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, TMPDIR="/nonexistent"), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("demo: what to do: name a folder", done.stderr)


class Chart(unittest.TestCase):
    def setUp(self):
        self.file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "done"
        self.file.write_text("text searched\t10737418240\t8388608\t2.5\n")

    def on_terminal(self, **variables):
        environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
        main, other = pty.openpty()
        done = subprocess.run([CHART, self.file], stdout=other, env=dict(environment, **variables),
                              check=True)
        self.assertEqual(done.returncode, 0)
        os.close(other)
        text = b""
        try:
            while piece := os.read(main, 1 << 16):
                text += piece
        except OSError:
            pass  # a terminal whose other end is closed
        os.close(main)
        return text.decode()

    def test_colour_on_terminals_alone(self):
        self.assertIn("\033[34m█", self.on_terminal(TERM="xterm"))
        self.assertNotIn("\033", self.on_terminal(TERM="xterm", NO_COLOR="1"))
        self.assertNotIn("\033", self.on_terminal(TERM="dumb"))
        piped = subprocess.run([CHART, self.file], stdout=subprocess.PIPE, text=True, check=True,
                               env=dict(os.environ, TERM="xterm"))
        self.assertNotIn("\033", piped.stdout)

    def test_plain_characters_where_the_locale_has_no_blocks(self):
        done = subprocess.run([CHART, self.file], stdout=subprocess.PIPE, text=True, check=True,
                              env=dict(os.environ, PYTHONIOENCODING="ascii"))
        self.assertRegex(done.stdout.splitlines()[0], r"10 GiB #+ 2\.5 s$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
