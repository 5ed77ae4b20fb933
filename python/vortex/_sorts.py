"""Sorts of what memory does not hold."""

from __future__ import annotations

import csv
import io
import os
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import array_of
from ._files import Path, _checked, name_of, naming, new_header, npy_header
from ._keys import Key, Names, record_keys, text_keys

Progress = Callable[[str, int, Union[int, None]], Any]


class SortReport(NamedTuple):
    """What a sort did: records read and written, runs that were kept in the folders (0: everything
    fitted in memory), and merges that a record went through."""

    records_in: int
    records_out: int
    runs: int
    passes: int


def _names_of(paths: Sequence[Path] | Path | None) -> list[str]:
    if paths is None:
        return []
    if isinstance(paths, (str, os.PathLike)):
        return [name_of(paths)]
    return [name_of(path) for path in paths]


def _column_number(key: str, header: list[str]) -> str:
    """NAME[:LETTERS] as N[LETTERS]; other keys as they are."""
    name, colon, letters = key.rpartition(":")
    for title, options in ((key, ""), (name, letters)) if colon else ((key, ""),):
        if title in header:
            return f"{header.index(title) + 1}{options}"
    if key[:1].isdigit():
        return key
    raise ValueError(f"key: there is no column {key!r}; there are {', '.join(map(repr, header))}")


def _line_keys(source: str, record: str, key: Names, separator: str | None, header: int) -> list[str]:
    keys = [] if key is None else [key] if isinstance(key, str) else list(key)
    if record == "lines" or not header or not keys:
        return keys
    with io.open(source, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        titles = next(csv.reader(file, delimiter=separator or ","), [])
    return [_column_number(one, titles) for one in keys]


def _turned_letters(letters: str) -> str:
    return letters.replace("r", "") if "r" in letters else letters + "r"


def _turned(key: str) -> str:
    """The key of the other way round. A key with letters of its own has none of those for all keys."""
    own = set(filter(str.isalpha, key)) if key[:1].isdigit() else set()  # what is no key is refused later
    if own == {"r"}:
        raise ValueError(f"key {key!r} and descending turn each other round: leave both out")
    return _turned_letters(key) if own else key


def _sort_npy(source: str, target: str, found: Any, key: Names, descending: bool, resources: Any) -> SortReport:
    dtype, shape, offset = found
    count = int(np.prod(shape, dtype=object))
    _checked(dtype)
    memory, folders, threads, progress = resources
    if not folders:
        folders = [os.path.dirname(os.path.abspath(target))]
    header = new_header(dtype, (count,)) if target.endswith(".npy") else b""
    sorter = _core.Sorter(dtype.itemsize, record_keys(dtype, key, descending), _less(memory), folders, threads, progress)
    sorter.push_file(source, offset, count)
    sorter.sort()
    sorter.write(target, header)
    return SortReport(count, count, *sorter.counts)


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
    memory: int = 0,
    folders: Sequence[Path] | Path | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> SortReport:
    """Sorts a file of any size into another one, or into itself, within a fixed memory.

    src: a file, or several, whose records are sorted together; equal ones keep their order.
    dst: appears when it is complete and on the disk; an error, or Ctrl-C, leaves what was there.
    dtype: what the records are: numbers, times, S, U, or a structured dtype, of which `key` names
        the field or fields that count; all by default. None with a single .npy file: its own;
        an output that ends in .npy gets one axis. Elsewhere a .npy file is a ValueError, since its
        header is no record.
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
        keys only the first is kept.
    memory: bytes, for everything that the sort takes; 0: half of what is free, at most 1 GiB.
    folders: for what memory does not hold; that of `dst` by default.
    threads: that may work; 0: one for each usable core.
    progress: called with the phase ("reading", "merging", "writing"), the bytes that it has dealt
        with and those that it has in all, or None, at most 20 times a second. What it raises ends
        the sort, as Ctrl-C does.

    Does not hold the GIL. Raises OSError with errno and file name: ENOMEM with the least memory that
    would do, ENOSPC, and what the disks say.
    """
    sources = _names_of(src)
    target = name_of(dst)
    where = _names_of(folders)
    if not sources:
        raise ValueError("src: there is no file to sort")
    if dtype is not None and record is not None:
        raise ValueError("a sort takes a dtype or a record, not both")
    with naming(*sources, target, *where):
        if isinstance(record, str):
            if record not in ("lines", "csv"):
                raise ValueError(f"record: {record!r} is no length, and none of 'lines' and 'csv'")
            if separator is not None and len(os.fsencode(separator)) != 1:
                raise ValueError(f"separator: {separator!r} is not one byte")
            keys = _line_keys(sources[0], record, key, separator, header)
            if descending:
                keys, letters = [_turned(one) for one in keys], _turned_letters(letters)
            spec = (keys, letters, separator or "", record == "csv")
            return SortReport(*_core.sort_line_files(sources, target, spec, header, stable, unique, False,
                                                     memory, where, threads, progress))  # fmt: skip
        if header or letters or separator:
            raise ValueError("header, letters and separator are for lines and CSV")
        headers = [npy_header(source) for source in sources]
        if any(headers) and (len(sources) > 1 or unique or dtype is not None or record is not None):
            name = next(source for source, found in zip(sources, headers) if found)
            raise ValueError(f"{name}: a .npy file says what it holds, and its header is no record: it is sorted "
                             "alone, without dtype, record and unique")  # fmt: skip
        if record is not None:
            size, places = int(record), text_keys(key, descending)
            if not places and descending:
                places = [(0, size, 0, False, True)]
        else:
            if headers[0] is not None:
                return _sort_npy(sources[0], target, headers[0], key, descending, (memory, where, threads, progress))
            if dtype is None:
                raise ValueError("a file that is no .npy file does not say what it holds: give a dtype or a record")
            kind = _checked(dtype)
            size, places = kind.itemsize, record_keys(kind, key, descending)
        return SortReport(*_core.sort_record_files(sources, target, size, places, unique, False,
                                                   memory, where, threads, progress))  # fmt: skip


class Sorter:
    """Sorts more than memory holds: push arrays, then go through sorted arrays.

        sorter = vortex.Sorter(np.int64, memory=1 << 28)
        for array in arrays:
            sorter.push(array)
        for array in sorter:
            use(array)

    dtype, key, descending, memory, folders, threads: as for sort_file(); `folders` is $TMPDIR or
    /tmp by default. Records with equal keys keep their order. One thread at a time. Errors are
    OSErrors with errno; then the sorter can only be dropped.
    """

    def __init__(
        self,
        dtype: npt.DTypeLike,
        key: Names = None,
        memory: int = 0,
        *,
        descending: bool = False,
        folders: Sequence[Path] | Path | None = None,
        threads: int = 0,
    ) -> None:
        self.dtype = _checked(dtype)
        keys: list[Key] = record_keys(self.dtype, key, descending)
        where = _names_of(folders)
        with naming(*where):
            self._sorter = _core.Sorter(self.dtype.itemsize, keys, memory, where, threads, None)
        self._sorted = False

    def __len__(self) -> int:
        """Records that were pushed."""
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
            array = array.astype(self.dtype, casting="safe", copy=False)
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
