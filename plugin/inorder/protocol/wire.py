"""The frames between clients and workers (docs/PROTOCOL.md describes each byte).

A frame on the wire is a length (4 bytes, big-endian) and a MessagePack array whose first element is the frame's
tag. Timestamps travel as flat lists ``[topic, number, topic, number, ...]``, topics as cluster-wide ids. Counters
belong to the session (client id, incarnation) of the connection.

Rules of evolution: tags are never used again; new fields are appended with defaults; a peer ignores elements it
does not know. ``PROTOCOL_VERSIONS`` is the range this code speaks: the present version and the one before it. A frame
that the older one does not have says so in ``from_version``, and is not sent to a peer that speaks the older one; what
is said to it instead is up to who sends it. (docs/PROTOCOL.md, "Versions", says when the version rises.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import ClassVar, Final

import msgspec

from inorder.errors import ProtocolError
from inorder.protocol.names import Filter

PROTOCOL_VERSIONS: Final = (1, 2)
HEADER_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
MAX_NUMBER: Final = 2**63 - 1
ENDED_KEPT_MS: Final = 3_600_000
"""How long stages know which sessions they have dropped."""


class NumberState(IntEnum):
    """What a topic manager knows of one number (DESIGN, "Vocabulary")."""

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
    """Which worker processes a stage. ``address`` is the ``host:port`` that it advertises, empty for the answering
    worker itself. A stage that no worker has had yet has epoch 0."""

    stage: int
    epoch: int
    address: str


class Position(msgspec.Struct, frozen=True, array_like=True):
    """How far the journal of a stage was, by a worker's word: it had this row in this epoch. ``life``: of the worker's
    process; ``code`` proves to workers of the same store that one of them has said so, and is opaque to others."""

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
        relies: flat pairs: of each stage above the one it enters that adds to ``after``, or to that of an unanswered
            request before it, the lowest counter of this publisher that it has to know for that (R19); of the one it
            enters, if it is asked again, the lowest one that is unanswered too. Stages above its topic's own are among
            them where unanswered requests before it are created: its timestamp passes these, too.
    """

    counter: int
    topic: int
    after: list[int] = []
    content: bytes | None = None
    relies: list[int] = []


class StampedEvent(msgspec.Struct, array_like=True, gc=False):
    """A complete timestamp: own number and dependencies (flat), and the envelope form that the topic needs."""

    counter: int
    topic: int
    number: int
    deps: list[int]
    in_payload: bool = False


class TopicStart(msgspec.Struct, array_like=True):
    """Where a subscription begins in one topic (R7, R8): the last number before it, and the base (flat) that
    counts as dependencies of the first event after it.

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
    """What became of one number; never merged over a range, because each carries its own dependencies (R17).
    ``logged``: the event log has it (R18)."""

    number: int
    state: NumberState
    deps: list[int] = []
    logged: bool = False


class LogRule(msgspec.Struct, frozen=True, array_like=True):
    """Topics with an event log (R18), and what it keeps of each; of several rules for one topic the widest bounds.

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
        """Tell whether a topic has a log by this rule."""
        return self.space == space and self.filter.covers(name)


class LoggedEvent(msgspec.Struct, array_like=True, gc=False):
    """An event from the log (R18): its number, when it was stored (ms since 1970, by the worker's clock), its
    dependencies (flat), and what was published, ``None`` where the publisher did not send that."""

    number: int
    stored_ms: int
    deps: list[int]
    content: bytes | None


class Logged(msgspec.Struct, array_like=True, gc=False):
    """What was published, as the content of a request and of a logged event (R18)."""

    payload: bytes
    qos: int = 0
    properties: list[tuple[str, str]] = []


