"""Private files: stores and traces are as confidential as the published events.

They are for their owner (0600). Who lets a group read what is in a folder says so with the folder's mode: where the
group may read it and others may not (0750), new files in it are the group's to read, too.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

OWNER: Final = 0o600
_FOLDER: Final = 0o700
_OTHERS: Final = stat.S_IRWXO


def _is_for_group(folder: Path) -> bool:
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IRGRP) and not mode & _OTHERS


def _mode_in(folder: Path) -> int:
    return OWNER | (stat.S_IRGRP if _is_for_group(folder) else 0)


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents. Raises OSError."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(_FOLDER | (stat.S_IRGRP | stat.S_IXGRP if _is_for_group(path.parent) else 0), exist_ok=True)


def write_new(path: Path) -> BinaryIO:
    """Open a file for writing from its beginning. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _mode_in(path.parent))
    return os.fdopen(descriptor, "wb")


def make(path: Path) -> None:
    """Make an empty file if it is missing. Whoever cannot will be told so when it is opened: no error here.

    A file that is there is not opened: closing it would take the locks of a database away from this process.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _mode_in(path.parent)))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a crash of the machine. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_to_others(paths: Iterable[Path]) -> list[Path]:
    """Return those of some files that users other than owner and group may read or write."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            if path.stat().st_mode & _OTHERS:
                found.append(path)
    return found


def close_to_others(paths: Iterable[Path]) -> list[Path]:
    """Remove all rights but the owner's from those of some files that are open to others. Return those that this was
    done to; what is somebody else's file stays."""
    changed = []
    for path in open_to_others(paths):
        with contextlib.suppress(OSError):
            path.chmod(OWNER)
            changed.append(path)
    return changed
