"""What a stage is told of a client that said hello: R1, R12, and what its token allows."""

from __future__ import annotations

from inorder.core.commands import OpenSession
from inorder.core.wire import MAX_NUMBER, Hello
from inorder.worker.gate import Pass


def session_of(hello: Hello, passed: Pass, stage: int) -> OpenSession:
    """Return the command for a stage."""
    asked = dict(zip(hello.asked[::2], hello.asked[1::2], strict=False))
    # what it asked of stages below may have ridden up to this one, and been numbered here (R19)
    here = max(0, *(counter for other, counter in asked.items() if other >= stage), 0)
    access = passed.access
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
        owner=passed.owner,
        max_topics=access.max_topics,
        max_subscriptions=access.max_subscriptions,
    )


def _behind(counter: int) -> int:
    return min(counter, MAX_NUMBER - 1) + 1
