"""Files as arrays, in a fixed memory."""

from __future__ import annotations

import ast
import atexit
import errno
import io
import os
import select
import sys
from typing import Any, Callable, Iterator, Union

import numpy as np
import numpy.typing as npt

from . import _core

Path = Union[str, "os.PathLike[str]"]
_COPY_BYTES = 1 << 20
# What numpy takes from anybody: a long one may crash the parser of Python.
_HEADER_BYTES = 10_000


def name_of(path: Path) -> str:
    name = os.fsdecode(os.fspath(path))
    if "\0" in name:
        raise ValueError(f"{name!r} is the name of no file")
    return "./-" if name == "-" else name  # which would be standard input or output


class naming:  # noqa: N801
    """Gives an OSError the file that it is about: the first of the names that its text has."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if isinstance(error, OSError) and error.filename is None and self._names:
            said = [name for name in self._names if name in str(error)]
            error.filename = said[0] if said else self._names[0]
        return False


class StreamError(OSError):
    """A touch of an array of a file that could not be served: the file was cut, the disk fails or is full.

    Raised in the thread that touched, right after the call that did, whose result has zeros in place
    of what could not be read, and whose changes there are lost. Another thread that reads the same place
    before the exception finds the zeros, too. Later touches fail as well. Has errno, strerror and filename.
    """

    def __new__(cls, *args: Any) -> Any:
        # What is raised from outside of a thread is a class.
        if not args:
            error, text, path, found = _core.take_failure()
            args = (error, text, path) if found else (errno.EIO, "an array of a file could not be read")
        return super().__new__(cls, *args)


_core.raise_failures_as(StreamError)
atexit.register(_core.end_raising)


class Array(np.ndarray):
    """An array whose elements lie in a file, as open() and create() make it.

    Slices and views of it are such arrays, too, and keep the file open; results of arithmetic and
    copies are plain arrays. With the engine of signals the kernel cannot read its memory, so that
    os.write() of it fails with EFAULT: use tofile(), which numpy.save() does, or vortex.write().
    Pickling copies the elements.

    A touch that the file cannot serve raises StreamError behind the call that made it, see there;
    read() raises OSError at once. As a `with` block the array is closed at its end.
    """

    _mapping: Any
    _opened: bool  # it is no view of another one

    def __array_finalize__(self, obj: Any) -> None:
        mapping = getattr(obj, "_mapping", None)
        self._mapping = mapping if mapping is not None and np.may_share_memory(self, obj) else None
        self._opened = False

    def _references(self) -> int:
        # Each array over the file has the mapping, and plain arrays have the one below all of them.
        return sys.getrefcount(self._mapping) + sys.getrefcount(self.base)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        array = super().__array_wrap__(array, context)
        if self is array or type(self) is not Array:
            return array
        return array[()] if return_scalar else array.view(np.ndarray)

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        if type(part) is Array and part._mapping is None:
            return part.view(np.ndarray)
        return part

    def __setitem__(self, index: Any, value: Any) -> None:
        # A call of Python, behind which failed touches are raised.
        super().__setitem__(index, value)

    def __enter__(self) -> Array:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Writes what was changed, and ends the use of the file: later stores, and reads of what is not in
        memory any more, raise StreamError.

        BufferError while views are alive; what other libraries made of the array is not known. Without a
        GIL the thread that opened the file closes it: to others, views that are gone may seem alive. Memory
        and descriptor are given back when the array itself is gone.
        """
        if self._mapping is None or not self._opened:
            raise ValueError("this is no array of open(), but a view of one: close that")
        _refuse_views(self, "it stays open")
        if self._mapping.writable:
            self.flush()
        self._mapping.close()

    def _pieces(self) -> Iterator[np.ndarray]:
        """Copies of its bytes in C order, a megabyte at a time."""
        if self.flags.c_contiguous:
            flat = self.reshape(-1)
            step = max(1, _COPY_BYTES // max(1, self.itemsize))
            for begin in range(0, flat.size, step):
                yield flat.read(begin, min(step, flat.size - begin))
        else:
            buffered = np.nditer(self, flags=["external_loop", "buffered", "zerosize_ok"], order="C",
                                 buffersize=_COPY_BYTES // max(1, self.itemsize) or 1)  # fmt: skip
            for piece in buffered:
                if piece.size:
                    yield np.array(piece)

    def read(self, begin: int, count: int) -> npt.NDArray[Any]:
        """A copy of `count` elements of its first axis, from `begin` on.

        Raises OSError, and goes on, where the file cannot be read; IndexError where there are not as
        many; ValueError where the array has strides. Does not hold the GIL.
        """
        if not self.flags.c_contiguous:
            raise ValueError("read() takes what lies in one piece: slice it with a step behind the read")
        length = self.shape[0] if self.ndim else 0
        if begin < 0 or count < 0 or begin + count > length:
            raise IndexError(f"elements {begin} to {begin + count} of {length}")
        copy = np.empty((count, *self.shape[1:]), self.dtype)
        if copy.size and self._mapping is None:
            copy[...] = self.view(np.ndarray)[begin : begin + count]
        elif copy.nbytes:
            address = self.__array_interface__["data"][0]
            offset = address - self._mapping.address + begin * (copy.nbytes // count)
            self._mapping.read(offset, copy.reshape(-1).view(np.uint8))
        return copy

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:  # noqa: A002
        """As numpy.ndarray.tofile()."""
        if sep:
            np.array(self, subok=False).tofile(fid, sep, format)
        elif isinstance(fid, (str, bytes, os.PathLike)):
            with io.open(fid, "wb") as file:
                self.tofile(file)
        else:
            for piece in self._pieces():
                _write_all(fid, memoryview(piece.reshape(-1).view(np.uint8)))

    def flush(self, sync: bool = True) -> None:
        """Writes what was changed to the file, and waits, with `sync` until the disk has it for good.

        Raises OSError; what could not be written stays, and the next call tries again.
        """
        if self._mapping is None:
            raise ValueError("this array is no longer one of a file")
        self._mapping.flush(sync)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.array(self, subok=False).__reduce_ex__(protocol)

    def __deepcopy__(self, memo: Any) -> Any:
        return np.array(self, subok=False)


def _refuse_views(array: Array, meanwhile: str) -> None:
    views = array._references() - _ALONE if array.size else 0
    if views:
        raise BufferError(f"{views} view{'s' if views > 1 else ''} of the array of a file {'are' if views > 1 else 'is'} "
                          f"alive, and {meanwhile}: delete slices before")  # fmt: skip


def _when_writable(descriptor: int, call: Callable[[], Any]) -> Any:
    """The call's result; it is made again where the descriptor does not block, and cannot be written to now."""
    while True:
        try:
            return call()
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()


def write(file: Any, array: npt.ArrayLike) -> int:
    """Writes the bytes of an array of a file, in C order, to a descriptor or what has fileno(), behind what that has
    buffered; returns how many.

    For pipes, sockets and files, with any engine. Waits until all is written, also where the descriptor does not.
    Other arrays will do, too. Raises OSError.
    """
    descriptor = file if isinstance(file, int) else file.fileno()
    if hasattr(file, "flush"):
        _when_writable(descriptor, file.flush)
    pieces = array._pieces() if isinstance(array, Array) else [np.ascontiguousarray(array)]
    written = 0
    for piece in pieces:
        rest = memoryview(piece.reshape(-1).view(np.uint8))
        written += len(rest)
        while rest:
            rest = rest[_when_writable(descriptor, lambda some=rest: os.write(descriptor, some)) :]
    return written


def engine() -> str:
    """How faults reach the library: "signals" or "userfaultfd"."""
    return _core.engine()


def use_engine(name: str) -> None:
    """Chooses how faults reach the library, before the first open(), create() or sort.

    "signals", the default, needs no permission; the kernel cannot read arrays of files then. With
    "userfaultfd" (Linux 6.8, with permission) it can: os.write(), sockets and all else work.
    "auto" takes that where it is allowed. Raises OSError: EBUSY while files are open, and what
    forbids the engine, with what to set.
    """
    if name not in ("signals", "userfaultfd", "auto"):
        raise ValueError(f"engine {name!r} is none of 'signals', 'userfaultfd' and 'auto'")
    _core.use_engine(name)


def _write_all(file: Any, rest: memoryview) -> None:
    if not isinstance(file, io.RawIOBase):
        file.write(rest)
        return
    # Without a buffer a file may take a part.
    while rest:
        taken = file.write(rest)
        if taken is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[taken:]


def _read_header_3_0(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Versions 1 and 2 have Latin-1, for which alone numpy has functions."""
    size = int.from_bytes(file.read(4), "little")
    if size > _HEADER_BYTES:
        raise ValueError(f"{file.name}: its header is longer than {_HEADER_BYTES} bytes")
    text = file.read(size)
    try:
        header = ast.literal_eval(text.decode("utf-8"))
        shape = tuple(int(length) for length in header["shape"])
        return shape, header["fortran_order"], np.lib.format.descr_to_dtype(header["descr"])
    except (SyntaxError, TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{file.name}: its header is none of a .npy file") from error


_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): _read_header_3_0,
}


def stamp_of(path: str) -> tuple[int, int, int]:
    """What tells a file from another one, and from itself before it was changed, as _core takes it."""
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns, about.st_ino


def npy_header(path: str) -> tuple[np.dtype, tuple[int, ...], int] | None:
    """dtype, shape and length of the header of a file that numpy.save() wrote; None for others."""
    if not os.path.isfile(path):
        return None
    with io.open(path, "rb") as file:
        if file.read(6) != b"\x93NUMPY":
            return None
        file.seek(0)
        version = np.lib.format.read_magic(file)
        if version not in _HEADER_READERS:
            raise ValueError(f"{path}: version {version} of .npy files is not known here")
        shape, fortran, dtype = _HEADER_READERS[version](file)
        if fortran and len(shape) > 1:
            raise ValueError(f"{path}: its elements lie in Fortran's order, which is not read here")
        return dtype, shape, file.tell()


def new_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The header of a file that numpy.load() reads."""
    out = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    try:
        np.lib.format.write_array_header_1_0(out, header)
    except ValueError:
        # Names of fields that are not Latin-1, or too many: version 3 has UTF-8 and 4 GiB. The elements
        # begin at a multiple of 64.
        text = repr(header).encode("utf-8")
        text += b" " * (-(12 + len(text) + 1) % 64) + b"\n"
        return np.lib.format.magic(3, 0) + len(text).to_bytes(4, "little") + text
    return out.getvalue()


def _checked(dtype: npt.DTypeLike) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"a file cannot hold elements of {dtype}")
    return dtype


def _array_over(mapping: Any, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> Array:
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count == 0:
        array = np.empty(shape, dtype).view(Array)
    else:
        array = np.ndarray(shape, dtype, mapping, offset).view(Array)
    array._mapping = mapping
    array._opened = True
    return array


# References of an array without views.
_ALONE = _array_over(bytes(bytearray(1000)), np.dtype(np.uint8), (1000,), 0)._references()


def open(  # noqa: A001
    path: Path,
    dtype: npt.DTypeLike = None,
    mode: str = "r",
    *,
    memory: int = 0,
) -> Array:
    """A file as an array, read in any order in a fixed memory, whatever its size.

    path: a file of elements, one behind the other, or one that numpy.save() wrote, which tells dtype
        and shape.
    dtype: of the elements; None: that of the .npy file, else bytes (uint8). Another one than a .npy
        file has is a ValueError.
    mode: "r" to read; "r+" to change as well, see Array.flush().
    memory: bytes that may be held at most; 0: what reading ahead needs, some 10 MiB.

    The file stays open until the array and all slices of it are gone, or Array.close(). Blocks are read where the
    array is touched, ahead where a walk is noticed; that holds the GIL only where numpy does.
    Raises OSError with errno and file name, and ValueError where the length of the file is no
    multiple of an element's.
    """
    if mode not in ("r", "r+"):
        raise ValueError(f"mode {mode!r} is none of 'r' and 'r+'")
    name = name_of(path)
    header = npy_header(name)
    with naming(name):
        mapping = _core.Mapping(name, memory, mode == "r+", name)
    if header is not None:
        kind, shape, offset = header
        _checked(kind)
        if dtype is not None and np.dtype(dtype) != kind:
            raise ValueError(f"{name}: a .npy file of {kind}, not of {np.dtype(dtype)}; astype() converts")
        if int(np.prod(shape, dtype=object)) * kind.itemsize > mapping.size - offset:
            raise ValueError(f"{name}: it is shorter than its header says")
        return _array_over(mapping, kind, shape, offset)
    kind = _checked(np.uint8 if dtype is None else dtype)
    if mapping.size % kind.itemsize:
        raise ValueError(f"{name}: {mapping.size} bytes are no multiple of the {kind.itemsize} of {kind}")
    return _array_over(mapping, kind, (mapping.size // kind.itemsize,), 0)


def blocks(path: Path, dtype: npt.DTypeLike, size: int, *, memory: int = 0) -> Iterator[Array]:
    """The elements of a file, `size` at a time, the last ones fewer: arrays without a copy.

    path, dtype, memory: as for open(). Each array keeps the file open.
    """
    if size < 1:
        raise ValueError("blocks have at least one element")
    array = open(path, dtype, memory=memory)
    return (array[begin : begin + size] for begin in range(0, array.shape[0] if array.ndim else 0, size))
