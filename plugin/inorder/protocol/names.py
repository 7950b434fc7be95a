"""Topics, filters, and which filter covers which topic.

A topic is a pair (space, name). A filter is an exact name, an MQTT filter (``+``, ``#``) or a Redis glob
(``*``, ``?``, ``[...]``); both kinds are resolved here, because topic managers must resolve them exactly as the
brokers do (R13).
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Final

import msgspec

from inorder.protocol.globs import glob_of

MAX_SPACE_BYTES: Final = 255
MAX_NAME_BYTES: Final = 65_535
"""As long as MQTT allows a topic to be."""
USUAL_NAME: Final = 256
"""Characters of a topic's name that are kept where very many names are remembered."""
MAX_CLIENT_ID: Final = 128
CLIENT_ID: Final = f"a text of 1 to {MAX_CLIENT_ID} characters, without control characters"
"""What :func:`is_client_id` allows, in words."""


class FilterKind(StrEnum):
    """The syntax of a filter's text."""

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
        """Tell whether the filter covers a topic of this name in its space."""
        if self.kind is FilterKind.EXACT:
            return name == self.name
        if self.kind is FilterKind.MQTT:
            return mqtt_covers(self.text, name)
        return glob_of(self.text).cover(name.encode())  # by bytes: ``?`` covers one byte of a longer character


def is_client_id(text: str) -> bool:
    """Tell whether a text may be a client's id, which people see, on terminals too."""
    return 0 < len(text) <= MAX_CLIENT_ID and not any(each < " " or "\x7f" <= each <= "\x9f" for each in text)


def key_of(name: str) -> str | bytes:
    """Return a topic's name for places with very many names: a long one as its hash. Whoever may publish on a broker
    makes up as many names of 64 KB as he likes."""
    return name if len(name) <= USUAL_NAME else blake2b(name.encode(errors="surrogatepass"), digest_size=16).digest()


def exact(name: str) -> Filter:
    """Return the filter that covers just this topic."""
    return Filter(name, FilterKind.EXACT, name)


def mqtt_covers(filter: str, name: str) -> bool:
    """Match as MQTT 5 section 4.7 does: ``#`` covers its parent too; wildcards never cover a leading ``$``."""
    if name.startswith("$") and filter[:1] in ("+", "#"):
        return False
    at = 0  # where the next level of the name begins: it may have very many, and is tried on many filters
    for level in filter.split("/"):
        if level == "#":
            return True
        if at > len(name):
            return False
        end = at + len(level)
        if level == "+":
            end = name.find("/", at)
            end = end if end >= 0 else len(name)
        elif not name.startswith(level, at) or name[end : end + 1] not in ("", "/"):
            return False
        at = end + 1
    return at > len(name)
