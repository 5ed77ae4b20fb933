"""Sorts of what memory does not hold."""

from __future__ import annotations

import errno
import os
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import _core
from ._files import Path, _checked, name_of, naming, new_header
from ._inputs import array_of
from ._keys import Key, Names, record_keys
from ._sort_forms import Progress, SortReport, _form, _Lines, _names_of, _Records, _shown, first_of

# Files that are merged at a time, each with descriptors; more are sorted instead.
_MOST_MERGED = 128


def _sort_npy(sources: list[str], target: str, form: _Records, merge: bool, resources: Any) -> SortReport:
    first, memory, folders, threads, progress = resources
    if not folders:
        folders = [os.path.dirname(os.path.abspath(target))]
    count = sum(one.count for one in form.npy)
    wanted = min(count, first) if first else count
    header = new_header(form.npy[0].dtype, (wanted,)) if target.endswith(".npy") else b""
    parts = [(source, one.offset, one.count, one.stamp) for source, one in zip(sources, form.npy)]
    if merge and len(sources) <= _MOST_MERGED:
        room = _less(memory or _core.default_memory())
        if _core.merge_parts(parts, target, header, form.size, form.keys, wanted, room, progress):
            return SortReport(count, wanted, 0, 1)
    sorter = _core.Sorter(form.size, form.keys, first, _less(memory), folders, threads, progress)
    for part in parts:
        sorter.push_file(part)
    sorter.sort()
    sorter.write(target, header)
    return SortReport(count, wanted, *sorter.counts)


