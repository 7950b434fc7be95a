"""The mark beside an SQLite file, ``FILE.outdated``, which calls the file an older copy.

Who finds that something was written over an open file must not write to it any more, and has no other way to tell that
to whoever opens it next. The mark names the domain of which it speaks: a store that was renewed, and one that was made
anew in the same place, has another one. Whoever opens the store for writing takes the mark into it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from inorder import private

_ANY = "0"
"""In place of a domain: the mark is for whatever is there."""


def mark_of(path: Path) -> Path:
    """Return the path of the mark of an SQLite file."""
    return path.with_name(f"{path.name}.outdated")


def leave(path: Path, domain: int, reason: str) -> None:
    """Mark a file durably. What was found first stays. ``domain``: of the file's store, 0 if not known. Raises OSError;
    a disk that is full may have room for a mark without a reason."""
    mark = mark_of(path)
    if read(path, domain):
        return
    with private.write_new(mark) as file:
        file.write(f"{domain} {reason}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    private.sync_folder(mark.parent)


def read(path: Path, domain: int) -> str:
    """Return why the file, whose store has this domain, is marked; an empty text where it is not."""
    mark = mark_of(path)
    try:
        text = mark.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError:  # it is not ours to read, and is there
        text = ""
    of, _, reason = text.strip().partition(" ")
    if of.isdigit() and of not in (_ANY, str(domain)):
        return ""
    return reason or f"{mark.name} is beside it"


def remove(path: Path) -> None:
    """Remove the mark of a file, if there is one. No error."""
    with contextlib.suppress(OSError):
        mark_of(path).unlink()
