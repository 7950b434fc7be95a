"""The server's pushes to a subscriber in the library's form: lists of bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from inorder.endpoint.notifications import Gap, Verdict

Via = tuple[bytes, bytes]
"""How a message came: ``(b"message", channel)`` or ``(b"pmessage", pattern)``."""

MESSAGE, PATTERN_MESSAGE = b"message", b"pmessage"
SUBSCRIBED = {b"subscribe": MESSAGE, b"psubscribe": PATTERN_MESSAGE}
UNSUBSCRIBED = {b"unsubscribe": MESSAGE, b"punsubscribe": PATTERN_MESSAGE}


class Inorder(msgspec.Struct, frozen=True):
    """A message's place in the total order; ``message["inorder"]``.

    Attributes:
        verdict: ``in_order``; ``unsequenced`` where the publisher does not use inorder; ``late`` in bounded
            and tag mode.
        sequence: its own number in its channel, ``None`` where it has none.
        dependencies: what comes before it, as ``(channel, number)``, of the channels that this subscriber knows.
    """

    verdict: Verdict
    sequence: int | None = None
    dependencies: tuple[tuple[str, int], ...] = ()


class Response(list[Any]):
    """A response in its turn; a message on a channel or pattern carries its place in the order."""

    inorder: Inorder | None = None


class Failed(NamedTuple):
    """The server or the workers refused a subscription; the application gets the error.

    Attributes:
        is_final: the workers refuse this client for good, and nothing more is ordered by it.
    """

    error: Exception
    is_final: bool = False


Item = Response | Gap | Failed | bytes | str | int | None


def message_of(via: Via, channel: bytes, payload: bytes, inorder: Inorder) -> Response:
    """Return a message in the server's form without its stamp."""
    kind, name = via
    parts = [kind, channel, payload] if kind == MESSAGE else [kind, name, channel, payload]
    response = Response(parts)
    response.inorder = inorder
    return response


def text_of(name: bytes) -> str | None:
    """Return a name as text, or ``None`` for a name that is not text, which topic managers cannot know."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def filter_text(via: Via) -> str | None:
    """Return the filter that stands for a channel or pattern, or ``None`` for a name that is not text."""
    kind, name = via
    text = text_of(name)
    if text is None or kind == PATTERN_MESSAGE:
        return text
    return "".join(f"\\{each}" if each in "*?[\\" else each for each in text)
