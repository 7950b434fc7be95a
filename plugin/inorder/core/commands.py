"""What goes into a stage (commands, journaled), between stages (rides) and out of a stage (effects).

A command is stepped with the stage's time in milliseconds. Effects leave only after the commit that holds their
command. Rides are the messages of the belt (R2): they go up one stage at a time over numbered FIFO links.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from inorder.core.wire import Frame, NewEvent, SpaceFilter, TopicInfo

SessionKey = tuple[str, int]
"""(client id, incarnation)"""


# -- rides: between stages -------------------------------------------------------------------------------------


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


class CompleteRide(Ride, tag=2):
    """A complete timestamp on its way down, to its home stage (which keeps it) and its entry stage (which
    answers)."""

    client_id: str
    incarnation: int
    counter: int
    topic: int
    number: int
    deps: list[int]
    in_payload: bool


class TopicRide(Ride, tag=3):
    """New topics, ahead of their first timestamps (R13)."""

    topics: list[TopicInfo]


class SubscriptionRide(Ride, tag=4):
    """A changed subscription (R7).

    Attributes:
        topics: ids it covers now, resolved at the bottom stage.
        plain: those of them whose stamps this client can read in the payload only.
        fresh: those that are new to the client: it takes their clocks and needs their bases (R8).
        starts: flat pairs, filled stage by stage; of lingering topics too, for the stages above.
        bases: for each fresh topic a flat list, filled stage by stage.
        durable: it stays, however long its client is away (R12).
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


class SubscribedRide(Ride, tag=5):
    """A completed subscription on its way back to the bottom stage, which answers."""

    client_id: str
    incarnation: int
    version: int
    topics: list[int]
    starts: list[int]
    bases: dict[int, list[int]]


class LingerEndRide(Ride, tag=6):
    """The end of a topic's linger in one client's subscription (R10); ignored where the topic is not lingering
    since just this change (a client's versions begin anew with its incarnation)."""

    client_id: str
    topic: int
    incarnation: int
    version: int


class ExpireRide(Ride, tag=7):
    """The end of a subscription whose client was not heard for ``session_timeout`` (R12); ignored where the client
    has subscribed since."""

    client_id: str
    incarnation: int
    version: int


AnyRide = StampRide | CompleteRide | TopicRide | SubscriptionRide | SubscribedRide | LingerEndRide | ExpireRide


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
    """

    linger_ms: int = 60_000
    publisher_grace_ms: int = 10_000
    confirm_timeout_ms: int = 60_000
    number_retention: int = 10_000
    session_timeout_ms: int = 30_000


class Configure(Command, tag=1):
    """Sets the stage's settings; first command of a stage and whenever they change."""

    settings: StageSettings


class Place(Command, tag=2):
    """The topic order that a new store begins with: all topics, with their stages."""

    topics: list[TopicInfo]


class OpenSession(Command, tag=3):
    """A client connected. Another incarnation of the same client is replaced. ``first``: the lowest counter that it has
    not asked for on an earlier connection; where its session is forgotten, lower ones are never numbered (R1)."""

    client_id: str
    incarnation: int
    first: int = 1


class LeaveSession(Command, tag=4):
    """A client's connection ended; its grace begins (R16)."""

    client_id: str
    incarnation: int


class Create(Command, tag=5):
    """Requests for timestamps (R1) of one session, in the order it sent them."""

    client_id: str
    incarnation: int
    low: int
    events: list[NewEvent]


class SettleNumbers(Command, tag=6):
    """Confirms and voids (R16): flat triples ``topic, first, last``."""

    client_id: str
    incarnation: int
    request: int
    confirmed: list[int]
    void: list[int]


class CreateTopics(Command, tag=7):
    """Resolves topics by (space, name) at the bottom stage, creating those that are new (R13)."""

    client_id: str
    incarnation: int
    request: int
    topics: list[tuple[str, str]]


class ChangeSubscription(Command, tag=8):
    """A client's whole new subscription, at the bottom stage (R7, R11). ``anew``: it begins anew in topics that it has
    already, so it needs the bases of all (R12, R17)."""

    client_id: str
    incarnation: int
    version: int
    filters: list[SpaceFilter]
    bounded: bool
    durable: bool = False
    anew: bool = False


class Deliver(Command, tag=9):
    """A ride from another stage, with its number on that link; a number already seen is ignored."""

    origin: int
    number: int
    ride: AnyRide


class Tick(Command, tag=10):
    """Time passed; due timers act."""


class RestartTimers(Command, tag=11):
    """A worker took the stage (again): clients could not come back meanwhile, so their timers start anew (R12)."""


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
)


# -- effects: out of a stage -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Reply:
    """A frame for a client's connection; dropped if it is not connected (it will ask again)."""

    client_id: str
    incarnation: int
    frame: Frame


@dataclass(slots=True)
class Send:
    """A ride for another stage; resent from the receiver's last durable number until acknowledged."""

    stage: int
    number: int
    ride: AnyRide


Effect = Reply | Send