class ClientCounts(msgspec.Struct, array_like=True, frozen=True):
    """What a client has seen since it was made; those from ``waiting`` to ``pending`` are of now.

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
        after_gap: of the late ones, those that came after a gap had told of them; older clients never tell.
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
    """What one client saw of one event; times are µs since 1970 by the client's clock.

    Attributes:
        topic, number: which event.
        times: of its publisher: published, got the timestamp, accepted by the broker; of a subscriber: arrived from the
            broker, notified.
        verdict: of a subscriber; empty from the publisher.
        waited_topic, waited_number: the number that it waited for last, 0 where it waited for none.
    """

    topic: int
    number: int
    times: list[int]
    verdict: str = ""
    waited_topic: int = 0
    waited_number: int = 0


class SeenLife(msgspec.Struct, array_like=True, frozen=True):
    """A life as the worker keeps it: whose, and what to add to its times for the worker's clock, with the bound of the
    error of that (µs); -1: not known."""

    client_id: str
    offset_us: int
    error_us: int
    life: EventLife


class Wait(msgspec.Struct, array_like=True, frozen=True):
    """What holds events up at a client.

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
    """The last report of a client that is connected, and how long ago it came. ``waits``: as it was then."""

    client_id: str
    age_ms: int
    counts: ClientCounts
    offset_us: int
    error_us: int
    waits: list[Wait] = []


class Access(msgspec.Struct, frozen=True, array_like=True):
    """What the token of a connection allows.

    Attributes:
        role: client, viewer, operator or admin.
        publish, subscribe: ``space:filter`` of the topics that may be published to and subscribed to; ``None``: all.
        max_unconfirmed: numbers that the session may have open; what is asked for beyond is refused. 0: no bound.
        max_topics, max_subscriptions: what the tokens of its name may make, and have of durable ones. 0: no bound.
    """

    role: str = "admin"
    publish: list[str] | None = None
    subscribe: list[str] | None = None
    max_unconfirmed: int = 0
    max_topics: int = 0
    max_subscriptions: int = 0


class TopicFigures(msgspec.Struct, array_like=True, gc=False):
    """A topic as its home knows it now.

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
    """Numbers of one topic that follow one another and hold up who waits for them, all for the same reason.

    Attributes:
        topic, first, last: the numbers.
        state: ``PENDING``, or what was decided of one whose timestamp is not complete.
        is_complete: its timestamp is.
        client_id: whose event it is; ``away_ms``: how long that client has been gone, 0 while it is connected, -1 where
            its session has ended.
        age_ms: how long ago the first was issued, or came to this stage (R14).
        logged: the event log has them (R18).
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


class KnownNumber(msgspec.Struct, array_like=True, gc=False):
    """What a topic's home knows of one number. ``deps``: flat, ``None`` while its timestamp is not complete. Of an
    expired one only that (no client, counter 0)."""

    state: NumberState
    deps: list[int] | None = None
    client_id: str = ""
    incarnation: int = 0
    counter: int = 0
    logged: bool = False
    age_ms: int = -1


class Frame(msgspec.Struct, array_like=True):
    """Base of all frames. ``from_version``: the first protocol version that has it."""

    from_version: ClassVar[int] = 1


# -- both ways -------------------------------------------------------------------------------------------------


class Ping(Frame, tag=1):
    """Asks for a Pong with the same ``nonce``."""

    nonce: int = 0


class Pong(Frame, tag=2):
    """Answers a Ping, after everything that was sent before it."""

    nonce: int = 0


class Failure(Frame, tag=3):
    """The sender closes the connection after this; ``code`` is one of ``FAILURE_CODES``."""

    code: str
    message: str
    facts: list[int] = []


FAILURE_CODES: Final = (
    "unauthorized", "version", "protocol", "replaced", "stopping", "store", "too_large", "domain", "fenced", "moved",
    "forbidden", "full",
)  # fmt: skip


# -- client to worker ------------------------------------------------------------------------------------------


class Hello(Frame, tag=16):
    """First frame of a client. ``incarnation``: 64 random bits of this process start, as a signed number. ``asked``:
    flat pairs ``stage, counter``, the highest that each stage was asked for on earlier connections; where the session
    is forgotten, these and lower ones are never numbered (R1). ``asked_epoch``: the order epoch in which the oldest
    open request was made; where topics came to the stage since, what was asked of others counts as well (R14).
    ``recent``: the lowest counter that was asked for only in the last ten minutes; a stage that has not dropped the
    session knows that it has not, and forgets nothing from there on. 0: not told. ``positions``: the last one of each
    stage that the client was told in this domain.
    """

    lowest_version: int
    highest_version: int
    token: str
    client_id: str
    incarnation: int
    agent: str = ""
    asked: list[int] = []
    asked_epoch: int = 1
    recent: int = 0
    positions: list[Position] = []


