"""What is kept of an analysis: a result of a bounded size, its figures, and the last lines that it said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

RESULT_BYTES: Final = 1024 * 1024
"""Of a result in the store; lists are cut until it fits, and ``cut`` says what they were."""
LOG_BYTES: Final = 64 * 1024
SUMMARY_ENTRIES: Final = 32
"""Entries of an object in the summary; a larger one is left out."""

_Plain = str | int | float | bool | None


def bounded(result: Mapping[str, Any], limit: int = RESULT_BYTES) -> str:
    """Return a result as JSON that is no longer than ``limit`` bytes. Where it would be, the longest list loses its
    second half, again and again, and ``cut`` has the number of items that each such list had."""
    kept: dict[str, Any] = json.loads(msgspec.json.encode(result))  # NaN and infinity become null
    sizes = {name: _size(value) for name, value in kept.items()}
    cut: dict[str, int] = {}
    while sum(sizes.values()) > limit - 1024:
        lists = [name for name, value in kept.items() if isinstance(value, list) and value]
        if not lists:
            raise ValueError("a result without lists is small")
        longest = max(lists, key=lambda name: sizes[name])
        cut.setdefault(longest, len(kept[longest]))
        kept[longest] = kept[longest][: len(kept[longest]) // 2]
        sizes[longest] = _size(kept[longest])
    return json.dumps({**kept, "cut": cut} if cut else kept)


def summary_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a result: what is no list and holds none."""
    return {name: value for name, value in result.items() if _is_figure(value)}


def last_lines(text: str, limit: int) -> str:
    """Return the end of a text that has at most ``limit`` bytes of UTF-8, from the beginning of a line on."""
    data = text.encode()
    if len(data) <= limit:
        return text
    end = data[-limit:].decode(errors="ignore")
    _, newline, rest = end.partition("\n")
    return rest if newline and rest else end


def storable(text: str) -> str:
    """Return a text that every store takes: PostgreSQL keeps no NUL, and none has halves of surrogate pairs."""
    return text.replace("\0", "\\0").encode(errors="replace").decode()


def _size(value: Any) -> int:
    return len(json.dumps(value)) + 80


def _is_figure(value: Any) -> bool:
    if isinstance(value, dict):
        return len(value) <= SUMMARY_ENTRIES and all(isinstance(each, _Plain) for each in value.values())
    return isinstance(value, _Plain)
