"""Tables of Parquet and Arrow, sorted by columns when they are larger than memory.

PyArrow reads and writes the formats. Rows become records that begin with a key, whose order as bytes is that
of the columns, and go through the external sorts of the library.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator, Sequence, TypeVar

from . import _core
from ._files import Path, name_of, naming, stamp_of
from ._sort_forms import Progress, SortReport, _names_of, _shown, first_of
from ._table_files import (
    Output,
    Source,
    batches_of,
    files_of,
    give_back,
    row_bytes,
    samples_of,
    schema_of,
    with_dictionaries,
    without_nulls,
)
from ._table_rows import By, RowForm, orders_of

_LEAST_MEMORY = 32 << 20
_BATCHES_AHEAD = 3
_MOST_BATCH = 256 << 20  # bytes, since offsets of many arrays have 32 bits

Item = TypeVar("Item")


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items, of which some more are made meanwhile, by a thread."""
    with ThreadPoolExecutor(1, "vortex-table") as thread:
        waiting = collections.deque(thread.submit(next, items, None) for _ in range(_BATCHES_AHEAD))
        try:
            while (item := waiting.popleft().result()) is not None:
                waiting.append(thread.submit(next, items, None))
                yield item
                del item
        finally:
            for future in waiting:
                future.cancel()


def sort_table(
    src: Source,
    dst: Path,
    by: By,
    *,
    descending: bool = False,
    nulls: str = "last",
    first: int | None = None,
    memory: int = 0,
    folders: Sequence[Path] | Path | None = None,
    threads: int = 0,
    compression: str = "snappy",
    progress: Progress | bool | None = None,
) -> SortReport:
    """Sorts Parquet or Arrow files of any size by columns, within a fixed memory. Needs pyarrow.

    src: a file, several, a folder of them, or a dataset of PyArrow that is whole files, with one schema.
    dst: a Parquet file where it ends in .parquet, else an Arrow file; it appears when it is complete
        and on the disk. An error, or Ctrl-C, leaves what was there.
    by: a column, or several, the first counting most; (name, "descending") turns one round. Numbers,
        bool, times, decimals, strings, bytes and dictionaries of them have an order, as Polars and
        DuckDB sort them: strings by their bytes in UTF-8, NaN behind all numbers. Rows with equal
        keys keep their order. Columns of any other type go along, but unions, views, and dictionaries
        inside of others.
    descending: turns all columns round. nulls: "last" or "first", whichever way round.
    first: so many rows of the order are written, and the others are left out; few are found in one
        pass, without files in `folders`. None: all.
    memory: bytes, for rows, keys and copies of both, beside the interpreter and PyArrow; 0: half of
        what is free, at most 1 GiB. A batch of an Arrow file must fit into a tenth of it.
    folders: for what memory does not hold; that of `dst` by default.
    threads: for sorting; 0: one for each usable core.
    compression: of the Parquet file, as pyarrow names it.
    progress: called with the phase ("reading", "writing"), the rows that it has dealt with and those
        that there are, or None. What it raises ends the sort. True: a bar by tqdm.

    Raises OSError with errno, ValueError and TypeError for columns that are not there, have no order
    or cannot go along, and what pyarrow says of a file.
    """
    if nulls not in ("first", "last"):
        raise ValueError(f"nulls: {nulls!r} is neither 'first' nor 'last'")
    wanted = first_of(first)
    memory = memory or _core.default_memory()
    if memory < _LEAST_MEMORY:
        raise ValueError(f"memory: {memory} bytes are too little for tables; {_LEAST_MEMORY} are the least")
    files, target = files_of(src), name_of(dst)
    stamps = [stamp_of(path) for path in files]
    schema = schema_of(files[0])
    for path in files[1:]:
        if not schema_of(path).equals(schema):
            raise ValueError(f"{path} has another schema than {files[0]}")
    orders = orders_of(by, descending, schema)
    samples = samples_of(files, memory)
    form = RowForm(schema, orders, nulls == "last", without_nulls(files, schema.names), samples)
    where = _names_of(folders) or [os.path.dirname(os.path.abspath(target))]
    for folder in where:
        os.scandir(folder).close()
    with _shown(progress, "rows") as shown:
        # Before anything is read: a wrong name or compression is told at once.
        output = Output(target, schema, orders, nulls == "last", compression, min(128 << 20, memory // 10),
                        with_dictionaries(schema, samples))  # fmt: skip
        del samples
        with contextlib.closing(output):
            sorter = _core.TableSorter(form.keys, form.restored, form.columns, wanted, memory // 16 * 9, where, threads)
            count = _push(sorter, form, list(zip(files, stamps)), memory, shown)
            sorter.sort()
            written, total = 0, min(count, wanted or count)
            for batch in _sorted_batches(sorter, form, memory):
                output.write(batch)
                written += len(batch)
                _tell(shown, "writing", written, total)
                del batch
            output.finish()
    give_back()
    return SortReport(count, written, *sorter.counts())


def _tell(progress: Progress | None, phase: str, done: int, total: int | None) -> None:
    if progress is not None:
        progress(phase, done, total)


def _push(sorter: Any, form: RowForm, files: Sequence[tuple[str, Any]], memory: int, progress: Progress | None) -> int:
    """Pushes what files have that are still those of their stamps; returns how many rows there are."""
    count, read = 0, 0
    for path, stamp in files:
        rows = max(1, min(1 << 16, memory // 64 // row_bytes(path, memory)))
        with contextlib.closing(_ahead(batches_of(path, rows))) as batches:
            for batch in batches:
                with _naming_rows(path):
                    sorter.push(*form.parts(batch, path))
                count += len(batch)
                read += batch.nbytes
                if read > memory // 16:
                    give_back()
                    read = 0
                _tell(progress, "reading", count, None)
        with naming(path):
            _core.expect_unchanged(path, stamp)
    give_back()
    return count


@contextlib.contextmanager
def _naming_rows(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.EMSGSIZE:
            raise
        raise OSError(error.errno, "a row is too long for the memory: raise `memory`, to about ten times the row",
                      path) from error  # fmt: skip


def _sorted_batches(sorter: Any, form: RowForm, memory: int) -> Iterator[Any]:
    while True:
        count, keys, columns = sorter.read(1 << 16, min(memory // 64, _MOST_BATCH))
        if count == 0:
            return
        yield form.batch(keys, columns)
