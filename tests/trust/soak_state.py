"""What must hold of a soak's files, kept in a file: for when the soak, or the machine, has ended before it looked."""

import array
import hashlib
import json
import os
import pathlib
import struct

from random_job import expect

NUMBERS = 1 << 16  # of an array
SYNCED = 1 << 63
TOLD = 16  # bytes that tell of a flush


def digest(data):
    return None if data is None else hashlib.sha256(data).hexdigest()


def digest_of(path):
    return digest(path.read_bytes()) if path.exists() else None


def next_state(state):
    """Knuth's, as in soak_library."""
    return (state * 6364136223846793005 + 1442695040888963407) % 2**64


class Array:
    """The model of what soak_library does to an array, from its n-th operation to the next."""

    def __init__(self, seed):
        self.state, self.other_state = seed, seed ^ (2**64 - 1)
        self.operation = self.other_operation = 0
        self.size = NUMBERS
        self.sizes = []  # each with the operation that chose it
        self.written = [{}, {}]  # where operations wrote, to even and to odd places
        self.changed, self.flushed = {}, {}  # the last operation of places, before a flush and behind it

    def _write(self, operation, place):
        self.written[place % 2][operation] = place
        self.changed[place] = operation

    def step(self):
        """Whether it ends with a flush."""
        self.operation += 1
        self.state = next_state(self.state)
        self._write(self.operation, (self.state >> 33) % (self.size // 2) * 2)
        kind = (self.state >> 20) % 64
        if kind == 1 and (self.state >> 26) % 8 == 0:
            self.size = NUMBERS // 2 + (self.state >> 33) % (NUMBERS // 2 + 1)
            self.sizes.append((self.operation, self.size))
            for cut in (self.changed, self.flushed):
                for place in [place for place in cut if place >= self.size]:
                    del cut[place]
        return kind == 0

    def step_beside(self, operations):
        while self.other_operation < operations:
            self.other_operation += 1
            self.other_state = next_state(self.other_state)
            self._write(self.other_operation, (self.other_state >> 33) % (NUMBERS // 4) * 2 + 1)

    def flush(self):
        first, count = 0, self.size
        if (self.state >> 27) % 2:
            first = (self.state >> 33) % self.size
            count = 1 + (self.state >> 40) % (self.size - first)
        for place in [place for place in self.changed if first <= place < first + count]:
            self.flushed[place] = self.changed.pop(place)


def check_array(path, seed, flushes, last=None, crashed=False):
    """An array after flushes that hold, each a pair of the last operations of both threads. `last`: the last flush of
    which anybody was told, if that is known. Where the disk has crashed, what was cut off since, but not for certain,
    may be what others have written to the same blocks meanwhile."""
    data = path.read_bytes()
    expect(len(data) % 8 == 0, f"the array has {len(data)} bytes")
    numbers = array.array("Q", data)
    model, certain = Array(seed), 0
    for certain, other in flushes:
        while model.operation < certain:
            flushes_now = model.step()
        expect(flushes_now, f"operation {certain}, which was told, is no flush")
        model.step_beside(other)
        model.flush()
    least, cuts, sizes = dict(model.flushed), [*model.sizes], {model.size}
    # What has been done since may be there or not; no more than a flush that was not told.
    seen = max(certain, max(numbers, default=0) if last is None else last)
    while not model.step() or model.operation <= seen:
        pass
    model.step_beside(model.operation)
    sizes.update(size for operation, size in model.sizes if operation > certain)
    if last is None:
        expect(NUMBERS // 2 <= len(numbers) <= NUMBERS, f"the array has {len(numbers)} numbers")
        sizes.add(NUMBERS // 2)
    else:
        expect(len(numbers) in sizes, f"the array has {len(numbers)} numbers, not {sorted(sizes)}")
    for place, number in enumerate(numbers):
        expect(number == 0 or model.written[place % 2].get(number) == place or (crashed and place >= min(sizes)),
               f"number {place} is {number}, which nobody wrote there")
        expect(number == 0 or place % 2 or all(number > operation for operation, size in cuts if size <= place),
               f"number {place} is {number}, which was cut off before {certain}")
        expect(number >= least.get(place, 0) or place >= min(sizes),
               f"number {place} is {number}, and {least.get(place)} was flushed before {certain}")


def flushes_of(told, synced=False):
    """The flushes that an array has told of; or those that were synced."""
    numbers = struct.unpack(f"<{len(told) // TOLD * 2}Q", told[:len(told) // TOLD * TOLD])
    return [(operation % SYNCED, other) for operation, other in zip(numbers[::2], numbers[1::2])
            if operation >= SYNCED or not synced]


def sync_all(folder):
    for path in [*(path for path in folder.iterdir() if path.is_file()), folder]:
        opened = os.open(path, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)


class State:
    """A line for what is being done, and one for each time that an array says what the disk has."""

    def __init__(self, path=None):
        self.path = path
        self.told = b""

    def _add(self, line, begins=False):
        if self.path is None:
            return
        written = self.path.with_suffix(".new") if begins else self.path
        with open(written, "w" if begins else "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if begins:
            written.rename(self.path)

    def end(self):
        self._add({}, begins=True)

    def begin_job(self, job):
        """Whose outputs are known only after the first whole run, where the job makes them up."""
        if self.path is None or None in job.expected.values():
            return
        sync_all(job.folder)
        kept = {name: digest(data) for name, data in job.inputs.items() if name not in job.expected}
        made = {name: [digest(data), digest(job.old[name])] for name, data in job.expected.items()}
        self._add({"job": job.what, "folder": str(job.folder), "inputs": kept, "outputs": made,
                   "folders": [folder.name for folder in job.runs]}, begins=True)

    def begin_array(self, path, seed):
        self.told = b""
        if self.path is not None:
            sync_all(path.parent)
        self._add({"array": str(path), "seed": seed}, begins=True)

    def add_told(self, told):
        self.told += told
        whole = len(self.told) // TOLD * TOLD
        for flush in flushes_of(self.told[:whole], synced=True):
            self._add({"synced": flush})
        self.told = self.told[whole:]


def check_state(path):
    """Raises Wrong. The last line is left out where it is not whole."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            break
    expect(lines, f"{path} says nothing")
    if lines == [{}]:
        return "nothing was under way"
    state = {key: value for line in lines for key, value in line.items()}
    if "array" in state:
        synced = [line["synced"] for line in lines if "synced" in line]
        check_array(pathlib.Path(state["array"]), state["seed"], synced)
        return f"array, {synced[-1][0] if synced else 0} operations synced"
    folder = pathlib.Path(state["folder"])
    for name, wanted in state["inputs"].items():
        expect(digest_of(folder / name) == wanted, f"{name} has changed")
    for name, (new, old) in state["outputs"].items():
        expect(digest_of(folder / name) in (new, old), f"the output {name} is not old or new")
    known = {folder / name for name in [*state["inputs"], *state["outputs"], *state["folders"]]}
    for left in {*folder.iterdir()} - known:
        of = next((name for name in state["outputs"] if left.match(f".{name}.*.part")), None)
        expect(of and digest_of(left) == state["outputs"][of][0], f"left behind: {left}")
    for name in state["folders"]:
        expect(not [*(folder / name).iterdir()], f"left behind in {name}")
    return state["job"]
