"""Files and folders for the time being, which the next process removes where one was killed.

Each is locked by its process and that one's children: the system lets go of a lock when the last of them ends, however
it ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

SCRATCH: Final = "inorder-analysis-"
"""How the names of folders begin that analyses compute in."""


class Scratch:
    """A folder of ours among the system's temporary ones.

    Attributes:
        path: the folder.
        lock: a descriptor that children must inherit who go on with it.
    """

    def __init__(self, prefix: str) -> None:
        _remove_left(Path(tempfile.gettempdir()), prefix, "")
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            self.lock = os.open(self.path, os.O_RDONLY)
            if _is_kept(self.path, self.lock):
                return
            os.close(self.lock)

    def remove(self) -> None:
        """Remove the folder with all that is in it. No error."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


@contextlib.contextmanager
def unfinished(path: Path) -> Iterator[BinaryIO]:
    """Yield a file beside a path, which takes the path's place when the block ends well, and is removed otherwise.
    Raises OSError."""
    _remove_left(path.parent, f".{path.name}.", ".tmp")
    while True:
        made = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
        file = made.open("xb")
        if _is_kept(made, file.fileno()):
            break
        file.close()
    try:
        with file:
            yield file
            file.flush()
            made.replace(path)
    finally:
        made.unlink(missing_ok=True)


def _remove_left(folder: Path, prefix: str, suffix: str) -> None:
    """Remove the scratch files and folders of processes that are gone. No error."""
    ours = re.compile(rf"{re.escape(prefix)}\w{{8}}{re.escape(suffix)}")
    with contextlib.suppress(OSError):
        for each in [path for path in folder.iterdir() if ours.fullmatch(path.name)]:
            with contextlib.suppress(OSError):
                _remove(each)


def _remove(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        _lock(descriptor, waits=False)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        os.close(descriptor)


def _is_kept(path: Path, descriptor: int) -> bool:
    """Lock what was just made. Tell whether nobody has taken it for a leftover before."""
    with contextlib.suppress(OSError):
        _lock(descriptor, waits=True)
    with contextlib.suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False


def _lock(descriptor: int, *, waits: bool) -> None:
    """Lock a file or folder. Raises OSError where somebody else has the lock, or there are no locks."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:  # pragma: no cover (Windows)
        raise OSError("this system has no such locks") from None
    flock(descriptor, LOCK_EX if waits else LOCK_EX | LOCK_NB)
