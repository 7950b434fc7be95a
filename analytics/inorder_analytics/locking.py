"""A lock for a folder of this machine in which one process works at a time."""

from __future__ import annotations

from typing import Any


def locked(file: Any) -> bool:
    """Lock an open file until it is closed; return whether no other process holds the lock."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover (Windows: nothing is promised there)
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
