"""Routing of each question to the worker that has its stage."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar, cast

from inorder.errors import OutcomeUnknown, Refused, UnknownTopic, WorkerUnreachable
from inorder.protocol.wire import Done, Frame, OrderChanged, Released, ShowOrder, StageInfo, TopicOrder
from inorder_worker.admin.link import LinkLost, NotDone
from inorder_worker.admin.workers import Workers

FrameT = TypeVar("FrameT", bound=Frame)
AnswerT = TypeVar("AnswerT", Done, OrderChanged, Released)
BOTTOM: Final = -1
"""The stage where topics, subscriptions, event logs and the topic order are changed, whichever number it has."""


class _OfStage(Protocol):
    """A question to the home of a topic."""

    stage: int


class Asking:
    """Knows the places of stages and topics, and asks the workers there.

    Args:
        addresses: ``host:port`` of workers; one is enough, the others are found by it.
        token: what they ask for, or an empty text.
        tls: ``None`` for plain TCP.
        agent: what to be called in the workers' logs.
        timeout: seconds that one answer may take.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str = "",
        tls: ssl.SSLContext | None = None,
        *,
        agent: str = "inorder admin",
        timeout: float = 10.0,
    ) -> None:
        self._workers = Workers(addresses, token, tls, agent, timeout)
        self._timeout = timeout
        self._homes: dict[int, int] = {}

    async def __aenter__(self) -> Self:
        """Return the object; connections are opened when they are needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections; open questions fail."""
        await self._workers.close()

    # -- where everything is -----------------------------------------------------------------------------------

    async def stages(self) -> list[StageInfo]:
        """Return the places of the stages from the top, by the last asked workers; epoch 0: without a known owner."""
        places = await self._workers.places()
        return [places[stage] for stage in sorted(places)]

    async def order(self) -> TopicOrder:
        """Return the whole topic order."""
        parts = await self._ask(ShowOrder(0), TopicOrder)
        first = parts[0]
        topics = [info for part in parts for info in part.topics]
        self._homes = {info.id: info.stage for info in topics}
        return TopicOrder(first.request, first.order_epoch, first.stages, topics, first.pinned)

    # -- who is asked ------------------------------------------------------------------------------------------

    async def _change(self, frame: Frame, kind: type[AnswerT], what: str, *, topic: int = 0) -> AnswerT:
        """Request a change, described by ``what``, and return the answer. Raises Refused and OutcomeUnknown."""
        (answer,) = await self._ask(frame, kind, topic=topic, change=what)
        if answer.refusal:
            raise Refused(answer.refusal)
        return answer

    async def _ask(
        self, frame: Frame, kind: type[FrameT], *, stage: int = BOTTOM, topic: int = 0, change: str = ""
    ) -> list[FrameT]:
        """Ask the worker of a stage (of a topic: its home), and once more by a new map if necessary."""
        reason, is_there = "", True
        for is_last in (False, True):
            at = await self._home(topic) if topic else stage
            place = await self._place(at)
            if topic:
                cast(_OfStage, frame).stage = place.stage
            try:
                link = await self._workers.link(place.address)
                return await link.ask(frame, kind, stage=place.stage, topic=topic, seconds=self._timeout)
            except NotDone as moved:
                reason = str(moved)
                self._homes.pop(topic, None)
            except LinkLost as lost:
                reason = str(lost)
                if change:
                    raise OutcomeUnknown(change, reason) from None
            except WorkerUnreachable as error:
                reason, is_there = error.reason, error.is_there
            if not is_last and await self._place(at) == place:  # else we know better by now
                await self._workers.look_again(without=place.address)
        raise WorkerUnreachable([place.address], f"{reason} (stage {place.stage})", is_there=is_there)

    async def _home(self, topic: int) -> int:
        if topic not in self._homes:
            await self.order()
        if topic not in self._homes:
            raise UnknownTopic(topic)
        return self._homes[topic]

    async def _place(self, stage: int) -> StageInfo:
        """Return the owner of a stage. Raises WorkerUnreachable where nobody is known to."""
        places = await self._workers.places()
        stage = max(places) if stage == BOTTOM else stage
        if stage in places and not places[stage].epoch:
            await self._workers.look_again()
        if stage not in places or not places[stage].epoch:
            text = f"none of them has stage {stage}"
            raise WorkerUnreachable(self._workers.addresses, text, is_there=True)
        return places[stage]
