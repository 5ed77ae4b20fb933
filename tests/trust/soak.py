#!/usr/bin/env python3
"""Random whole jobs, killed at random moments and at chosen system calls, and what must hold then.

  soak.py VORTEX VORTEX_SORT SOAK_LIBRARY [--hours H | --rounds N] [--seed S] [--first ROUND] [--decisions LIST]
          [--python PYTHON] [--no-disks] [--state FILE]
  soak.py VORTEX VORTEX_SORT SOAK_LIBRARY --state FILE --check

Inputs are as they were; the output is old or new, and whole; nothing else is left in any folder, but for the
whole output under a temporary name where it was about to take the place of another file. With an interpreter that has
the package, it is killed, too. An array in a file is changed by two threads, resized, and flushed in parts: what
flush() returned for is there, and everything else is old or new. In some rounds the disk loses what was not
synced, and what a copy of it holds is looked at. A round depends on the seed and its number alone, but for the
moments: `--seed S --first ROUND --rounds 1` makes it again. What is wrong is cut down to fewer and smaller
decisions as long as it stays wrong, and told with these: `--decisions LIST` makes that.

Where the soak itself may be killed, or the machine may crash, FILE has what must hold of the files of the job or array
whose turn it is, and `--check` looks at them.
"""

import argparse
import contextlib
import os
import pathlib
import random
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from losing_disk import begin_with_own_mounts, losing_disks  # noqa: E402
from random_job import Job, Wrong, expect  # noqa: E402
from soak_state import NUMBERS, TOLD, State, check_array, check_state, flushes_of  # noqa: E402

CALLS = ["openat", "fallocate", "ftruncate", "fsync", "linkat", "renameat", "renameat2", "unlinkat", "pwrite64",
         "io_uring_enter", "munmap"]
ARRAY_CALLS = ["fsync", "ftruncate", "io_uring_enter", "mprotect", "write", "mremap"]
STRACE = shutil.which("strace")
PATIENCE = 200  # seconds, which no job takes, for whoever waits for ever
# How often a smaller round is made before it counts as right: moments differ.
TRIES = 6


class Chance:
    """Decisions, the simplest of which are 0: those given, then random ones, or none more."""

    def __init__(self, given=(), seed=None):
        self.given = list(given)
        self.made = []
        self.random = None if seed is None else random.Random(seed)

    def below(self, end):
        at = len(self.made)
        number = self.given[at] if at < len(self.given) else self.random.randrange(end) if self.random else 0
        self.made.append(number % end)
        return number % end

    def choice(self, simplest_first):
        return simplest_first[self.below(len(simplest_first))]

    def part(self):
        """From 0 to 1."""
        return self.below(10_001) / 10_000

    def data(self):
        """A generator of one decision."""
        return random.Random(self.below(1 << 16))


def told_by(process, tracer, size, state, patience):
    """So many bytes of its output, or fewer where it ends or is stopped at a call; and whether it was either."""
    told, traced = b"", b""
    with selectors.DefaultSelector() as both:
        for file in [process.stdout, tracer] if tracer else [process.stdout]:
            both.register(file, selectors.EVENT_READ)
        while len(told) < size:
            ready = both.select(patience)
            expect(ready, f"the array has told nothing for {patience} s: {'; '.join(what_threads_do(process))}")
            for key, _ in ready:
                if key.fileobj == tracer:
                    traced += os.read(key.fd, 1 << 16)
                    if b"stopped by SIGSTOP" in traced:
                        return told, True
                else:
                    more = os.read(key.fd, size - len(told))
                    if not more:
                        return told, True
                    told += more
                    if state:
                        state.add_told(more)
    return told, False


