"""The names of the package ``redis``: the library's, but for what is ours."""

from __future__ import annotations

from typing import Any

import redis
from redis import *  # noqa: F403

from inorder.redis._message import Inorder
from inorder.redis.client import Redis, StrictRedis, from_url

__all__ = [*redis.__all__, "Inorder"]
__version__ = redis.__version__


def lookup(name: str) -> Any:
    """Return what the library has by a name that is not here. Raises AttributeError."""
    return getattr(redis, name)


OURS = (Redis, StrictRedis, from_url, Inorder)
