"""What the tasks of a sort beyond one machine do. They are deterministic: Ray may repeat each of them."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
from typing import Any, NamedTuple, Sequence, Union

import numpy as np

from ._ray_forms import Border, Bytes, LineForm, Piece, RecordForm, Summary, joined
from ._storage import Stamp, Storage

Form = Union[RecordForm, LineForm]


class Job(NamedTuple):
    """What all tasks of a sort know. `folders` are those of each machine for runs; `memory` is for one task.
    Without folders each machine takes its own for temporary files."""

    name: str
    form: Form
    output: str
    folders: list[str]
    memory: int
    options: dict[str, Any]

    def storage(self) -> Storage:
        return Storage(self.options)

    def folders_here(self) -> list[str]:
        """What this sort has on the machine that asks."""
        return [os.path.join(folder, self.name) for folder in self.folders or [tempfile.gettempdir()]]

    def folder(self, number: int) -> str:
        """Where a node has what this sort writes for partition `number`: machines may share folders."""
        here = self.folders_here()
        return os.path.join(here[number % len(here)], node())


class Share(NamedTuple):
    """What a part has for the partitions of one node: the bytes of each, and these."""

    sizes: list[int]
    records: Bytes


class LostRuns(Exception):
    """A node does not have what it wrote."""


def node() -> str:
    import ray

    return ray.get_runtime_context().get_node_id()


class Stopped(Exception):
    """Of a task that nobody waits for any more."""


def stop(job: Job) -> None:
    """Tasks of the sort that begin from now on end at once, and none gives a part its name."""
    from ray.experimental import internal_kv

    internal_kv._internal_kv_put(job.name, b"stopped")


def all_have_ended(job: Job) -> None:
    """Behind stop()."""
    from ray.experimental import internal_kv

    internal_kv._internal_kv_del(job.name)


def _is_stopped(job: Job) -> bool:
    from ray.experimental import internal_kv

    return bool(internal_kv._internal_kv_exists(job.name))


def run(job: Job, returns: int, function: Any, *arguments: Any) -> Any:
    """What every task of a sort does; its processor seconds are beside its (first) result. One that nobody waits for
    returns nothings."""
    if _is_stopped(job):
        return None if returns == 1 else [None] * returns
    before = time.process_time()
    result = function(job, *arguments)
    first, *rest = [result] if returns == 1 else result
    with_seconds = (first, time.process_time() - before)
    return with_seconds if returns == 1 else [with_seconds, *rest]


# A worker that reads part after part takes the memory of the first one again.
_kept: dict[str, Bytes] = {}


def _room(name: str, size: int) -> Bytes:
    if name not in _kept or _kept[name].size < size:
        _kept.pop(name, None)
        _kept[name] = np.empty(size, np.uint8)
    return _kept[name][:size]


def check_stamp(storage: Storage, path: str, stamp: Stamp) -> None:
    if storage.stamp(path) != stamp:
        raise OSError(errno.ESTALE, "the file was changed while it was sorted", path)


def _read(job: Job, pieces: Sequence[Piece]) -> tuple[Bytes, list[Summary]]:
    """The records of a part, and what each piece has."""
    form, storage = job.form, job.storage()
    records = _room("part", sum(piece.room for piece in pieces))
    at, summaries = 0, []
    for piece in pieces:
        of_piece, found = records[at : at + piece.room], []
        for first in range(0, piece.size, form.at_once or max(1, piece.size)):
            end = min(piece.size, first + (form.at_once or piece.size))
            storage.read_into(piece.path, piece.offset + first, of_piece[first:end])
            if end == piece.size and piece.newline:
                of_piece[-1] = ord("\n")
                end = piece.room
            found.append(form.summary(of_piece[first:end]))
        check_stamp(storage, piece.path, piece.stamp)
        if isinstance(form, RecordForm) and piece.offset == 0 and of_piece[:6].tobytes() == b"\x93NUMPY":
            raise ValueError(f"{piece.path}: a .npy file, whose header is no record; not sorted from fsspec")
        summaries.append(joined(found))
        at += piece.room
    return records, summaries


def sample(job: Job, parts: Sequence[tuple[int, Sequence[Piece]]], wanted: int, most: int) -> list[Border]:
    """Some records of each part, spread over it; of lines `most` bytes each."""
    storage = job.storage()
    return [one for number, pieces in parts for one in job.form.sample(storage, number, pieces, wanted, most)]


def map_part(
    job: Job,
    number: int,
    pieces: Sequence[Piece],
    borders: Sequence[Border],
    groups: Sequence[tuple[int, int]],
) -> list[Any]:
    """Reads and sorts a part. Returns the summaries of its pieces, and of each group of partitions a Share."""
    records, summaries = _read(job, pieces)
    records, cuts = job.form.divide(number, records, borders, lambda size: _room("sorted", size))
    sizes = np.diff(cuts).tolist()
    return [summaries, *(Share(sizes[first:end], records[cuts[first] : cuts[end]]) for first, end in groups)]


def _of_partition(shares: Sequence[Share], index: int) -> list[Bytes]:
    """What the shares have for the partition that is number `index` of their group."""
    found = []
    for sizes, records in shares:
        if sizes[index]:
            first = sum(sizes[:index])
            found.append(records[first : first + sizes[index]])
    return found


def _run_name(job: Job, partition: int, wave: int) -> str:
    return os.path.join(job.folder(partition), f"{partition:05}-{wave:05}")


def merge_shares(job: Job, wave: int, first: int, *shares: Share) -> str:
    """Merges what some parts have for the partitions of this node, from number `first` on, into a file for
    each. Returns the node's name: who names it later has to ask whether it is still there."""
    for index in range(len(shares[0].sizes)):
        name = _run_name(job, first + index, wave)
        os.makedirs(os.path.dirname(name), exist_ok=True)
        job.form.merge(_of_partition(shares, index), [], name, job.memory, False)
    return node()


