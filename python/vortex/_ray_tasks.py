"""What the tasks of a sort beyond one machine do. They are deterministic: Ray may repeat each of them."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
from typing import Any, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import _core
from ._keys import Key
from ._storage import Stamp, Storage

_SUM_BYTES = 4 << 20


class Form(NamedTuple):
    """Records of so many bytes, their keys, and their dtype where they are integers, which are sorted in place."""

    size: int
    keys: list[Key]
    integer: str
    kind: int
    descending: bool


class Job(NamedTuple):
    """What all tasks of a sort know. `folders` are those of each machine for runs; `memory` is for one task."""

    name: str
    form: Form
    output: str
    folders: list[str]
    memory: int
    options: dict[str, Any]

    def storage(self) -> Storage:
        return Storage(self.options)

    def folder(self, number: int) -> str:
        """Where a node has what this sort writes for partition `number`: machines may share folders."""
        return os.path.join(self.folders[number % len(self.folders)], self.name, node())


class Piece(NamedTuple):
    """Whole records of an input, `size` bytes from byte `offset` on."""

    input: int
    path: str
    stamp: Stamp
    offset: int
    size: int


class Border(NamedTuple):
    """The first record of a partition: its bytes, its part, and its place there. Equal records that come
    before it in the inputs belong to the partition in front."""

    record: bytes
    part: int
    place: int


class Share(NamedTuple):
    """What a part has for the partitions of one node: how many records for each, and these."""

    counts: list[int]
    records: npt.NDArray[np.uint8]


class Summary(NamedTuple):
    """Of some records: how many, their sum, which no order changes, and the keys of the first and the last."""

    records: int
    sum: int
    first: str
    last: str


class LostRuns(Exception):
    """A node does not have what it wrote."""


def node() -> str:
    import ray

    return ray.get_runtime_context().get_node_id()


# A worker that reads part after part takes the memory of the first one again.
_kept: dict[str, npt.NDArray[np.uint8]] = {}


def _room(name: str, size: int) -> npt.NDArray[np.uint8]:
    if name not in _kept or _kept[name].size < size:
        _kept.pop(name, None)
        _kept[name] = np.empty(size, np.uint8)
    return _kept[name][:size]


def key_text(form: Form, record: Any) -> str:
    """The bytes of the keys, in hexadecimal."""
    content = bytes(record)
    return " ".join(content[offset : offset + length].hex() for offset, length, *_ in form.keys) or content.hex()


def comes_before(left: str, right: str, size: int, keys: Sequence[Key]) -> bool:
    """Whether a record with the keys `left`, as key_text() tells them, belongs before one with the keys `right`."""
    records = np.zeros((2, size), np.uint8)
    for record, text in zip(records, (left, right)):
        for (offset, length, *_), part in zip(keys, text.split()):
            record[offset : offset + length] = np.frombuffer(bytes.fromhex(part), np.uint8)
    return _core.ranks(records[0], size, keys, records[1])[0][0] > 0


def summary_of(form: Form, records: npt.NDArray[np.uint8]) -> Summary:
    if not records.size:
        return Summary(0, 0, "", "")
    return Summary(
        records.size // form.size,
        _core.sum_records(records, form.size),
        key_text(form, records[: form.size]),
        key_text(form, records[-form.size :]),
    )


def check_stamp(storage: Storage, path: str, stamp: Stamp) -> None:
    if storage.stamp(path) != stamp:
        raise OSError(errno.ESTALE, "the file was changed while it was sorted", path)


def _read(job: Job, pieces: Sequence[Piece]) -> npt.NDArray[np.uint8]:
    storage = job.storage()
    records = _room("part", sum(piece.size for piece in pieces))
    at = 0
    for piece in pieces:
        check_stamp(storage, piece.path, piece.stamp)
        storage.read_into(piece.path, piece.offset, records[at : at + piece.size])
        at += piece.size
    return records


def sample(job: Job, parts: Sequence[tuple[int, Sequence[Piece]]], wanted: int) -> list[Border]:
    """Some records of each part, spread over it."""
    storage, size = job.storage(), job.form.size
    found: list[Border] = []
    record = np.empty(size, np.uint8)
    for number, pieces in parts:
        chance = random.Random(number)
        count = sum(piece.size for piece in pieces) // size
        some = min(count, wanted)
        at, before = 0, 0
        for i in range(some):
            place = min(count - 1, int((i + chance.random()) * count / some))
            while place >= before + pieces[at].size // size:
                before += pieces[at].size // size
                at += 1
            storage.read_into(pieces[at].path, pieces[at].offset + (place - before) * size, record)
            found.append(Border(record.tobytes(), number, place))
    return found


def _sorted(form: Form, records: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    if form.integer:
        numbers = records.view(form.integer)
        _core.sort_rows(numbers, form.kind, max(1, numbers.size), form.descending, 1)
        return records
    out = _room("sorted", records.size)
    _core.sort_to_array([records], form.size, form.keys, out)
    return out


def map_part(
    job: Job, number: int, pieces: Sequence[Piece], borders: Sequence[Border], groups: Sequence[tuple[int, int]]
) -> list[Any]:
    """Reads and sorts a part. Returns the summaries of its pieces, and of each group of partitions a Share."""
    form = job.form
    records = _read(job, pieces)
    ends = np.cumsum([piece.size for piece in pieces])
    summaries = [summary_of(form, records[end - piece.size : end]) for piece, end in zip(pieces, ends)]
    # Of equal records, those that come before a border in its own part.
    equal = {
        at: _core.count_equal(records[: border.place * form.size], form.size, form.keys, border.record)
        for at, border in enumerate(borders)
        if border.part == number
    }
    records = _sorted(form, records)
    wanted = np.frombuffer(b"".join(border.record for border in borders), np.uint8)
    cuts = [0]
    for at, (before, up_to) in enumerate(_core.ranks(records, form.size, form.keys, wanted)):
        cuts.append(before + equal[at] if at in equal else up_to if number < borders[at].part else before)
    cuts.append(records.size // form.size)
    counts = np.diff(cuts).tolist()
    shares = [
        Share(counts[first:end], records[cuts[first] * form.size : cuts[end] * form.size]) for first, end in groups
    ]
    return [summaries, *shares]


def _of_partition(form: Form, shares: Sequence[Share], index: int) -> list[npt.NDArray[np.uint8]]:
    """What the shares have for the partition that is number `index` of their group."""
    found = []
    for counts, records in shares:
        first = sum(counts[:index]) * form.size
        if counts[index]:
            found.append(records[first : first + counts[index] * form.size])
    return found


def _run_name(job: Job, partition: int, wave: int) -> str:
    return os.path.join(job.folder(partition), f"{partition:05}-{wave:05}")


def merge_shares(job: Job, wave: int, first: int, *shares: Share) -> str:
    """Merges what some parts have for the partitions of this node, from number `first` on, into a file for
    each. Returns the node's name: who names it later has to ask whether it is still there."""
    for index in range(len(shares[0].counts)):
        name = _run_name(job, first + index, wave)
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb", buffering=0) as file:
            _core.merge_to_descriptor(
                _of_partition(job.form, shares, index), job.form.size, job.form.keys, file.fileno(), 1
            )
    return node()


