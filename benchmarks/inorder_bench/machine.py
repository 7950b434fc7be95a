"""What a measurement was made on."""

from __future__ import annotations

import os
import platform


def machine() -> dict[str, str | int]:
    """Describe this machine: the processors that this process may use, system, architecture and Python."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "processors": processors,
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }
