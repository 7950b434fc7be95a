"""Output formats of ``sub``: a format with ``%`` fields, or JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from inorder.errors import InvalidOption
from inorder_cli.output import printable

if TYPE_CHECKING:
    import inorder

DEFAULT = "%v %t %n %p"

FIELDS: dict[str, str] = {
    "p": "payload",
    "x": "payload in hexadecimal",
    "l": "length of the payload in bytes",
    "t": "topic",
    "s": "space",
    "v": "verdict (in_order, late, fifo, unsequenced, retained, replayed)",
    "n": "number in its topic, or -",
    "q": "quality of service",
    "r": "1 for a retained message, else 0",
    "d": "1 for one that may be a repetition, else 0",
    "I": "time of printing, ISO 8601, UTC",
    "U": "time of printing, seconds since 1970",
    "j": "the event as JSON",
    "%": "a percent sign",
}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}

_TOKEN = re.compile(r"%(?P<field>.?)|\\(?P<escape>.?)", re.DOTALL)

Rendering = Callable[["inorder.Event", datetime], bytes]

_RENDERINGS: Mapping[str, Rendering] = {
    "p": lambda event, now: event.payload,
    "x": lambda event, now: event.payload.hex().encode(),
    "l": lambda event, now: b"%d" % len(event.payload),
    "t": lambda event, now: event.topic.encode(),
    "s": lambda event, now: event.space.encode(),
    "v": lambda event, now: str(event.verdict).encode(),
    "n": lambda event, now: b"-" if event.number is None else b"%d" % event.number,
    "q": lambda event, now: b"%d" % event.qos,
    "r": lambda event, now: b"%d" % event.retained,
    "d": lambda event, now: b"%d" % event.redelivered,
    "I": lambda event, now: now.isoformat().encode(),
    "U": lambda event, now: b"%.6f" % now.timestamp(),
    "j": lambda event, now: _json(event).encode(),
    "%": lambda event, now: b"%",
}


def compiled(text: str, *, terminal: bool) -> Callable[[inorder.Event], bytes]:
    """Compile a format. On a terminal control characters of payload and topic are escaped. Raises InvalidOption."""
    parts: list[bytes | Rendering] = []
    end = 0
    for found in _TOKEN.finditer(text):
        parts.append(_bytes(text[end : found.start()]))
        parts.append(_part(found))
        end = found.end()
    parts.append(_bytes(text[end:]))

    def render(event: inorder.Event) -> bytes:
        now = datetime.now(UTC)
        return b"".join(part if isinstance(part, bytes) else shown(part(event, now)) for part in parts)

    def shown(value: bytes) -> bytes:
        return printable(value.decode(errors="backslashreplace")).encode() if terminal else value

    return render


def _bytes(text: str) -> bytes:
    """Return the raw bytes of a command-line argument, which need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def _part(found: re.Match[str]) -> bytes | Rendering:
    field, escape = found["field"], found["escape"]
    if field in _RENDERINGS:
        return _RENDERINGS[field]
    if escape in ESCAPES:
        return ESCAPES[escape].encode()
    allowed = ", ".join([*(f"%{name}" for name in FIELDS), *(f"\\{name}" for name in ESCAPES)])
    raise InvalidOption("--format", found[0], f"any of {allowed}")


def as_dict(item: inorder.Event | inorder.Gap | inorder.Reconnected) -> dict[str, Any]:
    """Return the output of ``--json``: ``type`` tells events, gaps and reconnections apart."""
    import inorder

    if isinstance(item, inorder.Event):
        return _event(item)
    if isinstance(item, inorder.Gap):
        return {
            "type": "gap",
            "space": item.space,
            "topic": item.topic,
            "first": item.first,
            "last": item.last,
            "reason": str(item.reason),
        }
    return {"type": "reconnected", "space": item.space}


def _event(event: inorder.Event) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": "event", "space": event.space, "topic": event.topic}
    try:
        shown["payload"] = event.payload.decode()
    except UnicodeDecodeError:
        shown["payload_base64"] = base64.b64encode(event.payload).decode()
    shown["verdict"] = str(event.verdict)
    shown["number"] = event.number
    shown["qos"] = event.qos
    shown["retained"] = bool(event.retained)
    shown["redelivered"] = bool(event.redelivered)
    shown["repaired"] = event.repaired
    return shown


def _json(event: inorder.Event) -> str:
    import json

    return json.dumps(_event(event), ensure_ascii=False)
