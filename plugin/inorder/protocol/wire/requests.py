"""The frames that clients send to workers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from inorder.protocol.filters import MAX_FILTERS
from inorder.protocol.wire.frame import Frame
from inorder.protocol.wire.parts import (
    MAX_EVENTS,
    ClientCounts,
    EventLife,
    FlatList,
    Listed,
    LogRule,
    NewEvent,
    NumberState,
    Position,
    RangesList,
    SpaceFilter,
    Wait,
)


class Hello(Frame, tag=16):
    """Opens a connection: the first frame of a client. ``incarnation``: 64 random bits of this process start, as a
    signed number. ``asked``: flat pairs ``stage, counter``, the highest that each stage was asked for on earlier
    connections; where the session is forgotten, these and lower ones are never numbered (R1). ``asked_epoch``: the
    order epoch in which the oldest open request was made; where topics came to the stage since, what was asked of
    others counts as well (R14). ``recent``: the lowest counter that was asked for only in the last ten minutes; a stage
    that has not dropped the session knows that it has not, and forgets nothing from there on. 0: not told.
    ``positions``: the last one of each stage that the client was told in this domain."""

    lowest_version: int
    highest_version: int
    token: str
    client_id: str
    incarnation: int
    agent: str = ""
    asked: RangesList = []
    asked_epoch: int = 1
    recent: int = 0
    positions: Listed[Position] = []


class Resolve(Frame, tag=17):
    """Asks for the ids of topics by (space, name); unknown ones are created (R13)."""

    request: int
    topics: Listed[tuple[str, str]]


class NameTopics(Frame, tag=18):
    """Asks which topics have these ids."""

    request: int
    ids: Listed[int]


class CreateTimestamps(Frame, tag=19):
    """Asks stage ``stage`` for timestamps. ``low``: the lowest counter the client still cares about there.
    ``order_epoch``: the topic order that the requests were planned for; of an older one they are not taken (R14).
    ``refusals``: the highest of :class:`Moved` that its client has heard of; -1: it does not know what these are."""

    stage: int
    low: int
    events: Annotated[list[NewEvent], Meta(max_length=MAX_EVENTS)]
    order_epoch: int = 1
    refusals: int = -1


class Settle(Frame, tag=20):
    """Tells a stage the outcome of numbers that it issued (R16): flat triples ``topic, first, last``. ``abandoned``:
    the broker may have been given them, and nobody will ever know what became of them."""

    stage: int
    request: int
    confirmed: RangesList
    void: RangesList = []
    abandoned: RangesList = []


class Subscribe(Frame, tag=21):
    """Sets the whole new subscription of a client (R7, R11): one change is outstanding at a time, versions rise.

    ``bounded``: this client may take events out of turn (R6), so timestamps need ticks for it (R23). ``durable``:
    the subscription stays, however long the client is away (R12). ``anew``: the client begins anew in topics that it
    has already, and needs the bases of all (R12, R17). ``lets_go``: it understands the ends of topics (:class:`Heads`).
    """

    version: int
    filters: Annotated[list[SpaceFilter], Meta(max_length=MAX_FILTERS)]
    bounded: bool = False
    durable: bool = False
    anew: bool = False
    lets_go: bool = False


class AskNumbers(Frame, tag=22):
    """Asks a topic's stage for the outcome of numbers: flat pairs ``first, last`` (R17)."""

    request: int
    stage: int
    topic: int
    ranges: RangesList


class AskHeads(Frame, tag=23):
    """Asks for all heads again (R17), as the client learned of topics from another worker."""


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
    stages: Listed[FlatList]
    by: str = ""


class ShowOrder(Frame, tag=26):
    """Asks for the topic order."""

    request: int


class PinTopics(Frame, tag=27):
    """Keeps topics on their stage, or lets them move again (R15)."""

    request: int
    topics: FlatList
    is_pinned: bool = True


