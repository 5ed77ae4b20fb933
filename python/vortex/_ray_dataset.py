"""Datasets of Ray, sorted by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import ray

from ._table_files import arrow
from ._table_rows import By, Keys, Order, keys_of, orders_of

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = "__vortex_key__"
_SAMPLES_OF_PARTITION = 100


def _stored_keys(data: Any) -> Keys:
    """The keys in the last column of a batch or a table."""
    pa = arrow()
    column = data.column(data.num_columns - 1)
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    begin = np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)
    return Keys(begin, np.frombuffer(column.buffers()[2] or b"", np.uint8))


def _with_keys(table: pa.Table, keys: Keys) -> pa.Table:
    pa = arrow()
    column = pa.Array.from_buffers(pa.large_binary(), len(table),
                                   [None, pa.py_buffer(np.ascontiguousarray(keys.begin)), pa.py_buffer(keys.data)])  # fmt: skip
    return table.append_column(pa.field(_KEY, pa.large_binary(), nullable=False), column)


def _count_up_to(keys: Keys, bound: bytes, with_bound: bool) -> int:
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


class _Form(NamedTuple):
    """What all tasks of a sort know of the rows."""

    schema: Any
    orders: list[Order]
    nulls_last: bool

    def with_keys(self, table: Any) -> Any:
        table = table if table.schema.equals(self.schema) else table.cast(self.schema)
        return _with_keys(table, keys_of(table, self.orders, self.nulls_last))


class _Border(NamedTuple):
    """The first row of a partition, by its key, its block, and its place there."""

    key: bytes
    block: int
    place: int


def _key(keys: Any, row: int) -> bytes:
    return keys.data[keys.begin[row] : keys.begin[row + 1]].tobytes()


def _schema_of(table: Any) -> Any:
    return table.schema


def _sample(form: _Form, block: int, wanted: int, table: Any) -> list[_Border]:
    places = np.unique(np.linspace(0, max(0, len(table) - 1), min(wanted, len(table))).astype(np.intp))
    keys = _stored_keys(form.with_keys(table.take(arrow().array(places))))
    return [_Border(_key(keys, at), block, int(place)) for at, place in enumerate(places)]


def _divide(form: _Form, block: int, borders: list[_Border], table: Any) -> Any:
    """The rows of a block for each partition, sorted."""
    pa = arrow()
    table = form.with_keys(table)
    order = _stored_keys(table).order(1)
    keys = _stored_keys(table.take(pa.array(order)))
    cuts = [0]
    for border in borders:
        before, up_to = (_count_up_to(keys, border.key, with_bound) for with_bound in (False, True))
        if border.block == block:
            before += int(np.searchsorted(order[before:up_to], border.place))
        cuts.append(up_to if block < border.block else before)
    cuts.append(len(order))
    parts = [table.take(pa.array(order[first:end])) for first, end in zip(cuts, cuts[1:])]
    return parts if len(parts) > 1 else parts[0]


def _merge(*parts: Any) -> Any:
    pa = arrow()
    table = pa.concat_tables(parts)
    return table.take(pa.array(_stored_keys(table).order(1))).drop_columns([_KEY])


def sort_dataset(ds: Any, by: By, *, descending: bool = False, nulls: str = "last", partitions: int = 0) -> Any:
    """A Dataset of Ray with the rows of another one, sorted by columns as sort_table() sorts them.

    ds: of any blocks that Arrow can hold. Rows with equal keys keep the order in which it gives them.
    by, descending, nulls: as for sort_table().
    partitions: blocks of the result, at most; 0: as many as `ds` has, or as there are processors. Equal keys
        are divided, too. A task holds a block with its keys, and a copy.

    Unlike the Dataset's own sort() it works at once: `ds` is read, as materialize() does it. Raises ValueError and
    TypeError for columns that are not there or have no order, and what Ray raises of tasks.
    """
    if nulls not in ("first", "last"):
        raise ValueError(f"nulls: {nulls!r} is neither 'first' nor 'last'")
    if partitions < 0:
        raise ValueError(f"partitions: {partitions} are none")

    def task(function: Any, name: str, returns: int = 1) -> Any:
        return (
            ray.remote(function)
            .options(name=f"vortex {name}", num_returns=returns, scheduling_strategy="SPREAD")
            .remote
        )

    blocks = ds.to_arrow_refs()
    if not blocks:
        return ds
    schema = ray.get(task(_schema_of, "schema")(blocks[0]))
    if _KEY in schema.names:
        raise ValueError(f"a column is named {_KEY!r}, which the sort needs for itself")
    form = _Form(schema, orders_of(by, descending, schema), nulls == "last")
    wanted = partitions or max(len(blocks), int(ray.cluster_resources().get("CPU", 1)))
    of_block = -(-_SAMPLES_OF_PARTITION * wanted // len(blocks))
    sampled = ray.get([task(_sample, "sample")(form, at, of_block, block) for at, block in enumerate(blocks)])
    samples = sorted(one for some in sampled for one in some)
    chosen = sorted({at * len(samples) // wanted for at in range(1, wanted)} - {0})
    borders = [samples[at] for at in chosen]
    count = len(borders) + 1
    divided = [
        task(_divide, f"divide {at} of {len(blocks)}", count)(form, at, borders, block)
        for at, block in enumerate(blocks)
    ]
    parts = [[one] if count == 1 else one for one in divided]
    merged = [task(_merge, f"merge {number} of {count}")(*(one[number] for one in parts)) for number in range(count)]
    return ray.data.from_arrow_refs(merged)
