"""Owners of stages: a name unique to one process start, by which a successor on the same machine sees whether the
process still exists.

``name/place/pid-start/token``. The place stands for one running kernel and one numbering of processes: a container
beside ours has its own, and its process 17 is not ours. ``start``: when the process began, in ticks since the boot, so
that a process that got an old number is not taken for the one before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")


class Process(NamedTuple):
    """A process of this machine; ``start`` is 0 on systems that do not tell it."""

    pid: int
    start: int


def new_owner(name: str) -> str:
    """Return an owner's name for this process start."""
    pid = os.getpid()
    return f"{name}/{_place()}/{pid}-{_start(pid) or 0}/{secrets.token_hex(8)}"


def process_of(owner: str) -> Process | None:
    """Return the process of an owner, or ``None`` if it is unknown or not of this machine."""
    parts = owner.rsplit("/", 3)
    if len(parts) != 4 or not parts[1] or parts[1] != _place():
        return None
    pid, _, start = parts[2].partition("-")
    if not (pid.isascii() and pid.isdigit() and start.isascii() and start.isdigit()):
        return None
    return Process(int(pid), int(start)) if 0 < int(pid) < 2**31 else None


def is_gone(owner: str) -> bool:
    """Tell whether an owner has certainly ended."""
    process = process_of(owner)
    return process is not None and (not is_running(process.pid) or not _is_same(process))


def is_running(pid: int) -> bool:
    """Tell whether a process of this machine has this number and has not ended."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # somebody else's, so there is one
    return _state(pid) not in ("Z", "X")


def kill_stopped(process: Process) -> bool:
    """Kill a process that is stopped (SIGSTOP, a debugger); return whether it was. What is killed is the process that
    was looked at, even if its number is given away at the same moment."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (OSError, AttributeError):  # gone, or a system that cannot do so
        return False
    try:
        if not is_stopped(process):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def locks_of(process: Process, path: Path) -> list[tuple[int, int]]:
    """Return the bytes of a file (first, last) on which a process has write locks, as far as the system tells. Nothing
    is opened: to close a file would drop our own locks on it."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        inode = str(path.stat().st_ino)
        for line in (PROC / "locks").read_text().splitlines():
            _, kind, _, mode, pid, place, first, last = line.split()[:8]
            if kind == "POSIX" and mode == "WRITE" and pid == str(process.pid) and place.rpartition(":")[2] == inode:
                found.append((int(first), 2**63 if last == "EOF" else int(last)))
    return found


def is_stopped(process: Process) -> bool:
    """Tell whether a process exists and is stopped (SIGSTOP, a debugger)."""
    return _is_same(process) and _state(process.pid) in ("T", "t")


def _is_same(process: Process) -> bool:
    start = _start(process.pid)
    return start is None or not process.start or start == process.start


def _place() -> str:
    """Return the running kernel and PID namespace as a short text; empty if the system does not tell."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text()
        numbering = os.readlink(PROC / "self/ns/pid")
    except OSError:
        return ""
    return hashlib.sha256(f"{boot}{numbering}".encode()).hexdigest()[:12]


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ""


def _start(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str]:
    """Return a process's fields of /proc from its state on, or nothing."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # its name may hold anything, blanks and parentheses too
