"""64-bit numbers as texts in requests."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from inorder.protocol.wire import MAX_NUMBER

MIN_NUMBER: Final = -MAX_NUMBER - 1


def _fits(text: str) -> str:
    if not MIN_NUMBER <= int(text) <= MAX_NUMBER:
        raise ValueError("more than 64 bits are not allowed")
    return text


GivenNumber = Annotated[
    str,
    Field(pattern=r"^(0|[1-9][0-9]{0,18})$", description="a 64-bit number, as a text", examples=["9007199254740993"]),
    AfterValidator(_fits),
]
"""A sequence number, an epoch, a counter or an id, from 0."""

SignedNumber = Annotated[
    str,
    Field(pattern=r"^(0|-?[1-9][0-9]{0,18})$", description="a 64-bit number, as a text", examples=["-8138429374523"]),
    AfterValidator(_fits),
]
"""An incarnation: 64 random bits, as a signed number."""