class Resolve(Frame, tag=17):
    """Asks for the ids of topics by (space, name); unknown ones are created (R13)."""

    request: int
    topics: list[tuple[str, str]]


class NameTopics(Frame, tag=18):
    """Asks which topics have these ids."""

    request: int
    ids: list[int]


class CreateTimestamps(Frame, tag=19):
    """Asks stage ``stage`` for timestamps. ``low``: the lowest counter the client still cares about there.
    ``order_epoch``: the topic order that the requests were planned for; of an older one they are not taken (R14)."""

    stage: int
    low: int
    events: list[NewEvent]
    order_epoch: int = 1


class Settle(Frame, tag=20):
    """Tells a stage what became of numbers it issued (R16): flat triples ``topic, first, last``. ``abandoned``: the
    broker may have been given them, and nobody will ever know what became of them."""

    stage: int
    request: int
    confirmed: list[int]
    void: list[int] = []
    abandoned: list[int] = []


class Subscribe(Frame, tag=21):
    """The whole new subscription of a client (R7, R11): one change is outstanding at a time, versions rise.

    ``bounded``: this client may take events out of turn (R6), so timestamps must stay full for it (R21). ``durable``:
    the subscription stays, however long the client is away (R12). ``anew``: the client begins anew in topics that it
    has already, and needs the bases of all (R12, R17).
    """

    version: int
    filters: list[SpaceFilter]
    bounded: bool = False
    durable: bool = False
    anew: bool = False


class AskNumbers(Frame, tag=22):
    """Asks a topic's stage what became of numbers: flat pairs ``first, last`` (R17)."""

    request: int
    stage: int
    topic: int
    ranges: list[int]


class AskHeads(Frame, tag=23):
    """Asks for all heads once more (R17): the client learned of topics from another worker than this one."""


class Renew(Frame, tag=24):
    """Asks a worker to show that it still has its stages (R12)."""

    request: int


class ChangeOrder(Frame, tag=25):
    """Changes the topic order (R14).

    ``order_epoch``: what it will be, one more than the present one. ``stages``: topic ids of each stage, highest
    first; topics not named stay in their stage, behind those that are. ``by``: who asks for it, where a control plane
    does so for somebody; the history of the order names him.
    """

    request: int
    order_epoch: int
    stages: list[list[int]]
    by: str = ""


class ShowOrder(Frame, tag=26):
    """Asks for the topic order."""

    request: int


class PinTopics(Frame, tag=27):
    """Keeps topics on their stage, or lets them go again (R15)."""

    request: int
    topics: list[int]
    is_pinned: bool = True


class ReadLog(Frame, tag=64):
    """Asks a topic's stage for events of its log (R18): flat pairs ``first, last``, and stored at ``since_ms`` (ms
    since 1970) or later. The answer holds as many as fit; whoever wants more asks behind its ``through``."""

    request: int
    stage: int
    topic: int
    ranges: list[int]
    since_ms: int = 0


class ChangeLog(Frame, tag=65):
    """Gives topics an event log, or takes it from them with all that it holds (R18); a rule for the same filter takes
    the place of the older one."""

    request: int
    rule: LogRule
    is_on: bool = True


class ShowLogs(Frame, tag=66):
    """Asks which topics have a log."""

    request: int


class SaveClock(Frame, tag=67):
    """Saves a durable subscriber's clock, at the bottom stage (R18): flat pairs ``topic, number`` of topics in which
    the application has asked for what comes after that number."""

    request: int
    numbers: list[int]


class AskDurable(Frame, tag=68):
    """Asks what is left of this client's durable subscription, before it resumes (R18)."""

    request: int


class ShowSubscriptions(Frame, tag=69):
    """Asks which clients have subscriptions."""

    request: int


class EndSubscription(Frame, tag=70):
    """Ends the subscription of a client that is gone, a durable one too (R12)."""

    request: int
    client_id: str


class Report(Frame, tag=96):
    """Tells what a client has seen: for operators; nothing decides by it.

    Attributes:
        first: the first report of this client anywhere; else counts before it were told to another worker.
        offset_us, error_us: what to add to the client's clock for the worker's, and the bound of the error; -1: not
            known yet.
        lives: of a sample of events, those of which the mixed bits of topic and number are lowest, so that publishers
            and subscribers choose the same.
        waits: what holds events up for longer than a second, the longest first; not all, where it is much.
    """

    request: int
    first: bool
    counts: ClientCounts
    offset_us: int = 0
    error_us: int = -1
    lives: list[EventLife] = []
    waits: list[Wait] = []


