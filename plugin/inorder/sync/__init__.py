"""Clients that block: what :mod:`inorder` offers to asyncio, for threads."""
