"""The end of listening for connections."""

from __future__ import annotations

import asyncio


def stop_listening(listener: asyncio.Server) -> None:
    """Accept nothing more. What was accepted in this turn of the loop comes up before the listener is closed: Python
    3.11 would lose such a connection, and never close it."""
    loop = asyncio.get_running_loop()
    for sock in listener.sockets:
        loop.remove_reader(sock)
    loop.call_soon(listener.close)
