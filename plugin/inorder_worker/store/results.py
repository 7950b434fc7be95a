"""The stored result of an analysis, its figures for lists, and the last lines of its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

RESULT_BYTES: Final = 2 * 1024 * 1024
"""Of a result as JSON. Those who make one keep below it by themselves (``Result.bounded``)."""
LOG_BYTES: Final = 64 * 1024
SUMMARY_ENTRIES: Final = 64
"""Entries of an object in the summary; a larger one is left out."""

_Plain = str | int | float | bool | None


def summary_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a result, without its lists. Of a list inside an object its length stays."""
    return {
        name: _counted(value) if isinstance(value, dict) else value
        for name, value in result.items()
        if isinstance(value, _Plain) or (isinstance(value, dict) and len(value) <= SUMMARY_ENTRIES)
    }


def last_lines(text: str, limit: int) -> str:
    """Return the last lines of a text, at most ``limit`` bytes of UTF-8."""
    data = text.encode()
    if len(data) <= limit:
        return text
    end = data[-limit:].decode(errors="ignore")
    _, newline, rest = end.partition("\n")
    return rest if newline and rest else end


def storable(text: str) -> str:
    """Return a text that every store takes, without NUL (PostgreSQL) and lone surrogates."""
    return text.replace("\0", "\\0").encode(errors="replace").decode()


def _counted(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: len(each) if isinstance(each, list | dict) else each for name, each in value.items()}
