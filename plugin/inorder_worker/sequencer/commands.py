"""The inputs of a stage (journaled commands) and its effects.

A command is stepped with the stage's time in milliseconds. Effects leave only after the commit that holds their
command. Rides are the messages of the belt (R2): they go up one stage at a time over numbered FIFO links.
"""

from __future__ import annotations

import msgspec

from inorder.protocol.wire import ENDED_KEPT_MS, Frame, LogRule, NewEvent, NumberState, SpaceFilter, TopicInfo
from inorder_worker.sequencer.lingers import LINGER_WORK
from inorder_worker.sequencer.rides import AnyRide
from inorder_worker.sequencer.topic_manager import ANSWERS_KEPT

# -- commands: into a stage ------------------------------------------------------------------------------------


class Command(msgspec.Struct, array_like=True):
    """Base of all commands."""


class StageSettings(msgspec.Struct, frozen=True, array_like=True):
    """Times (milliseconds) and bounds of a stage; journaled, because replay must see the same ones.

    Attributes:
        linger_ms: how long a dropped topic keeps counting in its subscription (R10).
        publisher_grace_ms: how long a publisher may be gone before its pending numbers are abandoned (R16).
        confirm_timeout_ms: how long a number may be unconfirmed (R16).
        number_retention: how many settled numbers a topic manager remembers one by one.
        session_timeout_ms: how long a client may be gone before its subscription and its session end (R12).
        popularity_window_ms: over which events are counted to reorder topics by themselves (R15); 0: never.
        popularity_alpha, popularity_beta: how fast popularity saturates, and how much more of it makes a topic rise.
        topic_ttl_ms: how long a topic may get no number before it ends or retires, at least ``linger_ms``; 0: never.
        ended_kept_ms: how long a stage knows which sessions it has dropped (R1).
        answers_kept: to how many requests of a session answers are kept that its client does not let go.
        end_work: how much one tick may do to end sessions (R12), in topics of their subscriptions, and to give up
            numbers (R16); 0: any.
        numbers_kept: how many settled numbers all topics of a stage remember together; 0: any.
        number_age_ms: how long a settled number is remembered, about; 0: for ever.
        linger_work: how much one tick may do to end lingers (R10), in subscriptions and topics that it looks at.
    """

    linger_ms: int = 60_000
    publisher_grace_ms: int = 10_000
    confirm_timeout_ms: int = 60_000
    number_retention: int = 10_000
    session_timeout_ms: int = 30_000
    popularity_window_ms: int = 0
    popularity_alpha: float = 0.1
    popularity_beta: float = 0.2
    topic_ttl_ms: int = 0
    ended_kept_ms: int = ENDED_KEPT_MS
    answers_kept: int = ANSWERS_KEPT
    linger_work: int = LINGER_WORK
    numbers_kept: int = 0
    number_age_ms: int = 0
    end_work: int = 0


class Automatic(msgspec.Struct, frozen=True, array_like=True):
    """The settings of the automatic change of topics' places (R15); see the settings of these names."""

    window_ms: int = 0
    alpha: float = 0.1
    beta: float = 0.2


class Configure(Command, tag=1):
    """Sets the stage's settings; first command of a stage and whenever they change."""

    settings: StageSettings


class Place(Command, tag=2):
    """The topic order that a new store begins with: all topics, with their stages."""

    topics: list[TopicInfo]


class OpenSession(Command, tag=3):
    """A client connected. Another incarnation of the same client is replaced.

    Attributes:
        first: the lowest counter that it has not asked this stage, or one below it, for on an earlier connection; where
            its session is forgotten, lower ones are never numbered (R1).
        anywhere: the lowest that it has asked no stage for. It counts instead where topics came here after the order
            epoch ``asked_epoch``, in which its oldest open request was first made (R14).
        max_open: numbers that it may have open at a stage; 0: no bound.
        own: the lowest that it has not asked this very stage for. It counts where the session came here with a topic
            (R14), or with a request from below, after it may have been forgotten.
        recent: the lowest that it has asked for only lately; a stage that still knows all the sessions it has dropped
            since then forgets nothing from there on but what it dropped. 0: that is not known.
        proves: it is believed nothing of numbers that cannot be known where it says so (``claims``).
        owner: whose it is, and what is kept for it: the name of its token; empty: nobody's.
        max_topics: how many topics may be made for that owner; 0: any.
        max_subscriptions: how many durable subscriptions may be kept for that owner; 0: any.
        max_owned: how many numbers all sessions of that owner may have open together at a stage; 0: any.
    """

    client_id: str
    incarnation: int
    first: int = 1
    anywhere: int = 1
    asked_epoch: int = 1
    max_open: int = 0
    own: int = 1
    recent: int = 0
    proves: bool = False
    owner: str = ""
    max_topics: int = 0
    max_subscriptions: int = 0
    max_owned: int = 0


class LeaveSession(Command, tag=4):
    """A client's connection ended; its grace begins (R16)."""

    client_id: str
    incarnation: int


class Create(Command, tag=5):
    """Requests for timestamps (R1) of one session, in the order it sent them. ``order_epoch``: the topic order that
    they were planned for (R14); ``refusals``: see the frame."""

    client_id: str
    incarnation: int
    low: int
    events: list[NewEvent]
    order_epoch: int = 1
    refusals: int = -1


