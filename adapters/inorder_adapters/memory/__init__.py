"""A broker inside the process, for tests, examples and simulations (``memory://name``)."""

from inorder_adapters.memory.factory import open_ens
from inorder_adapters.memory.hub import Hub, hub

__all__ = ["Hub", "hub", "open_ens"]
