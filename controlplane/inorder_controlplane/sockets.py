"""WebSockets that only send: one task sends, another notices the other side's end, a third the end of its rights. How
many there may be."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from inorder.errors import InorderError, StoreError
from inorder.logs import logger
from inorder_controlplane.context import Context
from inorder_controlplane.principals import is_current
from inorder_controlplane.problems import Problem
from inorder_controlplane.roles import Principal

ENDED: Final = 1011
"""How a socket is closed that nothing more can be told over."""
REFUSED: Final = 1008
"""How one is closed whose token, or login, is not good any more."""
LOOK_SECONDS: Final = 5.0
"""Between two looks at that."""

log = logger("inorder.controlplane")


class SocketLimit:
    """A limit on open sockets of a kind, in all and for one token.

    Args:
        kind: what they are, in words.
        most: of all.
        of_one: of one token, and of all logins made from it.
    """

    def __init__(self, kind: str, most: int, of_one: int) -> None:
        self._kind, self._most, self._of_one = kind, most, of_one
        self._taken: Counter[str] = Counter()

    @contextlib.contextmanager
    def counted(self, principal: Principal) -> Iterator[None]:
        """Count one open socket in this block. Raises Problem."""
        token = principal.token_id
        if self._taken[token] >= self._of_one:
            raise self._too_many(f"{self._of_one} {self._kind} of this token are open already")
        if self._taken.total() >= self._most:
            raise self._too_many(f"{self._most} {self._kind} are open already")
        self._taken[token] += 1
        try:
            yield
        finally:
            self._taken[token] -= 1
            self._taken += Counter()  # forgets who has none

    def _too_many(self, detail: str) -> Problem:
        allowed = f"{self._of_one} of one token, {self._most} of all"
        return Problem("too-many-requests", detail, allowed=allowed, headers={"Retry-After": "10"})


async def tell(socket: WebSocket, context: Context, principal: Principal, *senders: Coroutine[Any, Any, None]) -> None:
    """Run senders on an accepted socket until its end, the end of its rights or of a sender; drop received messages."""
    path = socket.scope["path"]
    parts = _listen(socket), _until_over(context, principal), *senders
    tasks = [asyncio.create_task(each, name=f"inorder-controlplane{path}") for each in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception) and not isinstance(error, (WebSocketDisconnect, InorderError)):
            log.error("event=socket_failed path=%s", path, exc_info=error)
    if tasks[0] not in done:
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # it is closed already
            await socket.close(REFUSED if tasks[1] in done else ENDED)


async def _listen(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _until_over(context: Context, principal: Principal) -> None:
    """Return when a token or login is not valid any more: at once where it ends here, else at the next look. While the
    store does not answer it stays as it is."""
    while True:
        ended = context.rights_ended  # whatever ends from now on, during the look too, is looked at
        with contextlib.suppress(StoreError):
            if not await is_current(principal, context):
                return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await ended.wait()
