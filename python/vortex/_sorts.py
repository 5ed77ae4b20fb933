"""Sorts of what memory does not hold."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import operator
import os
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import argsort
from ._files import NewFile, Path, _checked, name_of, naming, new_header, npy_header, open  # noqa: A004
from ._inputs import array_of
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


class _Npy(NamedTuple):
    """Where the records of a .npy file are."""

    dtype: np.dtype
    offset: int
    count: int


class _Lines(NamedTuple):
    """Lines or CSV, and what sorts them: keys, letters for all of them, separator, whether it is CSV."""

    order: tuple[list[str], str, str, bool]
    header: int


class _Records(NamedTuple):
    """Records of so many bytes; `npy` has where those of each file are, if they are .npy files."""

    size: int
    keys: list[Key]
    npy: list[_Npy]
    dtype: np.dtype | None


def _npy_files(sources: list[str]) -> list[_Npy]:
    """The headers of .npy files, which have one dtype; none where there are none."""
    headers = [npy_header(source) for source in sources]
    found = [_Npy(_checked(head[0]), head[2], int(np.prod(head[1], dtype=object))) for head in headers if head]
    if found and (len(found) < len(sources) or any(one.dtype != found[0].dtype for one in found)):
        name = next(source for source, head in zip(sources, headers) if head)
        raise ValueError(f"{name}: a .npy file says what it holds, and its header is no record: all files have to be "
                         "of its kind")  # fmt: skip
    return found


def _form(sources: list[str], dtype: Any, record: int | str | None, key: Names, letters: str, separator: str | None,
          header: int, descending: bool, unique: bool) -> _Lines | _Records:  # fmt: skip
    """What the arguments of a sort say of its files."""
    if not sources:
        raise ValueError("src: there is no file")
    if dtype is not None and record is not None:
        raise ValueError("a sort takes a dtype or a record, not both")
    if isinstance(record, str):
        if record not in ("lines", "csv"):
            raise ValueError(f"record: {record!r} is no length, and none of 'lines' and 'csv'")
        if separator is not None and len(os.fsencode(separator)) != 1:
            raise ValueError(f"separator: {separator!r} is not one byte")
        keys = _line_keys(sources[0], record, key, separator, header)
        if descending:
            keys, letters = [_turned(one) for one in keys], _turned_letters(letters)
        return _Lines((keys, letters, separator or "", record == "csv"), header)
    if header or letters or separator:
        raise ValueError("header, letters and separator are for lines and CSV")
    npy = _npy_files(sources)
    if npy and (unique or dtype is not None or record is not None):
        raise ValueError(f"{sources[0]}: a .npy file says what it holds, and its header is no record: it takes neither "
                         "dtype nor record nor unique")  # fmt: skip
    if record is not None:
        size, places = int(record), text_keys(key, descending)
        if size < 1:
            raise ValueError(f"record: {size} is no length")
        if not places and descending:
            places = [(0, size, 0, False, True)]
        return _Records(size, places, [], None)
    if not npy and dtype is None:
        raise ValueError("a file that is no .npy file does not say what it holds: give a dtype or a record")
    kind = npy[0].dtype if npy else _checked(dtype)
    return _Records(kind.itemsize, record_keys(kind, key, descending), npy, kind)


@contextlib.contextmanager
def _shown(progress: Progress | bool | None, unit: str = "B") -> Iterator[Progress | None]:
    """What a sort calls: for True the bar of tqdm, which notebooks show as one of theirs."""
    if progress is None or progress is False:
        yield None
        return
    if progress is not True:
        yield progress
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as missing:
        raise ImportError("progress=True needs tqdm, which shows it: pip install tqdm") from missing
    with tqdm(unit=unit, unit_scale=True) as bar:
        shown = ""

        def show(phase: str, done: int, total: int | None) -> None:
            nonlocal shown  # a bar that is switched off does not know what it shows
            if phase != shown:
                shown = phase
                bar.reset(total)
                bar.set_description(phase)
            bar.update(done - bar.n)

        yield show


# Files that are merged at a time, each with descriptors; more are sorted instead.
_MOST_MERGED = 128


def _sort_npy(sources: list[str], target: str, form: _Records, merge: bool, resources: Any) -> SortReport:
    first, memory, folders, threads, progress = resources
    if not folders:
        folders = [os.path.dirname(os.path.abspath(target))]
    count = sum(one.count for one in form.npy)
    wanted = min(count, first) if first else count
    header = new_header(form.npy[0].dtype, (wanted,)) if target.endswith(".npy") else b""
    if merge and len(sources) <= _MOST_MERGED:
        parts = [(source, one.offset, one.count) for source, one in zip(sources, form.npy)]
        room = _less(memory or _core.default_memory())
        if _core.merge_parts(parts, target, header, form.size, form.keys, wanted, room, progress):
            return SortReport(count, wanted, 0, 1)
    sorter = _core.Sorter(form.size, form.keys, first, _less(memory), folders, threads, progress)
    for source, one in zip(sources, form.npy):
        sorter.push_file(source, one.offset, one.count)
    sorter.sort()
    sorter.write(target, header)
    return SortReport(count, wanted, *sorter.counts)


def first_of(first: int | None) -> int:
    """How many are wanted; 0: all."""
    if first is not None and operator.index(first) < 1:
        raise ValueError(f"first: {first} are none")
    return 0 if first is None else min(operator.index(first), 2**64 - 1)


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
        keys only the first is kept. first: so many records of the order are written, headers beside
        them, and the others are left out; few are found in one pass without runs. None: all.
    memory: bytes, for everything that the sort takes; 0: half of what is free, at most 1 GiB.
    folders: for what memory does not hold; that of `dst` by default.
    threads: that may work; 0: one for each usable core.
    progress: called with the phase ("reading", "merging", "writing"), the bytes that it has dealt
        with and those that it has in all, or None, at most 20 times a second. What it raises ends
        the sort, as Ctrl-C does. True: a bar by tqdm, which must be there.

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
                _, offset, count = form.npy[at]
            else:
                offset, (count, rest) = 0, divmod(os.path.getsize(source), form.size)
                if rest:
                    raise OSError(errno.EINVAL, f"its length is no multiple of a record's {form.size} bytes", source)
            place = _core.check_record_file(source, offset, count, form.size, form.keys, unique, memory, shown)
            if place < count:
                return Disorder(source, place)
    return None


def _borders(splitters: npt.ArrayLike, kind: np.dtype) -> npt.NDArray[Any]:
    """The splitters as keys of that kind; ValueError where one is none."""
    given = np.asarray(splitters)
    if kind.kind in "mM":
        if given.dtype.kind in "iu":
            given = given.astype(kind)
        elif given.dtype.kind != kind.kind:
            given = np.asarray(splitters, f"{kind.kind}8")
        borders = given.astype(kind)
        strange = given[(borders != given) & ~np.isnat(given)]
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
        usable core. Raises OSError with errno and file name.
    """
    names, source = [name_of(one) for one in dst], name_of(src)
    array = open(source, dtype, memory=(memory or 64 << 20) // 4).reshape(-1)
    kind = _keys_of_rows(np.empty(0, array.dtype), key).dtype
    borders = _borders(splitters, kind) if kind.names is None else _rows_of_borders(splitters, kind)
    if borders.ndim == 1 and (argsort(borders) != np.arange(borders.size)).any():
        raise ValueError("splitters: they are not sorted")
    if borders.ndim != 1 or len(names) != borders.size + 1:
        raise ValueError(f"dst: {borders.size} splitters make {borders.size + 1} files, not {len(names)}")
    if len({os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name)) for name in names}) < len(names):
        raise ValueError("dst: it has a file twice")
    counts = np.zeros(len(names), np.int64)
    # Beside a block: its copy in order, its keys, and six numbers for each of its records.
    step = max(1, (memory or 64 << 20) // 4 * 3 // (2 * array.dtype.itemsize + 2 * kind.itemsize + 48))
    with contextlib.ExitStack() as files, naming(source, *names):
        outputs = [files.enter_context(NewFile(name)) for name in names]
        for begin in range(0, array.size, step):
            block = array.read(begin, min(step, array.size - begin))
            part = _parts(borders, _keys_of_rows(block, key), threads)
            block = block[argsort(part, threads=threads)]
            some = np.bincount(part, minlength=len(names))
            for output, piece in zip(outputs, np.split(block, np.cumsum(some)[:-1])):
                output.write(piece)
            counts += some
        for output in outputs:
            output.finish()
        for output in outputs:
            output.appear()
    return counts.tolist()


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
