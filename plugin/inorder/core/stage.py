"""The stage: a deterministic state machine. Commands in, effects out; time is an argument.

The caller's duties, in this order (see :mod:`inorder.core`): journal the command, then let its effects leave, then
acknowledge what came over a link.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from inorder.core.commands import (
    AnyCommand,
    AnyRide,
    ChangeSubscription,
    CompleteRide,
    Configure,
    Create,
    CreateTopics,
    Deliver,
    Effect,
    ExpireRide,
    LeaveSession,
    LingerEndRide,
    OpenSession,
    Place,
    RestartTimers,
    Send,
    SettleNumbers,
    StampRide,
    SubscribedRide,
    SubscriptionRide,
    TopicRide,
)
from inorder.core.sessions import Sessions
from inorder.core.settling import Settling
from inorder.core.stamping import Stamping
from inorder.core.state import Outbox, Snapshot, StageState
from inorder.core.subscribing import Subscribing
from inorder.core.wire import AskNumbers, NameTopics, Numbers, Topics

_snapshot_encoder = msgspec.msgpack.Encoder()
_snapshot_decoder = msgspec.msgpack.Decoder(Snapshot)


class Stage:
    """One stage of the multistage sequencer.

    Args:
        index: 0 is the top of the topic order.
        count: how many stages there are; the last one is the bottom, where new topics and subscriptions enter.
    """

    def __init__(self, index: int, count: int) -> None:
        if not 0 <= index < count:
            raise ValueError(f"stage {index} of {count}: the index must be from 0 to {count - 1}")
        self._begin(StageState(index, count))

    def _begin(self, state: StageState) -> None:
        self._state = state
        self._outbox = Outbox(state)
        self._stamping = Stamping(state, self._outbox)
        self._subscribing = Subscribing(state, self._outbox)
        self._settling = Settling(state, self._outbox)
        self._sessions = Sessions(state, self._outbox, self._subscribing)

    def __repr__(self) -> str:
        state = self._state
        return f"<Stage {state.index} of {state.count}: {len(state.topics)} topics, {len(state.sessions)} sessions>"

    @property
    def index(self) -> int:
        """This stage's place, 0 at the top."""
        return self._state.index

    @property
    def count(self) -> int:
        """How many stages there are."""
        return self._state.count

    @property
    def epoch(self) -> int:
        """The owner's epoch, stamped into answers; set by the host after it claimed the stage."""
        return self._outbox.epoch

    @epoch.setter
    def epoch(self, value: int) -> None:
        self._outbox.epoch = value

    @property
    def now(self) -> int:
        """The stage time of the last step, ms."""
        return self._state.now

    # -- commands ----------------------------------------------------------------------------------------------

    def step(self, command: AnyCommand, now: int) -> list[Effect]:
        """Apply one command at stage time ``now`` (ms, never decreasing) and return its effects, in order."""
        self._state.now = max(now, self._state.now)
        match command:
            case Create():
                self._stamping.create(command)
            case SettleNumbers():
                self._settling.settle(command)
            case Deliver():
                if self._state.take(command.origin, command.number):
                    self._deliver(command.ride)
            case CreateTopics():
                self._subscribing.create_topics(command)
            case ChangeSubscription():
                self._subscribing.change(command)
            case OpenSession():
                self._sessions.opened(command)
            case LeaveSession():
                self._sessions.left((command.client_id, command.incarnation))
            case RestartTimers():
                self._sessions.restart_timers()
            case Configure():
                self._state.settings = command.settings
            case Place():
                self._subscribing.place(command.topics)
            case _:
                self._subscribing.end_lingers()
                self._settling.abandon_due()
                self._sessions.end_due()
        return self._outbox.drain()

    def _deliver(self, ride: AnyRide) -> None:
        match ride:
            case StampRide():
                self._stamping.ride(ride)
            case CompleteRide():
                self._stamping.completed(ride)
            case TopicRide():
                self._subscribing.topics_ride(ride)
            case SubscriptionRide():
                self._subscribing.ride(ride)
            case SubscribedRide():
                self._subscribing.completed(ride)
            case LingerEndRide():
                self._subscribing.linger_ended(ride)
            case ExpireRide():
                self._subscribing.expired(ride)

    def next_deadline(self) -> int | None:
        """Return the stage time (ms) at which a ``Tick`` is due, or ``None``."""
        due = [linger.due for linger in self._state.lingers]
        due += [when for when in (self._settling.next_deadline(), self._sessions.next_deadline()) if when is not None]
        return min(due, default=None)

    # -- queries: nothing changes ------------------------------------------------------------------------------

    def numbers(self, frame: AskNumbers) -> Numbers:
        """Tell what became of numbers of a topic of this stage (R17)."""
        return self._settling.numbers(frame)

    def name_topics(self, frame: NameTopics) -> Topics:
        """Tell which topics have these ids; the bottom stage knows all."""
        known = self._state.topics
        return Topics(frame.request, [self._state.info(topic) for topic in frame.ids if topic in known])

    def stage_of(self, topic: int) -> int | None:
        """Return the home stage of a topic, or ``None`` for an unknown id."""
        manager = self._state.topics.get(topic)
        return None if manager is None else manager.stage

    def has_number(self, topic: int, number: int) -> bool:
        """Tell whether this stage knows a number of one of its topics one by one."""
        manager = self._state.topics.get(topic)
        return manager is not None and number in manager.records

    def changed_heads(self) -> list[int]:
        """Return topics of this stage whose highest confirmed number rose since the last call (R17)."""
        return self._settling.changed_heads()

    def heads(self, client_id: str, topics: Iterable[int] | None) -> list[int]:
        """Return the highest confirmed numbers (flat pairs) of this stage's topics in a client's subscription; of
        those in ``topics`` only, where given."""
        subscription = self._state.overlaps.get(client_id)
        if subscription is None:
            return []
        wanted = subscription.active if topics is None else subscription.active.intersection(topics)
        known, here = self._state.topics, self._state.index
        return [
            part
            for topic in sorted(wanted)
            if known[topic].stage == here and known[topic].head
            for part in (topic, known[topic].head)
        ]

    # -- links and snapshots -----------------------------------------------------------------------------------

    def received(self, origin: int) -> int:
        """Return the number of the last ride taken from that stage."""
        return self._state.received.get(origin, 0)

    def sent(self, stage: int) -> int:
        """Return the number of the last ride made for that stage."""
        return self._state.sent.get(stage, 0)

    def acknowledge(self, stage: int, number: int) -> None:
        """The receiver made rides up to ``number`` durable; they need not be resent. Not journaled: after a replay
        the receiver says again what it has."""
        kept = self._state.outbox.get(stage)
        if kept:
            del kept[: max(0, number - kept[0][0] + 1)]  # numbers follow one another

    def waiting(self, stage: int) -> int:
        """Return how many rides for that stage are not acknowledged."""
        return len(self._state.outbox.get(stage, ()))

    def unacknowledged(self, stage: int, after: int = 0, through: int | None = None) -> list[Send]:
        """Return what may have to be resent to that stage, in order; only numbers above ``after`` and up to
        ``through``, where given."""
        kept = self._state.outbox.get(stage)
        if not kept:
            return []
        before = kept[0][0] - 1
        last = kept[-1][0] if through is None else through
        return [Send(stage, number, ride) for number, ride in kept[max(0, after - before) : max(0, last - before)]]

    def snapshot(self) -> bytes:
        """Return the whole state."""
        return _snapshot_encoder.encode(self._state.snapshot())

    @classmethod
    def restore(cls, data: bytes) -> Stage:
        """Return the stage that a snapshot was taken of. Raises msgspec.DecodeError."""
        stage = cls.__new__(cls)
        stage._begin(StageState.restore(_snapshot_decoder.decode(data)))
        return stage
