"""Output on stdout and stderr: JSON for programs, rich for people at a terminal, plain text for pipes."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def emit(value: Any) -> None:
    """Print one JSON value on one line, at once."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")) + "\n")
    sys.stdout.flush()


def write(text: str) -> None:
    """Print a line of data for people on stdout."""
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    """Print a line for people on stderr, apart from the data."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def tell(value: Any, text: str, *, is_json: bool) -> None:
    """Print one fact: as JSON for programs, else as a line for people."""
    if is_json:
        emit(value)
    else:
        say(printable(text))


def discard() -> None:
    """Discard buffered output for stdout, whose reader is gone: the last flush would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_terminal() -> bool:
    """Tell whether a person is likely to read stdout."""
    return sys.stdout.isatty()


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; on a pipe it prints plain text without cutting lines."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, soft_wrap=not stream.isatty())


def wide_console() -> Console:
    """Return a console for tables with much in a line; narrow terminals wrap them."""
    from rich.console import Console

    return Console(highlight=False, width=max(160, Console().width))


def printable(text: str) -> str:
    """Escape control characters, so that no payload or topic can control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
