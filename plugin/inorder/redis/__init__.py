"""redis-py, with publish/subscribe in total order: ``import inorder.redis as redis`` instead of ``import redis``.

Whatever is not about publishing and subscribing is the library's own.
"""

from inorder.errors import MissingExtra

try:
    import redis as _redis  # noqa: F401
except ImportError:
    raise MissingExtra("inorder.redis", "redis") from None

from inorder.redis import asyncio as asyncio
from inorder.redis import client as client
from inorder.redis._install import install as install
from inorder.redis._surface import *  # noqa: F403
from inorder.redis._surface import __all__, __getattr__, __version__  # noqa: F401