def part_name(number: int) -> str:
    return f"part-{number:05}"


def _write(job: Job, number: int, arrays: Sequence[Bytes], runs: Sequence[str]) -> Summary:
    storage = job.storage()
    name = storage.join(job.output, part_name(number))
    with storage.new_file(name, job.folder(number)) as file:
        summary = job.form.merge(arrays, runs, file.part, job.memory, True)
        if _is_stopped(job):
            raise Stopped
        return summary


def write_part(job: Job, number: int, index: int, *shares: Share) -> Summary:
    """Merges what all parts have for a partition into its output."""
    return _write(job, number, _of_partition(shares, index), [])


def write_part_of_runs(job: Job, number: int, waves: int) -> Summary:
    """Merges the runs of a partition, which lie on this node, within the memory of a task."""
    runs = [_run_name(job, number, wave) for wave in range(waves)]
    if missing := [run for run in runs if not os.path.exists(run)]:
        raise LostRuns(missing[0])
    summary = _write(job, number, [], runs)
    for run in runs:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(run)
    return summary


def check_part(job: Job, path: str, wanted: Summary) -> str:
    """What is wrong with a part; nothing: it is whole, and in order."""
    form, storage = job.form, job.storage()
    try:
        with storage.local(path, job.folders_here()[0]) as name:
            if rest := form.rest(name):
                return f"{path} has {rest} bytes behind its last record"
            found = form.summary_of_file(name)
            if found.records != wanted.records:
                return f"{path} has {found.records} records, not {wanted.records}"
            place = form.disorder(name, job.memory) if found.records else None
            if place is not None:
                return f"{path}: record {place} belongs before the one in front of it"
            if (found.first, found.last) != (wanted.first, wanted.last):
                return f"{path}: the first or the last key is another one"
            if found.sum != wanted.sum:
                return f"{path}: records were changed"
    except FileNotFoundError:
        return f"{path} is missing"
    return ""


def free_bytes(job: Job) -> int:
    """In the folders of this machine for runs, those of each file system once."""
    free = {}
    for folder in job.folders_here():
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        about = os.statvfs(folder)
        free[os.stat(folder).st_dev] = about.f_bavail * about.f_frsize
    return sum(free.values())


def clean(job: Job) -> None:
    """Removes what this sort has in the folders of the node, which others may share and clean as well."""
    for folder in job.folders_here():
        while os.path.lexists(folder):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(folder)