class ShowReports(Frame, tag=97):
    """Asks what clients have reported. ``since_us``: lives that came later, by the worker's clock (µs since 1970);
    with ``topic``: all lives of just this event."""

    request: int
    since_us: int = 0
    topic: int = 0
    number: int = 0


class ReleaseNumbers(Frame, tag=71):
    """Settles pending numbers in place of their publisher, at the topic's stage (R16). ``to``: ``VOID`` or
    ``ABANDONED`` for numbers that nobody should wait for any more, ``CONFIRMED`` for those that the event log has."""

    from_version: ClassVar[int] = 2

    request: int
    stage: int
    topic: int
    first: int
    last: int
    to: NumberState


class ShowTopics(Frame, tag=72):
    """Asks a stage for its topics, in the order of their ids, behind the id ``after``; ``groups``: with their
    sequencing groups. ``only``: these, instead."""

    from_version: ClassVar[int] = 2

    request: int
    stage: int
    after: int = 0
    groups: bool = False
    only: list[int] = []


class ShowOpenNumbers(Frame, tag=73):
    """Asks a stage for numbers that are open for longer than ``older_ms``."""

    from_version: ClassVar[int] = 2

    request: int
    stage: int
    older_ms: int = 1_000


class FindNumber(Frame, tag=74):
    """Asks a topic's stage for all it knows of a number."""

    from_version: ClassVar[int] = 2

    request: int
    stage: int
    topic: int
    number: int


class FindEvent(Frame, tag=75):
    """Asks a stage which number an event id has there, looking at topics behind the id ``after``."""

    from_version: ClassVar[int] = 2

    request: int
    stage: int
    client_id: str
    incarnation: int
    counter: int
    after: int = 0


class ShowAutomatic(Frame, tag=76):
    """Asks whether topics change places by themselves (R15)."""

    from_version: ClassVar[int] = 2

    request: int


class ChangeAutomatic(Frame, tag=77):
    """Lets topics change places by themselves (R15), or not: ``window_ms`` 0."""

    from_version: ClassVar[int] = 2

    request: int
    window_ms: int
    alpha: float
    beta: float


class ShowWorker(Frame, tag=78):
    """Asks a worker what it is called in the store, and what it may have."""

    from_version: ClassVar[int] = 2

    request: int


class DrainWorker(Frame, tag=79):
    """Lets this very worker hand over all its stages and take none, or take some again: ``is_on`` false."""

    from_version: ClassVar[int] = 2

    request: int
    owner: str
    is_on: bool = True


class MoveStage(Frame, tag=98):
    """Tells a worker which one should have a stage, itself or another."""

    from_version: ClassVar[int] = 2

    request: int
    stage: int
    owner: str


# -- worker to client ------------------------------------------------------------------------------------------


class Welcome(Frame, tag=32):
    """Answers Hello. Times are milliseconds. ``order_epoch``: 0 from a worker without stages; ``stages``: every stage
    of the domain, the top one first; ``address``: what this worker advertises; ``workers``: what all advertise that
    live, those without stages too; ``access``: what the token allows."""

    version: int
    domain: int
    worker: str
    order_epoch: int
    stages: list[StageInfo]
    publisher_grace_ms: int
    max_frame_bytes: int = MAX_FRAME_BYTES
    address: str = ""
    workers: list[str] = []
    access: Access = Access()


class Topics(Frame, tag=33):
    """Answers Resolve and NameTopics; ids that no topic ever had are left out. Stages are those of ``order_epoch``."""

    request: int
    topics: list[TopicInfo]
    order_epoch: int = 1


class Timestamps(Frame, tag=34):
    """Answers CreateTimestamps, in the order of completion. ``forgotten``: counters that will never be numbered.
    ``abandoned``: counters whose number was given up (R16), as flat triples ``counter, topic, number``. ``refused``:
    counters that get no number, because the session has as many open as its token allows. ``tops``: of those events
    whose timestamp went above their topic's stage, flat pairs ``counter, stage``: the highest that it visited; for
    traces, and left out where the stage does not know it any more."""

    stage: int
    epoch: int
    events: list[StampedEvent]
    forgotten: list[int] = []
    abandoned: list[int] = []
    refused: list[int] = []
    tops: list[int] = []


