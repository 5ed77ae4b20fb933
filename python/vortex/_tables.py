"""Tables of Parquet and Arrow, sorted by columns when they are larger than memory.

PyArrow reads and writes the formats. What orders a row is a string of bytes, its key, whose order as bytes
is that of the columns; vortex sorts the keys and their places. Runs are Arrow files without a name that
keep the keys as one column more, and are merged a few batches of each at a time.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._arrays import argsort
from ._files import Path, name_of
from ._sorts import Progress, SortReport, _names_of, _shown, first_of

if TYPE_CHECKING:
    import pyarrow as pa

By = Union[str, Sequence[Union[str, "tuple[str, str]"]]]

_KEY = "__vortex_key__"
_PARQUET, _ARROW = b"PAR1", b"ARROW1"
_LEAST_MEMORY = 32 << 20
_KEY_STEP = 32  # bytes of keys that are compared at a time
_KEYS_AT_ONCE = 1 << 14
_MOST_RUNS = 128


class _Order(NamedTuple):
    """A column of the order."""

    name: str
    descending: bool


class _Keys(NamedTuple):
    """Keys of rows, one behind the other: row i has the bytes from begin[i] to begin[i + 1]."""

    begin: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as missing:
        raise ImportError("sort_table() needs pyarrow, which reads and writes the formats: pip install pyarrow") \
            from missing  # fmt: skip
    return pyarrow


def _give_back() -> None:
    """Gives back what PyArrow has freed, which it keeps for a while; on a busy machine that is much."""
    _arrow().default_memory_pool().release_unused()


# Keys.


def _values(column: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """A copy of the values of a fixed width; those of nulls are what they are."""
    width = np.dtype(dtype).itemsize
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * width).copy()


def _ordered_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Bits that have the order of the values: -0.0 is 0.0, and NaN comes behind all numbers."""
    values += 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(f"u{values.itemsize}")
    sign = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def _fixed_bytes(column: pa.Array) -> npt.NDArray[np.uint8] | None:
    """The bytes of each value, in the order of the values; None for values of no fixed width."""
    pa = _arrow()
    kind = column.type
    rows = len(column)
    if pa.types.is_null(kind):
        return np.zeros((rows, 0), np.uint8)
    if pa.types.is_boolean(kind):
        return column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8).reshape(rows, 1)
    if pa.types.is_fixed_size_binary(kind):
        return _values(column, f"V{kind.byte_width}").view(np.uint8).reshape(rows, kind.byte_width)
    if pa.types.is_floating(kind):
        bits = _ordered_floats(_values(column, f"f{kind.bit_width // 8}"))
    elif pa.types.is_unsigned_integer(kind):
        bits = _values(column, f"u{kind.bit_width // 8}")
    elif pa.types.is_integer(kind) or pa.types.is_temporal(kind) and kind != pa.month_day_nano_interval():
        bits = _values(column, f"u{kind.bit_width // 8}")
        bits ^= bits.dtype.type(1 << (8 * bits.itemsize - 1))
    elif pa.types.is_decimal(kind):
        width = kind.bit_width // 8
        digits = _values(column, f"V{width}").view(np.uint8).reshape(rows, width)[:, ::-1].copy()
        digits[:, 0] ^= 0x80
        return digits
    else:
        return None
    return bits.astype(bits.dtype.newbyteorder(">")).view(np.uint8).reshape(rows, bits.itemsize)


def _strings(column: pa.Array) -> _Keys:
    """Strings whose bytes are no beginning of others': a zero is followed by a one, the end is two zeros."""
    pa = _arrow()
    column = column.cast(pa.large_binary()) if not pa.types.is_large_binary(column.type) else column
    offsets = _values(pa.Array.from_buffers(pa.int64(), len(column) + 1, [None, column.buffers()[1]],
                                            offset=column.offset), "i8")  # fmt: skip
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    begin = offsets - offsets[0]
    if column.null_count:
        # What lies under a null does not count.
        lengths = np.diff(begin)
        kept = ~column.is_null().to_numpy(zero_copy_only=False)
        data = data[np.repeat(kept, lengths)]
        begin = np.concatenate(([0], np.cumsum(lengths * kept)))
    zeros = np.flatnonzero(data == 0)
    if len(zeros):
        data = np.insert(data, zeros + 1, 1)
        begin = begin + np.searchsorted(zeros, begin)
    ends = np.repeat(begin[1:], 2)
    return _Keys(begin + 2 * np.arange(len(begin)), np.insert(data, ends, 0))


