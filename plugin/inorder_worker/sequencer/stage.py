"""The stage: a deterministic state machine. Commands in, effects out, one at a time (R3); time is an
argument.

The caller's duties, in this order (see :mod:`inorder_worker.sequencer`): journal the command, then let its effects
leave, then acknowledge what came over a link.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from inorder.protocol.wire import (
    AskDurable,
    AskNumbers,
    Durable,
    Moved,
    NameTopics,
    Numbers,
    Subscriptions,
    Topics,
)
from inorder_worker.sequencer.commands import (
    AnyCommand,
    Automatic,
    ChangeSubscription,
    Configure,
    Create,
    CreateTopics,
    Deliver,
    Effect,
    EndDurable,
    LeaveSession,
    OpenSession,
    Pin,
    Place,
    Release,
    Reorder,
    RestartTimers,
    SaveNumbers,
    Send,
    SetAutomatic,
    SetLogRule,
    SettleNumbers,
    Tick,
    TrimLog,
)
from inorder_worker.sequencer.durable import DurableSubscriptions
from inorder_worker.sequencer.ending import Ending
from inorder_worker.sequencer.event_log import EventLog
from inorder_worker.sequencer.forgetting import Forgetting
from inorder_worker.sequencer.inspection import Inspection
from inorder_worker.sequencer.picture import Picture
from inorder_worker.sequencer.reordering import Reordering
from inorder_worker.sequencer.retiring import Retiring
from inorder_worker.sequencer.rides import (
    AnyRide,
    CompleteRide,
    ExpireRide,
    LingerEndRide,
    LogRulesRide,
    PopularityRide,
    SettleRide,
    StampRide,
    SubscribedRide,
    SubscriptionRide,
    SwapRide,
    TopicRide,
    TopicsEndRide,
)
from inorder_worker.sequencer.sessions import Holder, Sessions, holder_of
from inorder_worker.sequencer.settling import Settling
from inorder_worker.sequencer.stamping import Stamping
from inorder_worker.sequencer.state import Outbox, Snapshot, StageState
from inorder_worker.sequencer.subscribing import Subscribing
from inorder_worker.sequencer.swapping import Swapping
from inorder_worker.sequencer.tally import Tally

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
        self._begin(StageState(Snapshot(index, count)))

    def _begin(self, state: StageState) -> None:
        self._state = state
        self._outbox = Outbox(state)
        self._log = EventLog(state, self._outbox)
        self._forgetting = Forgetting(state)
        self._ending = Ending(state, self._outbox)
        self._stamping = Stamping(state, self._outbox, self._log, self._forgetting, self._ending)
        self._subscribing = Subscribing(state, self._outbox)
        self._durable = DurableSubscriptions(state, self._outbox, self._subscribing, self._ending)
        self._settling = Settling(state, self._outbox)
        self._sessions = Sessions(state, self._outbox, self._subscribing)
        self._reordering = Reordering(state, self._outbox, self._sessions)
        self._swapping = Swapping(state, self._outbox, self._reordering)
        self._retiring = Retiring(state, self._ending)

    def __repr__(self) -> str:
        state = self._state
        return f"<Stage {state.index} of {state.count}: {len(state.topics)} topics, {len(state.sessions)} sessions>"

    @property
    def index(self) -> int:
        """The place of this stage, 0 at the top."""
        return self._state.index

    @property
    def count(self) -> int:
        """The number of stages."""
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
        state = self._state
        state.now = max(now, state.now)
        if state.switch is None or not state.is_sealed or not self._reordering.holds(command):
            self._step(command)
        while state.due:  # a switch is done; another one may begin in what it held back
            held, state.due = state.due, []
            for each in held:
                self._step_held(each)
        return self._outbox.drain()

    def _step(self, command: AnyCommand) -> None:
        match command:
            case Create():
                self._create(command)
            case SettleNumbers():
                self._settling.settle(command)
            case Release():
                self._release(command)
            case Deliver():
                if self._state.take(command.origin, command.number):
                    self._arrived(command)
            case CreateTopics() | ChangeSubscription() | Place():
                self._subscribing.command(command)
            case OpenSession() | LeaveSession() | RestartTimers():
                self._connection(command)
            case Configure():
                self._configure(command)
            case SetLogRule() | TrimLog():
                self._log.command(command)
            case SaveNumbers() | EndDurable():
                self._durable.command(command)
            case Tick():
                self._tick()
            case _:
                self._order(command)

    def _order(self, command: Reorder | Pin | SetAutomatic) -> None:
        if isinstance(command, SetAutomatic):
            self._swapping.set_automatic(command)
        else:
            self._reordering.command(command)

    def _create(self, command: Create) -> None:
        if command.order_epoch < self._state.homes_epoch:
            self._reordering.refuse(command)
        else:
            self._stamping.create(command)

    def _release(self, command: Release) -> None:
        if (moved := self.moved(command.topic)) is None:
            self._settling.release(command)
        else:
            self._outbox.reply(command.client_id, command.incarnation, moved)

    def _connection(self, command: OpenSession | LeaveSession | RestartTimers) -> None:
        match command:
            case OpenSession():
                self._sessions.opened(command)
                self._log.opened((command.client_id, command.incarnation))
                self._ending.opened((command.client_id, command.incarnation))
            case LeaveSession():
                self._sessions.left((command.client_id, command.incarnation))
            case RestartTimers():
                self._sessions.restart_timers()

    def _step_held(self, command: AnyCommand) -> None:
        """Do what a switch held back (R14)."""
        if isinstance(command, Deliver):
            self._arrived(command)  # its number was taken when it came
        elif not (self._state.is_sealed and self._reordering.holds(command)):
            self._step(command)

    def _configure(self, command: Configure) -> None:
        if command.settings.popularity_window_ms and not self._state.settings.popularity_window_ms:
            self._swapping.begin_window()
        self._state.settings = command.settings
        self._state.deadlines.begin(self._state.sessions)

    def _tick(self) -> None:
        if not self._state.is_sealed:  # timers stand still while the topic order changes (R14)
            self._subscribing.end_lingers()
            self._settling.abandon_due()
            self._sessions.end_due()
            self._swapping.count()
            self._retiring.retire_due()
            self._forgetting.forget_due()

    def _arrived(self, command: Deliver) -> None:
        if self._state.switch is None or not self._reordering.is_early(command):
            self._deliver(command.ride, command.origin)

    def _deliver(self, ride: AnyRide, origin: int) -> None:
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
                self._subscribing.answers.completed(ride)
            case TopicsEndRide():
                self._ending.ride(ride)
            case LingerEndRide():
                self._subscribing.linger_ended(ride)
            case ExpireRide():
                self._subscribing.expired(ride)
            case SettleRide():
                self._settling.settled_elsewhere(ride)
            case LogRulesRide():
                self._log.rules_ride(ride)
            case PopularityRide() | SwapRide():
                self._swapping.ride(ride)
            case _:
                self._reordering.ride(origin, ride)

    def next_deadline(self) -> int | None:
        """Return the stage time (ms) at which a ``Tick`` is due, or ``None``."""
        if self._state.is_sealed:
            return None  # timers stand still while the topic order changes (R14)
        timed = (self._subscribing, self._settling, self._sessions, self._swapping, self._retiring, self._forgetting)
        return min((when for each in timed if (when := each.next_deadline()) is not None), default=None)

    # -- queries: nothing changes ------------------------------------------------------------------------------

    def numbers(self, frame: AskNumbers) -> Numbers:
        """Tell what became of numbers of a topic of this stage (R17)."""
        return self._settling.numbers(frame)

    def name_topics(self, frame: NameTopics) -> Topics:
        """Tell which topics have these ids; the bottom stage knows all."""
        known = self._state.topics
        infos = [self._state.info(topic) for topic in dict.fromkeys(frame.ids) if topic in known]
        return Topics(frame.request, infos, self._state.order_epoch, self._state.last_topic)

    def moved(self, topic: int) -> Moved | None:
        """Return where a topic is instead of here (R14); ``None`` where it is here, or unknown."""
        manager = self._state.topics.get(topic)
        if manager is None or manager.stage == self._state.index:
            return None
        return self._reordering.moved([manager], self._state.order_epoch)

    def durable(self, frame: AskDurable, client_id: str) -> Durable:
        """Tell what a client may resume (R18); the bottom stage knows."""
        return self._durable.durable(frame.request, client_id)

    def holder_of(self, client_id: str) -> Holder | None:
        """Tell whose a client id is, as far as this stage knows; ``None``: nobody has it."""
        return holder_of(self._state, client_id)

    def show_subscriptions(self, request: int) -> list[Subscriptions]:
        """Tell which clients have subscriptions; the bottom stage knows all."""
        return self._durable.show(request)

    @property
    def log(self) -> EventLog:
        """The event logs of its topics (R18), to ask about and to keep within their bounds."""
        return self._log

    def topic_order(self) -> list[list[int]]:
        """Return the ids of the topics of each stage, from the highest on; the bottom stage has the latest."""
        return self._reordering.placement()

    @property
    def automatic(self) -> Automatic:
        """The settings of the automatic change of topics' places (R15), at the bottom stage."""
        return self._state.popularity

    @property
    def order_by(self) -> str:
        """The name of whoever asked for the topic order that the bottom stage has; empty: nobody did (R15)."""
        return self._reordering.by

    @property
    def order_epoch(self) -> int:
        """The epoch of this stage's topic order (R14)."""
        return self._state.order_epoch

    def stage_of(self, topic: int) -> int | None:
        """Return the home stage of a topic, or ``None`` for an unknown id."""
        manager = self._state.topics.get(topic)
        return None if manager is None else manager.stage

    def home_of(self, topic: int, origin: int) -> int | None:
        """Return a topic's home stage in the topic order of the next ride from ``origin``, which may be in a new order
        already (R14). ``None`` for an unknown id."""
        return self._reordering.home_of(topic, origin)

    def is_ahead(self, origin: int) -> bool:
        """Tell whether the next ride of that stage belongs to a topic order that this one is not in yet (R14)."""
        switch = self._state.switch
        return switch is not None and origin in switch.finished

    @property
    def is_sealed(self) -> bool:
        """Tell whether the topic order changes, and nothing is admitted (R14)."""
        return self._state.is_sealed

    @property
    def last_topic(self) -> int:
        """The highest id that a topic ever had."""
        return self._state.last_topic

    def has_number(self, topic: int, number: int) -> bool:
        """Tell whether this stage knows a number of one of its topics one by one."""
        manager = self._state.topics.get(topic)
        return manager is not None and number in manager.records

    def changed_heads(self) -> list[int]:
        """Return the topics of this stage with a higher head, or a new home here, since the last call (R17); at the
        bottom stage also the topics that left."""
        moved = self._reordering.moved_topics()
        changed = self._settling.changed_heads()
        return sorted(moved.union(changed)) if moved else changed

    def heads(self, client_id: str, topics: Iterable[int] | None) -> list[int]:
        """Return the highest confirmed numbers (flat pairs) of this stage's topics in a client's subscription; of
        those in ``topics`` only, where given."""
        return self._settling.heads(client_id, topics)

    # -- for operators -----------------------------------------------------------------------------------------

    @property
    def inspection(self) -> Inspection:
        """The answers of this stage to operators."""
        return Inspection(self._state)

    @property
    def tally(self) -> Tally:
        """The work done since :meth:`begin_tally`."""
        return self._state.tally

    def begin_tally(self) -> None:
        """Count from now on: what a replay did again was counted when it was done first."""
        self._state.tally = Tally()

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
        return self.picture().whole()

    def picture(self, before: bytes = b"") -> Picture:
        """Begin a snapshot of the present state, which is written while this stage goes on. One at a time."""
        return Picture(self._state, before)

    @classmethod
    def restore(cls, data: bytes) -> Stage:
        """Return the stage that a snapshot was taken of. Raises msgspec.DecodeError."""
        stage = cls.__new__(cls)
        stage._begin(StageState(_snapshot_decoder.decode(data)))
        return stage
