"""The check for a Java that Spark can use. Comes before the start of PySpark, which would only say that it failed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import Final

from inorder.errors import InorderError

OLDEST: Final = 17
"""The oldest Java that PySpark 4 runs on."""

PACKAGES: Final = ("openjdk-21-jre-headless", "openjdk-17-jre-headless")
"""Debian's packages that do, the one to prefer first."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LOOK_SECONDS = 60.0


class JavaNeeded(InorderError):
    """Java is missing or too old. Attribute ``found``: its major version, ``None`` where there is none."""

    def __init__(self, reason: str, found: int | None = None) -> None:
        self.found = found
        super().__init__(f"Spark needs Java {OLDEST} or newer, and {reason}; install it with: {install_line()}")


def check_java() -> int:
    """Return the major version of the Java that Spark will start. Raises JavaNeeded."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    where = f"in JAVA_HOME, {home}" if home else "on the PATH"
    program = shutil.which(java)
    if program is None:
        raise JavaNeeded(f"there is none {where}")
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=_LOOK_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaNeeded(f"{program} does not run ({error})") from None
    found = _VERSION.search(told.stderr + told.stdout)
    if told.returncode or found is None:
        raise JavaNeeded(f"{program} does not run")
    version = int(found[1])
    if version < OLDEST:
        raise JavaNeeded(f"{program} is Java {version}", version)
    return version


def install_line() -> str:
    """Return the command that installs a Java on this machine, as far as it is known."""
    if sys.platform == "darwin":
        return "brew install openjdk@17"
    if sys.platform == "win32":
        return "winget install EclipseAdoptium.Temurin.17.JRE"
    return f"sudo apt-get install {next(filter(_apt_has, PACKAGES), PACKAGES[-1])}"


def _apt_has(package: str) -> bool:
    program = shutil.which("apt-cache")
    if program is None:
        return False
    try:
        told = subprocess.run([program, "show", package], capture_output=True, check=False, timeout=_LOOK_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.returncode == 0 and bool(told.stdout.strip())
