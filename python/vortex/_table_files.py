"""Files of tables: Parquet's and Arrow's, read by batches and written row group by row group."""

from __future__ import annotations

import collections
import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Sequence, Union

from . import _core
from ._files import Path, naming
from ._sort_forms import _names_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset

Source = Union[Path, Sequence[Path], "Dataset"]

_PARQUET, _ARROW = b"PAR1", b"ARROW1"
# Rows that are looked at for values that come again. Where one in a hundred does, there are some
# hundred thousand of them, which no dictionary of a Parquet file has room for.
_LOOKED_AT = 1 << 13


def arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as missing:
        raise ImportError("sort_table() needs pyarrow, which reads and writes the formats: pip install pyarrow") \
            from missing  # fmt: skip
    return pyarrow


def give_back() -> None:
    """Gives back what PyArrow has freed, which it keeps for a while; on a busy machine that is much."""
    arrow().default_memory_pool().release_unused()


def _magic(path: str) -> bytes:
    with open(path, "rb") as file:
        begin = file.read(6)
    return next((magic for magic in (_PARQUET, _ARROW) if begin.startswith(magic)), b"")


def _raise(error: OSError) -> None:
    raise error


def _files_in(data: Dataset) -> list[str]:
    files = []
    for one in data.get_fragments():  # a ValueError, where the dataset has but some of their rows
        groups = getattr(one, "row_groups", None)
        if getattr(one, "path", None) is None or one.filesystem.type_name != "local" \
                or str(one.partition_expression) != "true" or groups and len(groups) != one.metadata.num_row_groups:
            raise ValueError("src: a dataset has more than whole files of this machine, or other columns than they: "
                             "name the files")  # fmt: skip
        if not schema_of(one.path).equals(data.schema):
            raise ValueError(f"{one.path} has another schema than its dataset")
        files.append(one.path)
    return files


def files_of(src: Source) -> list[str]:
    sources = _files_in(src) if hasattr(src, "get_fragments") else _names_of(src)
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


def batches_of(path: str, rows: int, begin: float = 0) -> Iterator[pa.RecordBatch]:
    """The batches of a file, of at most `rows` rows each where the format allows that, from a part of it on:
    0.5 means its half, if that begins a group of rows."""
    pa = arrow()
    if _magic(path) == _PARQUET:
        # A buffer for each column instead of whole row groups.
        with _naming(path):
            file = pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=256 << 10)
        with file:
            groups = range(_first_of(file.num_row_groups, begin), file.num_row_groups)
            batches = file.iter_batches(batch_size=rows, row_groups=groups, use_threads=False)
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
            for number in range(_first_of(file.num_record_batches, begin), file.num_record_batches):
                with _naming(path):
                    batch = file.get_batch(number)
                    batch.validate(full=True)  # nobody has looked at its offsets
                yield batch


def _first_of(count: int, begin: float) -> int:
    return max(0, min(int(count * begin), count - 1))


