"""The frames that workers send to clients."""

from __future__ import annotations

from inorder.protocol.wire.frame import Frame
from inorder.protocol.wire.parts import (
    MAX_FRAME_BYTES,
    Access,
    ClientCounts,
    ClientReport,
    KnownNumber,
    KnownSubscription,
    LoggedEvent,
    LogRule,
    NumberAnswer,
    OpenNumbers,
    Position,
    SeenLife,
    SharedBase,
    SpaceFilter,
    StageInfo,
    StampedEvent,
    TopicFigures,
    TopicInfo,
    TopicStart,
)


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
    """Answers Resolve and NameTopics; ids that no topic has are left out. Stages are those of ``order_epoch``.
    ``last``: to NameTopics, the highest id that a topic ever had; one up to there that is left out has ended."""

    request: int
    topics: list[TopicInfo]
    order_epoch: int = 1
    last: int = 0


class Timestamps(Frame, tag=34):
    """Answers CreateTimestamps, in the order of completion. ``forgotten``: counters that will never be numbered.
    ``abandoned``: counters whose number was given up (R16), as flat triples ``counter, topic, number``. ``refused``:
    counters that get no number, because the session has as many open as its token allows, or, where ``owned`` is not 0,
    because all sessions of its token's name have, which may be so many. ``tops``: of those events
    whose timestamp went above their topic's stage, flat pairs ``counter, stage``: the highest that it visited; for
    traces, and left out where the stage does not know it any more. ``ticks``: of timestamps that have some, each
    with its counter in front (R23)."""

    stage: int
    epoch: int
    events: list[StampedEvent]
    forgotten: list[int] = []
    abandoned: list[int] = []
    refused: list[int] = []
    tops: list[int] = []
    ticks: list[tuple[int, ...]] = []
    owned: int = 0


class Settled(Frame, tag=35):
    """Answers Settle once it is durable. ``late``: flat pairs ``topic, number`` already abandoned (R16)."""

    stage: int
    epoch: int
    request: int
    late: list[int] = []


class Subscribed(Frame, tag=36):
    """Answers Subscribe: every topic of the subscription, with its start; bases only where it is new. ``more``: the
    rest follows in further frames of this version. ``left``: the topics that the change has left, each with the number
    up to which its events are still to be read (R22). ``reached``: of a durable subscription, the order epoch and the
    ticks that were saved (R23). ``bases``: beside those of single topics."""

    version: int
    topics: list[TopicStart]
    more: bool = False
    left: list[TopicStart] = []
    reached: list[int] = []
    bases: list[SharedBase] = []


class Numbers(Frame, tag=37):
    """Answers AskNumbers; with ``request`` 0 it is unasked, and these numbers of one of the receiver's topics are void.
    ``expired_through``: numbers up to there are no longer known one by one. ``logged_from``: the event log has the
    topic's numbers from there on (R18); 0: it has none."""

    request: int
    topic: int
    answers: list[NumberAnswer]
    expired_through: int = 0
    logged_from: int = 0


class Heads(Frame, tag=38):
    """Tells the highest confirmed numbers of topics of the receiver's subscription: flat pairs (R17). ``ends``: the
    last numbers of topics that end, flat pairs; who has read so far says so (:class:`SaveClock`). ``ended``: topics
    that all of their readers have read to the end: nothing more is known of these."""

    heads: list[int]
    ends: list[int] = []
    ended: list[int] = []


class ClusterMap(Frame, tag=39):
    """Tells which worker processes which stage, after a change; ``stages`` and ``workers`` as in Welcome."""

    stages: list[StageInfo]
    workers: list[str] = []


class Renewed(Frame, tag=40):
    """Answers Renew, once the store has confirmed after its arrival that the stages are this worker's: flat pairs
    ``stage, epoch`` (R12)."""

    request: int
    stages: list[int]


class Opened(Frame, tag=41):
    """Tells that a stage knows of the client's connection (R12); one for each stage of the worker, after the Welcome.

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
    """Tells that the topic order changed (R14): unanswered requests must be planned anew and asked again.

    Attributes:
        stage, epoch: who says so.
        order_epoch: of the order that this stage is in.
        since, homes: all topics that came to another stage after the order epoch ``since``; flat pairs ``topic,
            stage``.
        ended: requests of these topics were refused, for they end or have ended: their names are to be asked for once
            more. So were all requests of the session from the counter ``first`` on, until its frames tell this number
            of ``refusals``.
    """

    stage: int
    epoch: int
    order_epoch: int
    since: int
    homes: list[int]
    ended: list[int] = []
    refusals: int = 0
    first: int = 0


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
    """The present positions of this worker's journals: a client keeps the last one of each stage, and shows it with its
    next hellos. A worker whose store is an older copy finds that out by it."""

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

    request: int
    window_ms: int
    alpha: float
    beta: float


class WorkerShown(Frame, tag=91):
    """Answers ShowWorker. ``stages``: that it has; ``pins``: the only ones that it may have, if there are any."""

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
    """Answers ReleaseNumbers: the changed numbers as flat pairs ``first, last``. ``refusal`` says why none did."""

    request: int
    topic: int
    numbers: list[int]
    refusal: str = ""


class TopicsShown(Frame, tag=86):
    """Answers ShowTopics. ``behind``: whoever wants more asks behind this id; 0: that was all."""

    request: int
    topics: list[TopicFigures]
    behind: int = 0


class OpenNumbersFound(Frame, tag=87):
    """Answers ShowOpenNumbers, by topic and number. ``riding``: timestamps on their way that another stage has not
    taken yet, as flat triples ``topic, number, stage``. ``more``: the rest follows in further frames."""

    request: int
    numbers: list[OpenNumbers]
    riding: list[int]
    more: bool = False


class NumberFound(Frame, tag=88):
    """Answers FindNumber; ``None``: the topic never had it."""

    request: int
    known: KnownNumber | None


class EventFound(Frame, tag=89):
    """Answers FindEvent. ``number`` 0: it is not among the topics up to ``behind``; whoever wants more asks behind that
    id; 0: that was all."""

    request: int
    topic: int = 0
    number: int = 0
    behind: int = 0


class Logs(Frame, tag=82):
    """Answers ShowLogs: the rules (not behind a topic), and the topics that have a log by them. ``behind``: whoever
    wants more asks behind this id; 0: that was all."""

    request: int
    rules: list[LogRule]
    topics: list[TopicInfo]
    behind: int = 0


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
