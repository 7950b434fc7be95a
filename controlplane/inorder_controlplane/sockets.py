"""WebSockets that only tell: one task sends, another one notices that the other side is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from inorder.errors import InorderError
from inorder.logs import logger

ENDED: Final = 1011
"""How a socket is closed that nothing more can be told over."""

log = logger("inorder.controlplane")


async def tell(socket: WebSocket, *senders: Coroutine[Any, Any, None]) -> None:
    """Run what sends over an accepted socket until the other side closes it, or one of them ends; what the other side
    says is of no concern."""
    tasks = [
        asyncio.create_task(each, name=f"inorder-controlplane{socket.url.path}") for each in (_listen(socket), *senders)
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception) and not isinstance(error, (WebSocketDisconnect, InorderError)):
            log.error("event=socket_failed path=%s", socket.url.path, exc_info=error)
    if tasks[0] not in done:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # it is closed already
            await socket.close(ENDED)


async def _listen(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
