"""Datasets of Ray, sorted by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, NamedTuple

import numpy as np
import ray

from ._ray_started import remote
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


def _key(keys: Keys, row: int) -> bytes:
    return keys.data[keys.begin[row] : keys.begin[row + 1]].tobytes()


def _count_up_to(keys: Keys, bound: bytes, with_bound: bool) -> int:
    """How many of some sorted keys come before `bound`, or are equal to it where those count, too."""
    low, high = 0, len(keys.begin) - 1
    while low < high:
        middle = (low + high) // 2
        key = _key(keys, middle)
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
        if not table.schema.equals(self.schema):
            pa = arrow()
            columns = [table.column(field.name).cast(field.type) if field.name in table.column_names
                       else pa.nulls(len(table), field.type) for field in self.schema]  # fmt: skip
            table = pa.table(columns, schema=self.schema)
        return _with_keys(table, keys_of(table, self.orders, self.nulls_last))


class _Border(NamedTuple):
    """The first row of a partition, by its key, its block, and its place there."""

    key: bytes
    block: int
    place: int


def _table_of(block: Any) -> Any:
    from ray.data.block import BlockAccessor

    return BlockAccessor.for_block(block).to_arrow()


def _schema_of(block: Any) -> Any:
    return _table_of(block).schema


def _common_schema(schemas: list[Any]) -> Any:
    """One that holds the rows of all of them; TypeError where there is none."""
    pa = arrow()
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeError(f"blocks of the dataset have columns that do not go together: {error}") from error


def _sample(form: _Form, number: int, wanted: int, block: Any) -> list[_Border]:
    table = _table_of(block)
    places = np.unique(np.linspace(0, max(0, len(table) - 1), min(wanted, len(table))).astype(np.intp))
    keys = _stored_keys(form.with_keys(table.take(arrow().array(places))))
    return [_Border(_key(keys, at), number, int(place)) for at, place in enumerate(places)]


def _divide(form: _Form, number: int, borders: list[_Border], block: Any) -> Any:
    """The rows of a block for each partition, sorted."""
    pa = arrow()
    table = form.with_keys(_table_of(block))
    order = _stored_keys(table).order(1)
    keys = _stored_keys(table.take(pa.array(order)))
    cuts = [0]
    for border in borders:
        before, up_to = (_count_up_to(keys, border.key, with_bound) for with_bound in (False, True))
        if border.block == number:
            before += int(np.searchsorted(order[before:up_to], border.place))
        cuts.append(up_to if number < border.block else before)
    cuts.append(len(order))
    parts = [table.take(pa.array(order[first:end])) for first, end in zip(cuts, cuts[1:])]
    return parts if len(parts) > 1 else parts[0]


def _merged(refs: list[Any]) -> Iterator[Any]:
    """A partition, of what all blocks have for it."""
    pa = arrow()
    table = pa.concat_tables(ray.get(refs))
    yield table.take(pa.array(_stored_keys(table).order(1))).drop_columns([_KEY])


def _started(function: Any, name: str, *arguments: Any, returns: int = 1) -> Any:
    options = {"name": f"vortex {name}", "num_returns": returns, "scheduling_strategy": "SPREAD"}
    return remote(function).options(**options).remote(*arguments)


class Sorting(NamedTuple):
    """A sort that has not begun. `schema` is that of `ds` where it is known."""

    ds: Any
    by: By
    descending: bool
    nulls_last: bool
    partitions: int
    schema: Any

    def form(self, schema: Any) -> _Form:
        if _KEY in schema.names:
            raise ValueError(f"a column is named {_KEY!r}, which the sort needs for itself")
        return _Form(schema, orders_of(self.by, self.descending, schema), self.nulls_last)

    def parts(self) -> list[list[Any]]:
        """Runs `ds` and divides its blocks: references to what these have for each partition."""
        blocks = [
            ref
            for bundle in self.ds.iter_internal_ref_bundles()
            for ref, about in zip(bundle.block_refs, bundle.metadata)
            if about.num_rows != 0  # those without rows may lack columns
        ]
        if not blocks:
            return []
        form = self.form(_common_schema(ray.get([_started(_schema_of, "schema", block) for block in blocks])))
        wanted = self.partitions or max(len(blocks), processors())
        of_block = -(-_SAMPLES_OF_PARTITION * wanted // len(blocks))
        sampled = ray.get([_started(_sample, "sample", form, at, of_block, block) for at, block in enumerate(blocks)])
        samples = sorted(one for some in sampled for one in some)
        chosen = sorted({at * len(samples) // wanted for at in range(1, wanted)} - {0})
        borders = ray.put([samples[at] for at in chosen])
        count = len(chosen) + 1
        divided = [
            _started(_divide, f"divide {at} of {len(blocks)}", form, at, borders, block, returns=count)
            for at, block in enumerate(blocks)
        ]
        of_blocks = [[one] if count == 1 else one for one in divided]
        firsts = [one[0] for one in of_blocks]
        ray.wait(firsts, num_returns=len(firsts), fetch_local=False)
        return [[one[number] for one in of_blocks] for number in range(count)]


def processors() -> int:
    return int(ray.cluster_resources().get("CPU", 1))


def sort_dataset(ds: Any, by: By, *, descending: bool = False, nulls: str = "last", partitions: int = 0) -> Any:
    """A Dataset of Ray with the rows of another one, sorted by columns as sort_table() sorts them.

    ds: of any blocks that Arrow can hold; columns become wide enough for all of them. Rows with equal keys keep the
        order in which it gives them.
    by, descending, nulls: as for sort_table().
    partitions: parts of the result, at most; 0: as many as `ds` has blocks, or as there are processors. Equal keys
        are divided, too. A task holds a part with its keys, and a copy; Ray divides parts that are longer than its
        blocks may be.

    Like the Dataset's own sort() it works when somebody asks for rows, each time again: then `ds` is run and its
    blocks are divided. Parts are merged as they are wanted, in their order, which what is made of the Dataset keeps.
    Raises ValueError and TypeError for columns that are not there or have no order: at once where the schema is
    known, and otherwise as Ray raises what happens in tasks, in their time.
    """
    if nulls not in ("first", "last"):
        raise ValueError(f"nulls: {nulls!r} is neither 'first' nor 'last'")
    if partitions < 0:
        raise ValueError(f"partitions: {partitions} are none")
    from ._ray_source import SortedSource

    schema = ds.schema(fetch_if_missing=False)
    base = None if schema is None else schema.base_schema
    sorting = Sorting(ds, by, descending, nulls == "last", partitions, base if isinstance(base, arrow().Schema) else None)
    if sorting.schema is not None:
        sorting.form(sorting.schema)
    done = ray.data.read_datasource(SortedSource(sorting), override_num_blocks=partitions or processors())
    done.context.execution_options.preserve_order = True
    return done
