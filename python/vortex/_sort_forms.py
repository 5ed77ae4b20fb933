"""What the arguments of sorts say: of files and their records, of how many are wanted, of progress; and what sorts return."""

from __future__ import annotations

import contextlib
import csv
import io
import operator
import os
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Union

import numpy as np

from ._files import Path, _checked, name_of, npy_header, stamp_of
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
    if isinstance(paths, (str, bytes, os.PathLike)):
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
    """Where the records of a .npy file are, which has this stamp."""

    dtype: np.dtype
    offset: int
    count: int
    stamp: tuple[int, int, int]


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
    stamps = [stamp_of(source) if os.path.isfile(source) else (0, 0, 0) for source in sources]
    headers = [npy_header(source) for source in sources]
    found = [_Npy(_checked(head[0]), head[2], int(np.prod(head[1], dtype=object)), stamp)
             for head, stamp in zip(headers, stamps) if head]  # fmt: skip
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


def first_of(first: int | None) -> int:
    """How many are wanted; 0: all."""
    if first is not None and operator.index(first) < 1:
        raise ValueError(f"first: {first} are none")
    return 0 if first is None else min(operator.index(first), 2**64 - 1)
