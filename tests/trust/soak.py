#!/usr/bin/env python3
"""Random whole jobs, killed at random moments and at chosen system calls, and what must hold then.

  soak.py VORTEX VORTEX_SORT SOAK_ARRAY [--hours H | --rounds N] [--seed S] [--first ROUND]

Inputs are as they were; the output is old or new, and whole; nothing else is left in any folder, but for the
whole output under a temporary name where it was about to take the place of another file. Of an array in a file,
what flush() returned for is there, and everything else is old or new. A round depends on the seed and its number
alone, but for the moments: `--seed S --first ROUND --rounds 1` makes it again. What is wrong is told with both, and
its folder stays.
"""

import argparse
import array
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

NUMBERS = 1 << 16  # of an array
CALLS = ["openat", "fallocate", "ftruncate", "fsync", "linkat", "renameat", "renameat2", "unlinkat", "pwrite64",
         "io_uring_enter", "munmap"]
STRACE = shutil.which("strace")


class Wrong(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Wrong(what)


def random_lines(chance, count):
    return [b"%d %d\n" % (chance.randrange(10**6), chance.randrange(10**chance.randrange(1, 20))) for _ in range(count)]


class Job:
    """A command, its inputs, and what it writes."""

    def __init__(self, chance, folder, programs):
        self.folder = folder
        self.runs = [folder / f"runs{i}" for i in range(chance.randrange(1, 3))]
        self.inputs = {}
        kind = chance.choice(["lines", "records", "merge", "gen"])
        where = chance.choice(["new", "old", "input"]) if kind != "gen" else chance.choice(["new", "old"])
        for run_folder in self.runs:
            run_folder.mkdir()
        getattr(self, kind)(chance, programs)
        self.output = folder / ("in0" if where == "input" else "out")
        self.old = self.inputs.get("in0") if where == "input" else b"old" if where == "old" else None
        self.command = [str(word) for word in self.command]
        self.command = [str(self.output) if word == "OUT" else word for word in self.command]
        self.what = f"{kind}, output {where}: {' '.join(self.command)}"

    def add(self, data):
        name = f"in{len(self.inputs)}"
        self.inputs[name] = data
        return self.folder / name

    def resources(self, chance):
        return ["-S", chance.choice(["1M", "2M", "16M"]), f"--parallel={chance.randrange(1, 4)}",
                *(word for run_folder in self.runs for word in ("-T", run_folder))]

    def lines(self, chance, programs):
        texts = [random_lines(chance, chance.choice([10, 1000, 60_000, 200_000]))
                 for _ in range(chance.randrange(1, 3))]
        option = chance.choice([[], ["-r"], ["-u"]])
        every = [line for lines in texts for line in lines]
        ordered = sorted(set(every) if option == ["-u"] else every, reverse=option == ["-r"])
        self.expected = b"".join(ordered)
        self.command = [programs[1], *option, *(self.add(b"".join(lines)) for lines in texts), "-o", "OUT",
                        *self.resources(chance)]

    def merge(self, chance, programs):
        texts = [sorted(random_lines(chance, chance.choice([10, 50_000]))) for _ in range(chance.randrange(2, 6))]
        self.expected = b"".join(sorted(line for lines in texts for line in lines))
        self.command = [programs[1], "-m", *(self.add(b"".join(lines)) for lines in texts), "-o", "OUT",
                        *self.resources(chance)]

    def records(self, chance, programs):
        data = chance.randbytes(8 * chance.choice([10, 20_000, 300_000, 1_000_000]))
        self.expected = array.array("Q", sorted(array.array("Q", data))).tobytes()
        self.command = [programs[0], "sort", "--form", "u64", self.add(data), "-o", "OUT", *self.resources(chance)]

    def gen(self, chance, programs):
        count = chance.choice([100, 100_000, 1_000_000])
        self.command = [programs[0], "gen", "--form", "u64", "-n", count, "--seed", chance.randrange(1000), "OUT"]
        self.expected = None  # the first whole one

    def prepare(self):
        for name, data in self.inputs.items():
            path = self.folder / name
            if not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)
        if self.old is None:
            self.output.unlink(missing_ok=True)
        else:
            self.output.write_bytes(self.old)

    def check(self, whole):
        made = self.output.read_bytes() if self.output.exists() else None
        if whole and self.expected is None:
            self.expected = made
        size = None if made is None else len(made)
        expect(made == self.expected or (not whole and made == self.old),
               f"the output has {size} bytes and is not {'right' if whole else 'old or new'}")
        for name, data in self.inputs.items():
            path = self.folder / name
            expect(path == self.output or path.read_bytes() == data, f"{path} has changed")
        known = {*self.inputs, "out", *(run_folder.name for run_folder in self.runs)}
        left = {path.name for path in self.folder.iterdir()} - known
        # Between two calls a new file that takes the place of another has a name of its own, and is whole.
        waits = not whole and self.old is not None
        waiting = [path for path in self.folder.glob(f".{self.output.name}.*.part") if waits]
        for path in waiting[:1]:
            expect(self.expected in (None, path.read_bytes()), f"{path} is not whole")
            left.remove(path.name)
            path.unlink()
        left |= {path.name for run_folder in self.runs for path in run_folder.iterdir()}
        expect(not left, f"left behind: {left}")


