"""The parts of frames: topics, events, numbers, and the facts that operators see of them."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from inorder.protocol.names import Filter

T = TypeVar("T")

PROTOCOL_VERSIONS: Final = (1, 1)
HEADER_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
MAX_NUMBER: Final = 2**63 - 1
MAX_LISTED: Final = 4_096
"""Things that a client lists in one frame: a frame of some MB has room for millions, each of which costs the worker, at
its decoding alone, many times the bytes."""
MAX_EVENTS: Final = 512
"""Events in one request for timestamps: with very many groups of readers each of them costs milliseconds, and nobody
else has a turn in between."""
MAX_RANGES: Final = 4 * MAX_LISTED
"""Numbers in a list of ranges that a client tells, or asks for."""
MAX_FLAT: Final = 262_144
"""Numbers in any other list: pairs of topics with their numbers, and ids of topics."""
FlatList: TypeAlias = Annotated[list[int], msgspec.Meta(max_length=MAX_FLAT)]
RangesList: TypeAlias = Annotated[list[int], msgspec.Meta(max_length=MAX_RANGES)]
Listed: TypeAlias = Annotated[list[T], msgspec.Meta(max_length=MAX_LISTED)]
ENDED_KEPT_MS: Final = 3_600_000
"""How long stages know which sessions they have dropped."""


class NumberState(IntEnum):
    """A topic manager's knowledge of one number (DESIGN, "Vocabulary")."""

    PENDING = 0
    CONFIRMED = 1
    VOID = 2
    ABANDONED = 3
    EXPIRED = 4
    UNKNOWN = 5
    """Never issued by this topic manager: the asker got it from a damaged or foreign stamp."""


class TopicInfo(msgspec.Struct, frozen=True, array_like=True):
    """A topic as the whole cluster knows it. ``stage`` is the index of its stage, 0 at the top; ``logged``: requests
    for its timestamps carry what is published, for the event log (R18)."""

    id: int
    space: str
    name: str
    stage: int
    logged: bool = False

    @property
    def label(self) -> str:
        """Space and name, as people write a topic."""
        return f"{self.space}:{self.name}"