class SettleNumbers(Command, tag=6):
    """Confirms and voids (R16), and what its publisher gave up for good: flat triples ``topic, first, last``."""

    client_id: str
    incarnation: int
    request: int
    confirmed: list[int]
    void: list[int]
    abandoned: list[int] = []


class CreateTopics(Command, tag=7):
    """Resolves topics by (space, name) at the bottom stage, creating those that are new (R13)."""

    client_id: str
    incarnation: int
    request: int
    topics: list[tuple[str, str]]


class ChangeSubscription(Command, tag=8):
    """A client's whole new subscription, at the bottom stage (R7, R11). ``anew``: it begins anew in topics that it has
    already, so it needs the bases of all (R12, R17). ``lets_go``: see the frame."""

    client_id: str
    incarnation: int
    version: int
    filters: list[SpaceFilter]
    bounded: bool
    durable: bool = False
    anew: bool = False
    lets_go: bool = False


class Deliver(Command, tag=9):
    """A ride from another stage, with its number on that link; a number already seen is ignored."""

    origin: int
    number: int
    ride: AnyRide


class Tick(Command, tag=10):
    """Time passed; due timers act."""


class RestartTimers(Command, tag=11):
    """A worker took the stage (again): clients could not come back meanwhile, so their timers start anew (R12)."""


class Reorder(Command, tag=20):
    """Changes the topic order (R14), at the bottom stage.

    Attributes:
        order_epoch: what the change will be: one more than the present one, or it is refused.
        stages: topic ids of each stage, highest first. Topics not named stay in their stage, behind those that are.
        by: who asks for it, as people know them.
    """

    client_id: str
    incarnation: int
    request: int
    order_epoch: int
    stages: list[list[int]]
    by: str = ""


class Pin(Command, tag=21):
    """Pins topics to their stages, or lets them go again (R15), at the bottom stage."""

    client_id: str
    incarnation: int
    request: int
    topics: list[int]
    is_pinned: bool


class SetAutomatic(Command, tag=35):
    """Turns the automatic change of topics' places on in this way, or off (R15), at the bottom stage. It lasts,
    whatever a worker's settings say."""

    client_id: str
    incarnation: int
    request: int
    automatic: Automatic


class SetLogRule(Command, tag=30):
    """Gives topics an event log or takes it from them (R18), at the bottom stage."""

    client_id: str
    incarnation: int
    request: int
    rule: LogRule
    is_on: bool


class TrimLog(Command, tag=31):
    """The log of a topic of this stage is over its bounds: its numbers up to ``through`` are forgotten. ``base``: what
    they depended on, together (flat). ``has_ticks``: the number behind them has (R23), or there is none."""

    topic: int
    through: int
    base: list[int]
    has_ticks: bool = False


class SaveNumbers(Command, tag=32):
    """A durable subscriber's clock (R18), or how far another one has read topics that end, at the bottom stage: flat
    pairs. ``reached``: see the frame."""

    client_id: str
    incarnation: int
    request: int
    numbers: list[int]
    reached: list[int] = []


class EndDurable(Command, tag=33):
    """An operator ends the subscription of a client that is gone (R12), at the bottom stage."""

    client_id: str
    incarnation: int
    request: int
    subscriber: str


class Release(Command, tag=34):
    """An operator settles pending numbers in place of their publisher, at the topic's stage (R16)."""

    client_id: str
    incarnation: int
    request: int
    topic: int
    first: int
    last: int
    to: NumberState


AnyCommand = (
    Configure
    | Place
    | OpenSession
    | LeaveSession
    | Create
    | SettleNumbers
    | CreateTopics
    | ChangeSubscription
    | Deliver
    | Tick
    | RestartTimers
    | Reorder
    | Pin
    | SetAutomatic
    | SetLogRule
    | TrimLog
    | SaveNumbers
    | EndDurable
    | Release
)


# -- effects: out of a stage -----------------------------------------------------------------------------------


class Reply(msgspec.Struct):
    """A frame for a client's connection; dropped if it is not connected (it will ask again)."""

    client_id: str
    incarnation: int
    frame: Frame


class Send(msgspec.Struct):
    """A ride for another stage; resent from the receiver's last durable number until acknowledged."""

    stage: int
    number: int
    ride: AnyRide


class LogEvent(msgspec.Struct):
    """A number of a logged topic was issued (R18): its row is to be written in the same commit. ``deps`` is ``None``
    while the timestamp is on its way up; ``content`` is empty where it stands beside the request with this
    ``counter``, and ``None`` where there is none. ``ticks``: see :mod:`inorder_worker.sequencer.ticks`."""

    topic: int
    number: int
    deps: list[int] | None
    content: bytes | None
    counter: int
    ticks: tuple[int, ...] = ()


class LogDeps(msgspec.Struct):
    """The timestamp of a logged number is complete."""

    topic: int
    number: int
    deps: list[int]
    ticks: tuple[int, ...] = ()


class LogTrim(msgspec.Struct):
    """The log of a topic forgets its numbers up to ``through``."""

    topic: int
    through: int


LogChange = LogEvent | LogDeps | LogTrim
Effect = Reply | Send | LogChange