class Soak:
    def __init__(self, programs):
        self.programs = programs
        self.counts = dict.fromkeys(["rounds", "whole", "killed", "killed at calls", "arrays killed"], 0)

    def start(self, command, **how):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                env={**os.environ, "LC_ALL": "C"}, **how)

    def one_round(self, chance, folder):
        job = Job(chance, folder, self.programs)
        try:
            self.try_job(chance, job)
            self.try_array(chance, folder)
        except Wrong as wrong:
            raise Wrong(f"{job.what}: {wrong}") from wrong
        self.counts["rounds"] += 1

    def try_job(self, chance, job):
        job.prepare()
        began = time.monotonic()
        with self.start(job.command, stdout=subprocess.DEVNULL) as whole:
            _, said = whole.communicate()
        seconds = time.monotonic() - began
        expect(whole.returncode == 0, f"status {whole.returncode}: {said.decode()}")
        job.check(True)
        self.counts["whole"] += 1
        for _ in range(4):
            job.prepare()
            with self.start(job.command, stdout=subprocess.DEVNULL) as process:
                try:
                    process.wait(timeout=chance.uniform(0, seconds * 1.1))
                except subprocess.TimeoutExpired:
                    process.kill()
                process.communicate()
            job.check(process.returncode == 0)
            self.counts["killed"] += process.returncode == -signal.SIGKILL
        for _ in range(2 if STRACE else 0):
            job.prepare()
            rule = f"inject={chance.choice(CALLS)}:signal=KILL:when={chance.choice([1, 1, 2, 3, 5, 10])}"
            with self.start([STRACE, "-f", "-qq", "-o", "/dev/null", "-e", rule, *job.command],
                            stdout=subprocess.DEVNULL) as process:
                process.communicate()
            job.check(process.returncode == 0)
            self.counts["killed at calls"] += process.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)

    def try_array(self, chance, folder):
        path, seed = folder / "out", chance.randrange(2**32)
        path.write_bytes(bytes(8 * NUMBERS))
        with self.start([self.programs[2], str(path), str(seed)], stdout=subprocess.PIPE) as process:
            told = process.stdout.read(8 * chance.choice([0, 1, 20, 200]))
            process.kill()
            more, said = process.communicate()
        expect(process.returncode == -signal.SIGKILL, f"array: status {process.returncode}: {said.decode()}")
        told += more
        flushed = struct.unpack("<Q", told[-8:])[0] if len(told) >= 8 else 0
        numbers = array.array("Q", path.read_bytes())
        expect(len(numbers) == NUMBERS, "the array has another length")
        state, least, written = seed, {}, {}
        for operation in range(1, max(max(numbers), flushed) + 1):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            place = (state >> 33) % NUMBERS
            written[operation] = place
            if operation <= flushed:
                least[place] = operation
        for place, number in enumerate(numbers):
            expect(number == 0 or written[number] == place, f"number {place} is {number}, which nobody wrote there")
            expect(number >= least.get(place, 0),
                   f"number {place} is {number}, and {least.get(place)} was flushed before {flushed}")
        self.counts["arrays killed"] += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs=3, type=pathlib.Path)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    soak = Soak([path.resolve() for path in options.programs])
    print(f"seed: {options.seed}{'' if STRACE else '; no strace here, so none is killed at chosen calls'}", flush=True)
    ends = time.monotonic() + 3600 * (options.hours or 0)
    number = options.first
    while number < options.first + options.rounds if options.rounds else time.monotonic() < ends:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="vortex-soak-"))
        try:
            soak.one_round(random.Random(f"{options.seed} {number}"), folder)
        except Wrong as wrong:
            print(f"--seed {options.seed} --first {number} --rounds 1: {wrong}\nsee {folder}")
            sys.exit(1)
        shutil.rmtree(folder)
        number += 1
    print(", ".join(f"{count} {what}" for what, count in soak.counts.items()))


if __name__ == "__main__":
    main()
