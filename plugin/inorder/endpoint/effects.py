"""The effects that an endpoint wants, as values in the order of their execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from inorder.endpoint.changes import Change
from inorder.endpoint.notifications import Event, Gap, Receipt
from inorder.endpoint.publications import Publication
from inorder.endpoint.request_history import RequestHistory
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.arrival import Arrival
from inorder.protocol.wire import AskNumbers, CreateTimestamps, Frame, ReadLog, Settle, SpaceFilter


class Clock(Protocol):
    """The time that an endpoint is given."""

    @property
    def now(self) -> Callable[[], float]:
        """Returns the time by which missing events are waited for, s; it may stand still."""

    @property
    def uptime(self) -> Callable[[], float]:
        """Return the time (s) with the machine's sleep, for the lease (R12) and for late requests."""


class Effect(msgspec.Struct):
    """Base of all effects."""


# -- to the workers ------------------------------------------------------------------------------------------------


class Send(Effect):
    """Send a frame to a stage. While the stage is not reached the frame is dropped (all that is unanswered is asked
    again when it is), and a connection to it is wanted."""

    stage: int
    frame: Frame


class AskLease(Effect):
    """Ask all reached workers to show that they still have their stages (R12), under this number."""

    request: int


class Need(Effect):
    """The subscription has topics on these stages: keep connections to them."""

    stages: set[int]


class AskAllHeads(Effect):
    """The subscription has changed: have the workers of the stages above the bottom tell all heads again (R17)."""


# -- to the brokers ------------------------------------------------------------------------------------------------


class HandOver(Effect):
    """Hand an event over to its broker with this stamp, if the publication still is ``STAMPED``. Set its ``handed``
    when the broker got it, and report its outcome. Without a connection nothing is to be done:
    :meth:`Endpoint.broker_restored` has it handed over again."""

    publication: Publication
    stamp: bytes


class AskBroker(Effect):
    """Carry out :attr:`Change.subscribes` and then :attr:`Change.unsubscribes` at the brokers, and report the end or
    the failure to :meth:`Endpoint.broker_answered`."""

    change: Change


class BeginBarrier(Effect):
    """Find out whether all was read that the broker of a space has now, and tell :meth:`Endpoint.caught_up` (R24)."""

    space: str


# -- to the application --------------------------------------------------------------------------------------------


class Notify(Effect):
    """Notify of an event.

    Attributes:
        arrival: what the broker delivered, or what stands for it where the event came from its topic's log.
        entry: its place in the total order, ``None`` where the order has nothing to do with it; then
        arrived: is when it arrived, s.
    """

    event: Event
    arrival: Arrival
    entry: Sequenced | None
    arrived: float = 0.0


class Missed(Effect):
    """Tell of a gap. ``topic``: the id of its topic, for a name may have had others before."""

    gap: Gap
    topic: int


class Published(Effect):
    """A publish has succeeded."""

    publication: Publication
    receipt: Receipt


class Failed(Effect):
    """A publish has failed; or, where its caller has its outcome already, nobody will know more of it."""

    publication: Publication
    error: Exception


class Requeued(Effect):
    """Replace a publication without a request by another one, as the domain is another (R4)."""

    publication: Publication


class Changed(Effect):
    """A change of the subscription is complete; with an ``error``: it has failed, and nothing has changed."""

    change: Change
    error: Exception | None


class Resumed(Effect):
    """The filters of the durable subscription that waits for this client are known (R18)."""

    filters: list[SpaceFilter]


# -- to those who watch --------------------------------------------------------------------------------------------


class Began(Effect):
    """A topic's clock was taken: it begins behind this number."""

    topic: int
    number: int


class Ended(Effect):
    """A topic's clock is dropped; this was the last number that was notified of or skipped."""

    topic: int
    number: int


class Dropped(Effect):
    """An arrival has no place in the order. ``twin_waits``: it is a duplicate of what waits for its turn."""

    entry: Sequenced
    why: Literal["duplicate", "before"]
    twin_waits: bool


class WasOverlap(Effect):
    """Correct the last dropped arrival: it was the copy for another filter, not a repetition."""


class Unrouted(Effect):
    """An arrival that no subscription covers."""

    arrival: Arrival


class Alarm(Effect):
    """Report a fault of a topic, once for each topic and kind. ``number``: of the event it was seen at."""

    kind: str
    space: str
    topic: str
    number: int
    hint: str


class LeaseTurned(Effect):
    """The lease has lapsed, or was renewed (R12)."""

    is_leased: bool


class Expired(Effect):
    """The workers have dropped the subscription (R12); it begins anew."""


class LateConfirmation(Effect):
    """The number of an event was abandoned before its confirmation came (R16). ``name``: its topic's, or its id."""

    topic: int
    name: str
    number: int


AnyEffect = (
    Send | AskLease | Need | AskAllHeads | HandOver | AskBroker | BeginBarrier | Notify | Missed | Published | Failed
    | Requeued | Changed | Resumed | Began | Ended | Dropped | WasOverlap | Unrouted | Alarm | LeaseTurned | Expired
    | LateConfirmation
)  # fmt: skip

_TO_A_STAGE = (CreateTimestamps, Settle, AskNumbers, ReadLog)
"""Frames that name their stage; all others enter at the bottom one."""


class Outbox:
    """The effects of an endpoint's inputs until they are taken, and which stages are reached meanwhile.

    Attributes:
        effects: in the order in which they are to be carried out.
        wants_flush: there may be something to send: ``Endpoint.flush``, once for all inputs of a turn.
        wants_timer: ``Endpoint.next_deadline`` may be sooner than it was.
        reached: the stages that are reached.
        bottom: the stage where topics and subscriptions enter.
        asked: what the stages were asked for, as the next hello tells.
    """

    def __init__(self, clock: Clock, history: RequestHistory) -> None:
        self._clock = clock
        self.effects: list[AnyEffect] = []
        self.wants_flush = self.wants_timer = False
        self.reached: set[int] = set()
        self.bottom = 0
        self.history = history
        self._request = 1

    def send(self, frame: Frame) -> None:
        """Send a frame to its stage."""
        stage = frame.stage if isinstance(frame, _TO_A_STAGE) else self.bottom
        if isinstance(frame, CreateTimestamps) and stage in self.reached:  # else it does not leave
            self.history.note(stage, frame.events[-1].counter, self._clock.uptime())
        self.effects.append(Send(stage, frame))

    def next_request(self) -> int:
        """Return an id for a question."""
        self._request += 1
        return self._request