def _joined(parts: list[npt.NDArray[np.uint8] | _Keys], rows: int) -> _Keys:
    """Rows of several parts behind each other."""
    lengths = np.zeros(rows, np.int64)
    for part in parts:
        lengths += np.diff(part.begin) if isinstance(part, _Keys) else part.shape[1]
    begin = np.concatenate(([0], np.cumsum(lengths)))
    data = np.empty(begin[-1], np.uint8)
    at = begin[:-1].copy()
    for part in parts:
        if isinstance(part, _Keys):
            lengths = np.diff(part.begin)
            data[np.repeat(at - part.begin[:-1], lengths) + np.arange(len(part.data))] = part.data
            at += lengths
        else:
            for place in range(part.shape[1]):
                data[at + place] = part[:, place]
            at += part.shape[1]
    return _Keys(begin, data)


def _keys(table: pa.Table, by: list[_Order], nulls_last: bool) -> _Keys:
    """The keys of the rows of a table."""
    # A few rows at a time: places of bytes, which numpy wants for strings, take eight times as much as they.
    step = max(1, min(_KEYS_AT_ONCE, (len(table) << 20) // max(1, table.nbytes)))
    parts = [_keys_of_some(table.slice(begin, step), by, nulls_last) for begin in range(0, max(1, len(table)), step)]
    ends = np.cumsum([0] + [len(part.data) for part in parts])
    begin = np.concatenate([part.begin[:-1] + end for part, end in zip(parts, ends)] + [ends[-1:]])
    return _Keys(begin, np.concatenate([part.data for part in parts]))


def _keys_of_some(table: pa.Table, by: list[_Order], nulls_last: bool) -> _Keys:
    pa = _arrow()
    parts: list[npt.NDArray[np.uint8] | _Keys] = []
    for order in by:
        column = pa.concat_arrays(table.column(order.name).chunks or [pa.array([], table.schema.field(order.name).type)])
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        missing = column.is_null().to_numpy(zero_copy_only=False)
        parts.append((missing == nulls_last).astype(np.uint8).reshape(-1, 1))
        part = _fixed_bytes(column)
        if part is None:
            part = _strings(column)
        elif missing.any():
            part[missing] = 0
        if order.descending:
            bits = part.data if isinstance(part, _Keys) else part
            np.invert(bits, out=bits)
        parts.append(part)
    if any(isinstance(part, _Keys) for part in parts):
        return _joined(parts, len(table))
    rows = np.concatenate(parts, axis=1)
    return _Keys(np.arange(len(rows) + 1) * rows.shape[1], rows.reshape(-1))


def _steps(keys: _Keys, rows: npt.NDArray[np.intp] | None, depth: int, width: int) -> npt.NDArray[Any]:
    """`width` bytes of each key from `depth` on, with zeros behind its end."""
    begin = keys.begin[:-1] if rows is None else keys.begin[rows]
    end = keys.begin[1:] if rows is None else keys.begin[rows + 1]
    steps = np.zeros((len(begin), width), np.uint8)
    for at in range(width):
        place = begin + (depth + at)
        there = place < end
        if there.all():
            steps[:, at] = keys.data[place]
        else:
            steps[there, at] = keys.data[place[there]]
    return steps


def _order(keys: _Keys, threads: int) -> npt.NDArray[np.intp]:
    """The places of the rows in the order of their keys; equal ones keep their order."""
    lengths = np.diff(keys.begin)
    count = len(lengths)
    if count == 0:
        return np.empty(0, np.intp)
    longest = int(lengths.max())
    if longest == int(lengths.min()):
        # One width: as they lie.
        if longest <= _KEY_STEP:
            return argsort(keys.data.reshape(count, longest).view(f"S{longest}").reshape(-1), threads=threads)
    width = min(longest, _KEY_STEP)
    steps = _steps(keys, None, 0, width)
    order = argsort(steps.view(f"S{width}").reshape(-1), threads=threads)
    depth = width
    # Rows that are equal so far, by their place in `order`, and the number of their group.
    sorted_steps = steps[order]
    same = (sorted_steps[1:] == sorted_steps[:-1]).all(axis=1)
    while True:
        tied = np.zeros(count, bool)
        if not len(same) or not same.any():
            return order
        tied[1:] |= same
        tied[:-1] |= same
        places = np.flatnonzero(tied)
        group = np.cumsum(np.concatenate(([0], ~same[places[1:] - 1])))
        rows = order[places]
        left = lengths[rows] - depth
        if left.max() <= 0:
            return order
        width = min(int(left.max()), _KEY_STEP)
        steps = np.empty((len(rows), 4 + width), np.uint8)
        steps[:, :4] = group.astype(">u4").view(np.uint8).reshape(-1, 4)
        steps[:, 4:] = _steps(keys, rows, depth, width)
        inner = argsort(steps.view(f"S{4 + width}").reshape(-1), threads=threads)
        order[places] = rows[inner]
        steps = steps[inner]
        same = np.zeros(count - 1, bool)
        # Neighbours among the tied rows are neighbours in the order, where they are of one group.
        same[places[1:] - 1] = (steps[1:] == steps[:-1]).all(axis=1)
        depth += width


def _count_up_to(keys: _Keys, bound: bytes, with_bound: bool) -> int:
    """How many of some sorted keys come before `bound`, or are equal to it where those count, too."""
    low, high = 0, len(keys.begin) - 1
    while low < high:
        middle = (low + high) // 2
        key = keys.data[keys.begin[middle] : keys.begin[middle + 1]].tobytes()
        if key < bound or with_bound and key == bound:
            low = middle + 1
        else:
            high = middle
    return low


# Files.


def _magic(path: str) -> bytes:
    with open(path, "rb") as file:
        begin = file.read(6)
    return next((magic for magic in (_PARQUET, _ARROW) if begin.startswith(magic)), b"")


def _raise(error: OSError) -> None:
    raise error


def _files(src: Path | Sequence[Path]) -> list[str]:
    sources = _names_of(src)
    files: list[str] = []
    for source in sources:
        if not os.path.isdir(source):
            files.append(source)
            continue
        for folder, inner, names in os.walk(source, onerror=_raise, followlinks=True):
            inner[:] = sorted(name for name in inner if not name.startswith(("_", ".")))
            if any("=" in name for name in inner):
                raise ValueError(f"{folder}: folders named COLUMN=VALUE hold columns, which are not read: name the files")
            files += [os.path.join(folder, name) for name in sorted(names) if not name.startswith(("_", "."))]
    if not files:
        raise ValueError("src: there is no file to sort")
    return files


def _batches(path: str, rows: int) -> Iterator[pa.RecordBatch]:
    """The batches of a file, of at most `rows` rows each where the format allows that."""
    pa = _arrow()
    if _magic(path) == _PARQUET:
        # A buffer for each column instead of whole row groups.
        with _naming(path):
            file = pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=256 << 10)
        with file:
            batches = file.iter_batches(batch_size=rows, use_threads=False)
            while True:
                with _naming(path):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch
    else:
        with pa.OSFile(path) as source:
            with _naming(path):
                file = pa.ipc.open_file(source)
            for number in range(file.num_record_batches):
                with _naming(path):
                    batch = file.get_batch(number)
                yield batch


def _schema(path: str) -> pa.Schema:
    pa = _arrow()
    magic = _magic(path)
    with _naming(path):
        if magic == _PARQUET:
            return pa.parquet.read_schema(path)
        if magic == _ARROW:
            with pa.OSFile(path) as source, pa.ipc.open_file(source) as file:
                return file.schema
    raise ValueError(f"{path}: neither a Parquet file nor an Arrow file")


def _row_bytes(path: str) -> int:
    """About how many bytes a row takes when it is read: what the first ones do, or what Parquet says."""
    pa = _arrow()
    if _magic(path) != _PARQUET:
        return 64
    first = next(_batches(path, 256), None)
    decoded = first.nbytes // first.num_rows if first is not None and first.num_rows else 0
    metadata = pa.parquet.read_metadata(path)
    groups = (metadata.row_group(at).total_byte_size for at in range(min(metadata.num_row_groups, 8)))
    rows = sum(metadata.row_group(at).num_rows for at in range(min(metadata.num_row_groups, 8)))
    return max(1, decoded, sum(groups) // max(1, rows))


class _Dictionaries:
    """One dictionary for each column that has some, which only grows: an Arrow file takes no other."""

    def __init__(self) -> None:
        self._known: dict[int, pa.Array] = {}

    def unified(self, table: pa.Table) -> pa.Table:
        pa = _arrow()
        for at, field in enumerate(table.schema):
            if not pa.types.is_dictionary(field.type) or not len(table):
                continue
            column = pa.concat_arrays(table.column(at).chunks)
            old = self._known.get(at, column.dictionary.slice(0, 0))
            new = column.dictionary.filter(pa.compute.invert(pa.compute.is_in(column.dictionary, value_set=old)))
            self._known[at] = pa.concat_arrays([old, new])
            places = pa.compute.index_in(column.dictionary, value_set=self._known[at]).take(column.indices)
            column = pa.DictionaryArray.from_arrays(places.cast(field.type.index_type), self._known[at],
                                                    ordered=field.type.ordered)  # fmt: skip
            table = table.set_column(at, field, column)
        return table


def _new_arrow_file(name: str, schema: pa.Schema) -> Any:
    pa = _arrow()
    return pa.ipc.new_file(name, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True))


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """What PyArrow says of a file gets its name."""
    try:
        yield
    except _arrow().ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, str(error), path) from error


