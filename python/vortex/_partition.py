"""Records of a file, distributed over files by splitters."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import argsort
from ._files import Path, name_of, naming, open, stamp_of, write  # noqa: A004
from ._keys import Names
from ._sort_forms import Progress, _shown


def _borders(splitters: npt.ArrayLike, kind: np.dtype) -> npt.NDArray[Any]:
    """The splitters as keys of that kind; ValueError where one is none."""
    given = np.asarray(splitters)
    if kind.kind in "mM":
        if given.dtype.kind in "iu":
            strange = given[given > np.iinfo(np.int64).max]
            if len(strange):
                raise ValueError(f"splitters: {strange[0]!r} is no key of {kind}")
            given = given.astype(kind)
        try:
            if given.dtype.kind != kind.kind:
                given = np.asarray(splitters, f"{kind.kind}8")
            borders = given.astype(kind)
        except OverflowError as error:  # numpy from 2026 on; before, what does not fit is another time
            raise ValueError(f"splitters: one is no key of {kind}") from error
        strange = given[(borders.astype(given.dtype) != given) & ~np.isnat(given)]
    else:
        if {given.dtype.kind, kind.kind} == {"S", "U"}:
            given = given.astype(kind.kind)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                borders = given.astype(kind)
        except OverflowError as error:
            raise ValueError(f"splitters: one is no key of {kind}") from error
        # Python compares numbers of any two kinds as they are. Floating-point numbers are rounded, as numpy does
        # where it compares arrays with numbers.
        rounded = given.dtype.kind == kind.kind == "f"
        strange = [one for one, key in zip(given.ravel().tolist(), borders.ravel().tolist())
                   if one != key and (one == one or key == key) and not (rounded and abs(key) < np.inf)]  # fmt: skip
    if len(strange):
        raise ValueError(f"splitters: {strange[0]!r} is no key of {kind}")
    return borders


def _rows_of_borders(splitters: Any, kind: np.dtype) -> npt.NDArray[Any]:
    """The same for keys of several fields: tuples, or an array that has these fields."""
    names = getattr(getattr(splitters, "dtype", None), "names", None)
    rows = list(splitters) if names is None else []
    if any(not isinstance(row, tuple) or len(row) != len(kind.names) for row in rows):
        raise ValueError(f"splitters: keys of several fields are tuples of {len(kind.names)}")
    borders = np.empty(len(splitters), kind)
    for at, name in enumerate(kind.names):
        part = kind[name]
        column = [row[at] for row in rows] if names is None else splitters[name]
        borders[name] = _borders(column if len(column) else np.empty(0, part), part)
    return borders


def _keys_of_rows(rows: npt.NDArray[Any], key: Names) -> npt.NDArray[Any]:
    """The fields that count, copied where they are several."""
    return rows if key is None else rows[key if isinstance(key, str) else list(key)]


def _parts(borders: npt.NDArray[Any], keys: npt.NDArray[Any], threads: int) -> npt.NDArray[np.int32]:
    """How many borders each key is not less than: the order of both together tells, in which borders
    come in front of what is equal to them."""
    order = argsort(np.concatenate([borders, keys.astype(borders.dtype, copy=False)]), threads=threads)
    part = np.empty(order.size, np.int32)
    part[order] = np.cumsum(order < borders.size, dtype=np.int32)
    return part[borders.size :]


def partition(
    src: Path,
    dst: Sequence[Path],
    splitters: npt.ArrayLike,
    *,
    dtype: npt.DTypeLike = None,
    key: Names = None,
    memory: int = 0,
    threads: int = 0,
    progress: Progress | bool | None = None,
) -> list[int]:
    """Distributes the records of a file over files by their keys; returns how many each got.

    src: a raw file of records, or a .npy file, of which all axes but the last are records' numbers.
    dst: one file more than there are splitters, each another one, all raw. They appear when all are
        complete and on the disk; an error leaves what was there.
    splitters: sorted keys, without loss of the dtype of those of the records; of several fields,
        tuples. File i gets the records whose keys are at least splitters[i - 1] and less than
        splitters[i], in the order of `src`; NaN counts as the largest number.
    dtype: of the records; None: the .npy file's. key: the field or fields that count; None: all of
        the record. memory: bytes, for records; 0: 64 MiB. threads: that may work; 0: one for each
        usable core. progress: as for sort_file(), but for each block, with the phase "writing".
    Raises OSError with errno and file name.
    """
    names, source = [name_of(one) for one in dst], name_of(src)
    stamp = stamp_of(source)
    array = open(source, dtype, memory=(memory or 64 << 20) // 4).reshape(-1)
    kind = _keys_of_rows(np.empty(0, array.dtype), key).dtype
    borders = _borders(splitters, kind) if kind.names is None else _rows_of_borders(splitters, kind)
    if borders.ndim == 1 and (argsort(borders) != np.arange(borders.size)).any():
        raise ValueError("splitters: they are not sorted")
    if borders.ndim != 1 or len(names) != borders.size + 1:
        raise ValueError(f"dst: {borders.size} splitters make {borders.size + 1} files, not {len(names)}")
    if len({os.path.realpath(name) for name in names}) < len(names):
        raise ValueError("dst: it has a file twice")
    counts = np.zeros(len(names), np.int64)
    # Beside a block: its copy in order, its keys, and six numbers for each of its records.
    step = max(1, (memory or 64 << 20) // 4 * 3 // (2 * array.dtype.itemsize + 2 * kind.itemsize + 48))
    with contextlib.ExitStack() as files, naming(source, *names), _shown(progress) as shown:
        outputs = [files.enter_context(_core.NewFile(name)) for name in names]
        for begin in range(0, array.size, step):
            block = array.read(begin, min(step, array.size - begin))
            part = _parts(borders, _keys_of_rows(block, key), threads)
            block = block[argsort(part, threads=threads)]
            some = np.bincount(part, minlength=len(names))
            for name, output, piece in zip(names, outputs, np.split(block, np.cumsum(some)[:-1])):
                with naming(name):
                    write(output.descriptor, piece)
            counts += some
            if shown is not None:
                shown("writing", (begin + len(block)) * array.dtype.itemsize, array.nbytes)
        _core.expect_unchanged(source, stamp)
        _core.publish(outputs)
    return counts.tolist()
