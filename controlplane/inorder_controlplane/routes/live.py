"""``WS /live``: figures, states and alarms, once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, WebSocket

from inorder_controlplane.context import ContextDep
from inorder_controlplane.principals import Principal, require_socket
from inorder_controlplane.showing import alarms_of, figures_of, rates_of, stages_of, totals_of, workers_of
from inorder_controlplane.sockets import SocketLimit, tell
from inorder_controlplane.watching import Picture, Watching, watching_of
from inorder_worker.store.analyses import Run

router = APIRouter(tags=["live"])

SECONDS: Final = 1.0
MAX_SOCKETS: Final = 200
MAX_OF_ONE: Final = 50
"""Sockets that may be open: of all, and of one token."""
EACH_SECOND: Final = ("sample", "alarms")
"""What is said also if it is as before, so that a reader can tell silence from peace."""


@router.websocket("/live")
async def live(
    socket: WebSocket, context: ContextDep, principal: Annotated[Principal, require_socket("viewer")]
) -> None:
    """Send figures, states and alarms. Once a second come ``sample`` (the newest figures, totals and rates; not while
    the workers do not answer) and ``alarms``; at first and when they change also ``states`` (stages and workers),
    ``order`` (the order epoch) and ``runs`` (of analyses: the open ones, and the last ended one)."""
    part = watching_of(context)
    limit: SocketLimit = context.parts.setdefault("live", SocketLimit("live sockets", MAX_SOCKETS, MAX_OF_ONE))
    with limit.counted(principal):
        await socket.accept()
        await tell(socket, context, principal, _send(socket, part))


async def _send(socket: WebSocket, part: Watching) -> None:
    told: dict[str, Any] = {}
    while True:
        picture = await part.picture()
        for message in messages(picture, part):
            kind = message["type"]
            if kind in EACH_SECOND or told.get(kind) != message:
                told[kind] = message
                await socket.send_json(message)
        await asyncio.sleep(SECONDS)


def messages(picture: Picture, part: Watching) -> Iterator[dict[str, Any]]:
    """Yield the live messages for an observation."""
    if picture.sample is not None:
        yield {
            "type": "sample",
            **figures_of(picture.sample).model_dump(),
            "rates": rates_of(part.series).model_dump(),
            "totals": totals_of(picture).model_dump(),
        }
    if picture.store is not None:
        yield {
            "type": "states",
            "stages": [each.model_dump() for each in stages_of(picture)],
            "workers": [each.model_dump() for each in workers_of(picture)],
        }
        yield {"type": "runs", "runs": [_brief(each) for each in picture.runs]}
    yield {"type": "alarms", "alarms": [each.model_dump() for each in alarms_of(picture)], "state": picture.state}
    if picture.order_epoch is not None:
        yield {"type": "order", "order_epoch": str(picture.order_epoch)}


def _brief(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "outcome": run.outcome,
        "progress": run.progress and run.progress._asdict(),
        "cancelled_by": run.cancelled_by,
    }
