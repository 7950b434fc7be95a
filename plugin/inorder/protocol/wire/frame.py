"""The base of all frames, and the frames that clients and workers both send."""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from inorder.protocol.wire.parts import Listed


class Frame(msgspec.Struct, array_like=True):
    """Base class of all frames. ``from_version``: the first protocol version that has it."""

    from_version: ClassVar[int] = 1


class Ping(Frame, tag=1):
    """Asks for a Pong with the same ``nonce``."""

    nonce: int = 0


class Pong(Frame, tag=2):
    """Answers a Ping, after everything that was sent before it."""

    nonce: int = 0


class Failure(Frame, tag=3):
    """The sender closes the connection after this; ``code`` is one of ``FAILURE_CODES``."""

    code: str
    message: str
    facts: Listed[int] = []


FAILURE_CODES: Final = (
    "unauthorized", "version", "protocol", "replaced", "stopping", "store", "too_large", "domain", "fenced", "moved",
    "forbidden", "full",
)  # fmt: skip