def samples_of(files: Sequence[str], memory: int) -> list[pa.RecordBatch]:
    """Some rows of the beginning, the middle and the end."""
    places = [(files[0], 0.0), (files[len(files) // 2], 0.5 if len(files) % 2 else 0.0), (files[-1], 1.0)]
    samples = []
    for path, begin in places:
        rows = max(1, min(_LOOKED_AT, memory // 64 // row_bytes(path, memory)))
        with contextlib.closing(batches_of(path, rows, begin)) as batches:
            samples += [batch for batch in [next(batches, None)] if batch is not None]
    return samples


def schema_of(path: str) -> pa.Schema:
    pa = arrow()
    magic = _magic(path)
    with _naming(path):
        if magic == _PARQUET:
            return pa.parquet.read_schema(path)
        if magic == _ARROW:
            with pa.OSFile(path) as source, pa.ipc.open_file(source) as file:
                return file.schema
    raise ValueError(f"{path}: neither a Parquet file nor an Arrow file")


def row_bytes(path: str, memory: int) -> int:
    """About how many bytes a row takes when it is read: what some do that take little of the memory, or what
    Parquet says."""
    pa = arrow()
    if _magic(path) != _PARQUET:
        return 64
    metadata = pa.parquet.read_metadata(path)
    groups = [metadata.row_group(at) for at in range(min(metadata.num_row_groups, 8))]
    told = sum(group.total_byte_size for group in groups) // max(1, sum(group.num_rows for group in groups))
    first = next(batches_of(path, max(1, min(256, memory // 64 // max(1, told)))), None)
    decoded = sum(map(_decoded_bytes, first.columns)) // first.num_rows if first is not None and first.num_rows else 0
    return max(1, decoded, told)


def _decoded_bytes(column: pa.Array) -> int:
    """What its values take, also where they are those of a dictionary."""
    if not arrow().types.is_dictionary(column.type):
        return column.nbytes
    values = column.dictionary
    return column.indices.nbytes + len(column) * (values.nbytes // max(1, len(values)))


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """What PyArrow says of a file gets its name."""
    try:
        yield
    except arrow().ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, str(error), path) from error


class Output:
    """The file `path`, which appears when it is complete and on the disk. `by`: columns, and whether they descend."""

    def __init__(self, path: str, schema: pa.Schema, by: Sequence[tuple[str, bool]], nulls_last: bool, compression: str,
                 group_bytes: int, dictionaries: list[str] | bool) -> None:  # fmt: skip
        self._path = path
        self._group_bytes = group_bytes
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._writer: Any = None
        self._parquet = path.endswith(".parquet")
        with naming(path), contextlib.ExitStack() as opened:
            self._file = opened.enter_context(_core.NewFile(path))
            name = f"/proc/self/fd/{self._file.descriptor}"
            self._open(name, schema, by, nulls_last, compression, dictionaries)
            self._opened = opened.pop_all()
        self._encoder, self._syncer = (ThreadPoolExecutor(1, "vortex-table") for _ in range(2))
        self._encoding: Future[None] | None = None
        self._on_its_way: Future[None] | None = None  # what was written, to the disk

    def _open(self, name: str, schema: pa.Schema, by: Sequence[tuple[str, bool]], nulls_last: bool,
              compression: str, dictionaries: list[str] | bool) -> None:  # fmt: skip
        pa = arrow()
        if self._parquet:
            columns = pa.parquet.SortingColumn.from_ordering(
                schema, [(name, "descending" if descending else "ascending") for name, descending in by],
                null_placement="at_end" if nulls_last else "at_start")  # fmt: skip
            self._writer = pa.parquet.ParquetWriter(name, schema, compression=compression, sorting_columns=columns,
                                                    use_dictionary=dictionaries)  # fmt: skip
        else:
            self._writer = pa.ipc.new_file(name, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._group_bytes:
            self._flush()

    def _flush(self) -> None:
        """A group of rows is encoded while the next one is made."""
        if self._encoding is not None:
            self._encoding.result()
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._encoding = self._encoder.submit(self._encode, waiting)

    def _encode(self, batches: list[pa.RecordBatch]) -> None:
        table = arrow().Table.from_batches(batches)
        batches.clear()
        with _naming(self._path):
            if self._parquet:
                self._writer.write_table(table, row_group_size=max(1, len(table)))
            else:
                self._writer.write_table(table)
            del table
            give_back()
            # The disk writes while more is made.
            if self._on_its_way is not None:
                self._on_its_way.result()
            self._on_its_way = self._syncer.submit(os.fdatasync, self._file.descriptor)

    def finish(self) -> None:
        if self._waiting:
            self._flush()
        if self._encoding is not None:
            self._encoding.result()
        with _naming(self._path):
            self._writer.close()
            self._writer = None
            if self._on_its_way is not None:
                self._on_its_way.result()
        with naming(self._path):
            _core.publish([self._file])

    def close(self) -> None:
        self._encoder.shutdown()
        if self._writer is not None:
            with contextlib.suppress(Exception):  # the file is given up
                self._writer.close()
        self._syncer.shutdown()
        self._opened.close()


def with_dictionaries(schema: pa.Schema, samples: Sequence[pa.RecordBatch]) -> list[str] | bool:
    """The columns for which Parquet tries a dictionary: not those of which hardly a value came twice at the
    beginning, for which it would look up each one in vain."""
    types = arrow().types
    if any(types.is_nested(field.type) for field in schema):
        return True  # their columns inside have names of Parquet's
    if not samples or samples[0].num_rows < _LOOKED_AT // 2:
        return True
    return [field.name for field, column in zip(schema, samples[0].columns)
            if types.is_dictionary(field.type) or _distinct(column) < 0.99 * len(column)]  # fmt: skip


def _distinct(column: pa.Array) -> int:
    try:
        return len(column.unique())
    except arrow().ArrowNotImplementedError:
        return 0


def without_nulls(files: Sequence[str], names: Iterable[str]) -> set[str]:
    """Those of the columns of which all files say that they have no nulls."""
    pa = arrow()
    left = {name for name, count in collections.Counter(names).items() if count == 1}
    for path in files:
        if not left or _magic(path) != _PARQUET:
            return set()
        metadata = pa.parquet.read_metadata(path)
        # A column inside of another may have the path of one beside it.
        paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
        left &= {name for name, count in collections.Counter(paths).items() if count == 1}
        columns = [at for at, name in enumerate(paths) if name in left]
        for group in range(metadata.num_row_groups):
            for at in columns:
                told = metadata.row_group(group).column(at).statistics
                if told is None or not told.has_null_count or told.null_count != 0:
                    left.discard(paths[at])
            columns = [at for at in columns if paths[at] in left]
    return left
