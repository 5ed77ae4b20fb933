"""Files that appear under their names when they are complete and on the disk."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
from typing import Any, Iterator

import numpy as np
import numpy.typing as npt

from . import _core
from ._files import Array, Path, StreamError, _array_over, _checked, _refuse_views, name_of, new_header, write


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
        if error.errno is None or isinstance(error, StreamError):
            raise
        raise OSError(error.errno, str(error.strerror).replace(part, path), path) from None


def _make(part: str) -> int:
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _replace(part: str, path: str) -> None:
    with _calling(part, path):
        os.replace(part, path)
        _sync_folder(os.path.dirname(path) or ".")


class NewFile:
    """A file that appears under its name when it is complete and on the disk; an error leaves what was there."""

    def __init__(self, path: str) -> None:
        self._path, self.part = path, _hidden(path)
        self.descriptor = -1

    def __enter__(self) -> NewFile:
        with _calling(self.part, self._path):
            self.descriptor = _make(self.part)
        return self

    def write(self, array: npt.NDArray[Any]) -> None:
        with _calling(self.part, self._path):
            write(self.descriptor, array)

    def finish(self) -> None:
        with _calling(self.part, self._path):
            os.fsync(self.descriptor)

    def appear(self) -> None:
        _replace(self.part, self._path)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        os.close(self.descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.part)


class _Creation:
    """What create() returns: the file is under another name until the `with` block ends."""

    def __init__(self, path: str, dtype: np.dtype, shape: tuple[int, ...], memory: int) -> None:
        self._path, self._dtype, self._shape, self._memory = path, dtype, shape, memory
        self._array: Array | None = None

    def __enter__(self) -> Array:
        self._part = _hidden(self._path)
        header = new_header(self._dtype, self._shape) if self._path.endswith(".npy") else b""
        count = int(np.prod(self._shape, dtype=object))
        with _calling(self._part, self._path):
            descriptor = _make(self._part)
            try:
                with io.open(descriptor, "wb") as file:
                    file.write(header)
                mapping = _core.Mapping(self._part, self._memory, True, self._path)
                mapping.resize(len(header) + count * self._dtype.itemsize, True)
            except BaseException:
                os.unlink(self._part)
                raise
        self._array = _array_over(mapping, self._dtype, self._shape, len(header))
        return self._array

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        try:
            if kind is None and self._array is not None:
                with _calling(self._part, self._path):
                    self._array.flush()
                _replace(self._part, self._path)
                self._array.flags.writeable = False
                _refuse_views(self._array, "what they change from now on is lost; the file is complete")
            else:
                os.unlink(self._part)
        except BaseException:
            if os.path.exists(self._part):
                os.unlink(self._part)
            raise
        finally:
            self._array = None
        return False


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
