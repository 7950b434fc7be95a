"""The names of the package ``redis``: the library's, except for ours."""

from __future__ import annotations

from typing import Any

import redis
from redis import *  # noqa: F403

from inorder.redis._message import Inorder
from inorder.redis.client import Redis, StrictRedis, from_url

__all__ = [*redis.__all__, "Inorder"]
__version__ = redis.__version__


def lookup(name: str) -> Any:
    """Return the library's object of a name that this package lacks. Raises AttributeError."""
    return getattr(redis, name)


OURS = (Redis, StrictRedis, from_url, Inorder)
