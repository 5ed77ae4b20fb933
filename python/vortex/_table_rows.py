"""What rows of a table are made of: keys whose order as bytes is that of the columns, and other columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Container, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _core
from ._table_files import arrow

if TYPE_CHECKING:
    import pyarrow as pa

By = Union[str, Sequence[Union[str, "tuple[str, str]"]]]
# As the module takes them: form, width, whether values may be missing, descending, whether missing ones come last.
# The width of strings is what most of them have room in, so that most rows have one length, or 0.
_KeyForm = "tuple[int, int, bool, bool, bool]"
# Layout, width as above, whether values may be missing, and the columns inside.
_Layout = "tuple[int, int, bool, list[Any]]"

_UNSIGNED, _SIGNED, _FLOAT, _KEY_BITS, _KEY_BYTES, _DECIMAL, _STRING32, _STRING64 = range(8)
_FIXED, _BITS, _BYTES32, _BYTES64, _LIST32, _LIST64, _TUPLE, _STRUCT = range(8)
# Bytes of rows that are made as long as each other: of longer ones it saves little.
_MOST_USUAL = 1 << 10


class Order(NamedTuple):
    """A column of the order."""

    name: str
    descending: bool


def orders_of(by: By, descending: bool, schema: pa.Schema) -> list[Order]:
    pa = arrow()
    orders: list[Order] = []
    for one in [by] if isinstance(by, str) else by:
        name, direction = (one, "") if isinstance(one, str) else one
        if direction not in ("", "ascending", "descending"):
            raise ValueError(f"by: {direction!r} is neither 'ascending' nor 'descending'")
        if schema.get_field_index(name) < 0:
            raise ValueError(f"by: there is no column {name!r}, or there are several; "
                             f"there are {', '.join(map(repr, schema.names))}")  # fmt: skip
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if _key_of(kind) is None:
            raise TypeError(f"by: column {name!r} of {kind} has no order")
        orders.append(Order(name, bool(descending) != (direction == "descending")))
    if not orders:
        raise ValueError("by: it names no column to sort by")
    return orders


def _key_of(kind: pa.DataType) -> tuple[int, int] | None:
    """Form and width of the keys of a type; None: it has no order."""
    types = arrow().types
    if types.is_null(kind):
        return _KEY_BYTES, 0
    if types.is_boolean(kind):
        return _KEY_BITS, 1
    if types.is_fixed_size_binary(kind):
        return _KEY_BYTES, kind.byte_width
    if types.is_string(kind) or types.is_binary(kind):
        return _STRING32, 0
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return _STRING64, 0
    if types.is_decimal(kind):
        return _DECIMAL, kind.bit_width // 8
    if types.is_floating(kind):
        return _FLOAT, kind.bit_width // 8
    if types.is_unsigned_integer(kind):
        return _UNSIGNED, kind.bit_width // 8
    if types.is_integer(kind) or types.is_temporal(kind) and not types.is_interval(kind):
        return _SIGNED, kind.bit_width // 8
    return None


def key_forms(schema: pa.Schema, orders: Sequence[Order], nulls_last: bool, whole: Container[str]) -> list[_KeyForm]:
    """The keys of the columns of an order; those of `whole` have no nulls."""
    forms = []
    for order in orders:
        kind = schema.field(order.name).type
        form, width = _key_of(kind.value_type if arrow().types.is_dictionary(kind) else kind)
        forms.append((form, width, order.name not in whole, order.descending, nulls_last))
    return forms


def _inside(kind: pa.DataType) -> list[pa.DataType]:
    """The types of the columns inside of one."""
    pa = arrow()
    if pa.types.is_map(kind):
        return [pa.struct([kind.key_field, kind.item_field])]
    if pa.types.is_struct(kind):
        return [kind.field(at).type for at in range(kind.num_fields)]
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return [kind.value_type] if lists else []


def _layout(name: str, kind: pa.DataType, nullable: bool) -> _Layout:
    pa = arrow()
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _layout(name, kind.storage_type, nullable)
    width = 0
    if types.is_boolean(kind):
        code = _BITS
    elif types.is_string(kind) or types.is_binary(kind):
        code = _BYTES32
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        code = _BYTES64
    elif types.is_list(kind) or types.is_map(kind):
        code = _LIST32
    elif types.is_large_list(kind):
        code = _LIST64
    elif types.is_fixed_size_list(kind):
        code, width = _TUPLE, kind.list_size
    elif types.is_struct(kind):
        code = _STRUCT
    elif types.is_null(kind):
        code = _FIXED
    elif types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind):
        code, width = _FIXED, kind.bit_width // 8
    else:
        raise TypeError(f"column {name!r} of {kind} cannot be sorted along: cast it, or leave it out")
    return code, width, nullable, [_layout(name, one, True) for one in _inside(kind)]


def _made(kind: pa.DataType, parts: Any) -> pa.Array:
    """The array that the module tells of."""
    pa = arrow()
    count, there, buffers, inside = parts
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _made(kind.storage_type, parts))
    if pa.types.is_null(kind):
        return pa.nulls(count)
    children = [_made(one, part) for one, part in zip(_inside(kind), inside)]
    return pa.Array.from_buffers(kind, count, [there and pa.foreign_buffer(*there),
                                               *(pa.foreign_buffer(*buffer) for buffer in buffers)],
                                 children=children or None)  # fmt: skip


class _Dictionary:
    """The values of a column of a dictionary type, to which each batch may add some."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        if _inside(kind.value_type):
            raise TypeError(f"column {name!r} of {kind} cannot be sorted along: cast it, or leave it out")
        self._name = name
        self._kind = kind
        self._known = arrow().array([], kind.value_type)
        self._last: pa.Array | None = None  # dictionary of a batch; the next one mostly has the same
        self._numbers: pa.Array | None = None  # of its values, among the known ones

    def places(self, column: pa.Array, source: str) -> pa.Array:
        if self._last is None or not _are_same(self._last, column.dictionary):
            self._last, self._numbers = column.dictionary, self._numbered(column.dictionary, source)
        return self._numbers.take(column.indices)

    def _numbered(self, values: pa.Array, source: str) -> pa.Array:
        pa = arrow()
        new = values.filter(pa.compute.index_in(values, value_set=self._known).is_null())
        if len(new):
            self._known = pa.concat_arrays([self._known, new])
        try:
            return pa.compute.index_in(values, value_set=self._known).cast(self._kind.index_type)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{source}: column {self._name!r} of {self._kind} has {len(self._known)} values up to "
                             f"here, more than its type can number: cast it") from error  # fmt: skip

    def column(self, places: pa.Array) -> pa.Array:
        return arrow().DictionaryArray.from_arrays(places, self._known, ordered=self._kind.ordered)