class ReadLog(Frame, tag=64):
    """Asks a topic's stage for events of its log (R18): flat pairs ``first, last``, stored at ``since_ms`` (ms since
    1970) or later. The answer holds as many as fit; whoever wants more asks behind its ``through``."""

    request: int
    stage: int
    topic: int
    ranges: RangesList
    since_ms: int = 0


class ChangeLog(Frame, tag=65):
    """Gives topics an event log, or deletes it (R18); a rule for the same filter replaces the older one."""

    request: int
    rule: LogRule
    is_on: bool = True


class ShowLogs(Frame, tag=66):
    """Asks which topics have a log, by rising id behind ``after``, at most ``limit`` (0: for the rules alone); with
    ``names``: which of these, each space and name, have one."""

    request: int
    after: int = 0
    limit: int = 5_000
    names: Listed[tuple[str, str]] = []


class SaveClock(Frame, tag=67):
    """Saves a durable subscriber's clock at the bottom stage (R18): flat pairs ``topic, number``, each the last event
    that the application has done with. Others say by it that they have read topics to their ends. ``reached``: of a
    client that takes events out of turn, the order epoch and, of each stage, the bottom one first, the highest tick of
    these events (R23)."""

    request: int
    numbers: FlatList
    reached: Listed[int] = []


class AskDurable(Frame, tag=68):
    """Asks for the state of this client's durable subscription, before it resumes (R18)."""

    request: int


class ShowSubscriptions(Frame, tag=69):
    """Asks which clients have subscriptions."""

    request: int


class EndSubscription(Frame, tag=70):
    """Ends the subscription of a client that is gone, a durable one too (R12)."""

    request: int
    client_id: str


class Report(Frame, tag=96):
    """Reports a client's observations, for operators; nothing is decided by it.

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
    lives: Listed[EventLife] = []
    waits: Listed[Wait] = []


class ShowReports(Frame, tag=97):
    """Asks for the reports of clients. ``since_us``: lives that came later, by the worker's clock (µs since 1970); with
    ``topic``: all lives of just this event."""

    request: int
    since_us: int = 0
    topic: int = 0
    number: int = 0


class ReleaseNumbers(Frame, tag=71):
    """Settles pending numbers in place of their publisher, at the topic's stage (R16). ``to``: ``VOID`` or
    ``ABANDONED`` for numbers that nobody should wait for any more, ``CONFIRMED`` for those that the event log has."""

    request: int
    stage: int
    topic: int
    first: int
    last: int
    to: NumberState


class ShowTopics(Frame, tag=72):
    """Asks a stage for its topics by rising id behind ``after``; ``groups``: with their sequencing groups. ``only``:
    these, instead."""

    request: int
    stage: int
    after: int = 0
    groups: bool = False
    only: Listed[int] = []


class ShowOpenNumbers(Frame, tag=73):
    """Asks a stage for numbers open for longer than ``older_ms``."""

    request: int
    stage: int
    older_ms: int = 1_000


class FindNumber(Frame, tag=74):
    """Asks a topic's stage for all it knows of a number."""

    request: int
    stage: int
    topic: int
    number: int


class FindEvent(Frame, tag=75):
    """Asks a stage for the number of an event id, in topics behind the id ``after``."""

    request: int
    stage: int
    client_id: str
    incarnation: int
    counter: int
    after: int = 0


class ShowAutomatic(Frame, tag=76):
    """Asks whether topics change places by themselves (R15)."""

    request: int


class ChangeAutomatic(Frame, tag=77):
    """Lets topics change places by themselves (R15), or not (``window_ms`` 0)."""

    request: int
    window_ms: int
    alpha: float
    beta: float


class ShowWorker(Frame, tag=78):
    """Asks a worker for its name in the store and the stages it may have."""

    request: int


class DrainWorker(Frame, tag=79):
    """Makes a worker hand over all its stages and take none, or take some again (``is_on`` false)."""

    request: int
    owner: str
    is_on: bool = True


class MoveStage(Frame, tag=98):
    """Tells a worker which worker should have a stage."""

    request: int
    stage: int
    owner: str