class _Output:
    """The file `path`, which appears when it is complete and on the disk."""

    def __init__(self, path: str, schema: pa.Schema, by: list[_Order], nulls_last: bool, compression: str,
                 group_bytes: int) -> None:  # fmt: skip
        pa = _arrow()
        self._path = path
        self._group_bytes = group_bytes
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        folder = os.path.dirname(os.path.abspath(path))
        self._file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
        self._writer: Any = None
        self._parquet = path.endswith(".parquet")
        self._dictionaries = _Dictionaries()
        name = f"/proc/self/fd/{self._file}"
        try:
            self._open(name, schema, by, nulls_last, compression)
        except BaseException:
            os.close(self._file)
            raise

    def _open(self, name: str, schema: pa.Schema, by: list[_Order], nulls_last: bool, compression: str) -> None:
        pa = _arrow()
        if self._parquet:
            columns = pa.parquet.SortingColumn.from_ordering(
                schema, [(one.name, "descending" if one.descending else "ascending") for one in by],
                null_placement="at_end" if nulls_last else "at_start")  # fmt: skip
            self._writer = pa.parquet.ParquetWriter(name, schema, compression=compression, sorting_columns=columns)
        else:
            self._writer = _new_arrow_file(name, schema)

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self._bytes += table.nbytes
        if self._bytes >= self._group_bytes:
            self._flush()

    def _flush(self) -> None:
        table = _arrow().concat_tables(self._waiting)
        self._waiting, self._bytes = [], 0
        with _naming(self._path):
            if self._parquet:
                self._writer.write_table(table, row_group_size=max(1, len(table)))
            else:
                self._writer.write_table(self._dictionaries.unified(table))

    def finish(self) -> None:
        if self._waiting:
            self._flush()
        with _naming(self._path):
            self._writer.close()
        self._writer = None
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(self._file, os.stat(self._path).st_mode & 0o7777)
        os.fsync(self._file)
        folder = os.path.dirname(os.path.abspath(self._path))
        with tempfile.TemporaryDirectory(prefix=".vortex-", dir=folder) as beside:
            there = os.open(beside, os.O_RDONLY | os.O_CLOEXEC)
            try:
                # With a folder's descriptor, Python follows the link to the file without a name.
                os.link(f"/proc/self/fd/{self._file}", "complete", src_dir_fd=there, dst_dir_fd=there)
            finally:
                os.close(there)
            os.replace(os.path.join(beside, "complete"), self._path)

    def close(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(Exception):  # the file is given up
                self._writer.close()
        os.close(self._file)


# Runs.


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


def _stored_keys(data: Any) -> _Keys:
    """The keys in the last column of a batch or a table."""
    pa = _arrow()
    column = data.column(data.num_columns - 1)
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    begin = np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)
    return _Keys(begin, np.frombuffer(column.buffers()[2] or b"", np.uint8))