def told_already(process):
    """What is in its pipe, of a process that has stopped."""
    told = b""
    os.set_blocking(process.stdout.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        while more := os.read(process.stdout.fileno(), 1 << 16):
            told += more
    return told


def what_threads_do(process):
    """Of a process that does not end: the calls that its threads are in, and where the kernel waits for what."""
    for thread in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            call = (thread / "syscall").read_text().split()[0]
            yield f"{(thread / 'comm').read_text().strip()}: call {call}, {(thread / 'wchan').read_text()}"


class Soak:
    def __init__(self, programs, disks=(), state=None):
        self.programs = programs
        self.disks = list(disks)
        self.state = State(state)
        self.state.end()
        self.counts = dict.fromkeys(["rounds", "whole", "killed", "killed at calls", "crashed", "crashed at calls",
                                     "arrays killed", "arrays killed at calls", "arrays crashed",
                                     "arrays crashed at calls"], 0)
        self.calls = CALLS
        self.forgetful = []
        self.tries = TRIES
        self.patience = PATIENCE

    @contextlib.contextmanager
    def start(self, command, **how):
        with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"},
                              **{"stdin": subprocess.DEVNULL, **how}) as process:
            try:
                yield process
            finally:
                process.kill()  # one that is stopped would not end when the soak does

    @contextlib.contextmanager
    def start_job(self, job, in_front=(), **how):
        """The job, and who writes into its pipe or reads from it. What was read is told when all have ended."""
        ends = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        with tempfile.TemporaryFile() as got:
            with contextlib.ExitStack() as others:
                if job.given is not None:
                    ends["stdin"] = others.enter_context(subprocess.Popen(
                        ["head", "-c", str(job.given), job.folder / "in0"], stdout=subprocess.PIPE)).stdout
                if job.taken is not None:
                    ends["stdout"] = others.enter_context(subprocess.Popen(
                        ["head", "-c", str(job.taken)], stdin=subprocess.PIPE, stdout=got)).stdin
                with self.start([*in_front, *job.command], **ends, **how) as process:
                    for end in ends.values():
                        if end != subprocess.DEVNULL:
                            end.close()
                    yield process
            got.seek(0)
            job.got = got.read()

    def one_round(self, chance):
        disk = chance.choice([None, *self.disks])
        folder = pathlib.Path(tempfile.mkdtemp(prefix="vortex-soak-", dir=disk and disk.folder))
        job = Job(chance, folder, self.programs)
        try:
            # What is killed or crashes first is the first that can be left out.
            (self.crash_job if disk else self.kill_job)(chance, job, disk)
            self.try_array(chance, folder, disk)
        except Wrong as wrong:
            raise Wrong(f"{disk.kind + ' that loses, ' if disk else ''}{job.what}: {wrong}") from wrong
        finally:
            self.state.end()
            shutil.rmtree(folder)
        self.counts["rounds"] += 1

    def wait_for(self, process):
        """Returns what it said."""
        try:
            return process.communicate(timeout=self.patience)[1]
        except subprocess.TimeoutExpired as late:
            doing = "; ".join(what_threads_do(process))
            raise Wrong(f"it has not ended in {self.patience} s: {doing}") from late

    def whole_job(self, job):
        job.prepare()
        began = time.monotonic()
        with self.start_job(job) as whole:
            said = self.wait_for(whole)
            seconds = time.monotonic() - began
        expect(job.ended_well(whole.returncode), f"status {whole.returncode}: {said.decode()}")
        job.check(True)
        self.counts["whole"] += 1
        return seconds

    def prepare(self, job):
        self.state.end()
        job.prepare()
        self.state.begin_job(job)

    def kill_job(self, chance, job, _):
        seconds = self.whole_job(job)
        for _ in range(chance.below(5)):
            self.prepare(job)
            with self.start_job(job) as process:
                try:
                    process.wait(timeout=chance.part() * seconds * 1.1)
                except subprocess.TimeoutExpired:
                    process.kill()
                process.communicate()
            job.check(job.ended_well(process.returncode))
            self.counts["killed"] += process.returncode == -signal.SIGKILL
        for _ in range(chance.below(3) if STRACE else 0):
            self.prepare(job)
            with self.start_job(job, self.at_call(chance, self.calls, "KILL", "/dev/null")) as process:
                self.wait_for(process)
            job.check(job.ended_well(process.returncode))
            self.counts["killed at calls"] += process.returncode == -signal.SIGKILL

    def at_call(self, chance, calls, happens, told):
        """What stands in front of a command to which a signal comes with its n-th call: KILL before, STOP behind it."""
        call = chance.choice(calls)
        return [STRACE, "-D", "-f", "-qq", "-o", told, "-e", f"trace={call}", "-e",
                f"inject={call}:signal={happens}:when={chance.choice([1, 1, 2, 3, 5, 10, 50])}"]

    @contextlib.contextmanager
    def stopped_job(self, chance, job, seconds):
        """The job, stopped at a random moment or behind a chosen call, or as soon as it has ended."""
        if not STRACE or chance.below(2) == 0:
            with self.start_job(job) as process:
                try:
                    process.wait(timeout=chance.part() * seconds * 1.5)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGSTOP)
                yield process
            self.counts["crashed"] += 1
            return
        reading, writing = os.pipe()
        with open(reading, encoding="utf-8", errors="replace") as told, self.start_job(
                job, self.at_call(chance, self.calls, "STOP", f"/dev/fd/{writing}"), pass_fds=[writing]) as process:
            os.close(writing)
            stops = any("stopped by SIGSTOP" in line for line in told)
            yield process
        self.counts["crashed at calls" if stops else "crashed"] += 1

    def crash_job(self, chance, job, disk):
        """The disk loses what was not synced, while the job runs or as soon as it has ended."""
        seconds = self.whole_job(job)
        for _ in range(1 + chance.below(3)):
            job.prepare()
            disk.sync()
            with self.stopped_job(chance, job, seconds) as process:
                folder = disk.crash(chance.data()) / job.folder.name
                process.kill()
                process.communicate()
            try:
                job.check(job.ended_well(process.returncode) and job.syncs, folder)
            finally:
                disk.end_of_crash()

    def array_at_call(self, chance):
        return STRACE and chance.below(2) == 1

    @contextlib.contextmanager
    def start_array(self, chance, path, seed, stops):
        """The array, and what its tracer tells; or nothing, where it is not ended at a chosen call."""
        command = [self.programs[2], "array", str(path), str(seed), *self.forgetful]
        if not self.array_at_call(chance):
            with self.start(command, stdout=subprocess.PIPE) as process:
                yield process, None
            return
        reading, writing = os.pipe()
        with open(reading, "rb") as told:
            at_call = self.at_call(chance, ARRAY_CALLS, "STOP" if stops else "KILL", f"/dev/fd/{writing}")
            with self.start([*at_call, *command], stdout=subprocess.PIPE, pass_fds=[writing]) as process:
                os.close(writing)
                yield process, told

    def try_array(self, chance, folder, disk):
        self.state.end()
        path, seed = folder / "out", chance.below(2**32)
        path.write_bytes(bytes(8 * NUMBERS))
        if disk:
            disk.sync()
        else:
            self.state.begin_array(path, seed)
        with self.start_array(chance, path, seed, bool(disk)) as (process, tracer):
            size = TOLD * (200 if tracer else chance.choice([0, 1, 20, 200]))
            told, at_call = told_by(process, tracer, size, None if disk else self.state, self.patience)
            if disk:
                process.send_signal(signal.SIGSTOP)
                # What it tells of later the copy need not have.
                told += told_already(process)
                path = disk.crash(chance.data()) / folder.name / "out"
            process.kill()
            more, said = process.communicate()
        try:
            expect(process.returncode == -signal.SIGKILL, f"array: status {process.returncode}: {said.decode()}")
            flushes = flushes_of(told + more)
            certain = flushes_of(told, synced=True) if disk else flushes
            check_array(path, seed, certain, flushes[-1][0] if flushes else 0, crashed=bool(disk))
        finally:
            if disk:
                disk.end_of_crash()
        self.counts[f"arrays {'crashed' if disk else 'killed'}{' at calls' if at_call else ''}"] += 1

    def wrong_of(self, decisions):
        """What is wrong with a round of these decisions, and those that it made; or nothing."""
        for _ in range(self.tries):
            chance = Chance(decisions)
            try:
                self.one_round(chance)
            except Wrong as wrong:
                return str(wrong), chance.made
        return None

    def cut_down(self, decisions, wrong):
        """The same failure of fewer decisions other than 0, and smaller ones."""
        smallest = (wrong, decisions)
        length = 1
        while length < len(decisions) and smallest[1] is decisions:
            smallest = self.wrong_of(decisions[:length]) or smallest
            length *= 2
        at = 0
        while at < len(smallest[1]):
            now = smallest[1]
            for less in sorted({0, now[at] // 2} - {now[at]}):
                found = self.wrong_of([*now[:at], less, *now[at + 1:]])
                if found:
                    smallest = found
                    break
            at += 1
        while smallest[1] and smallest[1][-1] == 0:
            smallest[1].pop()
        return smallest


def run(soak, options):
    """Returns the status."""
    ends = time.monotonic() + 3600 * (options.hours or 0)
    number = options.first
    while number < options.first + options.rounds if options.rounds else time.monotonic() < ends:
        chance = Chance(options.decisions or (), None if options.decisions else f"{options.seed} {number}")
        try:
            soak.one_round(chance)
        except Wrong as wrong:
            print(f"--seed {options.seed} --first {number} --rounds 1: {wrong}\ncutting it down", flush=True)
            wrong, decisions = soak.cut_down(chance.made, str(wrong))
            print(f"--rounds {TRIES} --decisions {','.join(map(str, decisions))}: {wrong}")
            return 1
        number += 1
        if number % 100 == 0:
            print(f"{number} rounds", flush=True)
    print(", ".join(f"{count} {what}" for what, count in soak.counts.items()))
    return 0


def main():
    begin_with_own_mounts()
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs=3, type=pathlib.Path)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("--no-disks", action="store_true")
    parser.add_argument("--state", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--decisions", type=lambda text: [int(number) for number in text.split(",")])
    options = parser.parse_args()
    if options.check:
        print(check_state(options.state))
        return
    disks = [] if options.no_disks else losing_disks()
    try:
        # An interpreter's path, links and all, says where its packages are.
        python = [str(options.python.absolute())] if options.python else []
        soak = Soak([*(str(path.resolve()) for path in options.programs), *python], disks, options.state)
        print(f"seed: {options.seed}; {', '.join(disk.kind for disk in disks) or 'no disk that loses'}; "
              f"{'strace' if STRACE else 'no strace, so none ends at chosen calls'}; python: {options.python}",
              flush=True)
        sys.exit(run(soak, options))
    finally:
        for disk in disks:
            disk.close()


if __name__ == "__main__":
    main()
