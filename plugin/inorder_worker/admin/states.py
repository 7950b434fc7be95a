"""The facts that operators see."""

from __future__ import annotations

from dataclasses import dataclass

from inorder.protocol.pairs import pairs
from inorder.protocol.wire import KnownNumber, Logged, LoggedEvent, NumberState, TopicFigures, TopicInfo, decode_logged


@dataclass(frozen=True, slots=True)
class TopicState:
    """The present state of a topic.

    Attributes:
        id, space, name: the topic; ``stage``: its stage, 0 at the top; ``rank``: its place in the topic order, 1 at the
            top.
        is_reached: the worker of its stage has answered; else what follows is 0.
        number: its last number; ``head``: the highest confirmed one.
        confirmed, void, abandoned: how many of its numbers became that (since the release that counts them), late: how
            many of those that were given up were confirmed afterwards. ``pending``: nothing became of them yet.
        rate: numbers per second, over about the last ten seconds.
        pinned: it stays on its stage (R15). logged: it has an event log (R18).
        is_retired: nobody has used it for so long that only its last number is kept.
        group_size: how many other topics are in its sequencing group; ``group``: their ids, sorted, if asked for.
    """

    id: int
    space: str
    name: str
    stage: int
    rank: int
    pinned: bool
    logged: bool
    is_reached: bool = False
    number: int = 0
    head: int = 0
    confirmed: int = 0
    pending: int = 0
    void: int = 0
    abandoned: int = 0
    late: int = 0
    rate: float = 0.0
    is_retired: bool = False
    group_size: int = 0
    group: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """Space and name, as people write a topic."""
        return f"{self.space}:{self.name}"


@dataclass(frozen=True, slots=True)
class StuckNumber:
    """Consecutive numbers of one topic that subscribers wait for, or soon may.

    Attributes:
        topic: its id; ``first``, ``last``: the numbers.
        state: ``PENDING``; or what was decided of numbers whose timestamps are not complete, which are waited for too.
        reason: why, in words.
        waits_for: the stage that their timestamps wait for; ``None`` where they are complete.
        client_id: who publishes them; ``away_ms``: how long it has been gone, 0: it is connected, -1: for longer than
            the workers remember it.
        age_ms: how long ago the first was issued (or came to its stage with a change of the topic order).
        logged: the event log has them, so they can be repaired; else they can be released.
        waiting: clients that say that they hold events back for them.
        holds: the event that waits longest of these, as (topic id, number); ``None`` where no client says so.
    """

    topic: int
    first: int
    last: int
    state: NumberState
    reason: str
    waits_for: int | None
    client_id: str
    away_ms: int
    age_ms: int
    logged: bool
    waiting: tuple[str, ...] = ()
    holds: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        """Tell whether the topic's stage can settle the numbers; else clients wait for them for another reason."""
        return bool(self.client_id)


@dataclass(frozen=True, slots=True)
class EventState:
    """The workers' knowledge of one event.

    Attributes:
        topic: its topic's id; ``number``: its number there.
        state: what became of the number; ``EXPIRED``: only its topic's log may still know it.
        is_complete: its timestamp is; else ``deps`` is empty.
        deps: pairs (topic id, number): everything in that topic up to there comes before it.
        client_id, incarnation, counter: the event id; empty, 0 and 0 of an expired one.
        logged: the event log has it; ``stored_ms``: since then (ms since 1970), 0 where it does not.
        content: what was published, from the event log; ``None`` where that does not have it.
    """

    topic: int
    number: int
    state: NumberState
    is_complete: bool
    deps: tuple[tuple[int, int], ...]
    client_id: str
    incarnation: int
    counter: int
    logged: bool
    stored_ms: int = 0
    content: Logged | None = None


def topic_state(info: TopicInfo, rank: int, pinned: bool, found: TopicFigures | None) -> TopicState:
    """Combine the topic order's and the home's facts of a topic; ``None``: the home did not answer."""
    place = (info.id, info.space, info.name, info.stage, rank, pinned, info.logged)
    if found is None:
        return TopicState(*place)
    return TopicState(
        *place,
        is_reached=True,
        number=found.number,
        head=found.head,
        confirmed=found.confirmed,
        pending=found.pending,
        void=found.void,
        abandoned=found.abandoned,
        late=found.late,
        rate=found.rate,
        is_retired=found.is_retired,
        group_size=found.group_size,
        group=tuple(found.group),
    )


def event_state(topic: int, number: int, known: KnownNumber, row: LoggedEvent | None) -> EventState:
    """Combine the home's and the event log's facts of a number."""
    deps = known.deps if known.deps is not None else row.deps if row is not None else None
    return EventState(
        topic,
        number,
        known.state,
        deps is not None,
        tuple(pairs(deps or [])),
        known.client_id,
        known.incarnation,
        known.counter,
        row is not None,
        0 if row is None else row.stored_ms,
        None if row is None or row.content is None else decode_logged(row.content),
    )


@dataclass(frozen=True, slots=True)
class Automatic:
    """The settings by which topics change places by themselves (R15).

    Attributes:
        window_s: seconds over which events are counted; 0: they do not.
        alpha: the greater, the fewer events make a topic popular.
        beta: how much more popular a topic must be to change places.
    """

    window_s: float = 0.0
    alpha: float = 0.1
    beta: float = 0.2

    @property
    def is_on(self) -> bool:
        """Tell whether topics change places by themselves."""
        return self.window_s > 0


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state of a worker that answers.

    Attributes:
        owner: one process start of it, as the store names it; name: what it was told to be called.
        address: where it was asked.
        stages: that it has.
        pins: the only stages that it may have, by its settings or because they were moved to it; none: any.
        is_drained: it takes no stage until it is started again or told so.
    """

    owner: str
    name: str
    address: str
    stages: tuple[int, ...]
    pins: tuple[int, ...]
    is_drained: bool
