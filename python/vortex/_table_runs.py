"""Runs of sorted rows: Arrow files without a name that keep the keys as one column more, and their merge."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, Iterator

from ._table_files import _Dictionaries, _naming, _new_arrow_file
from ._table_keys import _arrow, _count_up_to, _give_back, _order, _stored_keys

if TYPE_CHECKING:
    import pyarrow as pa


class _Run:
    """A sorted table with its keys, in a file without a name."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder)
        self._name = f"/proc/self/fd/{self._file.fileno()}"
        self._dictionaries = _Dictionaries()
        self._writer: Any = None
        self._reader: Any = None
        self._next = 0

    def write(self, table: pa.Table, batch_bytes: int) -> None:
        if self._writer is None:
            self._writer = _new_arrow_file(self._name, table.schema)
        rows = max(1, int(len(table) * batch_bytes / max(1, table.nbytes)))
        with _naming(self._folder):
            self._writer.write_table(self._dictionaries.unified(table), max_chunksize=rows)

    def end(self) -> None:
        with _naming(self._folder):
            self._writer.close()
        self._writer = None

    def batch(self) -> pa.RecordBatch | None:
        """The next one; None at the end."""
        pa = _arrow()
        if self._reader is None:
            self._reader = pa.ipc.open_file(pa.OSFile(self._name))
        if self._next == self._reader.num_record_batches:
            return None
        batch = self._reader.get_batch(self._next)
        self._next += 1
        return batch

    def close(self) -> None:
        self._reader = None
        self._file.close()


class _Window:
    """What has been read of a run and not been written: at least two batches while there are more."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._batches: list[pa.RecordBatch] = []
        self.at_end = False

    def fill(self) -> None:
        while not self.at_end and len(self._batches) < 2:
            batch = self._run.batch()
            if batch is None:
                self.at_end = True
                self._run.close()
            elif batch.num_rows:
                self._batches.append(batch)

    def last_key(self) -> bytes:
        column = self._batches[-1].column(self._batches[-1].num_columns - 1)
        return column[len(column) - 1].as_py()

    def take(self, bound: bytes | None, with_bound: bool) -> list[pa.RecordBatch]:
        """Takes away the rows whose keys come before `bound`, or are equal to it; without one, all."""
        taken: list[pa.RecordBatch] = []
        while self._batches:
            batch = self._batches[0]
            count = batch.num_rows if bound is None else _count_up_to(_stored_keys(batch), bound, with_bound)
            if count < batch.num_rows:
                if count:
                    taken.append(batch.slice(0, count))
                    self._batches[0] = batch.slice(count)
                break
            taken.append(self._batches.pop(0))
        return taken

    def __bool__(self) -> bool:
        return bool(self._batches)


def _merged(runs: list[_Run], threads: int) -> Iterator[pa.Table]:
    """The rows of all runs in order, with their keys; of equal ones those of the first run come first."""
    pa = _arrow()
    windows = [_Window(run) for run in runs]
    while True:
        for window in windows:
            window.fill()
        windows = [window for window in windows if window]
        if not windows:
            return
        # Later batches of some run begin with the least of these keys, or a larger one. So rows with that
        # very key are taken of this run and those before it, but wait in those behind it.
        bound, last = min(((window.last_key(), place) for place, window in enumerate(windows) if not window.at_end),
                          default=(None, 0))  # fmt: skip
        batches = [batch for place, window in enumerate(windows) for batch in window.take(bound, place <= last)]
        table = pa.Table.from_batches(batches)
        batches.clear()
        table = table.take(pa.array(_order(_stored_keys(table), threads)))
        _give_back()
        yield table


def _cut(tables: Iterator[pa.Table], first: int) -> Iterator[pa.Table]:
    """The first rows of tables that follow each other; 0: all."""
    left = first
    for table in tables:
        yield table.slice(0, left) if first else table
        left -= len(table)
        if first and left <= 0:
            return
