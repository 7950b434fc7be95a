"""Logins."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from inorder_controlplane.models.common import Answer, Body, Moment, body_example, example


class Login(Body):
    """A token to exchange for a cookie."""

    model_config = body_example({"token": "ino_..."})

    token: str = Field(min_length=1, max_length=512, description="the secret of a token")


class Session(Answer):
    """The logged-in user."""

    model_config = example(
        {"name": "ann", "role": "operator", "csrf": "mF3kQ0...", "expires_at": "2026-03-01T21:30:00.125Z"}
    )

    name: str
    role: Literal["viewer", "operator", "admin"]
    csrf: str | None = Field(description="what changes must carry as X-CSRF-Token; null with a bearer token")
    expires_at: Moment | None = Field(description="null: never")
