"""Checks of an application's arguments; each raises InvalidOption for a value that is not allowed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import Mode
from inorder.errors import InvalidOption, PayloadTooLarge
from inorder.ports import Ens, Outgoing
from inorder.protocol.names import CLIENT_ID, is_client_id

STAMP_ALLOWANCE = 256
"""Bytes kept free for a stamp below the broker's limit; the wire form of a longer one is checked by the adapter."""


def checked_message(ens: Ens, topic: str, payload: Any, qos: int, retain: bool, properties: Any) -> Outgoing:
    """Return a message for a broker. Raises InvalidTopic, InvalidPayload, PayloadTooLarge, InvalidOption."""
    name = ens.check_topic(topic)
    body = ens.encode_payload(payload)
    limit = ens.capabilities.max_payload_bytes
    if limit is not None and len(body) + STAMP_ALLOWANCE > limit:
        raise PayloadTooLarge(len(body), limit - STAMP_ALLOWANCE)
    check_qos(qos, ens.capabilities.qos)
    if not isinstance(retain, bool):
        raise InvalidOption("retain", retain, "True or False")
    if retain and not ens.capabilities.retain:
        raise InvalidOption("retain", retain, "False: this broker keeps no messages")
    own = ens.check_properties(checked_properties(properties)) if properties else ()
    return Outgoing(name, body, None, False, qos, retain, own)


def checked_id(client_id: str | None) -> str:
    """Return the client id, or a random one for ``None``."""
    if client_id is None:
        return f"inorder-{secrets.token_hex(4)}"
    if not isinstance(client_id, str) or not is_text(client_id) or not is_client_id(client_id):
        raise InvalidOption("client_id", client_id, CLIENT_ID)
    return client_id


def check_durable(durable: object, client_id: str | None, workers: object) -> None:
    """Check that a durable client has a name, and workers to keep its subscription."""
    if not isinstance(durable, bool):
        raise InvalidOption("durable", durable, "True or False")
    if durable and (client_id is None or not workers):
        raise InvalidOption("durable", durable, "False, or together with a client_id and workers")


def checked_token(token: object) -> str:
    """Return the token, or an empty text without one. What is wrong with it is said without showing it."""
    if token is None:
        return ""
    if not isinstance(token, str):
        raise InvalidOption("token", type(token), "a text, or None")
    if not is_text(token):
        raise InvalidOption("token", "***", "a text without lone surrogates")
    return token


def checked_workers(workers: object) -> list[str]:
    """Return the addresses of the workers."""
    if isinstance(workers, str):
        return [workers]
    if not workers and (workers is None or isinstance(workers, Iterable)):
        return []
    if isinstance(workers, (bytes, bytearray)) or not isinstance(workers, Iterable):
        raise InvalidOption("workers", workers, "an address host:port, or a list of them")
    return list(workers)


def check_qos(qos: object, allowed: tuple[int, ...]) -> None:
    """Check that the broker has this quality of service."""
    if isinstance(qos, bool) or not isinstance(qos, int) or qos not in allowed:
        raise InvalidOption("qos", qos, f"one of {', '.join(map(str, allowed))}")


def checked_space(space: object) -> str:
    """Return the name of a space."""
    if isinstance(space, str) and is_text(space) and 0 < len(space.encode()) <= 255:
        return space
    raise InvalidOption("space", space, "a text of 1 to 255 bytes")


def is_text(value: object) -> bool:
    """Tell whether a value is a text that can be encoded."""
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)


def checked_properties(properties: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of (name, value)."""
    if not properties:
        return ()
    pairs = tuple(properties)
    if isinstance(properties, (str, bytes, Mapping)) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and is_text(pair[0]) and is_text(pair[1]) for pair in pairs
    ):
        raise InvalidOption("properties", properties, "a sequence of (name, value) pairs of text")
    return pairs


def checked_mode(mode: Mode) -> Mode:
    """Return the mode of waiting of total order."""
    if mode == "strict" or mode == "tag" or isinstance(mode, Bounded):
        return mode
    raise InvalidOption("mode", mode, "'strict', 'tag' or Bounded(buffer=..., max_wait=...)")
