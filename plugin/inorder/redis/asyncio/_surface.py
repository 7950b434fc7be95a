"""The names of the package ``redis.asyncio``: the library's, except for ours."""

from __future__ import annotations

from typing import Any

import redis.asyncio
from redis.asyncio import *  # noqa: F403

from inorder.redis._message import Inorder
from inorder.redis.asyncio.client import Redis, StrictRedis, from_url

__all__ = [*redis.asyncio.__all__, "Inorder"]


def lookup(name: str) -> Any:
    """Return the library's object of a name that this package lacks. Raises AttributeError."""
    return getattr(redis.asyncio, name)


OURS = (Redis, StrictRedis, from_url, Inorder)
