"""Arrays in memory: sorted, selected from, and brought into the order of keys."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._keys import Names, field_keys, plain_fields

_KINDS = {
    "u1": 0, "u2": 1, "u4": 2, "u8": 3, "b1": 0,
    "i1": 4, "i2": 5, "i4": 6, "i8": 7,
    "f4": 8, "f8": 9,
    "M8": _core.TIME, "m8": _core.TIME,
}  # fmt: skip
_NO_ORDER = "arrays of {0} have no order here: numbers, bool, times, bytes, str and structured arrays have"


def array_of(data: Any) -> np.ndarray:
    """`data` as an array, without a copy where it has memory of its own to show: ndarrays, what has
    DLPack or the buffer protocol, pyarrow arrays and polars series. Anything else is copied."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError("masked arrays are not sorted: fill or compress it first")
    if isinstance(data, np.ndarray):
        return data
    missing = getattr(data, "null_count", 0)
    if missing and not callable(missing) or callable(missing) and missing():
        raise ValueError("the data have nulls, which have no place in a numpy array: fill or drop them first")
    if type(data).__module__.startswith("pyarrow"):
        chunked = hasattr(data, "chunks")
        return data.to_numpy() if chunked else data.to_numpy(zero_copy_only=False)
    if hasattr(data, "to_numpy"):
        return data.to_numpy()
    if hasattr(data, "__dlpack__"):
        return np.from_dlpack(data)
    return np.asarray(data)


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
    if dtype.kind in "cO" or dtype.char == "g" or dtype.kind not in "biufmMSUV":
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
    if a.dtype.names is not None:
        fields = plain_fields(a.dtype, by)
        if fields is None or any(_needs_places(a[name]) for name in fields):
            rows = a.reshape(-1, row)
            for one in rows:
                one[...] = one[_argsort_fields(one, by, descending, threads)]
            return
        keys = field_keys(a.dtype, by)
        if not keys:
            return  # Without a key all elements are equal.
    else:
        keys = []
    if a.itemsize:
        raw = a.reshape(-1).view(np.uint8) if a.size else a
        _core.sort_records(raw, a.itemsize, row, keys, descending, threads)


def _needs_places(field: np.ndarray) -> bool:
    """Whether the bits of a field have another order than numpy has."""
    if field.dtype.kind == "f":
        return bool((np.isnan(field) | ((field == 0) & np.signbit(field))).any())
    return field.dtype.kind in "mM" and bool(np.isnat(field).any())


def sort(
    a: npt.NDArray[Any],
    *,
    axis: int = -1,
    by: Names = None,
    descending: bool = False,
    stable: bool = False,
    threads: int = 0,
) -> None:
    """Sorts an array where it is, along `axis`.

    a: an ndarray of any shape and strides, of integers, floating-point numbers, bool, times, bytes
        (S), str (U), or a structured one. Without strides, and in this machine's byte order, it is
        sorted in place, with up to about 7 MiB and 1 % more for numbers and 16 bytes an element for
        bytes and structures; otherwise a copy is, and copied back.
    by: for a structured array, the field or fields that are its key, the first counting most; all
        of them by default. Elements with equal keys keep their order, always.
    descending: the other way round. NaN and NaT come last either way.
    stable: for those who say it to numpy.sort: equal elements keep their order in any case.
    threads: that may work, the calling one included; 0: one for each usable core.

    Does not hold the GIL. Raises TypeError for what has no order and for what is no ndarray,
    ValueError where the array cannot be written, MemoryError with nothing moved.
    """
    if not isinstance(a, np.ndarray) or isinstance(a, np.ma.MaskedArray):
        raise TypeError(f"sort() sorts an ndarray where it is, not a {type(a).__name__}: see sorted()")
    _check_order(a.dtype, by)
    if not a.flags.writeable:
        raise ValueError("the array cannot be written: vortex.sorted(a) returns a sorted copy")
    if a.ndim == 0:
        raise ValueError("an array without an axis has no order")
    rows = np.moveaxis(a, axis, -1)
    if rows.size == 0:
        return
    if _is_plain(rows):
        _sort_plain(rows, rows.shape[-1], by, descending, threads)
    else:
        copy = _plain(rows)
        _sort_plain(copy, copy.shape[-1], by, descending, threads)
        rows[...] = copy


def sorted(  # noqa: A001
    a: Any,
    *,
    axis: int | None = -1,
    by: Names = None,
    descending: bool = False,
    stable: bool = False,
    threads: int = 0,
) -> npt.NDArray[Any]:
    """A sorted copy, as numpy.sort() makes it: see sort().

    a: what sort() takes, and also what shows its memory by DLPack or the buffer protocol, pyarrow
        arrays and chunked arrays, polars series, and whatever numpy.asarray() takes. Nulls are a
        ValueError.
    axis: None sorts all elements as one row.
    """
    array = array_of(a)
    _check_order(array.dtype, by)
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
    8 bytes a key and the size of the largest array. Arrays that may share memory take 8 bytes a key
    and the size of all of them. Raises ValueError for other lengths and for arrays that cannot be
    written, and TypeError for masked ones, with nothing moved.
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
    if shared:
        # What is written to one of them changes another.
        for array, moved in zip(arrays, [array[places] for array in arrays]):
            array[...] = moved
    else:
        for array in arrays:
            array[...] = array[places]


def _raw(a: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array."""
    return a.reshape(-1).view(np.uint8)


def select(
    a: npt.NDArray[Any],
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

    a: an ndarray of numbers, bool or times. k: a place, from the end where it is negative; with
    `ordered` a count. Raises IndexError for a place that is not there. Otherwise as sort().
    """
    if not isinstance(a, np.ndarray) or isinstance(a, np.ma.MaskedArray):
        raise TypeError(f"select() moves the elements of an ndarray, not of a {type(a).__name__}")
    _check_order(a.dtype, None)
    if not a.flags.writeable:
        raise ValueError("the array cannot be written: select from a copy")
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
    plain = rows if _is_plain(rows) else _plain(rows)
    numbers = _numbers(plain)
    if numbers is None:
        raise TypeError(f"select() takes numbers, bool and times, not {a.dtype}")
    _core.select_rows(numbers[0], numbers[1], length, k, ordered, descending, threads)
    if plain is not rows:
        rows[...] = plain


def unique(a: Any, *, descending: bool = False, threads: int = 0) -> npt.NDArray[Any]:
    """The elements in order, each once, as numpy.unique(): one axis, and one NaN or NaT at most.

    a: what sorted() takes.
    """
    array = array_of(a)
    _check_order(array.dtype, None)
    copy = np.array(array, order="C", subok=False).reshape(-1)
    plain = copy if _is_plain(copy) else _plain(copy)
    numbers = _numbers(plain)
    if numbers is not None:
        kept = _core.sort_unique(numbers[0], numbers[1], descending, threads)
        return plain[:kept].astype(copy.dtype)
    sort(copy, descending=descending, threads=threads)
    if copy.size == 0:
        return copy
    first = np.ones(copy.shape, bool)
    first[1:] = copy[1:] != copy[:-1]
    return copy[first]

