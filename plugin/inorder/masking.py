"""Display of settings' values: secrets are masked, also inside URLs."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

MASK = "***"

_VALUE_END = re.compile(r"[&#]")
_SECRET_NAME = re.compile(r"(?i)password|passwd|secret|token|key")


def display(name: str, value: Any) -> Any:
    """Return a value for display, in plain JSON types, with secrets masked, also inside URLs."""
    if value is not None and name.rpartition(".")[2] == "token":
        return MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [display(name, item) for item in value]
    return masked_url(str(value))


def masked_url(text: str) -> str:
    """Mask the password, and secrets in the query, of a URL (one with ``space=`` in front, too)."""
    head, separator, rest = text.partition("://")
    if not separator:  # no URL; where it looks like a mistyped one, its user part is not shown
        return f"{MASK}@{text.rpartition('@')[2]}" if "@" in text else text
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" not in authority and "@" in rest:  # an unencoded / or ? in the password: hide too much, not too little
        authority = rest.rpartition("@")[0] + "@"
    tail = rest[len(authority) :]
    user, at, host = authority.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:{MASK}"
    return f"{head}{separator}{user}{at}{host}{_masked_query(tail)}"


def _masked_query(tail: str) -> str:
    """Mask the value of each parameter whose name sounds secret."""
    parts = tail.split("=")
    shown, is_secret = parts[:1], False
    for before, value in pairwise(parts):
        is_secret = (is_secret and not _VALUE_END.search(before)) or bool(
            _SECRET_NAME.search(before.rpartition("&")[2])
        )
        end = _VALUE_END.search(value)
        shown.append(f"{MASK}{value[end.start() :] if end else ''}" if is_secret else value)
    return "=".join(shown)
