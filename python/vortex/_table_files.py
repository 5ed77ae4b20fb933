"""Files of Parquet and Arrow, which PyArrow reads and writes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any, Iterator, Sequence

from ._files import Path
from ._sort_forms import _names_of
from ._table_keys import _arrow, _Order

if TYPE_CHECKING:
    import pyarrow as pa

_PARQUET, _ARROW = b"PAR1", b"ARROW1"


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
