"""What a measurement was made on, and how much memory a process has there."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> dict[str, str | int]:
    """Describe this machine: the processors that this process may use, system, architecture and Python."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "processors": processors,
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }


def resident_bytes(pid: int) -> int:
    """Return a process's memory; 0 where the system does not tell it in ``/proc``."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0
