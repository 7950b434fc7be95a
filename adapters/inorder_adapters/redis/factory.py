"""The entry point of the ``redis`` and ``rediss`` schemes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inorder.errors import MissingExtra
from inorder.ports import Ens
from inorder_adapters.redis.options import parse
from inorder_adapters.url_options import check_client_id


def open_ens(url: str, *, client_id: str, options: Mapping[str, Any]) -> Ens:
    """Make an unconnected ENS on a Redis server. Raises InvalidOption, MissingExtra."""
    try:
        import redis.asyncio  # noqa: F401
    except ImportError:
        raise MissingExtra("Redis", "redis") from None
    from inorder_adapters.redis.ens import RedisEns

    return RedisEns(parse(url, options), check_client_id(client_id))
