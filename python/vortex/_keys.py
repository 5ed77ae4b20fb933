"""What the keys of records are: of a dtype by its fields, and as text."""

from __future__ import annotations

from typing import Sequence, Tuple, Union

import numpy as np

from . import _core

# Offset and length in bytes, kind (bytes, unsigned, signed, float), big-endian, descending.
Key = Tuple[int, int, int, bool, bool]
Names = Union[str, Sequence[str], None]

_KINDS = {"b": 1, "u": 1, "i": 2, "m": 2, "M": 2, "f": 3}


def _keys_of(dtype: np.dtype, offset: int) -> list[Key] | None:
    """The keys of one value; None where it has no order as bytes or numbers."""
    big = dtype.str[0] == ">"
    if dtype.names is not None:
        keys: list[Key] = []
        for name in dtype.names:
            part, at = dtype.fields[name][:2]
            inner = _keys_of(part, offset + at)
            if inner is None:
                return None
            keys += inner
        return keys
    if dtype.kind == "S":
        return [(offset, dtype.itemsize, 0, False, False)] if dtype.itemsize else []
    if dtype.kind == "U":
        if big:
            return [(offset, dtype.itemsize, 0, False, False)] if dtype.itemsize else []
        return [(offset + at, 4, 1, False, False) for at in range(0, dtype.itemsize, 4)]
    if dtype.kind in _KINDS and dtype.itemsize in (1, 2, 4, 8) and dtype.char != "e":
        return [(offset, dtype.itemsize, _KINDS[dtype.kind], big, False)]
    return None


def _names(dtype: np.dtype, by: Names) -> list[str]:
    if by is None:
        return list(dtype.names)
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        if name not in dtype.names:
            raise ValueError(f"by: there is no field {name!r}; there are {', '.join(map(repr, dtype.names))}")
    return names


def plain_fields(dtype: np.dtype, by: Names) -> list[str] | None:
    """The fields that `by` names, where each is one number or string of bytes; otherwise None."""
    names = _names(dtype, by)
    for name in names:
        if dtype.fields[name][0].names is not None or _keys_of(dtype.fields[name][0], 0) is None:
            return None
    return names


def field_keys(dtype: np.dtype, by: Names) -> list[Key]:
    """The keys of plain_fields()."""
    keys: list[Key] = []
    for name in _names(dtype, by):
        part, offset = dtype.fields[name][:2]
        keys += _keys_of(part, offset) or []
    return keys


def record_keys(dtype: np.dtype, key: Names, descending: bool) -> list[Key]:
    """The keys of records of a dtype in a file. Raises TypeError where one has no order."""
    if dtype.names is None:
        if key is not None:
            raise ValueError(f"key: {dtype} has no fields")
        keys = _keys_of(dtype, 0)
        unordered = str(dtype)
    else:
        names = _names(dtype, key)
        found = [_keys_of(dtype.fields[name][0], dtype.fields[name][1]) for name in names]
        unordered = ", ".join(name for name, part in zip(names, found) if part is None)
        keys = None if unordered else [one for part in found for one in part or []]
    if keys is None:
        raise TypeError(f"{unordered} has no order in a file: numbers of up to 8 bytes, times, S and U have")
    if not keys:
        raise ValueError("key: it names nothing to sort by; None takes all fields")
    return [(*one[:4], descending) for one in keys]


def text_keys(key: Names, descending: bool) -> list[Key]:
    """Keys as OFFSET:LENGTH[:TYPE][:desc], the way that `vortex sort` takes them."""
    texts = [] if key is None else [key] if isinstance(key, str) else list(key)
    keys = [_core.parse_key(text) for text in texts]
    return [(*one[:4], one[4] != descending) for one in keys]
