"""The rides: messages of the belt between stages.

Rides go up one stage at a time over numbered FIFO links (R2).
"""

from __future__ import annotations

import msgspec

from inorder.protocol.wire import LogRule, SpaceFilter, TopicInfo
from inorder_worker.sequencer.moved import MovedSession, MovedTopic
from inorder_worker.sequencer.topic_manager import NumberRecord

SessionKey = tuple[str, int]
"""(client id, incarnation)"""


class Ride(msgspec.Struct, array_like=True):
    """Base of all messages between stages."""


class StampRide(Ride, tag=1):
    """A timestamp under construction (R1, R2).

    Attributes:
        client_id, incarnation, counter: the event id.
        entry: the stage that answers the publisher.
        topic: the event's topic.
        home: the stage of ``topic``.
        number: 0 until the home stage creates it (R19: a request may enter below its topic's stage).
        after: publisher-order dependencies collected so far (flat).
        deps: dependencies filled so far (flat).
        top: the last stage to pass; known once the number is created.
        low: counters below it are forgotten at the home stage too.
        again: the number that this event id has got already, where the entry stage knows it; it is asked about.
        content: what is published, on its way to a topic with an event log (R18).
        max_open, owner, max_owned: of its session, at its home.
        required: see :class:`~inorder.protocol.wire.NewEvent`; a stage that does not know that much lets the request go
            no further, and it is answered ``forgotten``.
        since: once it is numbered: the counter of its publisher's event before it in its topic (R19). Stages above that
            it relies on add what came behind that one.
        proves: what its client said of numbers is proved on its way (``claims``).
        is_given_up: a stage could not add what it follows (R19), so it must never be published.
        ticks: from its home on, see ``ticks`` (R23).
    """

    client_id: str
    incarnation: int
    counter: int
    entry: int
    topic: int
    home: int
    number: int
    after: list[int]
    deps: list[int]
    top: int
    in_payload: bool
    low: int = 0
    again: int = 0
    content: bytes | None = None
    max_open: int = 0
    required: list[int] = []
    since: int = 0
    proves: bool = False
    is_given_up: bool = False
    ticks: tuple[int, ...] = ()
    owner: str = ""
    max_owned: int = 0


class CompleteRide(Ride, tag=2):
    """The ride brings a complete timestamp down: the home stage keeps it, and the stage of the entry answers. To a
    request that was made again the home may answer that its number was ``abandoned``, or with the number 0 that the
    counter is forgotten; with -1 it says that the session has too many numbers open, with -2 that all sessions of its
    owner have. To its home a stage above says
    ``abandoned`` if it cannot add what the event follows (R19): it must never be published. ``top``: the highest stage
    that it visited, where that is above its home and known. ``ticks``: all of the timestamp's (R23)."""

    client_id: str
    incarnation: int
    counter: int
    topic: int
    number: int
    deps: list[int]
    in_payload: bool
    entry: int = 0
    abandoned: bool = False
    top: int = -1
    ticks: tuple[int, ...] = ()


class TopicRide(Ride, tag=3):
    """New topics, ahead of their first timestamps (R13)."""

    topics: list[TopicInfo]


class Resumed(msgspec.Struct, array_like=True):
    """The point at which a durable subscription resumes in one topic (R18).

    Attributes:
        start: what is behind it can be had: from the log, or it comes from the broker.
        base: of a start that is not the saved one; ``None`` for the ordinary base of a subscription that begins now.
        repeats: numbers up to this one may have been notified of before.
        reached: the topic's last number.
    """

    topic: int
    start: int
    base: list[int] | None
    repeats: int
    reached: int


class SubscriptionRide(Ride, tag=4):
    """A changed subscription (R7).

    Attributes:
        topics: ids it covers now, resolved at the bottom stage.
        plain: those of them whose stamps this client can read in the payload only.
        fresh: those that are new to the client: it takes their clocks and needs their bases (R8).
        starts: flat pairs, filled stage by stage; of lingering topics too, for the stages above.
        bases: for each fresh topic a flat list, filled stage by stage.
        durable: it stays, however long its client is away (R12).
        saved: flat pairs, the saved clock of a durable subscription that resumes (R18).
        is_new: it resumes in another process, or topics begin anew; else it was only answered before.
        resumed: where it resumes, filled stage by stage.
        owner: see the session.
        left: topics that it leaves; their numbers are among ``starts``, too (R22).
        ticks: of each stage that it has passed, the bottom one first (R23).
        goes_on: its client goes on with the clocks of topics that it has had.
        kept: flat triples, filled stage by stage: such a topic, the topic's last number, and the
            last one before the topic order changed (R8).
        passed: where the events of the ``starts`` passed, see ``telling``.
        lets_go: its client understands the ends of topics.
    """

    client_id: str
    incarnation: int
    version: int
    filters: list[SpaceFilter]
    bounded: bool
    topics: list[int]
    plain: list[int]
    fresh: list[int]
    starts: list[int]
    bases: dict[int, list[int]]
    durable: bool = False
    saved: list[int] = []
    is_new: bool = True
    resumed: list[Resumed] = []
    owner: str = ""
    left: list[int] = []
    ticks: tuple[int, ...] = ()
    goes_on: bool = False
    kept: list[int] = []
    passed: list[int] = []
    lets_go: bool = False


