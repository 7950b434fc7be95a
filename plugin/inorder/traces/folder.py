"""The target of trace files: a local folder, or any folder that fsspec knows."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

from inorder import private
from inorder.errors import InvalidOption
from inorder.logs import logger
from inorder.traces.options import safe_name

OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "obs", "r2"})
"""Their objects appear whole or not at all, and have no cheap renaming."""
LOOKED_AT: Final = 100
"""Files that are there at which is looked whether others may read them."""

log = logger("inorder.traces")


class Folder(Protocol):
    """The folder for the files of one run. Whatever fails raises OSError."""

    def write(self, name: str, fill: Any) -> None:
        """Make or replace a file of this name, whole or not at all; ``fill`` gets the stream to write to."""

    def can_replace(self, name: str) -> bool:
        """Tell whether a file exists and can be replaced at once by a larger one."""


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def write(self, name: str, fill: Any) -> None:
        """See :class:`Folder`."""
        self._make()
        made = self._path / f".{name}.tmp"
        try:
            with private.write_new(made) as file:
                fill(file)
            os.replace(made, self._path / name)
        except BaseException:
            with suppress(OSError):
                made.unlink()
            raise

    def can_replace(self, name: str) -> bool:
        """See :class:`Folder`."""
        return (self._path / name).exists()

    def check(self) -> None:
        """Raise OSError if the folder cannot be written."""
        self._make()
        made = self._path / f".{os.getpid()}-{os.urandom(4).hex()}.tmp"
        made.touch(private.OWNER, exist_ok=False)
        made.unlink()
        found = private.open_to_others(islice(self._path.glob("*.parquet"), LOOKED_AT))
        if found:
            log.warning("event=traces_readable_by_others folder=%s hint=%s", self._path, "chmod -R go-rwx, or o-rwx")

    def _make(self) -> None:
        private.make_folder(self._path.parent)
        private.make_folder(self._path)


class RemoteFolder:
    """A folder of a file system that fsspec knows."""

    def __init__(self, files: Any, path: str) -> None:
        self._files, self._path = files, path.rstrip("/")
        protocols = {files.protocol} if isinstance(files.protocol, str) else set(files.protocol)
        self._is_object_store = not OBJECT_STORES.isdisjoint(protocols)

    def __str__(self) -> str:
        return self._path

    def write(self, name: str, fill: Any) -> None:
        """See :class:`Folder`."""
        content = io.BytesIO()
        fill(content)
        try:
            self._write(name, content.getvalue())
        except Exception as error:  # each store raises errors of its own library, and says of few where
            raise OSError(f"{self._path}/{name}: {reason_of(error)}") from error

    def _write(self, name: str, content: bytes) -> None:
        if self._is_object_store:
            self._files.pipe_file(f"{self._path}/{name}", content)
            return
        self._files.makedirs(self._path, exist_ok=True)
        made = f"{self._path}/.{name}.tmp"
        try:
            self._files.pipe_file(made, content)
            self._files.mv(made, f"{self._path}/{name}")
        except BaseException:
            with suppress(Exception):
                self._files.rm_file(made)
            raise

    def can_replace(self, name: str) -> bool:
        """See :class:`Folder`."""
        return self._is_object_store and bool(self._files.exists(f"{self._path}/{name}"))

    def check(self) -> None:
        """Raise the store's error if the folder cannot be written."""
        if not self._is_object_store:
            self._files.makedirs(self._path, exist_ok=True)
        made = f"{self._path}/.{os.getpid()}-{os.urandom(4).hex()}.tmp"
        self._files.pipe_file(made, b"")
        self._files.rm_file(made)


def open_folder(url: str | Path, run: str) -> LocalFolder | RemoteFolder:
    """Return the folder of a run after checking that it can be written. Raises InvalidOption where it cannot."""
    try:
        folder = _folder(url, safe_name(run))
        folder.check()
    except Exception as error:  # each store raises errors of its own library
        allowed = f"a place that can be written; this one cannot: {reason_of(error)}"
        raise InvalidOption("traces", url, allowed) from error
    return folder


def reason_of(error: Exception) -> str:
    """Return the text of an error from any store's library."""
    return str(error) or type(error).__name__


def _folder(url: str | Path, run: str) -> LocalFolder | RemoteFolder:
    text = os.fspath(url)
    if "://" not in text:
        return LocalFolder(Path(text) / run)
    import fsspec

    files, path = fsspec.core.url_to_fs(text)
    if "file" in ({files.protocol} if isinstance(files.protocol, str) else set(files.protocol)):
        return LocalFolder(Path(path) / run)
    return RemoteFolder(files, f"{path.rstrip('/')}/{run}")
