"""A client's hello and its frames as a stage's commands: the same functions for whoever hosts the stage."""

from __future__ import annotations

from typing import overload

from inorder.protocol.pairs import pairs
from inorder.protocol.wire import (
    MAX_NUMBER,
    Access,
    CreateTimestamps,
    Hello,
    Resolve,
    SaveClock,
    Settle,
    Subscribe,
)
from inorder_worker.sequencer.commands import (
    AnyCommand,
    ChangeSubscription,
    Create,
    CreateTopics,
    OpenSession,
    SaveNumbers,
    SettleNumbers,
)

Requested = CreateTimestamps | Settle | Resolve | Subscribe | SaveClock
"""Frames that a client's machine changes a stage with; all others are questions, or an operator's."""


def session_of(hello: Hello, stage: int, access: Access, owner: str = "") -> OpenSession:
    """Return the command that tells a stage of a client's hello (R1, R12).

    Args:
        stage: the stage's index.
        access: what the client's token allows.
        owner: the token's name; empty: nobody's.
    """
    asked = dict(pairs(hello.asked, strict=False))
    # what it asked of stages below may have ridden up to this one, and been numbered here (R19)
    here = max(0, *(counter for other, counter in asked.items() if other >= stage), 0)
    return OpenSession(
        hello.client_id,
        hello.incarnation,
        first=_behind(here),
        anywhere=_behind(max(0, *asked.values(), 0)),
        asked_epoch=hello.asked_epoch,
        max_open=access.max_unconfirmed,
        own=_behind(asked.get(stage, 0)),
        recent=min(max(0, hello.recent), MAX_NUMBER),
        proves=access.role != "admin",
        owner=owner,
        max_topics=access.max_topics,
        max_subscriptions=access.max_subscriptions,
        max_owned=access.max_owned,
    )


def _behind(counter: int) -> int:
    return min(counter, MAX_NUMBER - 1) + 1


@overload
def command_of(client_id: str, incarnation: int, frame: CreateTimestamps) -> Create: ...
@overload
def command_of(client_id: str, incarnation: int, frame: Settle) -> SettleNumbers: ...
@overload
def command_of(client_id: str, incarnation: int, frame: Requested) -> AnyCommand: ...
def command_of(client_id: str, incarnation: int, frame: Requested) -> AnyCommand:
    """Return the command of a client's frame for its stage."""
    match frame:
        case CreateTimestamps():
            return Create(client_id, incarnation, frame.low, frame.events, frame.order_epoch, frame.refusals)
        case Settle():
            given_up = frame.abandoned
            return SettleNumbers(client_id, incarnation, frame.request, frame.confirmed, frame.void, given_up)
        case Resolve():
            return CreateTopics(client_id, incarnation, frame.request, frame.topics)
        case Subscribe():
            how = frame.bounded, frame.durable, frame.anew, frame.lets_go
            return ChangeSubscription(client_id, incarnation, frame.version, frame.filters, *how)
        case SaveClock():
            return SaveNumbers(client_id, incarnation, frame.request, frame.numbers, frame.reached)
