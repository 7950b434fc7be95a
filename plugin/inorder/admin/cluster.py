"""All workers of a store, as an operator sees them: each question goes to the worker that has the stage it is about."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar, cast

from inorder.admin.checks import check_name, check_numbers
from inorder.admin.link import LinkLost, NotDone
from inorder.admin.workers import Workers
from inorder.core.reordering import UNDER_WAY
from inorder.core.wire import (
    ChangeLog,
    ChangeOrder,
    Done,
    EndSubscription,
    Frame,
    KnownSubscription,
    LoggedEvents,
    LogRule,
    Logs,
    OrderChanged,
    PinTopics,
    ReadLog,
    Resolve,
    ShowLogs,
    ShowOrder,
    ShowSubscriptions,
    StageInfo,
    Subscriptions,
    TopicInfo,
    TopicOrder,
    Topics,
)
from inorder.errors import ChangeUnderWay, OutcomeUnknown, Refused, StaleOrder, UnknownTopic, WorkerUnreachable

FrameT = TypeVar("FrameT", bound=Frame)
AnswerT = TypeVar("AnswerT", Done, OrderChanged)
BOTTOM: Final = -1
"""The stage where topics, subscriptions, event logs and the topic order are changed, whichever number it has."""
READ_LIMIT: Final = 1_000
"""Events of a log in one answer of :meth:`Cluster.read_log`, at most."""


class _OfStage(Protocol):
    """A question to the home of a topic."""

    stage: int


class Cluster:
    """Use it as ``async with Cluster(...) as cluster``; nothing is connected before the first question.

    Any number of tasks may ask at the same time. A question is asked a second time, by a new map, where its stage had
    moved or a connection broke; a change is not, once it may have been made: that raises OutcomeUnknown.

    All methods raise, beside what they name: WorkerUnreachable (nobody that has the stage answers), Unauthorized,
    VersionMismatch, ProtocolError, and Refused where a worker is of an older release. InvalidOption and InvalidTopic
    are raised before anything is asked.

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
        """Do nothing yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections; questions under way fail."""
        await self._workers.close()

    async def stages(self) -> list[StageInfo]:
        """Return where each stage is, the top one first, as the workers asked last know it; of epoch 0 where nobody is
        known to have it."""
        places = await self._workers.places()
        return [places[stage] for stage in sorted(places)]

    # -- the topic order (R14) ---------------------------------------------------------------------------------

    async def order(self) -> TopicOrder:
        """Return the topic order, whole."""
        parts = await self._ask(ShowOrder(0), TopicOrder)
        first = parts[0]
        topics = [info for part in parts for info in part.topics]
        self._homes = {info.id: info.stage for info in topics}
        return TopicOrder(first.request, first.order_epoch, first.stages, topics, first.pinned)

    async def change(self, order_epoch: int, stages: list[list[int]]) -> int:
        """Change the topic order; return its new epoch, once the bottom stage is in it.

        Args:
            order_epoch: what it will be, one more than the present one.
            stages: topic ids of each stage, highest first; topics not named stay in their stage, behind those that are.

        Raises StaleOrder (the epoch is another one), ChangeUnderWay, Refused (unknown, repeated or pinned topics, no
        change) and OutcomeUnknown.
        """
        check_numbers("order_epoch", order_epoch)
        check_numbers("topic id", *(topic for each in stages for topic in each))
        what = f"the topic order was changed to epoch {order_epoch}"
        (answer,) = await self._ask(ChangeOrder(0, order_epoch, stages), OrderChanged, change=what)
        if answer.refusal == UNDER_WAY:
            raise ChangeUnderWay(answer.refusal)
        if answer.refusal and answer.order_epoch != order_epoch - 1:
            raise StaleOrder(answer.refusal, answer.order_epoch)
        if answer.refusal:
            raise Refused(answer.refusal)
        return answer.order_epoch

    async def pin(self, topics: list[int], *, is_pinned: bool) -> int:
        """Pin topics to their stages or let them go (R15); return the order epoch. Raises Refused, OutcomeUnknown."""
        check_numbers("topic id", *topics)
        what = f"topics were {'pinned' if is_pinned else 'let go'}"
        return (await self._change(PinTopics(0, topics, is_pinned), OrderChanged, what)).order_epoch

    async def create(self, space: str, name: str) -> TopicInfo:
        """Return a topic, created where it is new (R13). Raises InvalidTopic."""
        check_name(space, name)
        (answer,) = await self._ask(Resolve(0, [(space, name)]), Topics)
        return answer.topics[0]

    # -- event logs (R18) --------------------------------------------------------------------------------------

    async def logs(self) -> Logs:
        """Return which topics have an event log."""
        return (await self._ask(ShowLogs(0), Logs))[0]

    async def change_log(self, rule: LogRule, *, is_on: bool) -> None:
        """Give topics a log or take it from them. Raises InvalidTopic, InvalidOption (a bound), Refused,
        OutcomeUnknown."""
        check_name(rule.space, rule.filter.text)
        check_numbers("bound", rule.max_age_ms, rule.max_count, rule.max_bytes, least=0)
        what = f"the event log of {rule.space}:{rule.filter.text} was turned {'on' if is_on else 'off'}"
        await self._change(ChangeLog(0, rule, is_on), Done, what)

    async def read_log(
        self, topic: int, first: int, last: int, *, limit: int = READ_LIMIT, since_ms: int = 0
    ) -> LoggedEvents:
        """Return events of a topic's log.

        Args:
            topic: its id.
            first, last: numbers.
            limit: events at most; there may be fewer, ``through`` of the answer says how far it goes.
            since_ms: stored then (ms since 1970) or later.

        Raises UnknownTopic, InvalidOption (a number), and Refused where the store cannot be read.
        """
        check_numbers("number", first, last, since_ms, least=0)
        question = ReadLog(0, 0, topic, [first, last], since_ms)
        (answer,) = await self._ask(question, LoggedEvents, topic=topic)
        if answer.refusal:
            raise Refused(answer.refusal)
        if len(answer.events) > limit:
            answer.events = answer.events[:limit]
            answer.through = answer.events[-1].number
        return answer

    # -- subscriptions (R12, R18) ------------------------------------------------------------------------------

    async def subscriptions(self) -> list[KnownSubscription]:
        """Return all subscriptions with total order, by client id."""
        parts = await self._ask(ShowSubscriptions(0), Subscriptions)
        return [each for part in parts for each in part.subscriptions]

    async def end_subscription(self, client_id: str) -> None:
        """End the subscription of a client that is gone. Raises Refused, OutcomeUnknown."""
        await self._change(EndSubscription(0, client_id), Done, f"the subscription of {client_id!r} was ended")

    # -- who is asked ------------------------------------------------------------------------------------------

    async def _change(self, frame: Frame, kind: type[AnswerT], what: str, *, topic: int = 0) -> AnswerT:
        """Ask for a change and return the answer; ``what`` says in words what it did. Raises Refused and
        OutcomeUnknown."""
        (answer,) = await self._ask(frame, kind, topic=topic, change=what)
        if answer.refusal:
            raise Refused(answer.refusal)
        return answer

    async def _ask(
        self, frame: Frame, kind: type[FrameT], *, stage: int = BOTTOM, topic: int = 0, change: str = ""
    ) -> list[FrameT]:
        """Ask the worker that has a stage (of a topic: its home); once more by a new map, if need be."""
        reason = ""
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
                reason = error.reason
            if not is_last and await self._place(at) == place:  # else we know better by now
                await self._workers.look_again(without=place.address)
        raise WorkerUnreachable([place.address], f"{reason} (stage {place.stage})")

    async def _home(self, topic: int) -> int:
        if topic not in self._homes:
            await self.order()
        if topic not in self._homes:
            raise UnknownTopic(topic)
        return self._homes[topic]

    async def _place(self, stage: int) -> StageInfo:
        """Return who has a stage. Raises WorkerUnreachable where nobody is known to."""
        places = await self._workers.places()
        stage = max(places) if stage == BOTTOM else stage
        if stage in places and not places[stage].epoch:
            await self._workers.look_again()
        if stage not in places or not places[stage].epoch:
            raise WorkerUnreachable(self._workers.addresses, f"none of them has stage {stage}")
        return places[stage]
