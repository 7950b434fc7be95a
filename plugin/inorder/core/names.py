"""Topics, filters and which filter covers which topic.

A topic is a pair (space, name). A filter is an exact name, an MQTT filter (``+``, ``#``) or a Redis glob
(``*``, ``?``, ``[...]``); both kinds are resolved here, because topic managers must resolve them exactly as the
brokers do (R13).
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

MAX_SPACE_BYTES: Final = 255
MAX_NAME_BYTES: Final = 65_535
"""As long as MQTT allows a topic to be."""


class FilterKind(StrEnum):
    """How a filter's text is read."""

    EXACT = "exact"
    MQTT = "mqtt"
    REDIS = "redis"


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """A subscription filter, already read and checked (see ``filters``).

    Attributes:
        text: as the broker is told it.
        kind: how it is read. ``EXACT`` where it has no wildcard.
        name: for ``EXACT``, the topic's name (a Redis glob's escapes removed); else the text.
    """

    text: str
    kind: FilterKind
    name: str

    def covers(self, name: str) -> bool:
        """Tell whether a topic of this name, in the filter's space, is covered."""
        if self.kind is FilterKind.EXACT:
            return name == self.name
        if self.kind is FilterKind.MQTT:
            return mqtt_covers(self.text, name)
        return _redis_pattern(self.text).fullmatch(_bytewise(name)) is not None


def exact(name: str) -> Filter:
    """Return the filter that covers just this topic."""
    return Filter(name, FilterKind.EXACT, name)


def mqtt_covers(filter: str, name: str) -> bool:
    """Match as MQTT 5 section 4.7 does: ``#`` covers its parent too; wildcards never cover a leading ``$``."""
    if name.startswith("$") and filter[:1] in ("+", "#"):
        return False
    wanted, levels = filter.split("/"), name.split("/")
    for position, level in enumerate(wanted):
        if level == "#":
            return True
        if position >= len(levels):
            return False
        if level not in ("+", levels[position]):
            return False
    return len(wanted) == len(levels)


@lru_cache(maxsize=4096)
def _redis_pattern(glob: str) -> re.Pattern[str]:
    """Translate a Redis glob (``stringmatchlen`` in Redis' util.c) to a regular expression."""
    return re.compile(_translate_glob(_bytewise(glob)), re.DOTALL)


def _bytewise(text: str) -> str:
    """Redis matches bytes, so ``?`` covers one byte of a longer character: return one character per byte."""
    return text.encode().decode("latin-1")


def _translate_glob(glob: str) -> str:
    parts: list[str] = []
    position = 0
    while position < len(glob):
        character = glob[position]
        position += 1
        if character == "*":
            parts.append(".*")
        elif character == "?":
            parts.append(".")
        elif character == "[":
            part, position = _translate_class(glob, position)
            parts.append(part)
        elif character == "\\" and position < len(glob):
            parts.append(re.escape(glob[position]))
            position += 1
        else:
            parts.append(re.escape(character))
    return "".join(parts)


def _translate_class(glob: str, position: int) -> tuple[str, int]:
    """Translate ``[...]`` from just behind the bracket. As in Redis, a missing ``]`` ends at the end of the glob,
    ``^`` negates, a reversed range is turned round, and a backslash takes the next character as it is."""
    negated = glob[position : position + 1] == "^"
    position += negated
    members: list[str] = []
    while position < len(glob) and glob[position] != "]":
        if glob[position] == "\\" and position + 1 < len(glob):
            members.append(re.escape(glob[position + 1]))
            position += 2
        elif glob[position + 1 : position + 2] == "-" and position + 2 < len(glob):
            low, high = sorted((glob[position], glob[position + 2]))
            members.append(f"{re.escape(low)}-{re.escape(high)}")
            position += 3
        else:
            members.append(re.escape(glob[position]))
            position += 1
    position += 1
    if not members:
        return ("." if negated else "(?!)"), position
    return f"[{'^' if negated else ''}{''.join(members)}]", position