class StageInfo(msgspec.Struct, frozen=True, array_like=True):
    """The worker that processes a stage. ``address`` is the ``host:port`` that it advertises, empty for the answering
    worker itself. A stage that no worker has had yet has epoch 0."""

    stage: int
    epoch: int
    address: str


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The furthest row of a stage's journal by a worker's word, with its epoch. ``life``: of the worker's process;
    ``code`` proves to workers of the same store that one of them has said so, and is opaque to others."""

    stage: int
    epoch: int
    row: int
    life: int
    code: bytes


class SpaceFilter(msgspec.Struct, frozen=True, array_like=True):
    """A filter in its space. ``reads_properties``: the subscriber can read stamps beside the payload there. ``qos``: of
    a durable subscription, as its client subscribed at the broker (R18)."""

    space: str
    filter: Filter
    reads_properties: bool = True
    qos: int = 0


class NewEvent(msgspec.Struct, array_like=True, gc=False):
    """One ``CreateTimestamp(event id, T)`` of R1.

    Attributes:
        counter: the event id within the session, rising.
        topic: its topic's id.
        after: flat list of the publisher's last events in topics of stages that this request does not pass
            (R19); those of stages it passes are added there.
        content: what is published, for the event log of its topic (R18); ``None``: not for the log. Empty in a
            worker's journal, where it stands beside the request (see :mod:`inorder_worker.sequencer.event_log`).
        required: flat pairs: of each stage above the one it enters that adds to ``after``, or to that of an unanswered
            request before it, the lowest counter of this publisher that it has to know for that (R19); of the one it
            enters, if it is asked again, the lowest one that is unanswered too. Stages above its topic's own are among
            them where unanswered requests before it are created: its timestamp passes these, too.
    """

    counter: int
    topic: int
    after: FlatList = []
    content: bytes | None = None
    required: FlatList = []


class StampedEvent(msgspec.Struct, array_like=True, gc=False):
    """A complete timestamp: own number and dependencies (flat), and the envelope form that the topic needs."""

    counter: int
    topic: int
    number: int
    deps: list[int]
    in_payload: bool = False


class TopicStart(msgspec.Struct, array_like=True):
    """The beginning of a subscription in one topic (R7, R8): the last number before it, and the base (flat), the
    dependencies of the first event behind.

    Of a durable subscription that resumes (R18) also:

    Attributes:
        saved: the clock that was saved; numbers from there to ``start`` are gone. -1: it does not resume.
        repeats: numbers up to this one may have been notified of before.
        reached: the topic's last number now.
    """

    topic: TopicInfo
    start: int
    base: list[int]
    saved: int = -1
    repeats: int = 0
    reached: int = 0


class SharedBase(msgspec.Struct, array_like=True):
    """The common base of topics that begin together: the first event of each also depends on these numbers of topics
    that the subscriber has already (flat pairs; R8)."""

    topics: list[int]
    numbers: list[int]


class KnownSubscription(msgspec.Struct, array_like=True):
    """A client's subscription with total order, as the bottom stage knows it. ``away_ms``: how long its client has been
    gone, 0 while it is connected, -1 where its session has ended. ``owner``: the name of the token that it is of,
    empty for none."""

    client_id: str
    durable: bool
    away_ms: int
    filters: list[SpaceFilter]
    topics: int
    owner: str = ""


class NumberAnswer(msgspec.Struct, array_like=True, gc=False):
    """The outcome of one number; never merged over a range, because each number has its own dependencies (R17).
    ``logged``: the event log has it (R18). ``ticks``: of its timestamp (R23)."""

    number: int
    state: NumberState
    deps: list[int] = []
    logged: bool = False
    ticks: tuple[int, ...] = ()


class LogRule(msgspec.Struct, frozen=True, array_like=True):
    """A rule that gives topics an event log (R18); a topic with several rules has the widest bounds.

    Attributes:
        space, filter: which topics.
        max_age_ms, max_count, max_bytes: what is older or more is forgotten, the oldest first; 0: no such bound.
    """

    space: str
    filter: Filter
    max_age_ms: int = 0
    max_count: int = 0
    max_bytes: int = 0

    def covers(self, space: str, name: str) -> bool:
        """Tell whether the rule gives a topic a log."""
        return self.space == space and self.filter.covers(name)


class LoggedEvent(msgspec.Struct, array_like=True, gc=False):
    """An event from the log (R18). It was stored at ``stored_ms`` (since 1970, by the worker's clock); ``deps``: flat;
    ``content``: ``None`` if its publisher did not send that; ``ticks``: of its timestamp (R23)."""

    number: int
    stored_ms: int
    deps: list[int]
    content: bytes | None
    ticks: tuple[int, ...] = ()


class Logged(msgspec.Struct, array_like=True, gc=False):
    """A published event's content in a request and in a logged event (R18)."""

    payload: bytes
    qos: int = 0
    properties: list[tuple[str, str]] = []


class ClientCounts(msgspec.Struct, array_like=True, frozen=True):
    """A client's counters since its start; those from ``waiting`` to ``pending`` are of now.

    Attributes:
        published: events that brokers accepted, with a number.
        in_order, late, other: notified of, by verdict.
        duplicates: dropped.
        gaps, missed: gaps reported, and the numbers in them.
        voids: numbers skipped without report.
        repaired: came from event logs.
        overflow: given up at a limit.
        late_confirms: of its numbers, those that were abandoned before it confirmed them.
        waiting, waiting_bytes: events that wait for their turn.
        undelivered: notifications that the application has not taken.
        pending: publishes that are not finished.
        after_gap: of the late ones, those that came after a gap had told of them.
    """

    published: int = 0
    in_order: int = 0
    late: int = 0
    other: int = 0
    duplicates: int = 0
    gaps: int = 0
    missed: int = 0
    voids: int = 0
    repaired: int = 0
    overflow: int = 0
    late_confirms: int = 0
    waiting: int = 0
    waiting_bytes: int = 0
    undelivered: int = 0
    pending: int = 0
    after_gap: int = 0


class EventLife(msgspec.Struct, array_like=True, frozen=True):
    """One client's observations of one event; times are µs since 1970 by the client's clock.

    Attributes:
        topic, number: which event.
        times: of its publisher: published, got the timestamp, accepted by the broker; of a subscriber: arrived from the
            broker, notified.
        verdict: of a subscriber; empty from the publisher.
        waited_topic, waited_number: the number that it waited for last, 0 where it waited for none.
    """

    topic: int
    number: int
    times: Listed[int]
    verdict: str = ""
    waited_topic: int = 0
    waited_number: int = 0


class SeenLife(msgspec.Struct, array_like=True, frozen=True):
    """An event's life as the worker keeps it: the observer, the offset from its times to the worker's clock, and the
    error bound of that (µs); -1: not known."""

    client_id: str
    offset_us: int
    error_us: int
    life: EventLife


class Wait(msgspec.Struct, array_like=True, frozen=True):
    """The reason why a client holds events up.

    Attributes:
        topic, number: what they wait for; number 0: for the name of that topic.
        first_topic, first_number: the one of them that came first.
        events: how many wait for just this, others for these not counted.
        for_ms: how long the first one has waited.
    """

    topic: int
    number: int
    first_topic: int
    first_number: int
    events: int
    for_ms: int


class ClientReport(msgspec.Struct, array_like=True, frozen=True):
    """The last report of a connected client, and its age. ``waits``: as it was then."""

    client_id: str
    age_ms: int
    counts: ClientCounts
    offset_us: int
    error_us: int
    waits: list[Wait] = []


class Access(msgspec.Struct, frozen=True, array_like=True):
    """The rights of a connection's token.

    Attributes:
        role: client, viewer, operator or admin.
        publish, subscribe: ``space:filter`` of the topics that may be published to and subscribed to; ``None``: all.
        max_unconfirmed: numbers that the session may have open; what is asked for beyond is refused. 0: no bound.
        max_topics, max_subscriptions: what the tokens of its name may make, and have of durable ones. 0: no bound.
        max_owned: numbers that all sessions of the tokens of its name may have open together. 0: no bound.
    """

    role: str = "admin"
    publish: list[str] | None = None
    subscribe: list[str] | None = None
    max_unconfirmed: int = 0
    max_topics: int = 0
    max_subscriptions: int = 0
    max_owned: int = 0


class TopicFigures(msgspec.Struct, array_like=True, gc=False):
    """A topic's figures at its home now.

    Attributes:
        id, space, name, stage: the topic.
        number: its last one; ``head``: the highest confirmed one (R17).
        confirmed, void, abandoned: how many of its numbers became that; ``late`` of the abandoned (and released) ones
            were confirmed afterwards (R16). ``pending``: how many nothing became of yet.
        logged: it has an event log (R18).
        is_retired: nobody uses it, and only its last number is kept.
        rate: numbers per second, over about the last ten.
        group_size: how many topics are in its sequencing group, and
        group: which (sorted), where that was asked for.
    """

    id: int
    space: str
    name: str
    stage: int
    number: int
    head: int
    confirmed: int
    pending: int
    void: int
    abandoned: int
    late: int
    logged: bool
    is_retired: bool
    rate: float = 0.0
    group_size: int = 0
    group: list[int] = []


class OpenNumbers(msgspec.Struct, array_like=True, gc=False):
    """Consecutive numbers of one topic that are open for the same reason and hold up their subscribers.

    Attributes:
        topic, first, last: the numbers.
        state: ``PENDING``, or what was decided of one whose timestamp is not complete.
        is_complete: its timestamp is.
        client_id: whose event it is; ``away_ms``: how long that client has been gone, 0 while it is connected, -1 where
            its session has ended.
        age_ms: how long ago the first was issued, or came to this stage (R14).
        logged: the event log has them (R18).
        behind: how many newer open numbers of the client, in whatever topics, are not told, because they are too many.
    """

    topic: int
    first: int
    last: int
    state: NumberState
    is_complete: bool
    client_id: str
    away_ms: int
    age_ms: int
    logged: bool
    behind: int = 0


class KnownNumber(msgspec.Struct, array_like=True, gc=False):
    """The knowledge of one number at its topic's home. ``deps``: flat, ``None`` while its timestamp is not complete. Of
    an expired one only that (no client, counter 0)."""

    state: NumberState
    deps: list[int] | None = None
    client_id: str = ""
    incarnation: int = 0
    counter: int = 0
    logged: bool = False
    age_ms: int = -1