def _less(memory: int) -> int:
    """What is left for a sorter beside the buffers that a file is read and written with."""
    return max(memory - (4 << 20), memory // 2) if memory else 0


def sort_file(
    src: Path | Sequence[Path],
    dst: Path,
    *,
    dtype: npt.DTypeLike = None,
    record: int | str | None = None,
    key: Names = None,
    letters: str = "",
    separator: str | None = None,
    header: int = 0,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    first: int | None = None,
    memory: int = 0,
    folders: Sequence[Path] | Path | None = None,
    threads: int = 0,
    progress: Progress | bool | None = None,
) -> SortReport:
    """Sorts a file of any size into another one, or into itself, within a fixed memory.

    src: a file, or several, whose records are sorted together; equal ones keep their order.
    dst: appears when it is complete and on the disk; an error, or Ctrl-C, leaves what was there.
    dtype: what the records are: numbers, times, S, U, or a structured dtype, of which `key` names
        the field or fields that count; all by default. None with .npy files: their own;
        an output that ends in .npy gets one axis. Elsewhere a .npy file, or a name of one for the
        output, is a ValueError, since its header is no record.
        In files NaNs whose sign is set, and NaT, come first, as their bits say.
    record: instead of a dtype, the length of a record in bytes, and `key` has the form
        "OFFSET:LENGTH[:TYPE][:desc]" with a TYPE such as u32, i64be, f64 or bytes. "lines": the file
        is text, and keys are those of `sort -k` ("2,2n"), `letters` its options for all keys (such
        as "n" or "f") and `separator` its -t, in the order of the C locale. "csv": quotes are as
        RFC 4180 has them, and keys are columns by number ("3n") or, where there is a header, by
        name ("price:n").
    header: lines at the top that stay there.
    descending: the other way round; then a text key that has r and no other letter is a ValueError.
    stable: lines with equal keys keep their order; records always do. unique: of records with equal
        keys only the first is kept. first: so many records of the order are written, headers beside
        them, and the others are left out; few are found in one pass without runs. None: all.
    memory: bytes, for everything that the sort takes; 0: half of what is free, at most 1 GiB.
    folders: for what memory does not hold; that of `dst` by default.
    threads: that may work; 0: one for each usable core.
    progress: called with the phase ("reading", "merging", "writing"), the bytes that it has dealt
        with and those that it has in all, or None, at most 20 times a second. What it raises ends
        the sort, as Ctrl-C does, which is seen while data come: not by a sort that waits for a pipe. True: a bar
        by tqdm, which must be there.

    Does not hold the GIL. Raises OSError with errno and file name: ENOMEM with the least memory that
    would do, ENOSPC, and what the disks say.
    """
    form = (dtype, record, key, letters, separator, header, descending)
    return _sort(src, dst, form, stable, unique, False, (first_of(first), memory, folders, threads, progress))


def _sort(src: Any, dst: Path, form: Any, stable: bool, unique: bool, merge: bool, resources: Any) -> SortReport:
    sources, target = _names_of(src), name_of(dst)
    first, memory, folders, threads, progress = resources
    where = _names_of(folders)
    with naming(*sources, target, *where), _shown(progress) as shown:
        found = _form(sources, *form, unique)
        if isinstance(found, _Lines):
            return SortReport(*_core.sort_line_files(sources, target, found.order, found.header, stable, unique, merge,
                                                     first, memory, where, threads, shown))  # fmt: skip
        if found.npy:
            return _sort_npy(sources, target, found, merge, (first, memory, where, threads, shown))
        if target.endswith(".npy"):
            raise ValueError(f"{target}: raw records have no header, without which nobody can read a .npy file")
        return SortReport(*_core.sort_record_files(sources, target, found.size, found.keys, unique, merge,
                                                   first, memory, where, threads, shown))  # fmt: skip


def merge(
    src: Sequence[Path],
    dst: Path,
    *,
    dtype: npt.DTypeLike = None,
    record: int | str | None = None,
    key: Names = None,
    letters: str = "",
    separator: str | None = None,
    header: int = 0,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    first: int | None = None,
    memory: int = 0,
    folders: Sequence[Path] | Path | None = None,
    threads: int = 0,
    progress: Progress | bool | None = None,
) -> SortReport:
    """Merges files that are sorted already, as check() tells, into one that is.

    All as for sort_file(); what is read is kept nowhere but for very many files, and with `first` no
    more is read than it takes. Files that are not sorted give one that is not.
    """
    form = (dtype, record, key, letters, separator, header, descending)
    return _sort(src, dst, form, stable, unique, True, (first_of(first), memory, folders, threads, progress))


class Disorder(NamedTuple):
    """The first record that must not follow the one in front of it: its file, and its number there,
    from 0 on, headers included."""

    path: str
    record: int


def check(
    src: Path | Sequence[Path],
    *,
    dtype: npt.DTypeLike = None,
    record: int | str | None = None,
    key: Names = None,
    letters: str = "",
    separator: str | None = None,
    header: int = 0,
    descending: bool = False,
    unique: bool = False,
    memory: int = 0,
    threads: int = 0,
    progress: Progress | bool | None = None,
) -> Disorder | None:
    """Tells where a file is not sorted; None: it is. Several are looked at each by itself.

    All as for sort_file(). Lines whose keys are equal may come in any order. unique: equal keys must
    not follow each other.
    """
    sources = _names_of(src)
    with naming(*sources), _shown(progress) as shown:
        form = _form(sources, dtype, record, key, letters, separator, header, descending, unique)
        if isinstance(form, _Lines):
            found = _core.check_line_files(sources, form.order, form.header, unique, memory, threads, shown)
            return None if found is None else Disorder(found[0], found[1] - 1)
        for at, source in enumerate(sources):
            if form.npy:
                _, offset, count, _ = form.npy[at]
            else:
                offset, (count, rest) = 0, divmod(os.path.getsize(source), form.size)
                if rest:
                    raise OSError(errno.EINVAL, f"its length is no multiple of a record's {form.size} bytes", source)
            place = _core.check_record_file(source, offset, count, form.size, form.keys, unique, memory, shown)
            if place < count:
                return Disorder(source, place)
    return None


def _is_kept(array: npt.NDArray[Any], cast: npt.NDArray[Any]) -> bool:
    """Whether all are the same after a cast that numpy calls safe: large integers may not be in floats, and times
    may be too far away for a shorter unit."""
    if array.dtype.names is not None:
        return all(_is_kept(array[name], cast[name]) for name in array.dtype.names)
    if array.dtype.kind in "mM" and cast.dtype.kind == array.dtype.kind:
        return bool(np.all((cast.astype(array.dtype) == array) | np.isnat(array)))
    bits = 8 * array.itemsize - (array.dtype.kind == "i")
    if array.dtype.kind not in "iu" or cast.dtype.kind != "f" or np.finfo(cast.dtype).nmant >= bits:
        return True
    with np.errstate(invalid="ignore"):
        back = cast.astype(array.dtype)
    return bool(np.all((cast < 2.0**bits) & (back == array)))


def _cast(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if array.dtype.names != dtype.names:
        raise TypeError(f"fields {array.dtype.names} are not those of the sorter, {dtype.names}")
    refusal = f"{dtype} does not hold all of these {array.dtype}"
    try:
        cast = array.astype(dtype, casting="safe", copy=False)
    except OverflowError as error:  # numpy from 2026 on
        raise TypeError(refusal) from error
    if not _is_kept(array, cast):
        raise TypeError(refusal)
    return cast


class Sorter:
    """Sorts more than memory holds: push arrays, then go through sorted arrays.

        sorter = vortex.Sorter(np.int64, memory=1 << 28)
        for array in arrays:
            sorter.push(array)
        for array in sorter:
            use(array)

    dtype, key, descending, first, memory, folders, threads: as for sort_file(); `folders` is $TMPDIR
    or /tmp by default. Records with equal keys keep their order. Threads may push by turns. Errors
    are OSErrors with errno; then the sorter can only be dropped.
    """

    def __init__(
        self,
        dtype: npt.DTypeLike,
        key: Names = None,
        memory: int = 0,
        *,
        descending: bool = False,
        first: int | None = None,
        folders: Sequence[Path] | Path | None = None,
        threads: int = 0,
    ) -> None:
        self.dtype = _checked(dtype)
        keys: list[Key] = record_keys(self.dtype, key, descending)
        where = _names_of(folders)
        with naming(*where):
            self._sorter = _core.Sorter(self.dtype.itemsize, keys, first_of(first), memory, where, threads, None)
        self._sorted = False

    def __len__(self) -> int:
        """Records that were pushed; once they are gone through, those that `first` has left."""
        return self._sorter.size

    def push(self, data: Any) -> None:
        """Copies the elements of an array, in C order; arrays of many are faster.

        data: what sorted() takes, of the sorter's dtype or one that can be cast to it without loss
        (TypeError otherwise). Waits while the memory is full, without the GIL. ValueError once
        sorted arrays were asked for.
        """
        if self._sorted:
            raise ValueError("records were sorted already: push all of them first")
        array = array_of(data)
        if array.dtype != self.dtype:
            array = _cast(array, self.dtype)
        array = np.ascontiguousarray(array, self.dtype)
        if array.size:
            self._sorter.push(array.reshape(-1).view(np.uint8))

    def blocks(self, size: int) -> Iterator[npt.NDArray[Any]]:
        """The sorted elements in new arrays of `size` each, the last with fewer. Only once."""
        if size < 1:
            raise ValueError("blocks have at least one element")
        if self._sorted:
            raise ValueError("the records can be gone through once")
        self._sorted = True
        self._sorter.sort()
        return self._blocks(size)

    def _blocks(self, size: int) -> Iterator[npt.NDArray[Any]]:
        for begin in range(0, self._sorter.size, size):
            block = np.empty(min(size, self._sorter.size - begin), self.dtype)
            self._sorter.read(begin * self.dtype.itemsize, block.view(np.uint8))
            yield block

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """The sorted elements in arrays of about a megabyte. Only once."""
        return self.blocks(max(1, (1 << 20) // self.dtype.itemsize))
