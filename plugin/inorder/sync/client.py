"""The blocking client. Its types are in ``client.pyi``, which ``python -m tests.sync.stub`` writes."""

from __future__ import annotations

import inorder
from inorder.sync.twin import Twin, twin_of


@twin_of(inorder.Client)
class Client(Twin):
    """:class:`inorder.Client` for programs without asyncio: it has the same arguments, and its methods block.

    Use it as ``with Client(...) as client``. Any thread may call any method. Nothing of the application runs on the
    thread that keeps the connections, which all clients of a process share.
    """