def part_name(number: int) -> str:
    return f"part-{number:05}"


def _ends_of(form: Form, path: str) -> tuple[int, str, str]:
    """How many records a file has, and the keys of the first and the last."""
    size = os.path.getsize(path)
    if not size:
        return 0, "", ""
    with open(path, "rb") as file:
        first = file.read(form.size)
        file.seek(size - form.size)
        return size // form.size, key_text(form, first), key_text(form, file.read(form.size))


def _sum_of_file(form: Form, path: str) -> int:
    total = 0
    with open(path, "rb", buffering=0) as file:
        while some := file.read(max(1, _SUM_BYTES // form.size) * form.size):
            total += _core.sum_records(some, form.size)
    return total % 2**64


def _part(job: Job, number: int) -> Any:
    storage = job.storage()
    return storage.new_file(storage.join(job.output, part_name(number)), job.folder(number))


def write_part(job: Job, number: int, index: int, *shares: Share) -> Summary:
    """Merges what all parts have for a partition into its output."""
    form = job.form
    with _part(job, number) as file:
        total = _core.merge_to_descriptor(_of_partition(form, shares, index), form.size, form.keys, file.descriptor, 1)
        count, first, last = _ends_of(form, file.part)
    return Summary(count, total, first, last)


def write_part_of_runs(job: Job, number: int, waves: int) -> Summary:
    """Merges the runs of a partition, which lie on this node, within the memory of a task."""
    form = job.form
    runs = [_run_name(job, number, wave) for wave in range(waves)]
    if missing := [run for run in runs if not os.path.exists(run)]:
        raise LostRuns(missing[0])
    with _part(job, number) as file:
        _core.sort_record_files(
            runs, file.part, form.size, form.keys, False, True, 0, job.memory, [job.folder(number)], 1, None
        )
        count, first, last = _ends_of(form, file.part)
        total = _sum_of_file(form, file.part)
    for run in runs:
        os.unlink(run)
    return Summary(count, total, first, last)


def check_part(job: Job, path: str, wanted: Summary) -> str:
    """What is wrong with a part; nothing: it is whole, and in order."""
    form, storage = job.form, job.storage()
    try:
        with storage.local(path, os.path.join(job.folders[0], job.name)) as name:
            count, rest = divmod(os.path.getsize(name), form.size)
            if rest or count != wanted.records:
                return f"{path} has {count} records and {rest} bytes, not {wanted.records} records"
            place = _core.check_record_file(
                name, 0, count, form.size, form.keys, False, min(job.memory, 64 << 20), None
            )
            if place < count:
                return f"{path}: record {place} belongs before the one in front of it"
            if _ends_of(form, name)[1:] != (wanted.first, wanted.last):
                return f"{path}: the first or the last key is another one"
            if _sum_of_file(form, name) != wanted.sum:
                return f"{path}: records were changed"
    except FileNotFoundError:
        return f"{path} is missing"
    return ""


def answer() -> None:
    pass


def clean(job: Job) -> None:
    """Removes what this sort has in the folders of the node."""
    for folder in job.folders:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(os.path.join(folder, job.name))
