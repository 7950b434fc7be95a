"""``WS /tail``: the broker's events, live (R21)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query, WebSocket

import inorder
from inorder.endpoint.notifications import Event
from inorder.errors import InorderError, UsageError
from inorder_controlplane.brokers import Tail, broker_of, brokers_of, tail_client
from inorder_controlplane.context import Context, ContextDep
from inorder_controlplane.principals import Principal, require_socket
from inorder_controlplane.problems import Problem, of_error
from inorder_controlplane.sockets import SocketLimit, tell

router = APIRouter(tags=["live"])

MAX_TAILS: Final = 20
"""Tails at a time in one control plane; each has a connection to the broker."""
MAX_OF_ONE: Final = 5
"""Of these, tails of one token."""
MAX_PER_SECOND: Final = 500
"""Events that a tail sends in a second; the others are dropped, and counted."""


@router.websocket("/tail")
async def tail(
    socket: WebSocket,
    context: ContextDep,
    principal: Annotated[Principal, require_socket("viewer")],
    space: Annotated[str, Query(min_length=1, max_length=255)],
    filter: Annotated[str, Query(min_length=1, max_length=65_535)],
) -> None:
    """Send a message for each event on the topics that a filter covers: ``{"type": "event", ...}``, and
    ``{"type": "dropped", "count": n}`` where there were more than can be shown."""
    limit: SocketLimit = context.parts.setdefault("tails", SocketLimit("tails", MAX_TAILS, MAX_OF_ONE))
    client = tail_client(space, broker_of(brokers_of(context.settings.brokers), space))
    with limit.counted(principal):
        try:
            await _serve(socket, context, principal, client, filter)
        finally:
            await client.close()


async def _serve(
    socket: WebSocket, context: Context, principal: Principal, client: inorder.Client, filter: str
) -> None:
    try:
        await client.__aenter__()
        await client.subscribe(filter, ordering="none")
    except UsageError as error:
        raise Problem("invalid", str(error)) from None
    except InorderError as error:
        raise of_error(error) from None
    await socket.accept()
    made = Tail(client)
    await tell(socket, context, principal, _send(socket, context, made), _tell_of_dropped(socket, made))


async def _send(socket: WebSocket, context: Context, made: Tail) -> None:
    loop = asyncio.get_running_loop()
    second, sent = 0, 0
    async for item in made.client.events():
        if not isinstance(item, Event):
            continue
        if int(loop.time()) != second:
            second, sent = int(loop.time()), 0
        if sent >= MAX_PER_SECOND:
            made.skipped += 1
            continue
        await socket.send_json(made.event(item, context.now_ms()))
        sent += 1


async def _tell_of_dropped(socket: WebSocket, made: Tail) -> None:
    while True:
        await asyncio.sleep(1.0)
        if (dropped := made.dropped()) is not None:
            await socket.send_json(dropped)
