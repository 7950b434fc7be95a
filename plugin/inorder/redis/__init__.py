"""redis-py, with publish/subscribe in total order: ``import inorder.redis as redis`` instead of ``import redis``.

Whatever is not about publishing and subscribing is the library's own.
"""

from typing import TYPE_CHECKING

from inorder.errors import MissingExtra

try:
    import redis as _redis  # noqa: F401
except ImportError:
    raise MissingExtra("inorder.redis", "redis") from None

from inorder.redis import _surface
from inorder.redis import asyncio as asyncio
from inorder.redis import client as client
from inorder.redis._install import install as install
from inorder.redis._surface import *  # noqa: F403
from inorder.redis._surface import __all__, __version__  # noqa: F401

if TYPE_CHECKING:  # of a name that is imported twice the first one is meant
    from inorder.redis._message import Inorder as Inorder
    from inorder.redis.client import Redis as Redis
    from inorder.redis.client import StrictRedis as StrictRedis
    from inorder.redis.client import from_url as from_url
if TYPE_CHECKING:
    from redis import *  # type: ignore[assignment]  # noqa: F403
    from redis import backoff as backoff
    from redis import cluster as cluster
    from redis import connection as connection
    from redis import credentials as credentials
    from redis import exceptions as exceptions
    from redis import retry as retry
    from redis import sentinel as sentinel
    from redis import utils as utils
else:
    __getattr__ = _surface.lookup
