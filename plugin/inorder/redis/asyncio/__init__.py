"""``redis.asyncio``, with publish/subscribe in total order."""

from typing import TYPE_CHECKING

from inorder.redis.asyncio import _surface
from inorder.redis.asyncio import client as client
from inorder.redis.asyncio._surface import *  # noqa: F403
from inorder.redis.asyncio._surface import __all__  # noqa: F401

if TYPE_CHECKING:  # of a name that is imported twice the first one is meant
    from inorder.redis._message import Inorder as Inorder
    from inorder.redis.asyncio.client import Redis as Redis
    from inorder.redis.asyncio.client import StrictRedis as StrictRedis
    from inorder.redis.asyncio.client import from_url as from_url
if TYPE_CHECKING:
    from redis.asyncio import *  # type: ignore[assignment]  # noqa: F403
    from redis.asyncio import cluster as cluster
    from redis.asyncio import connection as connection
    from redis.asyncio import retry as retry
    from redis.asyncio import sentinel as sentinel
    from redis.asyncio import utils as utils
else:
    __getattr__ = _surface.lookup
