"""Blocking clients: the API of :mod:`inorder` for threads."""

from inorder.sync.client import Client
from inorder.sync.pending import PendingPublish
from inorder.sync.reading import Notifications

__all__ = ["Client", "Notifications", "PendingPublish"]
