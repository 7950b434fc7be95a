"""Instructions of a Python process, counted by valgrind: whatever else the machine does, they are nearly the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

_COUNTED = re.compile(r"Collected : (\d+)")


def look() -> None:
    """Raise SystemExit where there is no valgrind."""
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is missing; it is in the package valgrind: apt-get install valgrind")


def instructions(module: str, *arguments: str, given: str = "") -> int:
    """Return those of ``python -m module``, which reads ``given``. Raises SystemExit where it fails."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*valgrind, sys.executable, "-m", module, *arguments]
    # the order of sets of texts, and with it the instructions, would else differ from run to run
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, check=False)
    counted = _COUNTED.search(done.stderr)
    if done.returncode or counted is None:
        raise SystemExit(f"valgrind could not run {' '.join((module, *arguments))}:\n{done.stderr}")
    return int(counted[1])
