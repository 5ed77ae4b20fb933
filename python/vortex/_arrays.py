"""Arrays in memory: sorted, selected from, and brought into the order of keys."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._inputs import array_of, changed_array, distinct, strings_of, taken
from ._keys import Names, field_keys, plain_fields

_KINDS = {
    "u1": 0, "u2": 1, "u4": 2, "u8": 3, "b1": 0,
    "i1": 4, "i2": 5, "i4": 6, "i8": 7,
    "f4": 8, "f8": 9,
    "M8": _core.TIME, "m8": _core.TIME,
}  # fmt: skip
# The kinds of what the buffer protocol tells of, in this machine's byte order.
_ROW_KINDS = {np.dtype(text): kind for text, kind in _KINDS.items() if text[0] not in "mM"}
_MOVED = 1 << 18  # bytes, at a time
_LONGEST_MOVED = 1 << 20  # of an element, by sort_records()
_NO_ORDER = "arrays of {0} have no order here: numbers, bool, times, bytes, str and structured arrays have"


def _row_kind(a: Any, axis: int | None, by: Names) -> int | None:
    """The kind of the numbers of an array that is one row just as the module takes it; otherwise None.
    Most arrays are, and a few elements are sorted in less time than the other questions take."""
    if type(a) is not np.ndarray or by is not None or a.ndim != 1 or axis not in (-1, 0):
        return None
    flags = a.flags
    return _ROW_KINDS.get(a.dtype) if flags.c_contiguous and flags.aligned else None


def _numbers(a: np.ndarray) -> tuple[np.ndarray, int] | None:
    """A contiguous array of numbers in this machine's byte order as what the module takes, with its
    kind; None where the elements are no numbers."""
    kind = _KINDS.get(a.dtype.str[1:] if a.dtype.kind not in "mM" else a.dtype.kind + "8")
    if kind is None:
        return None
    if kind == _core.TIME:
        a = a.view(np.int64)
    return a, kind


def _is_plain(a: np.ndarray) -> bool:
    return a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative and a.dtype.char not in "eU"


def _plain(a: np.ndarray) -> np.ndarray:
    """A copy whose elements lie and are ordered as the module takes them. Half floats become floats,
    which hold all of them; characters become big-endian, whose bytes have their order."""
    dtype = a.dtype
    if dtype.char == "e":
        dtype = np.dtype(np.float32)
    elif dtype.kind == "U":
        dtype = dtype.newbyteorder(">")
    elif dtype.kind not in "SV":
        dtype = dtype.newbyteorder("=")
    return np.array(a, dtype=dtype, order="C", subok=False)


def _check_order(dtype: np.dtype, by: Names) -> None:
    if dtype.kind not in "biufmMSUV":
        raise TypeError(_NO_ORDER.format(dtype))
    if dtype.kind == "V" and dtype.names is None:
        raise TypeError("arrays of raw bytes have no order: give them a dtype of bytes (S) or with fields")
    if by is not None and dtype.names is None:
        raise ValueError(f"by: an array of {dtype} has no fields")


def _sort_plain(a: np.ndarray, row: int, by: Names, descending: bool, threads: int) -> None:
    """Sorts each `row` elements of an array that _is_plain(), or that _plain() made."""
    numbers = _numbers(a)
    if numbers is not None:
        _core.sort_rows(numbers[0], numbers[1], row, descending, threads)
        return
    keys = _record_keys(a, by)
    if keys is None or a.itemsize > _LONGEST_MOVED:
        for one in a.reshape(-1, row):
            one[...] = one[argsort(one, by=by, descending=descending, threads=threads)]
    elif a.itemsize and (keys or a.dtype.names is None):  # Without a key all elements are equal.
        raw = a.reshape(-1).view(np.uint8) if a.size else a
        _core.sort_records(raw, a.itemsize, row, keys, raw, descending, threads)


def _record_keys(a: np.ndarray, by: Names) -> list[Any] | None:
    """What sorts elements that are no numbers, as bytes; None where their bits have another order."""
    if a.dtype.names is None:
        return []
    fields = plain_fields(a.dtype, by)
    if fields is None or any(_needs_places(a[name]) for name in fields):
        return None
    return list(field_keys(a.dtype, by))


def _needs_places(field: np.ndarray) -> bool:
    """Whether the bits of a field have another order than numpy has."""
    if field.dtype.kind == "f":
        return bool((np.isnan(field) | ((field == 0) & np.signbit(field))).any())
    return field.dtype.kind in "mM" and bool(np.isnat(field).any())


def sort(
    a: Any,
    *,
    axis: int = -1,
    by: Names = None,
    descending: bool = False,
    stable: bool = False,
    threads: int = 0,
) -> None:
    """Sorts an array where it is, along `axis`.

    a: an ndarray of any shape and strides, of integers, floating-point numbers, bool, times, bytes
        (S), str (U), or a structured one; or what shows such an array by the buffer protocol or
        DLPack. Without strides, and in this machine's byte order, it is
        sorted in place, with up to about 7 MiB and 1 % more for numbers and 16 bytes an element for
        bytes and structures; otherwise a copy is, and copied back.
    by: for a structured array, the field or fields that are its key, the first counting most; all
        of them by default. Elements with equal keys keep their order, always.
    descending: the other way round. NaN and NaT come last either way.
    stable: for those who say it to numpy.sort: equal elements keep their order in any case. Of
        numbers, -0.0 is less than 0.0.
    threads: that may work, the calling one included; 0: one for each usable core.

    Does not hold the GIL. Raises TypeError for what has no order and for what is no such array,
    ValueError where the array cannot be written, MemoryError with nothing moved, or whole
    rows sorted where there are several. Long doubles are left to numpy.
    """
    kind = _row_kind(a, axis, by)
    if kind is not None and a.flags.writeable:
        _core.sort_rows(a, kind, a.size, descending, threads)
        return
    a = changed_array(a, "sort")
    _check_order(a.dtype, by)
    if a.ndim == 0:
        raise ValueError("an array without an axis has no order")
    rows = np.moveaxis(a, axis, -1)
    if rows.size == 0:
        return
    if a.dtype.char == "g":
        rows[...] = np.take_along_axis(rows, _long_places(rows, descending), -1)
    elif _is_plain(rows):
        _sort_plain(rows, rows.shape[-1], by, descending, threads)
    else:
        copy = _plain(rows)
        _sort_plain(copy, copy.shape[-1], by, descending, threads)
        rows[...] = copy


def _long_places(rows: np.ndarray, descending: bool) -> np.ndarray:
    return np.argsort(-rows if descending else rows, axis=-1, kind="stable")


def sorted(  # noqa: A001
    a: Any,
    *,
    axis: int | None = -1,
    by: Names = None,
    descending: bool = False,
    stable: bool = False,
    threads: int = 0,
) -> Any:
    """A sorted copy, as numpy.sort() makes it: see sort().

    a: what sort() takes, and also pyarrow arrays and chunked arrays, polars series, and whatever
        numpy.asarray() takes. Nulls are a ValueError. Strings of pyarrow and polars come back as
        theirs, everything else as an ndarray.
    axis: None sorts all elements as one row.
    """
    kind = _row_kind(a, axis, by)
    if kind is not None:
        copy = a.copy()
        _core.sort_rows(copy, kind, a.size, descending, threads)
        return copy
    if strings_of(a) is not None:
        places = argsort(a, descending=descending, threads=threads)
        return taken(a, places)
    array = array_of(a)
    _check_order(array.dtype, by)
    is_row = array.ndim == 1 and axis in (None, -1, 0)
    if is_row and array.size and 0 < array.itemsize <= _LONGEST_MOVED and array.dtype.kind in "SV" and _is_plain(array):
        keys = _record_keys(array, by)
        if keys or (keys is not None and array.dtype.names is None):
            copy = np.empty(array.shape, array.dtype)
            raw, out = array.view(np.uint8), copy.view(np.uint8)
            _core.sort_records(raw, array.itemsize, array.size, keys, out, descending, threads)
            return copy
    copy = np.array(array, order="C", subok=False)
    if axis is None:
        copy, axis = copy.reshape(-1), -1
    sort(copy, axis=axis, by=by, descending=descending, stable=stable, threads=threads)
    return copy


def _argsort_fields(a: np.ndarray, by: Names, descending: bool, threads: int) -> np.ndarray:
    """By several fields: by the last one first, since each argsort is stable."""
    names = a.dtype.names if by is None else ((by,) if isinstance(by, str) else tuple(by))
    places = None
    for name in reversed(names):
        column = a[name]
        if column.ndim != 1:
            raise TypeError(f"field {name!r} is an array, which has no order")
        if places is not None:
            column = column[places]
        order = argsort(column, descending=descending, threads=threads)
        places = order if places is None else places[order]
    return places if places is not None else np.arange(a.shape[0])


def argsort(
    a: Any,
    *,
    axis: int | None = -1,
    by: Names = None,
    descending: bool = False,
    threads: int = 0,
) -> npt.NDArray[np.intp]:
    """The places of the elements in their order, as numpy.argsort(a, kind="stable"): always stable.

    a, axis, by, descending, threads: as for sorted(). The array stays as it is. The result has its
    shape (with axis None, one axis). Extra memory: up to 16 bytes an element. Does not hold the GIL.
    """
    kind = _row_kind(a, axis, by)
    if kind is not None:
        places = np.empty(a.size, np.intp)
        _core.argsort_rows(a, kind, a.size, places, descending, threads)
        return places
    strings = strings_of(a)
    if strings is not None:
        places = np.empty(strings[0].size - 1, np.intp)
        _core.argsort_strings(*strings, places, descending, threads)
        return places
    array = array_of(a)
    _check_order(array.dtype, by)
    if axis is None or array.ndim == 0:
        array, axis = array.reshape(-1), -1
    rows = np.moveaxis(array, axis, -1)
    places = np.empty(rows.shape, np.intp)
    if rows.size:
        row = rows.shape[-1]
        if rows.dtype.names is not None:
            flat = rows.reshape(-1, row)
            for one, to in zip(flat, places.reshape(-1, row)):
                to[...] = _argsort_fields(one, by, descending, threads)
        elif rows.dtype.char == "g":
            places[...] = _long_places(rows, descending)
        else:
            keys = rows if _is_plain(rows) else _plain(rows)
            numbers = _numbers(keys)
            if numbers is not None:
                _core.argsort_rows(numbers[0], numbers[1], row, places, descending, threads)
            elif keys.itemsize == 0:
                places[...] = np.arange(row)
            else:
                raw = keys.reshape(-1).view(np.uint8)
                _core.argsort_bytes(raw, keys.itemsize, row, places, descending, threads)
    return np.moveaxis(places, -1, axis)


def sort_by_key(
    keys: npt.NDArray[Any],
    *values: npt.NDArray[Any],
    descending: bool = False,
    threads: int = 0,
) -> None:
    """Sorts the keys, and brings each array of values into the same order, where they are.

    keys: an ndarray of one axis, as for sort().
    values: ndarrays of any dtype whose first axis is as long as the keys. Values of equal keys keep
        their order. The keys may be a part of the values, such as a column of theirs.

    Without strides, numbers take 16 bytes of extra memory a key where the values of a key have
    together at most 8 bytes, otherwise 8 bytes a key and the size of the largest array; other keys
    8 bytes a key and the size of the largest array. Arrays that may share memory, or have
    objects, take 8 bytes a key and the size of all of them. Raises ValueError for other lengths and for
    arrays that cannot be written, TypeError for masked ones, and MemoryError, with nothing moved.
    """
    arrays = (keys, *values)
    for array in arrays:
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"sort_by_key() sorts ndarrays where they are, not a {type(array).__name__}")
        if not array.flags.writeable:
            raise ValueError("an array cannot be written: argsort(keys) leaves all as they are")
    if keys.ndim != 1:
        raise ValueError("keys have one axis")
    if any(value.ndim == 0 or value.shape[0] != keys.shape[0] for value in values):
        raise ValueError("there are not as many values as keys")
    _check_order(keys.dtype, None)
    shared = any(np.may_share_memory(one, other) for one, other in itertools.combinations(arrays, 2))
    numbers = _numbers(keys) if _is_plain(keys) and not shared else None
    together = numbers is not None and all(v.flags.c_contiguous and not v.dtype.hasobject and v.size for v in values)
    if together and keys.size and not _core.needs_places(*numbers):
        columns = [(_raw(v), v.nbytes // keys.shape[0]) for v in values]
        _core.sort_by_key(numbers[0], numbers[1], columns, descending, threads)
        return
    places = argsort(keys, descending=descending, threads=threads)
    if shared or any(array.dtype.hasobject or array.dtype.kind == "T" for array in arrays):
        # What is written to one of them changes another.
        for array, moved in zip(arrays, [array[places] for array in arrays]):
            array[...] = moved
        return
    # All memory before anything moves.
    whole = np.empty(max(array.nbytes for array in arrays), np.uint8)
    part = np.empty(max(_MOVED, *(array[:1].nbytes for array in arrays)), np.uint8)
    for array in arrays:
        if array.nbytes:
            _move(array, places, whole, part)


def _move(array: np.ndarray, places: npt.NDArray[np.intp], whole: np.ndarray, part: np.ndarray) -> None:
    """Gives an array the elements at `places`, by way of two arrays of bytes: one for all of it, one for some of it."""
    before = whole[: array.nbytes].view(array.dtype).reshape(array.shape)
    before[...] = array
    step = part.size // before[:1].nbytes
    for begin in range(0, len(array), step):
        here = array[begin : begin + step]
        piece = part[: here.nbytes].view(array.dtype).reshape(here.shape)
        here[...] = np.take(before, places[begin : begin + step], axis=0, out=piece, mode="clip")


def _raw(a: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array."""
    return a.reshape(-1).view(np.uint8)


def select(
    a: Any,
    k: int,
    *,
    axis: int = -1,
    ordered: bool = False,
    descending: bool = False,
    threads: int = 0,
) -> None:
    """Moves elements so that the one at place k is the one that sorting would put there.

    None in front of it belongs behind it, as after numpy.ndarray.partition(). With `ordered` the
    first k elements are sorted instead, and the others follow in any order.

    a: what sort() takes; what are no numbers, bool or times is sorted. k: a place, from the end
    where it is negative; with `ordered` a count. Raises IndexError for a place that is not there.
    Otherwise as sort().
    """
    a = changed_array(a, "select")
    _check_order(a.dtype, None)
    if a.ndim == 0:
        raise ValueError("an array without an axis has no places")
    rows = np.moveaxis(a, axis, -1)
    length = rows.shape[-1]
    if ordered:
        if not 0 <= k:
            raise IndexError(f"{k} is no count")
    elif not -length <= k < length:
        raise IndexError(f"there is no place {k} among {length}")
    elif k < 0:
        k += length
    if rows.size == 0:
        return
    if a.dtype.kind in "SUV" or a.dtype.char == "g":
        sort(a, axis=axis, descending=descending, threads=threads)
        return
    plain = rows if _is_plain(rows) else _plain(rows)
    numbers = _numbers(plain)
    _core.select_rows(numbers[0], numbers[1], length, k, ordered, descending, threads)
    if plain is not rows:
        rows[...] = plain


def unique(a: Any, *, descending: bool = False, threads: int = 0) -> Any:
    """The elements in order, each once, as numpy.unique(): one axis, and one NaN or NaT at most.

    a: what sorted() takes; strings of pyarrow and polars come back as theirs.
    """
    if strings_of(a) is not None:
        return sorted(distinct(a), descending=descending, threads=threads)
    array = array_of(a)
    _check_order(array.dtype, None)
    copy = np.array(array, order="C", subok=False).reshape(-1)
    plain = copy if _is_plain(copy) else _plain(copy)
    numbers = _numbers(plain)
    if numbers is not None:
        kept = _core.sort_unique(numbers[0], numbers[1], descending, threads)
        return plain[:kept].astype(copy.dtype)
    sort(copy, descending=descending, threads=threads)
    first = np.ones(copy.shape, bool)
    first[1:] = copy[1:] != copy[:-1]
    if copy.dtype.char == "g":
        first[1:] &= ~(np.isnan(copy[1:]) & np.isnan(copy[:-1]))
    return copy[first]

