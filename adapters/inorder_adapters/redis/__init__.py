"""Redis pub/sub over redis-py's asyncio connections (``redis://``, ``rediss://``)."""

from inorder_adapters.redis.factory import open_ens

__all__ = ["open_ens"]
