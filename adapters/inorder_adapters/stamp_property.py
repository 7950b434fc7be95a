"""The property form of the envelope: one user property that carries the stamp; the payload stays untouched."""

from __future__ import annotations

from collections.abc import Iterable

from inorder.errors import InvalidOption

STAMP_PROPERTY = "inorder"
MAX_PROPERTY_BYTES = 65_535

Properties = tuple[tuple[str, str], ...]


def take_stamp(properties: Iterable[tuple[str, str]]) -> tuple[bytes | None, tuple[tuple[str, str], ...]]:
    """Return the stamp and the user's own properties, in order, repeated keys kept.

    The first property of our name is the stamp, whatever its value: whether it can be read is its reader's to say.
    """
    stamp: bytes | None = None
    own: list[tuple[str, str]] = []
    for key, value in properties:
        if stamp is None and key == STAMP_PROPERTY:
            stamp = value.encode()
        else:
            own.append((key, value))
    return stamp, tuple(own)


def check_properties(own: Properties) -> Properties:
    """Check a user's own properties, by MQTT 5's rules. Raises InvalidOption with the name of the offending one."""
    for key, value in own:
        if key == STAMP_PROPERTY:
            raise InvalidOption("properties, name", key, "any other name: this one is reserved")
        for text in (key, value):
            # paho's reader closes the connection over U+FEFF, as it does over what MQTT itself forbids.
            if "\0" in text or "\ufeff" in text:
                raise InvalidOption("properties, name or value of", key, "text without NUL and U+FEFF")
            try:
                size = len(text.encode())
            except UnicodeEncodeError:
                raise InvalidOption("properties, name or value of", key, "text without lone surrogates") from None
            if size > MAX_PROPERTY_BYTES:
                raise InvalidOption("properties, name or value of", key, f"at most {MAX_PROPERTY_BYTES} bytes")
    return own


def check_no_properties(own: Properties) -> Properties:
    """Refuse properties where nothing could carry them. Raises InvalidOption."""
    if own:
        raise InvalidOption("properties", own, "none: only MQTT 5 carries properties")
    return own
