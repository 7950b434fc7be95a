"""A folder of this machine in which one process works at a time."""

from __future__ import annotations

from typing import Any


def locked(file: Any) -> bool:
    """Take the lock of an open file, which ends with it; return whether no other process has it."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover (Windows: nothing is promised there)
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
