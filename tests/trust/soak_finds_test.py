#!/usr/bin/env python3
"""The soak finds defects that are planted, and cuts them down.

  soak_finds_test.py VORTEX VORTEX_SORT SOAK_LIBRARY

With the word `planted` in front, it is one of these programs with a defect in how its output appears.
"""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import signal
import random
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from losing_disk import begin_with_own_mounts, losing_disks  # noqa: E402
from random_job import Job, Wrong  # noqa: E402
from soak import STRACE, Chance, Soak  # noqa: E402
from soak_state import check_state  # noqa: E402

SEED = int(os.environ.get("VORTEX_TEST_SEED") or random.randrange(2**32))
ROUNDS = 60
SOAK = pathlib.Path(__file__).resolve().parent / "soak.py"
TO_FILES = [kind for kind in Job.KINDS if kind != "piped"]


def made_by(program, arguments, at, cache):
    """The outputs, by what is behind the name at this place; the first time the program makes them."""
    made = cache / hashlib.sha256(repr(arguments).encode()).hexdigest()
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            os.mkdir(f"{folder}/made")
            subprocess.run([program, *arguments[:at], f"{folder}/made/out", *arguments[at + 1:]], check=True)
            os.rename(f"{folder}/made", made)
    return {path.name[len("out"):]: path.read_bytes() for path in sorted(made.iterdir())}


def write_torn(output, data):
    with open(output, "wb", buffering=0) as file:
        # A part for most of the time: whatever the machine is busy with, who is killed is killed here.
        ends = time.monotonic() + 0.3
        while time.monotonic() < ends:
            os.pwrite(file.fileno(), data[:1], 0)
        os.pwrite(file.fileno(), data, 0)


def write_unsynced(output, data, late=False):
    """Its name comes first; late, its data is synced after that."""
    part = output.parent / f".{output.name}.0.part"
    part.write_bytes(data)
    part.rename(output)
    for path in [output.parent, output] if late else []:
        opened = os.open(path, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)


def leave_runs(program, arguments):
    """What a run is in stays when nobody reads the output."""
    run = pathlib.Path(arguments[arguments.index("-T") + 1], "run")
    run.touch()
    status = subprocess.run([program, *arguments], check=False).returncode
    if status != -signal.SIGPIPE:
        run.unlink()
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)  # Python ignores SIGPIPE
        os.kill(os.getpid(), -status)
    sys.exit(status)


def planted(defect, cache, program, arguments):
    """Does what the program does, and has the output appear in another way."""
    if arguments[0] == "array":
        os.execv(program, [program, *arguments])
    if defect == "waiting":
        signal.pause()
    if defect == "untidy":
        leave_runs(program, arguments)
    at = arguments.index("-o") + 1 if "-o" in arguments else 2 if arguments[0] != "gen" else len(arguments) - 1
    write = {"torn": write_torn, "unsynced": write_unsynced, "late": functools.partial(write_unsynced, late=True),
             "exchanged": pathlib.Path.write_bytes}
    made = made_by(program, arguments, at, cache)
    if defect == "exchanged":
        made = dict(zip(made, reversed(made.values())))
    for suffix, data in made.items():
        write[defect](pathlib.Path(arguments[at] + suffix), data)


def size(decisions):
    """Fewer decisions other than 0 are less, and then smaller ones."""
    return sum(number > 0 for number in decisions), sum(decisions)


class AtCalls(Soak):
    """One that stops jobs at their beginning or at calls, and arrays at calls alone."""

    def whole_job(self, job):
        super().whole_job(job)
        return 0

    def array_at_call(self, _):
        return True


class SoakFinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.disks = losing_disks()
        cls.caches = [disk for disk in cls.disks if disk.beneath]

    @classmethod
    def tearDownClass(cls):
        for disk in cls.disks:
            disk.close()

    def with_defect(self, defect):
        """The programs, and those with the defect."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, program in zip(("vortex", "vortex-sort", "soak_library"), PROGRAMS):
            script = pathlib.Path(folder.name) / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} {os.path.abspath(__file__)} planted {defect} '
                              f'{folder.name} {program} "$@"\n')
            script.chmod(0o700)
            yield str(script)

    def found(self, soak, disk, kinds, cut=False):
        """What is wrong with a job of these kinds; cut down, or not."""
        with mock.patch.object(Job, "KINDS", kinds):
            for number in range(ROUNDS):
                chance = Chance([disk], seed=f"{SEED} {number}")
                try:
                    soak.one_round(chance)
                except Wrong as wrong:
                    if not cut:
                        return str(wrong)
                    smaller = self.cut_down(soak, str(wrong), chance.made)
                    if smaller:
                        return smaller
        return self.fail(f"seed {SEED}: nothing was found" + (" that could be cut down" if cut else ""))

    def cut_down(self, soak, wrong, made):
        """Of what comes at some moments only, a smaller one may not come again: None."""
        soak.tries = 3
        wrong, smallest = soak.cut_down(made, wrong)
        print(f"seed {SEED}: {made} became {smallest}: {wrong}")
        return wrong if size(smallest) < size(made) else None

    def test_an_output_that_is_torn(self):
        self.assertIn("old or new", self.found(Soak([*self.with_defect("torn")]), 0, TO_FILES, cut=True))

    def test_parts_that_are_torn(self):
        self.assertRegex(self.found(Soak([*self.with_defect("torn")]), 0, ["split", "stripes"]),
                         r"output (out|in0)\.0.* old or new")

    def test_parts_that_are_exchanged(self):
        # Where there is one part, it is torn.
        self.assertRegex(self.found(Soak([*self.with_defect("exchanged")]), 0, ["sampled_split"]),
                         "where the next begins|old or new")

    def test_a_job_that_waits_for_ever(self):
        soak = Soak([*self.with_defect("waiting")])
        soak.patience = 5
        self.assertRegex(self.found(soak, 0, TO_FILES), "has not ended in 5 s: .*: call [0-9]+, ")

    def test_what_a_killed_soak_leaves(self):
        with tempfile.TemporaryDirectory() as folder:
            self.look_at_what_is_left(pathlib.Path(folder))

    def look_at_what_is_left(self, folder):
        """Of soaks that are killed at random moments, and the same with a byte of an output changed."""
        state, looked_at, found = folder / "state", [], 0
        for seed in range(SEED, SEED + 60):
            command = [sys.executable, SOAK, *PROGRAMS, "--no-disks", "--state", state, "--rounds=100",
                       f"--seed={seed}"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True,
                                  env={**os.environ, "TMPDIR": str(folder)}) as soak:
                self.assertIn(b"seed", soak.stdout.readline())  # and the state is there
                with contextlib.suppress(subprocess.TimeoutExpired):
                    soak.wait(timeout=3 * random.random())
                os.killpg(soak.pid, signal.SIGKILL)
            looked_at.append(check_state(state))
            begun = json.loads(state.read_text(encoding="utf-8").splitlines()[0])
            for name in begun.get("outputs", []):
                path = pathlib.Path(begun["folder"], name)
                if path.exists() and path.stat().st_size > 0:
                    data = path.read_bytes()
                    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
                    with self.assertRaisesRegex(Wrong, "not old or new"):
                        check_state(state)
                    found += 1
                    break
            if found and len(looked_at) >= 8:
                break
        print(f"seed {SEED}: {looked_at}")
        self.assertGreater(found, 0)

    def test_runs_that_stay_when_nobody_reads(self):
        self.assertIn("left behind: {'run'}", self.found(Soak([*self.with_defect("untidy")]), 0, ["piped"], cut=True))

    def test_an_output_that_is_not_synced(self):
        if not self.disks:
            self.skipTest("there is no disk that loses")
        self.assertIn("that loses", self.found(Soak([*self.with_defect("unsynced")], self.disks), 1, TO_FILES))

    def test_an_output_that_is_synced_when_it_has_its_name(self):
        if not self.disks or not STRACE:
            self.skipTest("there is no disk that loses, or no strace")
        soak = AtCalls([*self.with_defect("late")], self.disks)
        soak.calls = ["fsync"]
        self.assertIn("old or new", self.found(soak, 1, TO_FILES))

    def test_an_array_that_is_not_synced(self):
        if not self.disks:
            self.skipTest("there is no disk that loses")
        soak = Soak(PROGRAMS, self.disks)
        soak.forgetful = ["forgetful-buffered"]
        self.assertRegex(self.found(soak, 1, Job.KINDS), "was flushed before|nobody wrote|numbers, not")

    def test_an_array_that_is_not_synced_at_calls(self):
        if not self.disks or not STRACE:
            self.skipTest("there is no disk that loses, or no strace")
        soak = AtCalls(PROGRAMS, self.disks)
        soak.forgetful = ["forgetful-buffered"]
        self.assertRegex(self.found(soak, 1, Job.KINDS), "was flushed before|nobody wrote|numbers, not")

    def test_an_array_that_keeps_its_length(self):
        soak = Soak(PROGRAMS)
        soak.forgetful = ["unresized"]
        self.assertRegex(self.found(soak, 0, Job.KINDS), "numbers, not|nobody wrote")

    def test_an_array_of_which_another_part_is_flushed(self):
        soak = Soak(PROGRAMS)
        soak.forgetful = ["other-range"]
        self.assertIn("was flushed before", self.found(soak, 0, Job.KINDS))

    def test_an_array_whose_disk_is_not_flushed(self):
        if not self.caches:
            self.skipTest("there is no disk with a cache that loses")
        soak = Soak(PROGRAMS, self.caches)
        soak.forgetful = ["forgetful-direct"]
        self.assertRegex(self.found(soak, 1, Job.KINDS), "was flushed before|nobody wrote|numbers, not")


if __name__ == "__main__":
    if sys.argv[1] == "planted":
        planted(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
        sys.exit(0)
    begin_with_own_mounts()
    PROGRAMS = [os.path.abspath(program) for program in sys.argv[1:4]]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
