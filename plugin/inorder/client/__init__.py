"""The client: plugs into an application on asyncio and gives its brokers one total order."""

from inorder.client.client import Client, ClientStats
from inorder.client.options import ClientTimes

__all__ = ["Client", "ClientStats", "ClientTimes"]
