"""Tables of Parquet and Arrow, sorted by columns when they are larger than memory.

PyArrow reads and writes the formats. What orders a row is a string of bytes, its key; vortex sorts the keys
and their places. Runs are merged a few batches of each at a time.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence

from . import _core
from ._files import Path, name_of
from ._sort_forms import Progress, SortReport, _names_of, _shown, first_of
from ._table_files import _batches, _files, _Output, _row_bytes, _schema
from ._table_keys import _KEY, By, _arrow, _give_back, _keys, _Order, _order, _orders, _with_keys
from ._table_runs import _cut, _merged, _Run

if TYPE_CHECKING:
    import pyarrow as pa

_LEAST_MEMORY = 32 << 20
_MOST_RUNS = 128


def _most_runs(part: int, batch_bytes: int) -> int:
    """How many runs are merged at a time: two batches of each are in memory, and each has descriptors."""
    return max(2, min(_MOST_RUNS, part // (2 * batch_bytes)))


class _Sort:
    """One sort: how many rows it wants, its memory, its folders, and what it tells of its progress."""

    def __init__(self, first: int, memory: int, folders: list[str], threads: int, progress: Progress | None) -> None:
        self.first = first
        self.part = min(memory // 10, 1 << 30)  # of the memory, for the rows of a run; keys and a copy come beside them
        self.batch_bytes = max(32 << 10, min(1 << 20, memory // 2048))
        self.most_runs = _most_runs(self.part, self.batch_bytes)
        self.threads = threads
        self.runs: list[_Run] = []
        self.formed = 0
        self.passes = 0
        self._folders = folders
        self._progress = progress
        self._done = 0

    def tell(self, phase: str, done: int, total: int | None) -> None:
        if self._progress is not None:
            self._progress(phase, done, total)

    def new_run(self) -> _Run:
        run = _Run(self._folders[self.formed % len(self._folders)])
        self.formed += 1
        self.runs.append(run)
        return run

    def reduce_runs(self) -> None:
        """Merges neighbours until one merge takes all."""
        while len(self.runs) > self.most_runs:
            self.passes += 1
            all_runs, self.runs = self.runs, []
            for begin in range(0, len(all_runs), self.most_runs):
                some = all_runs[begin : begin + self.most_runs]
                if len(some) == 1:
                    self.runs += some
                    continue
                merged = self.new_run()
                for table in _cut(_merged(some, self.threads), self.first):
                    merged.write(table, self.batch_bytes)
                merged.end()

    def close(self) -> None:
        for run in self.runs:
            run.close()


def sort_table(
    src: Path | Sequence[Path],
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

    src: a file, several, or a folder of them, with one schema.
    dst: a Parquet file where it ends in .parquet, else an Arrow file; it appears when it is complete
        and on the disk. An error, or Ctrl-C, leaves what was there.
    by: a column, or several, the first counting most; (name, "descending") turns one round. Numbers,
        bool, times, decimals, strings, bytes and dictionaries of them have an order, as Polars and
        DuckDB sort them: strings by their bytes in UTF-8, NaN behind all numbers. Rows with equal
        keys keep their order.
    descending: turns all columns round. nulls: "last" or "first", whichever way round.
    first: so many rows of the order are written, and the others are left out; few are found in one
        pass, without files in `folders`. None: all.
    memory: bytes, for rows, keys and copies of both, beside the interpreter and PyArrow; 0: half of
        what is free, at most 1 GiB. A row group of an Arrow file must fit into a tenth of it.
    folders: for what memory does not hold; that of `dst` by default.
    threads: for sorting; 0: one for each usable core.
    compression: of the Parquet file, as pyarrow names it.
    progress: called with the phase ("reading", "writing"), the rows that it has dealt with and those
        that there are, or None. What it raises ends the sort. True: a bar by tqdm.

    Raises OSError with errno, ValueError and TypeError for columns that are not there or have no
    order, and what pyarrow says of a file.
    """
    pa = _arrow()
    if nulls not in ("first", "last"):
        raise ValueError(f"nulls: {nulls!r} is neither 'first' nor 'last'")
    wanted = first_of(first)
    memory = memory or _core.default_memory()
    if memory < _LEAST_MEMORY:
        raise ValueError(f"memory: {memory} bytes are too little for tables; {_LEAST_MEMORY} are the least")
    files, target = _files(src), name_of(dst)
    schema = _schema(files[0])
    for path in files[1:]:
        if not _schema(path).equals(schema):
            raise ValueError(f"{path} has another schema than {files[0]}")
    if _KEY in schema.names:
        raise ValueError(f"a column is named {_KEY!r}, which the sort needs for itself")
    orders = _orders(by, descending, schema)
    where = _names_of(folders) or [os.path.dirname(os.path.abspath(target))]
    for folder in where:
        os.scandir(folder).close()
    with _shown(progress, "rows") as shown, contextlib.closing(_Sort(wanted, memory, where, threads, shown)) as sort:
        # Before anything is read: a wrong name or compression is told at once.
        output = _Output(target, schema, orders, nulls == "last", compression, min(128 << 20, memory // 8))
        with contextlib.closing(output):
            rows = _read(sort, files, schema, orders, nulls == "last")
            written = 0
            total = min(rows.count, wanted or rows.count)
            for table in _cut(_sorted_tables(sort, rows), wanted):
                output.write(table.drop_columns([_KEY]) if _KEY in table.schema.names else table)
                written += len(table)
                sort.tell("writing", written, total)
            output.finish()
    _give_back()
    return SortReport(rows.count, written, sort.formed, sort.passes)


class _Rows(NamedTuple):
    count: int
    in_memory: Any  # a sorted table; None where there are runs


def _read(sort: _Sort, files: list[str], schema: pa.Schema, orders: list[_Order], nulls_last: bool) -> _Rows:
    """Reads all files into sorted runs, or into memory where they fit."""
    pa = _arrow()
    count, size = 0, 0
    batches: list[pa.RecordBatch] = []

    def sorted_rows() -> pa.Table:
        _give_back()
        table = pa.Table.from_batches(batches, schema)
        batches.clear()
        keys = _keys(table, orders, nulls_last)
        return _with_keys(table, keys).take(pa.array(_order(keys, sort.threads)[: sort.first or None]))

    for path in files:
        for batch in _batches(path, max(1, min(1 << 16, sort.part // 8 // _row_bytes(path)))):
            batches.append(batch)
            count += batch.num_rows
            # Offsets of keys and places are sixteen bytes a row, however short the row is.
            size += max(batch.nbytes, 16 * batch.num_rows)
            if size >= sort.part:
                table, size = sorted_rows(), 0
                kept = max(table.nbytes, 16 * len(table))
                if sort.first and kept <= sort.part // 2:
                    # The first rows so far, in front of those that come.
                    batches, size = table.drop_columns([_KEY]).to_batches(), kept
                else:
                    run = sort.new_run()
                    run.write(table, sort.batch_bytes)
                    run.end()
                del table
                _give_back()
                if len(sort.runs) >= 2 * _MOST_RUNS:  # each has a descriptor
                    sort.reduce_runs()
            sort.tell("reading", count, None)
    if not sort.runs:
        return _Rows(count, sorted_rows())
    if batches:
        run = sort.new_run()
        run.write(sorted_rows(), sort.batch_bytes)
        run.end()
    return _Rows(count, None)


def _sorted_tables(sort: _Sort, rows: _Rows) -> Iterator[pa.Table]:
    if rows.in_memory is not None:
        yield rows.in_memory
        return
    sort.reduce_runs()
    sort.passes += 1
    yield from _merged(sort.runs, sort.threads)
