"""What orders the rows of a table: strings of bytes, whose order as bytes is that of the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._arrays import argsort

if TYPE_CHECKING:
    import pyarrow as pa

By = Union[str, Sequence[Union[str, "tuple[str, str]"]]]

_KEY = "__vortex_key__"
_KEY_STEP = 32  # bytes of keys that are compared at a time
_KEYS_AT_ONCE = 1 << 14


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
