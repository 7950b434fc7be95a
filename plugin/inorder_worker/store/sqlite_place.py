"""Places for an SQLite store, and reasons why it cannot be opened at a place."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from inorder import private
from inorder.errors import StoreError, StoreReadOnly, StoreUnreachable
from inorder.logs import logger

NETWORK_FILE_SYSTEMS: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs")
)

log = logger("inorder.worker")


def check_kind(path: Path, url: str) -> None:
    """Refuse what is there and is no file: SQLite opens it. Raises StoreUnreachable."""
    if path.exists() and not path.is_file():
        raise StoreUnreachable(url, f"{path} is a {'folder' if path.is_dir() else 'device'}, not a file")


def check_place(path: Path, url: str) -> None:
    """Refuse a place where SQLite cannot keep its promises, with words that help. Raises StoreUnreachable."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise StoreUnreachable(url, f"there is no folder {folder}")
    kind = _file_system(folder)
    if kind in NETWORK_FILE_SYSTEMS:
        reason = f"{folder} is on a network file system ({kind}), where SQLite is not safe"
        raise StoreUnreachable(url, f"{reason}; use a local disk, or postgresql://")


def is_at_rest(path: Path) -> bool:
    """Tell whether nobody writes to an SQLite file: it was closed cleanly, and we cannot write its folder. Only with
    that promise SQLite reads a file without making others beside it. (Who can write there may begin meanwhile: then
    what is read may look damaged.)"""
    folder = path.absolute().parent
    return path.is_file() and not os.access(folder, os.W_OK) and not _log_of(path).exists()


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def keep_private(path: Path) -> None:
    """Take other users' rights to a store away, once it was read: a URL may name a foreign file by mistake."""
    files = [path.with_name(f"{path.name}{kind}") for kind in ("", "-wal", "-shm", "-journal")]
    for each in private.close_to_others(files):
        log.warning("event=store_was_readable_by_others file=%s mode=%s", each, "0600")


def cannot_open(path: Path, url: str, is_read_only: bool, is_there: bool) -> StoreError:
    """Return why SQLite cannot open (or make) a file, which SQLite itself does not tell."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return StoreUnreachable(url, f"there is no folder {folder}")
    if is_there and not path.exists():
        return StoreUnreachable(url, f"there is no file {path}")
    # Not by opening it: closing it again would take the locks of other connections away from this process.
    if path.exists() and not os.access(path, os.R_OK if is_read_only else os.R_OK | os.W_OK):
        return StoreReadOnly(url, f"no permission to read and write the file {path} ({_rights(path)})")
    if path.exists() and os.access(folder, os.W_OK):
        return StoreUnreachable(url, f"SQLite cannot open {path}, or make files beside it")
    if is_read_only and _log_of(path).exists():
        reason = f"{path} was not closed cleanly ({_log_of(path).name} is there)"
        how = f"to read it SQLite must make files in {folder}: copy both to where that can be done"
        return StoreUnreachable(url, f"{reason}, and {how}")
    return StoreReadOnly(url, f"no permission to make files in the folder {folder} ({_rights(folder)})")


def _rights(path: Path) -> str:
    """Return owner and permissions in the form of ``ls -l``."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return f"{stat.filemode(found.st_mode)}, owner {found.st_uid}"
    return "unknown"


def _file_system(folder: Path) -> str | None:
    """Return the type of the file system, or ``None`` if the system does not tell."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        return mounted_type(mounts, folder.resolve())
    return None


def mounted_type(mounts: list[str], folder: Path) -> str | None:
    """Return the type of a folder's file system by the lines of the table of mounts."""
    best, kind = "", None
    for line in mounts:
        _, where, found, *_ = line.split(" ")
        where = where.replace("\\040", " ")
        if folder.is_relative_to(where) and len(where) >= len(best):
            best, kind = where, found
    return kind
