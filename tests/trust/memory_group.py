#!/usr/bin/env python3
"""Commands in a control group of their own, with a limit of memory.

  memory_group.py MIB COMMAND...    tells how it ended, its peak and its processor time

The group is made beneath that of this process, whichever hierarchy has the controller of memory, or else beside it: in
version 2 a group that has processes gives no controller to groups beneath it. To make one takes the right to. The page
cache that a command fills counts, and is given up at the limit; what is killed there tells that the command's own
memory was more.
"""

import os
import pathlib
import signal
import subprocess
import sys


class Refused(Exception):
    """Why no group can be made."""


class Outcome:
    def __init__(self, code, errors, peak, processor):
        self.code = code
        self.errors = errors
        self.peak = peak  # bytes of the group, page cache included
        self.processor = processor  # seconds

    def __str__(self):
        end = "killed" if self.code == -signal.SIGKILL else f"exit code {self.code}"
        return f"{end}, peak {self.peak / (1 << 20):.1f} MiB, processor time {self.processor:.2f} s"


class MemoryGroup:
    LIMITS = {1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes"),
              2: ("memory.max", "memory.swap.max", "memory.peak")}

    def __init__(self, limit):
        self.limit = limit
        self.version, parents = self.find()
        refusals = []
        for parent in parents:
            self.folder = parent / f"vortex-{os.getpid()}"
            try:
                self.folder.mkdir()
                self._limit()
                return
            except OSError as error:
                self.close()
                refusals.append(f"no control group in {parent}: {error.strerror}")
        raise Refused("; ".join(refusals))

    def _limit(self):
        limit, swap, _ = (self.folder / name for name in self.LIMITS[self.version])
        with open(limit, "r+", encoding="ascii") as file:  # would be made where it is not there
            file.write(str(self.limit))
        if swap.exists():  # where the kernel accounts for swap
            swap.write_text(str(self.limit if self.version == 1 else 0))

    @staticmethod
    def find():
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                return 1, [pathlib.Path("/sys/fs/cgroup/memory" + path)]
            if not controllers:
                folder = pathlib.Path("/sys/fs/cgroup" + path)
                there = folder / "cgroup.controllers"
                if there.exists() and "memory" in there.read_text().split():
                    return 2, [folder] + [folder.parent] * (path != "/")
        raise Refused("no hierarchy of control groups has the controller of memory")

    def run(self, command, **more):
        """Runs it to its end."""
        if self.version == 1:
            (self.folder / "memory.max_usage_in_bytes").write_text("0")

        def enter():
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=enter, **more)
        errors = child.stderr.read()
        child.stderr.close()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        peak = self.folder / self.LIMITS[self.version][2]
        return Outcome(child.returncode, errors, int(peak.read_text()) if peak.exists() else 0,
                       used.ru_utime + used.ru_stime)

    def close(self):
        try:
            self.folder.rmdir()
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    with MemoryGroup(int(sys.argv[1]) << 20) as group:
        outcome = group.run(sys.argv[2:])
        sys.stderr.buffer.write(outcome.errors)
        print(outcome)
