"""What a topic or a filter must be on any broker."""

from __future__ import annotations

MAX_TOPIC_BYTES = 65_535


def text_problem(value: object, *, nul_allowed: bool) -> str | None:
    """Say what keeps a value from being a topic or a filter of any broker, or ``None``."""
    if not isinstance(value, str):
        return f"it is {type(value).__name__}, not str"
    if not value:
        return "it is empty"
    if not nul_allowed and "\0" in value:
        return "it contains NUL"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "it contains a lone surrogate"
    if size > MAX_TOPIC_BYTES:
        return f"it is {size} bytes long, over the limit of {MAX_TOPIC_BYTES}"
    return None
