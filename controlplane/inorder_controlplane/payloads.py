"""Payloads in JSON: always as base64, and as text if they are text."""

from __future__ import annotations

import base64
from typing import Any, Final

MAX_TEXT_BYTES: Final = 64 * 1024
"""A longer payload is given as base64 only."""


def fields_of(payload: bytes | None) -> dict[str, Any]:
    """Return ``payload_base64`` and ``payload_text`` of a payload, or ``None`` without a payload."""
    if payload is None:
        return {"payload_base64": None, "payload_text": None}
    return {"payload_base64": base64.b64encode(payload).decode(), "payload_text": text_of(payload)}


def text_of(payload: bytes) -> str | None:
    """Return a payload as text, or ``None`` if it is not text (not UTF-8, or with NUL in it) or very long."""
    if len(payload) > MAX_TEXT_BYTES or b"\0" in payload:
        return None
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