def _are_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether they lie in the same memory, which is so as long as both live."""

    def place(array: pa.Array) -> tuple[Any, ...]:
        return len(array), array.offset, *(buffer and buffer.address for buffer in array.buffers())

    return place(one) == place(other)


class RowForm:
    """How batches of a table become rows, and rows batches. Keys give most of their columns back."""

    def __init__(self, schema: pa.Schema, orders: Sequence[Order], nulls_last: bool, without_nulls: Container[str],
                 sample: Sequence[pa.RecordBatch]) -> None:  # fmt: skip
        pa = arrow()
        self._schema = schema
        self._orders = orders
        self._dictionaries = {at: _Dictionary(field.name, field.type) for at, field in enumerate(schema)
                              if pa.types.is_dictionary(field.type)}  # fmt: skip
        # A dictionary may have a value that is none.
        self._whole = {at for at, field in enumerate(schema)
                       if (field.name in without_nulls or not field.nullable) and at not in self._dictionaries}  # fmt: skip
        self.keys = key_forms(schema, orders, nulls_last, {schema.field(at).name for at in self._whole})
        self.restored: list[_Layout | None] = []
        self._given: list[int] = []  # by keys
        for order, key in zip(orders, self.keys):
            at = schema.get_field_index(order.name)
            gives = key[0] != _FLOAT and at not in self._dictionaries and at not in self._given
            self.restored.append(self._layout_of(at) if gives else None)
            if gives:
                self._given.append(at)
        self._beside = [at for at in range(len(schema)) if at not in self._given]
        self.columns = [self._layout_of(at) for at in self._beside]
        self._make_most_rows_one_length(sample)

    def _make_most_rows_one_length(self, sample: Sequence[pa.RecordBatch]) -> None:
        """Gives strings a width, where rows do not become much longer by it: such rows are sorted in half the time."""
        keys = [at for at, key in enumerate(self.keys) if key[0] in (_STRING32, _STRING64)]
        columns = [at for at, layout in enumerate(self.columns) if layout[0] in (_BYTES32, _BYTES64)]
        rest = [layout for at, layout in enumerate(self.columns) if at not in columns]
        if not keys and not columns or any(layout[0] not in (_FIXED, _BITS) for layout in rest):
            return
        found = [[*map(key_columns(batch, self._orders).__getitem__, keys),
                  *(batch.column(self._beside[at]) for at in columns)] for batch in sample if batch.num_rows]  # fmt: skip
        if not found:
            return
        lengths = [np.concatenate([_lengths(column) for column in one]) for one in zip(*found)]
        others = sum(key[1] for at, key in enumerate(self.keys) if at not in keys) + sum(layout[1] for layout in rest)
        mean = others + sum(float(one.mean()) + 4 for one in lengths)
        for share in (1.0, 0.99):
            widths = [max(1, int(np.quantile(one, share, method="higher"))) for one in lengths]
            row = others + sum(widths) + 4 * len(widths)
            if row <= min(1.5 * mean + 16, _MOST_USUAL):
                for at, width in zip(keys, widths):
                    self.keys[at] = (self.keys[at][0], width + 2, *self.keys[at][2:])
                for at, width in zip(columns, widths[len(keys) :]):
                    self.columns[at] = (self.columns[at][0], width, *self.columns[at][2:])
                return

    def _layout_of(self, at: int) -> _Layout:
        field = self._schema.field(at)
        kind = field.type.index_type if at in self._dictionaries else field.type
        return _layout(field.name, kind, at not in self._whole)

    def parts(self, batch: pa.RecordBatch, source: str) -> tuple[Any, Any]:
        """The columns of keys, and the others, as the module takes them: by this form, whatever they are."""
        if not batch.schema.equals(self._schema):
            raise ValueError(f"{source} has another schema than when the sort began")
        for at in self._whole:
            if batch.column(at).null_count:
                raise ValueError(f"{source}: column {self._schema.field(at).name!r} has nulls, and the file says that it "
                                 "has none")  # fmt: skip
        columns = [self._dictionaries[at].places(batch.column(at), source) if at in self._dictionaries else batch.column(at)
                   for at in self._beside]  # fmt: skip
        return _handed(key_columns(batch, self._orders)), _handed(columns)

    def batch(self, keys: Sequence[Any], columns: Sequence[Any]) -> pa.RecordBatch:
        """What the module has read."""
        parts = {**dict(zip(self._given, keys)), **dict(zip(self._beside, columns))}
        arrays = []
        for at, field in enumerate(self._schema):
            if at in self._dictionaries:
                arrays.append(self._dictionaries[at].column(_made(field.type.index_type, parts[at])))
            else:
                arrays.append(_made(field.type, parts[at]))
        return arrow().RecordBatch.from_arrays(arrays, schema=self._schema)


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    lengths = arrow().compute.binary_length(getattr(column, "storage", column)).fill_null(0)
    return lengths.to_numpy(zero_copy_only=False).astype(np.int64)


def _handed(columns: Sequence[pa.Array]) -> Any:
    """Arrays as the capsule of Arrow's C data interface, which keeps them."""
    batch = arrow().RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])
    return batch.__arrow_c_array__()[1]


def key_columns(rows: pa.RecordBatch | pa.Table, orders: Sequence[Order]) -> list[pa.Array]:
    """The columns of the order, each in one piece, values of dictionaries in their place."""
    pa = arrow()
    columns = []
    for order in orders:
        column = rows.column(order.name)
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks or [pa.array([], column.type)])
        columns.append(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
    return columns


class Keys(NamedTuple):
    """Keys of rows, one behind the other: row i has the bytes from begin[i] to begin[i + 1]."""

    begin: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]

    def order(self, threads: int) -> npt.NDArray[np.intp]:
        """The places of the rows in their order; equal ones keep theirs."""
        places = np.empty(len(self.begin) - 1, np.intp)
        _core.argsort_strings(self.begin, self.data, places, False, threads)
        return places


def keys_of(table: pa.Table, orders: Sequence[Order], nulls_last: bool) -> Keys:
    """The keys of the rows of a table."""
    begin, data = _core.table_keys(key_forms(table.schema, orders, nulls_last, ()), _handed(key_columns(table, orders)))
    return Keys(np.frombuffer(begin, np.int64), np.frombuffer(data, np.uint8))