def _with_keys(table: pa.Table, keys: _Keys) -> pa.Table:
    pa = _arrow()
    column = pa.Array.from_buffers(pa.large_binary(), len(table),
                                   [None, pa.py_buffer(np.ascontiguousarray(keys.begin)), pa.py_buffer(keys.data)])  # fmt: skip
    return table.append_column(pa.field(_KEY, pa.large_binary(), nullable=False), column)


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


def _orders(by: By, descending: bool, schema: pa.Schema) -> list[_Order]:
    pa = _arrow()
    orders: list[_Order] = []
    for one in [by] if isinstance(by, str) else by:
        name, direction = (one, "") if isinstance(one, str) else one
        if direction not in ("", "ascending", "descending"):
            raise ValueError(f"by: {direction!r} is neither 'ascending' nor 'descending'")
        if schema.get_field_index(name) < 0:
            raise ValueError(f"by: there is no column {name!r}, or there are several; "
                             f"there are {', '.join(map(repr, schema.names))}")  # fmt: skip
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_nested(kind) or pa.types.is_interval(kind):
            raise TypeError(f"by: column {name!r} of {kind} has no order")
        orders.append(_Order(name, descending != (direction == "descending")))
    if not orders:
        raise ValueError("by: it names no column to sort by")
    return orders


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
