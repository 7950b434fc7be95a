"""All workers of a store as seen by an operator: each question goes to the worker of its stage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Final, Literal

from inorder.errors import ChangeUnderWay, InvalidOption, Refused, StaleOrder, WorkerUnreachable
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import (
    MAX_NUMBER,
    AutomaticShown,
    ChangeAutomatic,
    ChangeLog,
    ChangeOrder,
    ClientReport,
    Done,
    EndSubscription,
    EventFound,
    FindEvent,
    FindNumber,
    KnownNumber,
    KnownSubscription,
    LoggedEvents,
    LogRule,
    Logs,
    NumberFound,
    NumberState,
    OpenNumbersFound,
    OrderChanged,
    PinTopics,
    ReadLog,
    Released,
    ReleaseNumbers,
    Reports,
    Resolve,
    SeenLife,
    ShowAutomatic,
    ShowLogs,
    ShowOpenNumbers,
    ShowReports,
    ShowSubscriptions,
    ShowTopics,
    Subscriptions,
    TopicFigures,
    TopicInfo,
    Topics,
    TopicsShown,
)
from inorder_worker.admin.checks import check_automatic, check_name, check_numbers, check_range
from inorder_worker.admin.placing import Placing
from inorder_worker.admin.states import Automatic, EventState, StuckNumber, TopicState, event_state, topic_state
from inorder_worker.admin.stuck import places_told, stuck_numbers, waits_by_number, with_waits
from inorder_worker.sequencer.reordering import UNDER_WAY

IDS_ASKED: Final = 500
"""Topics or numbers in one question."""
READ_LIMIT: Final = 1_000
"""Events of a log in one answer of :meth:`Cluster.read_log`, at most."""
WAITS_ASKED: Final = 100
"""Numbers named by clients whose state is asked for, at most."""


class Cluster(Placing):
    """All workers of a store: ``async with Cluster(...) as cluster``. Nothing is connected before the first question.

    Any number of tasks may ask at the same time. A question is asked a second time, by a new map, where its stage had
    moved or a connection broke; a change is not, once it may have been made: that raises OutcomeUnknown.

    All methods raise, beside what they name: WorkerUnreachable (nobody that has the stage answers), Unauthorized,
    Forbidden (the token's role is too low), VersionMismatch, ProtocolError, and Refused where a worker is of an older
    release. InvalidOption and InvalidTopic are raised before anything is asked.

    Args: see :class:`~inorder_worker.admin.asking.Asking`.
    """

    # -- the topic order (R14) ---------------------------------------------------------------------------------

    async def change(self, order_epoch: int, stages: list[list[int]], by: str = "") -> int:
        """Change the topic order; return its new epoch once the bottom stage has it.

        Args:
            order_epoch: what it will be, one more than the present one.
            stages: topic ids of each stage, highest first; topics not named stay in their stage, behind those that are.
            by: for whom it is done, as the history of the topic order names him; counts with an internal token.

        Raises StaleOrder (the epoch is another one), ChangeUnderWay, Refused (unknown, repeated or pinned topics, no
        change) and OutcomeUnknown.
        """
        check_numbers("order_epoch", order_epoch)
        check_numbers("topic id", *(topic for each in stages for topic in each))
        what = f"the topic order was changed to epoch {order_epoch}"
        (answer,) = await self._ask(ChangeOrder(0, order_epoch, stages, by), OrderChanged, change=what)
        if answer.refusal == UNDER_WAY:
            raise ChangeUnderWay(answer.refusal)
        if answer.refusal and answer.order_epoch != order_epoch - 1:
            raise StaleOrder(answer.refusal, answer.order_epoch)
        if answer.refusal:
            raise Refused(answer.refusal)
        return answer.order_epoch

    async def pin(self, topics: list[int], *, is_pinned: bool) -> int:
        """Pin topics to their stages or release them (R15); return the order epoch. Raises Refused, OutcomeUnknown."""
        check_numbers("topic id", *topics)
        what = f"topics were {'pinned' if is_pinned else 'let go'}"
        return (await self._change(PinTopics(0, topics, is_pinned), OrderChanged, what)).order_epoch

    async def automatic(self) -> Automatic:
        """Return whether, and how, topics change places by themselves (R15)."""
        (answer,) = await self._ask(ShowAutomatic(0), AutomaticShown)
        return Automatic(answer.window_ms / 1000, answer.alpha, answer.beta)

    async def set_automatic(self, automatic: Automatic) -> None:
        """Turn the automatic change of topics' places on, with these settings, or off (R15). It lasts, and goes before
        what the workers' settings say. Raises InvalidOption and OutcomeUnknown."""
        check_automatic(automatic)
        milliseconds = max(1, round(automatic.window_s * 1000)) if automatic.is_on else 0
        frame = ChangeAutomatic(0, milliseconds, automatic.alpha, automatic.beta)
        what = f"topics {'change' if automatic.is_on else 'do not change'} places by themselves"
        await self._change(frame, Done, what)

    async def create(self, space: str, name: str) -> TopicInfo:
        """Return a topic, which is created if it is new (R13). Raises InvalidTopic."""
        check_name(space, name)
        (answer,) = await self._ask(Resolve(0, [(space, name)]), Topics)
        return answer.topics[0]

    # -- topics ------------------------------------------------------------------------------------------------

    async def topics(self, ids: Sequence[int] | None = None, *, groups: bool = True) -> list[TopicState]:
        """Return topics with their figures, in the topic order. Those whose stage nobody answers for come without.

        Args:
            ids: of those that are wanted; ``None``: all. Ids that no topic has are left out.
            groups: with their sequencing groups, and not only the sizes. Of thousands of topics they may be megabytes.
        """
        order = await self.order()
        wanted = None if ids is None else set(ids)
        infos = [info for info in order.topics if wanted is None or info.id in wanted]
        stages = sorted({info.stage for info in infos})
        only = {at: [info.id for info in infos if info.stage == at] if ids is not None else [] for at in stages}
        found = await asyncio.gather(*(self._figures(at, only[at], groups) for at in stages))
        figures = {each.id: each for its in found for each in its}
        ranks = {info.id: rank for rank, info in enumerate(order.topics, start=1)}
        pinned = set(order.pinned)
        return [topic_state(info, ranks[info.id], info.id in pinned, figures.get(info.id)) for info in infos]

    async def _figures(self, stage: int, only: list[int], groups: bool) -> list[TopicFigures]:
        """Return the figures of a stage's topics, or none without an answer."""
        found: list[TopicFigures] = []
        try:
            for at in range(0, max(len(only), 1), IDS_ASKED):
                behind: int | None = 0
                while behind is not None:
                    frame = ShowTopics(0, stage, behind, groups, only[at : at + IDS_ASKED])
                    (part,) = await self._ask(frame, TopicsShown, stage=stage)
                    found += part.topics
                    behind = part.behind or None
        except WorkerUnreachable:
            return []
        return found

    # -- numbers (R16, R17) ------------------------------------------------------------------------------------

    async def stuck(self, *, older_s: float = 1.0) -> list[StuckNumber]:
        """Return, by topic and number, the numbers pending or incomplete for longer than this (s) at stages that
        answer, and the numbers for which clients wait, for any cause. After a second subscribers begin to ask for them
        (R17, ``gap_timeout``)."""
        stages = [each.stage for each in await self.stages()]
        found = await asyncio.gather(*(self._open_numbers(stage, round(older_s * 1000)) for stage in stages))
        stuck = stuck_numbers({stage: parts for stage, parts in zip(stages, found, strict=True) if parts})
        reporting, older_ms = await self._reporting(), round(older_s * 1000)
        waits = waits_by_number(reporting, older_ms)
        if not waits:
            return stuck
        return with_waits(stuck, waits, await self._states_of(places_told(reporting, older_ms)))

    async def waiting_for(self, topic: int, number: int) -> list[str]:
        """Return the clients that report holding events back for this number, or holding this event back."""
        place = topic, number
        return [
            each.client_id
            for each in await self._reporting()
            if any(place in ((wait.topic, wait.number), (wait.first_topic, wait.first_number)) for wait in each.waits)
        ]

    async def _reporting(self) -> list[ClientReport]:
        try:
            return (await self.reports(MAX_NUMBER)).clients
        except WorkerUnreachable:
            return []

    async def _states_of(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], NumberState]:
        """Return the outcomes of numbers that clients name: ``UNKNOWN`` for numbers never given, nothing for topics
        that do not exist or answer."""
        states: dict[tuple[int, int], NumberState] = {}
        known_topics = {info.id for info in (await self.order()).topics}
        for topic, number in islice((place for place in places if place[0] in known_topics), WAITS_ASKED):
            with contextlib.suppress(WorkerUnreachable):
                known = await self._known(topic, max(number, 1))
                states[topic, number] = NumberState.UNKNOWN if known is None else known.state
        return states

    async def _open_numbers(self, stage: int, older_ms: int) -> list[OpenNumbersFound]:
        try:
            return await self._ask(ShowOpenNumbers(0, stage, older_ms), OpenNumbersFound, stage=stage)
        except WorkerUnreachable:
            return []

    async def release(self, topic: int, first: int, last: int, as_: Literal["void", "abandoned"]) -> list[int]:
        """Give up pending numbers in place of their publisher, so that nobody waits for them any more (R16, R17).

        As ``void`` they are skipped silently: for events that certainly were not handed to the broker. As ``abandoned``
        each subscriber is told of a gap. An event that arrives nonetheless is delivered by those that have not skipped
        its number; the others drop it where it is void, and deliver it as late where a gap told of it. Its publisher
        hears ``late`` when it confirms it.

        Returns the numbers that changed; those of the range that are not pending, or that the event log has, stay.
        Raises Refused (with what could be released), UnknownTopic, InvalidOption (a range) and OutcomeUnknown.
        """
        states = {"void": NumberState.VOID, "abandoned": NumberState.ABANDONED}
        if as_ not in states:
            raise InvalidOption("as", as_, "void or abandoned")
        return await self._settle(topic, first, last, states[as_], f"given up as {as_}")

    async def confirm_logged(self, topic: int, first: int, last: int) -> list[int]:
        """Confirm pending numbers found in the event log, from which subscribers then fetch the events (R17, R18).
        Returns the numbers that changed. Raises as :meth:`release` does."""
        return await self._settle(topic, first, last, NumberState.CONFIRMED, "confirmed")

    async def _settle(self, topic: int, first: int, last: int, to: NumberState, how: str) -> list[int]:
        check_range(first, last)
        what = f"numbers {first} to {last} of topic {topic} were {how}"
        answer = await self._change(ReleaseNumbers(0, 0, topic, first, last, to), Released, what, topic=topic)
        return [number for low, high in pairs(answer.numbers) for number in range(low, high + 1)]

    async def find_event(self, topic: int, number: int) -> EventState | None:
        """Return the known facts of an event by its topic's id and number; ``None``: the topic never had that number.
        Raises UnknownTopic and InvalidOption."""
        check_numbers("number", number)
        known = await self._known(topic, number)
        if known is None:
            return None
        row = None
        if known.logged:
            page = await self.read_log(topic, number, number)
            row = page.events[0] if page.events else None
        return event_state(topic, number, known, row)

    async def find_event_by_id(self, client_id: str, incarnation: int, counter: int) -> EventState | None:
        """Return the known facts of an event by its event id; ``None``: no stage knows it (any more). Raises
        InvalidOption. All numbers that are known one by one may have to be looked through for it."""
        check_numbers("counter", counter)
        if not -(2**63) <= incarnation < 2**63:
            raise InvalidOption("incarnation", incarnation, "a signed number of 64 bits")
        stages = [each.stage for each in await self.stages()]
        found = await asyncio.gather(*(self._find_at(each, client_id, incarnation, counter) for each in stages))
        places = [place for place in found if place is not None]
        return await self.find_event(*places[0]) if places else None

    async def _find_at(self, stage: int, client_id: str, incarnation: int, counter: int) -> tuple[int, int] | None:
        behind: int | None = 0
        while behind is not None:
            frame = FindEvent(0, stage, client_id, incarnation, counter, behind)
            (found,) = await self._ask(frame, EventFound, stage=stage)
            if found.number:
                return found.topic, found.number
            behind = found.behind or None
        return None

    async def number_states(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], NumberState]:
        """Return the outcomes of numbers, given as (topic id, number), such as those on which an event depends. Those
        that were never issued are left out. Raises UnknownTopic and InvalidOption."""
        check_numbers("number", *(number for _, number in places))
        states: dict[tuple[int, int], NumberState] = {}
        for at in range(0, len(places), IDS_ASKED):
            asked = places[at : at + IDS_ASKED]
            found = await asyncio.gather(*(self._known(*place) for place in asked))
            states |= {place: each.state for place, each in zip(asked, found, strict=True) if each is not None}
        return states

    async def _known(self, topic: int, number: int) -> KnownNumber | None:
        (found,) = await self._ask(FindNumber(0, 0, topic, number), NumberFound, topic=topic)
        return found.known

    # -- event logs (R18) --------------------------------------------------------------------------------------

    async def log_rules(self) -> list[LogRule]:
        """Return the rules by which topics have an event log."""
        (answer,) = await self._ask(ShowLogs(0, limit=0), Logs)
        return answer.rules

    async def logged_topics(self) -> AsyncIterator[list[TopicInfo]]:
        """Yield the topics that have an event log, by rising id, in portions: there may be very many."""
        behind: int | None = 0
        while behind is not None:
            (part,) = await self._ask(ShowLogs(0, behind), Logs)
            yield part.topics
            behind = part.behind or None

    async def change_log(self, rule: LogRule, *, is_on: bool) -> None:
        """Give topics a log or take it away. Raises InvalidTopic, InvalidOption (a bound), Refused, OutcomeUnknown."""
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

    # -- what clients report -----------------------------------------------------------------------------------

    async def reports(self, since_us: int = 0) -> Reports:
        """Return clients' reports, with lives of events told after ``since_us`` (µs since 1970, the worker's clock)."""
        return (await self._ask(ShowReports(0, since_us), Reports))[0]

    async def lives(self, topic: int, number: int) -> list[SeenLife]:
        """Return the clients' observations of one event."""
        return (await self._ask(ShowReports(0, 0, topic, number), Reports))[0].lives
