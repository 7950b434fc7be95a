"""The client for threads. ``client.pyi`` says to type checkers what it has; ``python -m tests.sync.stub`` writes it."""

from __future__ import annotations

import inorder
from inorder.sync.twin import Twin, twin_of


@twin_of(inorder.Client)
class Client(Twin):
    """:class:`inorder.Client` for programs without asyncio: the same arguments, the same methods, which block.

    Use it as ``with Client(...) as client``. Any thread may call any method. Nothing of the application runs on the
    thread that keeps the connections, which all clients of a process share.
    """
