"""What callers give instead of an ndarray."""

from __future__ import annotations

from typing import Any

import numpy as np

_STRING_TYPES = {f"{before}{kind}{behind}" for kind in ("string", "binary")
                 for before, behind in (("", ""), ("large_", ""), ("", "_view"))}  # fmt: skip


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
    if is_arrow(data) and hasattr(data, "to_numpy"):
        chunked = hasattr(data, "chunks")
        return data.to_numpy() if chunked else data.to_numpy(zero_copy_only=False)
    if hasattr(data, "to_numpy"):
        return data.to_numpy()
    if hasattr(data, "__dlpack__"):
        return np.from_dlpack(data)
    return np.asarray(data)


def changed_array(data: Any, call: str) -> np.ndarray:
    """The array that a call changes where it is: `data`, or one over the memory that it shows."""
    array = data
    if not isinstance(data, np.ndarray):
        try:
            array = np.asarray(memoryview(data))
        except TypeError:
            array = np.from_dlpack(data) if hasattr(data, "__dlpack__") else None
    if array is None or isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{call}() changes an ndarray, or what has DLPack or the buffer protocol, where it is, "
                        f"not a {type(data).__name__}: see sorted()")
    if not array.flags.writeable:
        raise ValueError(f"the array cannot be written: {call}() of a copy can, and vortex.sorted(a) makes one")
    return array


def is_arrow(data: Any) -> bool:
    return type(data).__module__.startswith("pyarrow")


def strings_of(data: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the strings of a pyarrow array or a polars series begin and end, and their bytes, which
    have the order of their characters. None for anything else."""
    array = data
    if type(data).__module__.startswith("polars") and str(getattr(data, "dtype", "")) in ("String", "Binary"):
        array = data.to_arrow()
    if not is_arrow(array) or str(getattr(array, "type", "")) not in _STRING_TYPES:
        return None
    import pyarrow as pa

    if array.null_count:
        raise ValueError("the data have nulls, which have no place in their order: fill or drop them first")
    # First: in one piece others have less than 2 GiB.
    array = array.cast(pa.large_binary())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    _, offsets, content = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset) if len(array) else np.zeros(1, np.int64)
    return ends, np.frombuffer(content or b"", np.uint8)


def distinct(strings: Any) -> Any:
    """The strings in any order, each once, as pyarrow or polars has them."""
    if is_arrow(strings) and str(strings.type).endswith("_view"):  # of which PyArrow finds none
        return strings.cast(f"large_{str(strings.type)[:-5]}").unique().cast(strings.type)
    return strings.unique()


def taken(strings: Any, places: np.ndarray) -> Any:
    """The strings at the places, as pyarrow or polars has them."""
    if not is_arrow(strings):
        return strings.gather(places)
    kind = str(strings.type)
    if kind.endswith("_view"):  # of which PyArrow takes none
        return strings.cast(f"large_{kind[:-5]}").take(places).cast(kind)
    return strings.take(places)
