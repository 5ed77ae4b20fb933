"""Files of a folder that all machines see, and objects of a store that fsspec reaches."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import Any, Iterator, NamedTuple

import numpy as np

from ._files import naming
from ._new_files import NewFile

# An upload to these appears when it is complete, under its own name; elsewhere it gets another one first.
_WHOLE_UPLOADS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl"}
_PIECE_BYTES = 16 << 20
# What file systems of fsspec call that which is another one when a file was written once more: the first tells.
_MARKS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "modified", "updated", "created")


class Stamp(NamedTuple):
    """What tells whether a file is still the same."""

    size: int
    mark: str


class Storage:
    """Where the names of a sort are: a name with :// is fsspec's, with `options` for its file system."""

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        self._options = options or {}

    @staticmethod
    def is_remote(name: str) -> bool:
        return "://" in name

    def absolute(self, name: str) -> str:
        """As workers know it, which have other working folders."""
        return name if self.is_remote(name) else os.path.abspath(name)

    def _remote(self, name: str) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs
        except ImportError as missing:
            raise ImportError(f"{name} needs fsspec, which reads it: pip install fsspec") from missing
        return url_to_fs(name, **self._options)

    def join(self, folder: str, name: str) -> str:
        return f"{folder.rstrip('/')}/{name}" if self.is_remote(folder) else os.path.join(folder, name)

    def stamp(self, name: str) -> Stamp:
        if not self.is_remote(name):
            about = os.stat(name)
            return Stamp(about.st_size, f"{about.st_mtime_ns} {about.st_ino}")
        file_system, path = self._remote(name)
        file_system.invalidate_cache()
        about = file_system.info(path)
        return Stamp(int(about["size"]), next((str(about[mark]) for mark in _MARKS if about.get(mark)), ""))

    def read_into(self, name: str, offset: int, to: np.ndarray) -> None:
        """Fills an array of bytes from a place on. OSError (ENODATA) where the file ends before."""
        if self.is_remote(name):
            file_system, path = self._remote(name)
            for at in range(0, to.size, _PIECE_BYTES):
                piece = to[at : at + _PIECE_BYTES]
                content = file_system.cat_file(path, start=offset + at, end=offset + at + piece.size)
                if len(content) != piece.size:
                    raise OSError(errno.ENODATA, "the file ends before its last record", name)
                piece[...] = np.frombuffer(content, np.uint8)
            return
        view = memoryview(to)
        with open(name, "rb", buffering=0) as file:
            while view:
                got = os.preadv(file.fileno(), [view[: 1 << 30]], offset)
                if got == 0:
                    raise OSError(errno.ENODATA, "the file ends before its last record", name)
                view, offset = view[got:], offset + got

    def make_folder(self, name: str) -> bool:
        """Whether there was none."""
        if not self.is_remote(name):
            there = os.path.isdir(name)
            os.makedirs(name, exist_ok=True)
            return not there
        file_system, path = self._remote(name)
        if path.rstrip("/").count("/"):  # not a bucket's own name
            file_system.makedirs(path, exist_ok=True)
        return False

    def remove_folder_if_empty(self, name: str) -> None:
        if not self.is_remote(name):
            with contextlib.suppress(OSError):
                os.rmdir(name)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self.is_remote(name):
                file_system, path = self._remote(name)
                file_system.rm_file(path)
            else:
                os.unlink(name)

    def names(self, folder: str) -> list[str]:
        """Of what is in a folder; none where there is no folder."""
        try:
            if not self.is_remote(folder):
                return os.listdir(folder)
            file_system, path = self._remote(folder)
            file_system.invalidate_cache()
            return [os.path.basename(name.rstrip("/")) for name in file_system.ls(path, detail=False)]
        except FileNotFoundError:
            return []

    def remove_unfinished(self, folder: str, name: str) -> None:
        """What killed writers have left of files whose names match `name`, a regular expression."""
        # As new_file() makes them, and what merges make beside those.
        unfinished = re.compile(rf"\.+{name}\.[0-9a-f]{{12}}(\..*)?")
        for one in self.names(folder):
            if unfinished.fullmatch(one):
                self.remove(self.join(folder, one))
        if self.is_remote(folder):
            with contextlib.suppress(OSError):  # who may not list uploads
                self._end_uploads(folder, re.compile(name))

    def _end_uploads(self, folder: str, name: re.Pattern[str]) -> None:
        """Those to S3 in several pieces, which nobody sees, and whose room is paid for."""
        file_system, path = self._remote(folder)
        if not hasattr(file_system, "call_s3"):
            return
        bucket, _, key = f"{path.rstrip('/')}/".partition("/")
        for one in file_system.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=key).get("Uploads", []):
            if name.fullmatch(one["Key"][len(key) :]):
                which = {"Bucket": bucket, "Key": one["Key"], "UploadId": one["UploadId"]}
                file_system.call_s3("abort_multipart_upload", **which)

    @contextlib.contextmanager
    def new_file(self, name: str, scratch: str) -> Iterator[Any]:
        """A NewFile, which the name gets where the block ends without an exception. What goes elsewhere is
        written in the folder `scratch` first, which it leaves."""
        if not self.is_remote(name):
            with naming(name), NewFile(name) as file:
                yield file
                file.finish()
                file.appear()
            return
        os.makedirs(scratch, exist_ok=True)
        local = os.path.join(scratch, os.path.basename(name))
        try:
            with naming(local), NewFile(local) as file:
                yield file
                with self._appearing(name) as (file_system, path):
                    file_system.put_file(file.part, path)
        finally:
            self.remove(local)

    @contextlib.contextmanager
    def _appearing(self, name: str) -> Iterator[tuple[Any, str]]:
        """A file system of fsspec, and where to write there what gets its name when the block ends."""
        file_system, path = self._remote(name)
        protocols = {file_system.protocol} if isinstance(file_system.protocol, str) else set(file_system.protocol)
        if protocols & _WHOLE_UPLOADS:
            yield file_system, path
            return
        folder, base = os.path.split(path)
        unfinished = f"{folder}/.{base}.{os.urandom(6).hex()}"
        try:
            yield file_system, unfinished
            file_system.mv(unfinished, path)
        except BaseException:
            with contextlib.suppress(Exception):
                file_system.rm_file(unfinished)
            raise

    @contextlib.contextmanager
    def local(self, name: str, scratch: str) -> Iterator[str]:
        """The name of a file of this machine that holds the same, until the block ends."""
        if not self.is_remote(name):
            yield name
            return
        os.makedirs(scratch, exist_ok=True)
        copy = os.path.join(scratch, f"{os.path.basename(name)}.{os.urandom(6).hex()}")
        file_system, path = self._remote(name)
        try:
            file_system.get_file(path, copy)
            yield copy
        finally:
            self.remove(copy)

    def write_text(self, name: str, text: str) -> None:
        content = np.frombuffer(text.encode(), np.uint8)
        if not self.is_remote(name):
            with self.new_file(name, "") as file:
                file.write(content)
            return
        with self._appearing(name) as (file_system, path):
            file_system.pipe_file(path, content.tobytes())

    def read_text(self, name: str) -> str:
        if not self.is_remote(name):
            with open(name, encoding="utf-8") as file:
                return file.read()
        file_system, path = self._remote(name)
        return file_system.cat_file(path).decode()
