"""``redis.asyncio``, with publish/subscribe in total order."""

from inorder.redis.asyncio import client as client
from inorder.redis.asyncio._surface import *  # noqa: F403
from inorder.redis.asyncio._surface import __all__, __getattr__  # noqa: F401
