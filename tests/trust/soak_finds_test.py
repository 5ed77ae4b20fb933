#!/usr/bin/env python3
"""The soak finds defects that are planted, and cuts them down.

  soak_finds_test.py VORTEX VORTEX_SORT SOAK_LIBRARY

With the word `planted` in front, it is one of these programs with a defect in how its output appears.
"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from losing_disk import begin_with_own_mounts, losing_disks  # noqa: E402
from soak import Chance, Soak, Wrong  # noqa: E402

SEED = int(os.environ.get("VORTEX_TEST_SEED") or random.randrange(2**32))
ROUNDS = 60


def planted(defect, program, arguments):
    """Does what the program does, and has the output appear in another way."""
    if arguments[0] == "array":
        os.execv(program, [program, *arguments])
    began = time.monotonic()
    at = arguments.index("-o") + 1 if "-o" in arguments else 2 if arguments[0] != "gen" else len(arguments) - 1
    output = arguments[at]
    with tempfile.TemporaryDirectory() as folder:
        inner = [*arguments[:at], f"{folder}/out", *arguments[at + 1:]]
        subprocess.run([program, *inner], check=True)
        data = pathlib.Path(folder, "out").read_bytes()
    if defect == "torn":
        with open(output, "wb", buffering=0) as file:
            # A part for most of the time: whatever the machine is busy with, who is killed is killed here.
            ends = time.monotonic() + 2 * (time.monotonic() - began)
            while time.monotonic() < ends:
                os.pwrite(file.fileno(), data[:1], 0)
            os.pwrite(file.fileno(), data, 0)
    else:  # unsynced
        part = pathlib.Path(output).parent / f".{pathlib.Path(output).name}.0.part"
        part.write_bytes(data)
        part.rename(output)


def size(decisions):
    """Fewer decisions other than 0 are less, and then smaller ones."""
    return sum(number > 0 for number in decisions), sum(decisions)


class SoakFinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.disks = losing_disks()
        cls.caches = [disk for disk in cls.disks if disk.beneath]

    @classmethod
    def tearDownClass(cls):
        for disk in cls.disks:
            disk.close()

    def with_defect(self, defect, folder):
        """The programs, and those with the defect."""
        for name, program in zip(("vortex", "vortex-sort", "soak_library"), PROGRAMS):
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} {os.path.abspath(__file__)} planted {defect} '
                              f'{program} "$@"\n')
            script.chmod(0o700)
            yield str(script)

    def found(self, soak, disk):
        """What is wrong, and the decisions that it takes."""
        for number in range(ROUNDS):
            chance = Chance([disk], seed=f"{SEED} {number}")
            try:
                soak.one_round(chance)
            except Wrong as wrong:
                return str(wrong), chance.made
        self.fail(f"seed {SEED}: nothing was found")

    def test_an_output_that_is_torn(self):
        with tempfile.TemporaryDirectory() as folder:
            soak = Soak(list(self.with_defect("torn", pathlib.Path(folder))))
            soak.tries = 3
            wrong, made = self.found(soak, 0)
            self.assertIn("old or new", wrong)
            wrong, smallest = soak.cut_down(made, wrong)
            print(f"seed {SEED}: {made} became {smallest}: {wrong}")
            self.assertIn("old or new", wrong)
            self.assertLess(size(smallest), size(made))

    def test_an_output_that_is_not_synced(self):
        if not self.disks:
            self.skipTest("there is no disk that loses")
        with tempfile.TemporaryDirectory() as folder:
            soak = Soak(list(self.with_defect("unsynced", pathlib.Path(folder))), self.disks)
            self.assertIn("that loses", self.found(soak, 1)[0])

    def test_an_array_that_is_not_synced(self):
        if not self.disks:
            self.skipTest("there is no disk that loses")
        soak = Soak(PROGRAMS, self.disks)
        soak.forgetful = ["forgetful-buffered"]
        self.assertRegex(self.found(soak, 1)[0], "was flushed before|nobody wrote")

    def test_an_array_whose_disk_is_not_flushed(self):
        if not self.caches:
            self.skipTest("there is no disk with a cache that loses")
        soak = Soak(PROGRAMS, self.caches)
        soak.forgetful = ["forgetful-direct"]
        self.assertRegex(self.found(soak, 1)[0], "was flushed before|nobody wrote")


if __name__ == "__main__":
    if sys.argv[1] == "planted":
        planted(sys.argv[2], sys.argv[3], sys.argv[4:])
        sys.exit(0)
    begin_with_own_mounts()
    PROGRAMS = [os.path.abspath(program) for program in sys.argv[1:4]]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
