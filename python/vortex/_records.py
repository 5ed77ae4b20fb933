"""Sorted arrays of records, merged."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

from . import _core
from ._files import _checked
from ._inputs import array_of
from ._keys import Names, record_keys


def raw(a: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of a contiguous array."""
    return a.reshape(-1).view(np.uint8)


def merge_arrays(
    arrays: Sequence[Any],
    out: Any = None,
    *,
    key: Names = None,
    descending: bool = False,
    threads: int = 0,
) -> Any:
    """Merges sorted arrays of one dtype; elements with equal keys come in the order of their arrays.

    arrays: each with one axis, of a dtype that sort_file() takes, sorted as it sorts: floating-point
        numbers by their bits (vortex.sort() leaves them so, but for NaNs whose sign is set).
    out: where they go: an array of that dtype with room for exactly all, or what has fileno(), or a
        descriptor; None: a new array. Returned, except that of a descriptor.
    key, descending: as for sort_file(). threads: that may work; 0: one for each usable core.

    Does not hold the GIL. Extra memory: 20 MiB at most for two threads. Arrays that are not sorted give
    a result that is not. Raises ValueError and TypeError for dtypes, and OSError with errno.
    """
    sources = [array_of(one) for one in arrays]
    if not sources:
        raise ValueError("arrays: there is none")
    dtype = sources[0].dtype
    for one in sources:
        if one.dtype != dtype or one.ndim != 1:
            raise ValueError(f"arrays: one is of {one.dtype} with {one.ndim} axes; all are of {dtype} with one")
    keys = record_keys(_checked(dtype), key, descending)
    records = [raw(np.ascontiguousarray(one)) for one in sources if one.size]
    size = dtype.itemsize
    if out is not None and not isinstance(out, np.ndarray):
        if hasattr(out, "flush"):
            out.flush()  # what was written to it before comes in front
        _core.merge_to_descriptor(records, size, keys, out if isinstance(out, int) else out.fileno(), threads)
        return None
    count = sum(one.size for one in sources)
    if out is None:
        out = np.empty(count, dtype)
    elif out.dtype != dtype or out.shape != (count,) or not out.flags.c_contiguous:
        raise ValueError(f"out: it is no array of {count} elements of {dtype} in one piece")
    if any(np.may_share_memory(out, one) for one in sources):
        raise ValueError("out: it shares memory with an array that is merged")
    if count:
        _core.merge_to_array(records, size, keys, raw(out), threads)
    return out
