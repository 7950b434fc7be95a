"""The client, which plugs into an asyncio application and gives its brokers one total order."""

from inorder.client.client import Client
from inorder.client.options import ClientTimes
from inorder.client.stats import ClientStats

__all__ = ["Client", "ClientStats", "ClientTimes"]
