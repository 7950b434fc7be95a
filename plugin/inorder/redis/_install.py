"""``inorder.redis.install()``."""

from __future__ import annotations

from inorder.client import installing
from inorder.redis import client
from inorder.redis.asyncio import client as asyncio_client


def install(*, force: bool = False) -> None:
    """Replace redis-py's own classes in ``redis`` and ``redis.asyncio`` by this package's, for libraries that import
    the originals (celery, python-socketio). Once, before they are imported; once more does nothing.

    ``RedisCluster`` and ``Sentinel`` go on making the library's own clients.

    Args:
        force: also where modules have taken the library's classes before; they go on with these.

    Raises:
        UsageError: without ``force``, modules have; the message names them, and nothing was changed.
    """
    names = {"Redis": client.Redis, "StrictRedis": client.StrictRedis}
    asyncio_names = {"Redis": asyncio_client.Redis, "StrictRedis": asyncio_client.StrictRedis}
    installing.install(
        {
            "redis": {**names, "from_url": client.from_url},
            "redis.client": {**names, "PubSub": client.PubSub, "Pipeline": client.Pipeline},
            "redis.asyncio": {**asyncio_names, "from_url": asyncio_client.from_url},
            "redis.asyncio.client": {
                **asyncio_names,
                "PubSub": asyncio_client.PubSub,
                "Pipeline": asyncio_client.Pipeline,
            },
        },
        force=force,
    )