class Settled(Frame, tag=35):
    """Answers Settle once it is durable. ``late``: flat pairs ``topic, number`` already abandoned (R16)."""

    stage: int
    epoch: int
    request: int
    late: list[int] = []


class Subscribed(Frame, tag=36):
    """Answers Subscribe: every topic of the subscription, with its start; bases only where it is new. ``more``: the
    rest follows in further frames of this version."""

    version: int
    topics: list[TopicStart]
    more: bool = False


class Numbers(Frame, tag=37):
    """Answers AskNumbers; with ``request`` 0 nobody has asked, and their publisher has made these numbers of a topic of
    the receiver void. ``expired_through`` with ``expired_base`` (flat): numbers up to there are no longer known one
    by one; the base counts as dependencies of the number after it. ``logged_from``: the event log has the topic's
    numbers from there on (R18); 0: it has none."""

    request: int
    topic: int
    answers: list[NumberAnswer]
    expired_through: int = 0
    expired_base: list[int] = []
    logged_from: int = 0


class Heads(Frame, tag=38):
    """The highest confirmed number of topics of the receiver's subscription: flat pairs (R17)."""

    heads: list[int]


class ClusterMap(Frame, tag=39):
    """Which worker processes which stage now, after a change; ``stages`` and ``workers`` as in Welcome."""

    stages: list[StageInfo]
    workers: list[str] = []


class Renewed(Frame, tag=40):
    """Answers Renew, once the store has confirmed after its arrival that the stages are this worker's: flat pairs
    ``stage, epoch`` (R12)."""

    request: int
    stages: list[int]


class Opened(Frame, tag=41):
    """A stage has taken note that the client is connected (R12); one for each stage of the worker, after the Welcome.

    Attributes:
        stage, epoch: who says so.
        known: the stage still had this session; else it has forgotten its requests (R1) and its last events (R19).
        version: of this session's subscription there, 0 if there is none (any more).
        session_timeout_ms: how long the client may be gone before its subscription ends.
    """

    stage: int
    epoch: int
    known: bool
    version: int
    session_timeout_ms: int


class Moved(Frame, tag=42):
    """The topic order changed (R14): what is not answered must be planned anew and asked again.

    Attributes:
        stage, epoch: who says so.
        order_epoch: of the order that this stage is in.
        since, homes: all topics that came to another stage after the order epoch ``since``; flat pairs ``topic,
            stage``.
    """

    stage: int
    epoch: int
    order_epoch: int
    since: int
    homes: list[int]


class TopicOrder(Frame, tag=43):
    """Answers ShowOrder: topics from the highest on. ``more``: the rest follows in further frames."""

    request: int
    order_epoch: int
    stages: int
    topics: list[TopicInfo]
    pinned: list[int]
    more: bool = False

    def by_stage(self) -> list[list[TopicInfo]]:
        """Return the topics of each stage, the top one first."""
        found: list[list[TopicInfo]] = [[] for _ in range(self.stages)]
        for each in self.topics:
            found[each.stage].append(each)
        return found


class OrderChanged(Frame, tag=44):
    """Answers ChangeOrder and PinTopics when it is done. ``refusal`` says why not, if it was not."""

    request: int
    order_epoch: int
    refusal: str = ""


class Positions(Frame, tag=45):
    """How far the journals of this worker's stages are, once in a while: a client keeps the last one of each stage, and
    shows it with its next hellos. A worker whose store is an older copy finds that out by it."""

    from_version: ClassVar[int] = 2

    positions: list[Position]


class LoggedEvents(Frame, tag=80):
    """Answers ReadLog.

    Attributes:
        ranges: what was asked for.
        through: how far the answer goes.
        events: what was found, by number; what was asked for, up to ``through``, and is not here is not in the log.
        first, last: the lowest and the highest number of the topic that the log has, 0 where it has none.
        refusal: why there is no answer.
    """

    request: int
    topic: int
    ranges: list[int]
    through: int
    events: list[LoggedEvent]
    first: int
    last: int
    refusal: str = ""


