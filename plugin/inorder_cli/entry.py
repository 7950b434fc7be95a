"""The console script's first step, which must be fast and come before the import of typer."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.util import find_spec

NEEDED = ("typer", "rich")


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:  # no reason to wait for the command line's libraries
        sys.stdout.write(f"inorder {version()}\n")
        sys.exit(0)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"error: the command line needs {', '.join(missing)}: pip install 'inorder[cli]'\n")
        sys.exit(1)
    from inorder_cli.app import run

    sys.exit(run(arguments))


def version() -> str:
    """Return the installed version, or ``unknown`` when run from a bare source tree."""
    try:
        return installed_version("inorder")
    except PackageNotFoundError:
        return "unknown"
