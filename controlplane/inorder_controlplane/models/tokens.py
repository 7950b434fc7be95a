"""Tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from inorder_controlplane.models.common import Answer, Body, Moment, body_example, example

TokenRole = Literal["client", "viewer", "operator", "admin"]
Filter = Annotated[
    str, Field(min_length=3, max_length=1024, pattern=r"^[^:\x00]+:[^\x00]+$", examples=["mqtt:plant/#"])
]
_EXAMPLE = {
    "id": "5f0c9a1b2d3e4f60",
    "name": "press line 4",
    "role": "client",
    "publish": ["mqtt:plant/line4/#"],
    "subscribe": ["mqtt:plant/#"],
    "max_unconfirmed": 100,
    "max_topics": 500,
    "max_subscriptions": 20,
    "created_at": "2026-03-01T09:30:00.125Z",
    "expires_at": None,
    "revoked_at": None,
    "by": "ann",
}


class NewToken(Body):
    """A token to make."""

    model_config = body_example(
        {"name": "press line 4", "role": "client", "publish": ["mqtt:plant/line4/#"], "max_unconfirmed": 100}
    )

    name: str = Field(min_length=1, max_length=128, description="for people")
    role: TokenRole = Field(description="client publishes and subscribes only; the others also use this API")
    publish: list[Filter] | None = Field(None, max_length=100, description="topics it may publish to; null: all")
    subscribe: list[Filter] | None = Field(None, max_length=100, description="topics it may subscribe to; null: all")
    max_unconfirmed: int | None = Field(
        None, ge=1, lt=2**31, description="numbers that a session may have open at a time; null: any"
    )
    max_topics: int | None = Field(
        None,
        ge=0,
        lt=2**31,
        description="topics that all tokens of this name may make together; 0: any; null: as the "
        "workers are set, and any for an admin",
    )
    max_subscriptions: int | None = Field(
        None,
        ge=0,
        lt=2**31,
        description="durable subscriptions that all tokens of this name may have at a time; 0: any; null: as the "
        "workers are set, and any for an admin",
    )
    expires_in_s: float | None = Field(None, gt=0, le=100 * 365 * 86_400, description="seconds from now; null: never")


class Token(Answer):
    """A token, without its secret."""

    model_config = example(_EXAMPLE)

    id: str
    name: str
    role: TokenRole
    publish: list[str] | None
    subscribe: list[str] | None
    max_unconfirmed: int | None
    max_topics: int | None
    max_subscriptions: int | None
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    by: str = Field(description="who made it")


class IssuedToken(Token):
    """A new token with its secret, which is shown only once."""

    model_config = example({**_EXAMPLE, "secret": "ino_..."})

    secret: str