class Done(Frame, tag=81):
    """Answers ChangeLog, SaveClock and EndSubscription. ``refusal`` says why it was not done, if it was not."""

    request: int
    refusal: str = ""


class AutomaticShown(Frame, tag=90):
    """Answers ShowAutomatic: events are counted over ``window_ms``, 0 for never; see the settings of these names."""

    from_version: ClassVar[int] = 2

    request: int
    window_ms: int
    alpha: float
    beta: float


class WorkerShown(Frame, tag=91):
    """Answers ShowWorker. ``stages``: that it has; ``pins``: the only ones that it may have, if there are any."""

    from_version: ClassVar[int] = 2

    request: int
    owner: str
    name: str
    stages: list[int]
    pins: list[int]
    is_drained: bool


class Durable(Frame, tag=83):
    """Answers AskDurable; no filters: there is nothing to resume."""

    request: int
    filters: list[SpaceFilter]


class Subscriptions(Frame, tag=84):
    """Answers ShowSubscriptions. ``more``: the rest follows in further frames."""

    request: int
    subscriptions: list[KnownSubscription]
    more: bool = False


class Released(Frame, tag=85):
    """Answers ReleaseNumbers: the numbers that changed, as flat pairs ``first, last``. ``refusal`` says why none
    did."""

    from_version: ClassVar[int] = 2

    request: int
    topic: int
    numbers: list[int]
    refusal: str = ""


class TopicsShown(Frame, tag=86):
    """Answers ShowTopics. ``behind``: whoever wants more asks behind this id; 0: that was all."""

    from_version: ClassVar[int] = 2

    request: int
    topics: list[TopicFigures]
    behind: int = 0


class OpenNumbersFound(Frame, tag=87):
    """Answers ShowOpenNumbers, by topic and number. ``riding``: timestamps on their way that another stage has not
    taken yet, as flat triples ``topic, number, stage``. ``more``: the rest follows in further frames."""

    from_version: ClassVar[int] = 2

    request: int
    numbers: list[OpenNumbers]
    riding: list[int]
    more: bool = False


class NumberFound(Frame, tag=88):
    """Answers FindNumber; ``None``: the topic never had it."""

    from_version: ClassVar[int] = 2

    request: int
    known: KnownNumber | None


class EventFound(Frame, tag=89):
    """Answers FindEvent. ``number`` 0: it is not among the topics up to ``behind``; whoever wants more asks behind that
    id; 0: that was all."""

    from_version: ClassVar[int] = 2

    request: int
    topic: int = 0
    number: int = 0
    behind: int = 0


class Logs(Frame, tag=82):
    """Answers ShowLogs: the rules, and the topics that have a log by them now. ``more``: the rest of these follows in
    further frames."""

    request: int
    rules: list[LogRule]
    topics: list[TopicInfo]
    more: bool = False


class Reported(Frame, tag=112):
    """Answers Report at once; ``at_us``: the worker's clock, µs since 1970."""

    request: int
    at_us: int


class Reports(Frame, tag=113):
    """Answers ShowReports.

    Attributes:
        at_us: the worker's clock, µs since 1970.
        since_us: from when on ``totals`` count.
        totals: sums over all clients, also of those that are gone.
        clients: the last reports of those that are connected.
        lives: oldest first.
    """

    request: int
    at_us: int
    since_us: int
    totals: ClientCounts
    clients: list[ClientReport]
    lives: list[SeenLife]


ClientFrame = (
    Ping
    | Pong
    | Failure
    | Hello
    | Resolve
    | NameTopics
    | CreateTimestamps
    | Settle
    | Subscribe
    | AskNumbers
    | AskHeads
    | Renew
    | ChangeOrder
    | ShowOrder
    | PinTopics
    | ReadLog
    | ChangeLog
    | ShowLogs
    | SaveClock
    | AskDurable
    | ShowSubscriptions
    | EndSubscription
    | ReleaseNumbers
    | ShowTopics
    | ShowOpenNumbers
    | FindNumber
    | FindEvent
    | Report
    | ShowReports
    | ShowAutomatic
    | ChangeAutomatic
    | ShowWorker
    | DrainWorker
    | MoveStage
)
WorkerFrame = (
    Ping
    | Pong
    | Failure
    | Welcome
    | Topics
    | Timestamps
    | Settled
    | Subscribed
    | Numbers
    | Heads
    | ClusterMap
    | Renewed
    | Opened
    | Moved
    | TopicOrder
    | OrderChanged
    | Positions
    | LoggedEvents
    | Done
    | Logs
    | Durable
    | Subscriptions
    | Released
    | TopicsShown
    | OpenNumbersFound
    | NumberFound
    | EventFound
    | Reported
    | Reports
    | AutomaticShown
    | WorkerShown
)