class SubscribedRide(Ride, tag=5):
    """A completed subscription on its way back to the bottom stage, which answers."""

    client_id: str
    incarnation: int
    version: int
    topics: list[int]
    starts: list[int]
    bases: dict[int, list[int]]
    resumed: list[Resumed] = []
    left: list[int] = []
    fresh: list[int] = []
    kept: list[int] = []


class LingerEndRide(Ride, tag=6):
    """The ride ends the linger of all topics that one change of a client's subscription dropped (R10), and that linger
    since just this change (versions begin anew with each incarnation)."""

    client_id: str
    incarnation: int
    version: int


class ExpireRide(Ride, tag=7):
    """The end of a subscription whose client was not heard for ``session_timeout`` (R12); ignored where the client
    has subscribed since."""

    client_id: str
    incarnation: int
    version: int


class TopicsEndRide(Ride, tag=8):
    """Topics have ended: nobody reads them, or all who do have everything. Each stage forgets them."""

    topics: list[int]


class FlushRide(Ride, tag=16):
    """The ride begins a change of the topic order (R14): from then on a stage admits nothing more, and everything older
    is ahead. ``stages``: all topics of each stage in their new order, from the top."""

    order_epoch: int
    stages: list[list[int]]


class MarkRide(Ride, tag=17):
    """The sender has seen the flush: nothing of the old order follows on this link (R14)."""

    order_epoch: int


class SwitchRide(Ride, tag=18):
    """A quiet stage hands over (R14), in one or more rides.

    Attributes:
        numbers: the last number of each topic whose home is here, flat.
        topics, records, sessions: the state of topics that move to the receiver.
        ended: sessions that the sender has dropped, with the highest counter that each knew; ``ended_for``: for how
            long it knows all of them, ms (0: always).
        more: another one follows; behind the last everything is of the new order.
        passed: where the events of the ``numbers`` passed, see ``telling``.
    """

    order_epoch: int
    numbers: list[int] = []
    topics: list[MovedTopic] = []
    records: list[NumberRecord] = []
    sessions: list[MovedSession] = []
    more: bool = False
    ended: list[tuple[str, int, int]] = []
    ended_for: int = 0
    passed: list[int] = []


class OrderRide(Ride, tag=19):
    """The topic order changed inside stages only (R3): all topics, from the top."""

    order_epoch: int
    order: list[int]


class SettleRide(Ride, tag=20):
    """Passes the part of a SettleNumbers about moved topics on to their home (flat triples)."""

    client_id: str
    incarnation: int
    request: int
    confirmed: list[int]
    void: list[int]
    abandoned: list[int] = []


class PopularityRide(Ride, tag=21):
    """The ride collects on its way up how many events each topic had in the window that ends (flat, R15). ``pinned``
    topics stay where they are. ``alpha``, ``beta``: as :class:`Automatic` has them. ``begins``: a window begins, and
    nothing is counted."""

    order_epoch: int
    counts: list[int]
    pinned: list[int]
    alpha: float
    beta: float
    begins: bool = False


class SwapRide(Ride, tag=22):
    """Topic managers propose to change places (R15), to the bottom stage: flat pairs ``higher, lower``."""

    order_epoch: int
    pairs: list[int]


class LogRulesRide(Ride, tag=30):
    """Sets all rules for event logs (R18)."""

    rules: list[LogRule]


AnyRide = (
    StampRide
    | CompleteRide
    | TopicRide
    | SubscriptionRide
    | SubscribedRide
    | LingerEndRide
    | ExpireRide
    | TopicsEndRide
    | FlushRide
    | MarkRide
    | SwitchRide
    | OrderRide
    | SettleRide
    | PopularityRide
    | SwapRide
    | LogRulesRide
)
