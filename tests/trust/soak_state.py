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


def digest(data):
    return None if data is None else hashlib.sha256(data).hexdigest()


def digest_of(path):
    return digest(path.read_bytes()) if path.exists() else None


def check_array(path, state, flushed):
    """An array whose n-th operation, at a place that the state chooses, wrote n."""
    data = path.read_bytes()
    expect(len(data) == 8 * NUMBERS, f"the array has {len(data)} bytes")
    numbers = array.array("Q", data)
    least, written = {}, {}
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
        self._add({"array": str(path), "seed": seed, "synced": 0}, begins=True)

    def add_told(self, told):
        self.told += told
        whole = len(self.told) // 8 * 8
        synced = [number % SYNCED for number in struct.unpack(f"<{whole // 8}Q", self.told[:whole]) if number >= SYNCED]
        self.told = self.told[whole:]
        if synced:
            self._add({"synced": synced[-1]})


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
        check_array(pathlib.Path(state["array"]), state["seed"], state["synced"])
        return f"array, {state['synced']} operations synced"
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
