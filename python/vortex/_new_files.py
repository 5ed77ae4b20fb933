"""Files that appear under their names when they are complete and on the disk."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Any, Iterator

import numpy as np
import numpy.typing as npt

from . import _core
from ._files import Array, Path, _array_over, _checked, _refuse_views, name_of, naming, new_header, write


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hidden(path: str) -> str:
    """The name that a file has until it is complete, beside its own."""
    folder, base = os.path.split(path)
    # A name has at most 255 bytes.
    return os.path.join(folder, f".{os.fsencode(base)[:200].decode(errors='ignore')}.{secrets.token_hex(6)}")


@contextlib.contextmanager
def _calling(part: str, path: str) -> Iterator[None]:
    """What fails under a hidden name has the name that was asked for."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, str(error.strerror).replace(part, path), path) from None


class NewFile:
    """A file that has another name, under which all may write to it, until it is complete and on the disk."""

    def __init__(self, path: str) -> None:
        self._path, self.part = path, _hidden(path)
        self.descriptor = -1

    def __enter__(self) -> NewFile:
        with _calling(self.part, self._path):
            self.descriptor = os.open(self.part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        return self

    def write(self, array: npt.NDArray[Any]) -> None:
        with _calling(self.part, self._path):
            write(self.descriptor, array)

    def finish(self) -> None:
        with _calling(self.part, self._path):
            os.fsync(self.descriptor)

    def appear(self) -> None:
        with _calling(self.part, self._path):
            os.replace(self.part, self._path)
            _sync_folder(os.path.dirname(self._path) or ".")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        os.close(self.descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.part)


class _Creation:
    """What create() returns: the file has no name until the `with` block ends."""

    def __init__(self, path: str, dtype: np.dtype, shape: tuple[int, ...], memory: int) -> None:
        self._path, self._dtype, self._shape, self._memory = path, dtype, shape, memory

    def __enter__(self) -> Array:
        header = new_header(self._dtype, self._shape) if self._path.endswith(".npy") else b""
        count = int(np.prod(self._shape, dtype=object))
        with naming(self._path), contextlib.ExitStack() as opened:
            file = opened.enter_context(_core.NewFile(self._path))
            write(file.descriptor, np.frombuffer(header, np.uint8))
            mapping = _core.Mapping(f"/proc/self/fd/{file.descriptor}", self._memory, True, self._path)
            mapping.resize(len(header) + count * self._dtype.itemsize, True)
            self._array = _array_over(mapping, self._dtype, self._shape, len(header))
            self._file, self._opened = file, opened.pop_all()
        return self._array

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        with naming(self._path), self._opened:
            if kind is not None:
                return
            self._array.flush()
            _core.publish([self._file])
        self._array.flags.writeable = False
        _refuse_views(self._array, "what they change from now on may come to the file, which is complete")


def create(path: Path, dtype: npt.DTypeLike, size: int | tuple[int, ...], *, memory: int = 0) -> _Creation:
    """A new file as an array of zeros, to be filled in any order in a fixed memory.

        with vortex.create("squares.npy", np.int64, 1000) as squares:
            squares[:] = np.arange(1000) ** 2

    The file appears under its name, on the disk, when the block ends; an exception leaves what was
    there before. The array can be read then, and no longer changed; slices that are still alive are a
    BufferError behind the complete file. A name that ends in .npy gets the header that numpy.load()
    reads.

    size: elements, or a shape. Room for them is set aside at the beginning, so that a full disk is
    an OSError there. memory: as for open(). Raises OSError with errno and file name.
    """
    shape = (int(size),) if not isinstance(size, tuple) else tuple(int(n) for n in size)
    if any(n < 0 for n in shape):
        raise ValueError("a file has no fewer than 0 elements")
    return _Creation(name_of(path), _checked(dtype), shape, memory)
