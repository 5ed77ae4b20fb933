from typing import Any, Callable, Optional, Sequence

_Key = tuple[int, int, int, bool, bool]
_Progress = Optional[Callable[[str, int, Optional[int]], Any]]

version: str
TIME: int

def default_memory() -> int: ...

def sort_rows(array: Any, kind: int, row: int, descending: bool, threads: int, /) -> None: ...
def argsort_rows(
    array: Any, kind: int, row: int, places: Any, descending: bool, threads: int, /
) -> None: ...
def argsort_bytes(
    array: Any, item: int, row: int, places: Any, descending: bool, threads: int, /
) -> None: ...
def argsort_strings(
    begins: Any, content: Any, places: Any, descending: bool, threads: int, /
) -> None: ...
def sort_records(
    array: Any, record: int, row: int, keys: Sequence[_Key], sorted: Any, descending: bool, threads: int, /
) -> None: ...
def merge_to_array(
    arrays: Sequence[Any], record: int, keys: Sequence[_Key], to: Any, threads: int, /
) -> None: ...
def merge_to_descriptor(
    arrays: Sequence[Any], record: int, keys: Sequence[_Key], descriptor: int, threads: int, /
) -> None: ...
def merge_to_file(
    arrays: Sequence[Any], names: Sequence[str], record: int, keys: Sequence[_Key], path: str, last: bool, memory: int, /
) -> int: ...
def sort_to_array(
    arrays: Sequence[Any], record: int, keys: Sequence[_Key], to: Any, /
) -> None: ...
def sum_records(records: Any, record: int, /) -> int: ...
def ranks(
    records: Any, record: int, keys: Sequence[_Key], borders: Any, /
) -> list[tuple[int, int]]: ...
def count_equal(records: Any, record: int, keys: Sequence[_Key], wanted: Any, /) -> int: ...
def argsort_lines(
    lines: Sequence[bytes], keys: tuple[Sequence[str], str, str, bool], stable: bool, /
) -> list[int]: ...
def sort_lines(
    text: Any,
    keys: tuple[Sequence[str], str, str, bool],
    stable: bool,
    borders: Sequence[bytes],
    places: Sequence[int],
    to: Any,
    /,
) -> list[int]: ...
def sum_lines(text: Any, /) -> tuple[int, int, bytes, bytes]: ...
def needs_places(array: Any, kind: int, /) -> bool: ...
def sort_by_key(
    keys: Any, kind: int, columns: Sequence[tuple[Any, int]], descending: bool, threads: int, /
) -> None: ...
def select_rows(
    array: Any, kind: int, row: int, k: int, ordered: bool, descending: bool, threads: int, /
) -> None: ...
def sort_unique(array: Any, kind: int, descending: bool, threads: int, /) -> int: ...
def use_engine(name: str, /) -> None: ...
def engine() -> str: ...
def take_failure() -> tuple[int, str, str, bool]: ...
def raise_failures_as(type: type[BaseException], /) -> None: ...
def end_raising() -> None: ...
def parse_key(text: str, /) -> _Key: ...
def sort_record_files(
    inputs: Sequence[str],
    output: str,
    record: int,
    keys: Sequence[_Key],
    unique: bool,
    merge: bool,
    first: int,
    memory: int,
    folders: Sequence[str],
    threads: int,
    progress: _Progress,
    /,
) -> tuple[int, int, int, int]: ...
def sort_line_files(
    inputs: Sequence[str],
    output: str,
    keys: tuple[Sequence[str], str, str, bool],
    header: int,
    stable: bool,
    unique: bool,
    merge: bool,
    first: int,
    memory: int,
    folders: Sequence[str],
    threads: int,
    progress: _Progress,
    /,
) -> tuple[int, int, int, int]: ...

def check_line_files(
    inputs: Sequence[str],
    keys: tuple[Sequence[str], str, str, bool],
    header: int,
    unique: bool,
    memory: int,
    threads: int,
    progress: _Progress,
    /,
) -> Optional[tuple[str, int, int]]: ...
def check_record_file(
    path: str,
    offset: int,
    count: int,
    record: int,
    keys: Sequence[_Key],
    unique: bool,
    memory: int,
    progress: _Progress,
    /,
) -> int: ...

def merge_parts(
    parts: Sequence[tuple[str, int, int]],
    output: str,
    header: bytes,
    record: int,
    keys: Sequence[_Key],
    count: int,
    memory: int,
    progress: _Progress,
    /,
) -> bool: ...

class Mapping:
    def __init__(self, path: str, memory: int, writable: bool, name: str, /) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def size(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def writable(self) -> bool: ...
    def read(self, offset: int, to: Any, /) -> None: ...
    def resize(self, bytes: int, set_aside: bool, /) -> None: ...
    def flush(self, sync: bool, /) -> None: ...
    def close(self) -> None: ...

class Sorter:
    def __init__(
        self,
        record: int,
        keys: Sequence[_Key],
        first: int,
        memory: int,
        folders: Sequence[str],
        threads: int,
        progress: _Progress,
        /,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def counts(self) -> tuple[int, int]: ...
    def push(self, records: Any, /) -> None: ...
    def push_file(self, path: str, offset: int, count: int, /) -> None: ...
    def sort(self) -> None: ...
    def read(self, offset: int, to: Any, /) -> None: ...
    def write(self, path: str, header: bytes, /) -> None: ...

_KeyForm = tuple[int, int, bool, bool, bool]

def table_keys(keys: Sequence[_KeyForm], columns: Any, /) -> tuple[bytes, bytes]: ...

class TableSorter:
    def __init__(
        self,
        keys: Sequence[_KeyForm],
        restored: Sequence[Optional[Any]],
        columns: Sequence[Any],
        first: int,
        memory: int,
        folders: Sequence[str],
        threads: int,
        /,
    ) -> None: ...
    def push(self, keys: Any, columns: Any, /) -> None: ...
    def sort(self) -> None: ...
    def read(self, rows: int, bytes: int, /) -> tuple[int, list[Any], list[Any]]: ...
    def counts(self) -> tuple[int, int]: ...