def _plain(value: object) -> bytes | str | int:
    """Return the plain value of an application's own kind of bytes, text or int, say of a ``str`` that is a topic."""
    if isinstance(value, bytes):
        return bytes(memoryview(value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    raise TypeError(f"{type(value).__name__} cannot be in a frame")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_client_decoder: msgspec.msgpack.Decoder[ClientFrame] = msgspec.msgpack.Decoder(ClientFrame)
_logged_decoder: msgspec.msgpack.Decoder[Logged] = msgspec.msgpack.Decoder(Logged)
_worker_decoder: msgspec.msgpack.Decoder[WorkerFrame] = msgspec.msgpack.Decoder(WorkerFrame)


UNREADABLE: Final = (msgspec.DecodeError, RecursionError)
"""What decoding raises for bytes that are none of ours; the second where they are nested without an end."""


def known_to(version: int, frames: Iterable[Frame]) -> list[Frame]:
    """Return the frames that a peer of this protocol version has."""
    return [each for each in frames if each.from_version <= version]


def encode_frame(frame: Frame) -> bytes:
    """Return the frame with its length in front."""
    body = _encoder.encode(frame)
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def decode_client_frame(body: bytes | bytearray | memoryview) -> ClientFrame:
    """Decode what a client sent (without the length). Raises ProtocolError, also for a number of more than 64 bits with
    the sign: whatever sums, stores or sends it on has room for those only. (Of structures inside of frames the worker
    looks at each.)"""
    try:
        frame = _client_decoder.decode(body)
    except UNREADABLE as error:
        raise ProtocolError(f"not a frame of a client: {error}") from None
    check_numbers(frame)
    return frame


def check_numbers(frame: Frame) -> None:
    """Raise ProtocolError where a number of a frame, or of a list of numbers in it, has more than 64 bits with the
    sign."""
    for name, value in zip(frame.__struct_fields__, msgspec.structs.astuple(frame), strict=True):
        is_list = type(value) is list and value and type(value[0]) is int
        if (is_list and max(value) > MAX_NUMBER) or (type(value) is int and value > MAX_NUMBER):
            raise ProtocolError(f"{name} of {type(frame).__name__} has a number over {MAX_NUMBER}")


def decode_worker_frame(body: bytes | bytearray | memoryview) -> WorkerFrame:
    """Decode what a worker sent (without the length). Raises ProtocolError."""
    try:
        return _worker_decoder.decode(body)
    except UNREADABLE as error:
        raise ProtocolError(f"not a frame of a worker: {error}") from None


def encode_logged(content: Logged) -> bytes:
    """Return what was published as bytes for the event log."""
    return _encoder.encode(content)


def decode_logged(content: bytes) -> Logged | None:
    """Decode what the event log has; ``None`` for what no client of ours has sent."""
    try:
        logged = _logged_decoder.decode(content)
    except UNREADABLE:
        return None
    return logged if 0 <= logged.qos <= 2 else None


class FrameSplitter:
    """Cuts a stream of bytes into frame bodies; keeps what is not whole yet.

    Args:
        max_bytes: a longer frame raises ProtocolError as soon as its length is read, so nobody can make the
            receiver buffer more.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self._pending = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """Yield the bodies that are whole now. Raises ProtocolError, for the frame that is too long: what is made of
        those before it may change ``max_bytes``."""
        pending = self._pending
        pending += data
        start, end = 0, len(pending)
        try:
            while end - start >= HEADER_BYTES:
                length = int.from_bytes(pending[start : start + HEADER_BYTES], "big")
                if length > self.max_bytes:
                    raise ProtocolError(f"a frame of {length} bytes is over the limit of {self.max_bytes}")
                if end - start - HEADER_BYTES < length:
                    break
                start += HEADER_BYTES + length
                yield bytes(pending[start - length : start])
        finally:
            del pending[:start]
