"""Sorts beyond one machine, by Ray: pip install "vortex-streams[ray]".

sort() sorts files that no machine holds, check() looks at what it wrote, sort_dataset() sorts
Ray's datasets, and estimate() tells what a sort would take.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import signal
import threading
from typing import Any, Callable, Iterator, Sequence

import numpy.typing as npt

try:
    import ray as _ray  # noqa: F401
except ImportError as missing:
    raise ImportError('vortex.ray needs Ray: pip install "vortex-streams[ray]"') from missing

from . import _ray_tasks
from ._arrays import _ROW_KINDS
from ._files import Path
from ._keys import Names
from ._ray_dataset import sort_dataset
from ._ray_forms import LineForm, RecordForm, Summary, joined
from ._ray_plan import Estimate, Rates, cluster, estimate, parts_of, plan_of
from ._ray_sort import Sort, SortReport
from ._ray_started import Progress, Tasks
from ._ray_tasks import Form, Job, part_name
from ._sort_forms import _form, _Lines, _names_of, _Records, _shown
from ._storage import Storage

__all__ = ["Estimate", "Rates", "SortReport", "check", "estimate", "sort", "sort_dataset"]

_MANIFEST = "manifest.json"
_PART = r"part-\d{5,}"  # as part_name() makes them
_VERSION = 1
_MEMORY = 512 << 20
_LEAST_MEMORY = 32 << 20


def _form_of(form: _Records | _Lines, descending: bool, stable: bool) -> Form:
    if isinstance(form, _Lines):
        return LineForm(form.order, stable)
    dtype = form.dtype
    integer = dtype is not None and dtype.kind in "iu" and dtype in _ROW_KINDS
    keys = form.keys or [(0, form.size, 0, False, False)]
    return RecordForm(form.size, keys, dtype.str if integer else "", _ROW_KINDS[dtype] if integer else 0, descending)


def _inputs(storage: Storage, names: list[str], form: _Records | _Lines) -> list[tuple[str, Any, int, int]]:
    """Name, stamp, offset and length of the records."""
    found = []
    for at, name in enumerate(names):
        stamp = storage.stamp(name)
        offset, length = 0, stamp.size
        if isinstance(form, _Records) and form.npy:
            offset, length = form.npy[at].offset, form.npy[at].count * form.size
        if isinstance(form, _Records) and length % form.size:
            raise OSError(errno.EINVAL, f"its length is no multiple of a record's {form.size} bytes", name)
        found.append((name, stamp, offset, length))
    return found


def sort(
    inputs: Path | Sequence[Path],
    output: Path,
    *,
    dtype: npt.DTypeLike = None,
    record: int | str | None = None,
    key: Names = None,
    letters: str = "",
    separator: str | None = None,
    stable: bool = False,
    descending: bool = False,
    partitions: int = 0,
    memory: int = 0,
    folders: Path | Sequence[Path] | None = None,
    storage_options: dict[str, Any] | None = None,
    progress: Progress | bool | None = None,
) -> SortReport:
    """Sorts files of records into the files part-00000, part-00001, ... of a folder, one behind the other
    the sorted whole, and manifest.json, by the tasks of Ray: ray.init() comes before.

    inputs: files, in their order, whose names all machines know, or objects as fsspec names them (with
        "://"; storage_options are for its file systems). Records with equal keys keep their order.
    output: a folder that all machines know, or a place of fsspec. Files appear when they are complete, the
        manifest as the last; FileExistsError where a part or a manifest is there. An error, or Ctrl-C, leaves none;
        one more Ctrl-C waits until all is removed.
    dtype, record, key, letters, separator, descending, stable: as for vortex.sort_file(). CSV is not sorted here,
        nor are .npy files of fsspec (ValueError).
    partitions: files of output, at most; 0: one for each 256 MiB, and for each processor. Equal keys are
        divided, too.
    memory: bytes for each task, as which Ray counts it, beside the objects in its store; 0: 512 MiB.
    folders: of each machine, for what the stores do not hold at a time (then as much as the data), and for
        parts on their way to fsspec; its folder for temporary files by default.
    progress: called with the stage ("sampling", "mapping", "writing"), the bytes that it has dealt with,
        and all. What it raises ends the sort. True: a bar by tqdm.

    The output is the same whatever machines there are, and whichever are lost meanwhile: Ray repeats tasks whose
    worker or node dies, and what a lost node had in its folders is made again. Raises OSError with errno and
    file name, for disks that are full and inputs that vanish or change too; what tasks raise is raised here.
    """
    names, target = _names_of(inputs), os.fsdecode(os.fspath(output))
    if record == "csv":
        raise ValueError("record: CSV is sorted by vortex.sort_file()")
    form = _form(names, dtype, record, key, letters, separator, 0, descending, False)
    memory = memory or _MEMORY
    if memory < _LEAST_MEMORY:
        raise ValueError(f"memory: {memory} bytes are too little for a task; {_LEAST_MEMORY} are the least")
    if partitions < 0:
        raise ValueError(f"partitions: {partitions} are none")
    storage = Storage(storage_options)
    sources = _inputs(storage, [storage.absolute(name) for name in names], form)
    job = Job(
        f"vortex-ray-{os.urandom(6).hex()}",
        _form_of(form, descending, stable),
        storage.absolute(target),
        [os.path.abspath(one) for one in _names_of(folders)],
        memory,
        storage_options or {},
    )
    there = cluster()
    if there.memory < memory:
        raise ValueError(f"memory: a node has {there.memory:.0f} bytes, and a task would take {memory}")
    total = sum(source[3] for source in sources)
    plan = plan_of(there, total, job.form, memory, partitions)
    with _shown(progress) as shown:
        return _sort(job, Sort(job, parts_of(storage, job.form, sources, plan.part_bytes), there, plan, shown), sources)


def _sort(job: Job, sort: Sort, sources: list[Any]) -> SortReport:
    storage = job.storage()
    made = storage.make_folder(job.output)
    taken = [name for name in storage.names(job.output) if name == _MANIFEST or re.fullmatch(_PART, name)]
    if taken:
        raise FileExistsError(
            errno.EEXIST, "the folder has a sort's output already", storage.join(job.output, min(taken))
        )
    done = False
    try:
        sort.run()
        manifest = _manifest(job, sort, sources)
        storage.write_text(storage.join(job.output, _MANIFEST), json.dumps(manifest, indent=1) + "\n")
        done = True
    finally:
        with _interrupts_later():
            _do_all(_cleaning(job, sort, done, made), done)
    return sort.report()


def _cleaning(job: Job, sort: Sort, done: bool, made: bool) -> Iterator[Callable[[], None]]:
    """What is to be done when a sort has ended."""
    storage = job.storage()
    yield sort.tasks.end
    if not done:
        # The manifest first: whoever finds it finds all parts.
        for name in [_MANIFEST, *map(part_name, range(sort.partitions))]:
            yield functools.partial(storage.remove, storage.join(job.output, name))
    yield sort.tasks.clean
    yield functools.partial(storage.remove_unfinished, job.output, _PART)
    if made and not done:
        yield functools.partial(storage.remove_folder_if_empty, job.output)


def _do_all(steps: Iterator[Callable[[], None]], tell: bool) -> None:
    """Also those behind one that fails; raises what the first one has raised, if that is to be told."""
    failures = []
    for step in steps:
        try:
            step()
        except Exception as failure:
            failures.append(failure)
    if failures and tell:
        raise failures[0]


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C in the block, which cleans, comes when it has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # it comes to the main thread alone
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def _manifest(job: Job, sort: Sort, sources: list[Any]) -> dict[str, Any]:
    """Raises OSError (EIO) where what was written is not what was read."""
    inputs: list[list[Summary]] = [[] for _ in sources]
    for number in sorted(sort.summaries):
        for piece, summary in zip(sort.pieces(number), sort.summaries[number]):
            inputs[piece.input].append(summary)
    parts = [sort.results[number] for number in sorted(sort.results)]
    sums = sum(one.sum for some in inputs for one in some) % 2**64, sum(one.sum for one in parts) % 2**64
    counts = sum(one.records for some in inputs for one in some), sum(one.records for one in parts)
    if sums[0] != sums[1] or counts[0] != counts[1]:
        raise OSError(
            errno.EIO, f"{counts[1]} records were written and {counts[0]} read, or they are others", job.output
        )
    return {
        "version": _VERSION,
        "record": "lines" if isinstance(job.form, LineForm) else job.form.size,
        "keys": job.form.order_of if isinstance(job.form, LineForm) else job.form.keys,
        "stable": isinstance(job.form, RecordForm) or job.form.stable,
        "records": counts[1],
        "sum": f"{sums[1]:016x}",
        "inputs": [{"name": source[0], **_described(joined(some))} for source, some in zip(sources, inputs)],
        "parts": [{"name": part_name(number), **_described(one)} for number, one in enumerate(parts)],
        "report": sort.report().json(),
    }


def _described(one: Summary) -> dict[str, Any]:
    return {"records": one.records, "sum": f"{one.sum:016x}", "first": one.first, "last": one.last}


def check(manifest: Path, *, storage_options: dict[str, Any] | None = None) -> str | None:
    """Tells what is wrong with the output of a sort(); None: it is whole, unchanged and in order.

    manifest: the file manifest.json of the folder. Each part is read whole, by a task of Ray, and compared with
    what the manifest says of it: its records and their sum, their order, its first and its last key; then all
    sums, and the keys of neighbours. Raises OSError for the manifest, and ValueError where it is none.
    """
    name = os.fsdecode(os.fspath(manifest))
    storage = Storage(storage_options)
    said = json.loads(storage.read_text(name))
    if not isinstance(said, dict) or said.get("version") != _VERSION:
        raise ValueError(f"{name} is no manifest of version {_VERSION}")
    folder = name.rpartition("/")[0] if storage.is_remote(name) else os.path.dirname(os.path.abspath(name))
    try:
        form, parts = _said_by(said)
        complaints = _complaints_of_whole(said, list(parts.items()), form)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{name} is no whole manifest") from error
    job = Job(f"vortex-ray-{os.urandom(6).hex()}", form, folder, [], _MEMORY, storage_options or {})
    tasks = Tasks(job, None)
    try:
        refs = [
            tasks.start(_ray_tasks.check_part, f"check {part}", storage.join(folder, part), wanted, memory=0)
            for part, wanted in parts.items()
        ]
        complaints = [*(tasks.result(ref) for ref in refs), *complaints]
    finally:
        tasks.end()
        tasks.clean()
    return next(filter(None, complaints), None)


def _said_by(manifest: dict[str, Any]) -> tuple[Form, dict[str, Summary]]:
    """The form of the records, and the parts by their names."""
    if manifest["record"] == "lines":
        form: Form = LineForm(tuple(manifest["keys"]), manifest["stable"])
    else:
        form = RecordForm(manifest["record"], [tuple(one) for one in manifest["keys"]])
    return form, {
        one["name"]: Summary(one["records"], int(one["sum"], 16), one["first"], one["last"])
        for one in manifest["parts"]
    }


def _complaints_of_whole(said: dict[str, Any], parts: list[tuple[str, Summary]], form: Form) -> list[str]:
    found = []
    for things in ("inputs", "parts"):
        if sum(one["records"] for one in said[things]) != said["records"]:
            found.append(f"the {things} have not the records of the whole")
        if f"{sum(int(one['sum'], 16) for one in said[things]) % 2**64:016x}" != said["sum"]:
            found.append(f"the {things} have another sum than the whole")
    there = [(name, one) for name, one in parts if one.records]
    for (before, left), (name, right) in zip(there, there[1:]):
        if form.before(right.first, left.last):
            found.append(f"{name} begins with a key that belongs before the last one of {before}")
    return found


if __name__ == "__main__":
    from ._ray_program import main

    main()
