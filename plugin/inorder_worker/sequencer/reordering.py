"""Changing the topic order (R14).

The switch rides the links, which are exactly-once and FIFO; there is no moment at which all stages must do something
together, so a stage may crash and come back anywhere in it.

1. *Flush.* A change enters at the bottom stage and goes up the belt. A stage that sees it is *sealed*: it admits no
   requests, and holds everything else of clients back. What is older goes up ahead of the flush.
2. *Mark.* A sealed stage tells all others so; behind its mark (upwards: the flush) it sends nothing of the old order.
   A stage with the marks of all others is *quiet*: all its numbers are complete, all its answers known.
3. *Hand over.* A quiet stage sends each other one the last numbers of its topics, and the state of those that move
   there. What follows behind is of the new order, and held back until the receiver is there as well.
4. *Switch.* A stage with everybody's part is in the new order: it knows the last number of every topic (so every
   ``LLC`` of a pair now split is the lower topic's ``LC``), tells its clients, and goes on with what was held back.

Requests name the order epoch that they were planned for. What was planned for an older one is never taken, and the
client plans it anew when it is told (R19); what a faster stage let it plan for the new one waits here.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from inorder.protocol.pairs import joined, pairs
from inorder.protocol.wire import Moved, OrderChanged
from inorder_worker.sequencer.bits import bit_set
from inorder_worker.sequencer.commands import (
    AnyCommand,
    ChangeSubscription,
    Create,
    CreateTopics,
    Deliver,
    EndDurable,
    Pin,
    Release,
    Reorder,
    SetAutomatic,
    SetLogRule,
    SettleNumbers,
    TrimLog,
)
from inorder_worker.sequencer.hand_over import HandOver
from inorder_worker.sequencer.rides import FlushRide, MarkRide, OrderRide, SessionKey, SwitchRide
from inorder_worker.sequencer.sessions import Sessions
from inorder_worker.sequencer.state import Outbox, StageState, Switch
from inorder_worker.sequencer.telling import hear, places
from inorder_worker.sequencer.topic_manager import TopicManager

HELD = (SettleNumbers, Release, CreateTopics, ChangeSubscription, SetLogRule, TrimLog, EndDurable, SetAutomatic)
"""What a sealed stage keeps for later."""
AnyOrderRide = FlushRide | MarkRide | SwitchRide | OrderRide

UNDER_WAY = "another change of the topic order is under way"
"""Why a change is refused that may succeed later as it is."""


class Reordering:
    """The department of a stage that changes the topic order.

    Attributes:
        by: who asked for the order that the bottom stage got into last; empty: nobody did (R15).
    """

    def __init__(self, state: StageState, outbox: Outbox, sessions: Sessions) -> None:
        self._state, self._outbox, self._sessions = state, outbox, sessions
        self._handing = HandOver(state)
        # Topics that came here since their subscribers were told of heads; at the bottom stage also those that left.
        self._moved: set[int] = set()
        self.by = ""

    # -- what clients are told ---------------------------------------------------------------------------------

    def refuse(self, command: Create) -> None:
        """Requests planned for an older order: tell the client where topics went since (R14)."""
        since = command.order_epoch
        moved = [each for each in self._state.topics.values() if each.moved > since]
        self._outbox.reply(command.client_id, command.incarnation, self.moved(moved, since))

    def moved(self, topics: Iterable[TopicManager], since: int) -> Moved:
        """Return what a client must know of these topics, all that moved after the order epoch ``since``."""
        state = self._state
        homes = joined((each.id, each.stage) for each in topics)
        return Moved(state.index, self._outbox.epoch, state.order_epoch, since, homes)

    def moved_topics(self) -> set[int]:
        """Return the topics that came here since the last call: their subscribers hear of their heads from here. At the
        bottom stage also those that left: who has not heard of them yet hears of them from there."""
        moved, self._moved = self._moved, set()
        return moved

    # -- dispatch ----------------------------------------------------------------------------------------------

    def command(self, command: Reorder | Pin) -> None:
        """A command of this department."""
        match command:
            case Reorder():
                self.reorder(command)
            case Pin():
                self.pin(command)

    def ride(self, origin: int, ride: AnyOrderRide) -> None:
        """A ride of this department."""
        match ride:
            case FlushRide():
                self.flush(origin, ride)
            case MarkRide():
                self.mark(origin, ride)
            case SwitchRide():
                self.take(origin, ride)
            case OrderRide():
                self.ordered(ride)

    # -- a change enters ---------------------------------------------------------------------------------------

    def reorder(self, command: Reorder) -> None:
        """An operator's change arrives at the bottom stage."""
        session = command.client_id, command.incarnation
        stages = [] if (refusal := self._refusal(command)) else self._placement(command.stages)
        if not refusal and stages == self.placement():
            refusal = "that is the present topic order"
        if refusal:
            self._answer(session, command.request, refusal)
            return
        self.begin(Switch(command.order_epoch, stages, *session, command.request, by=command.by))

    def _refusal(self, command: Reorder) -> str:
        state = self._state
        named = [topic for stage in command.stages for topic in stage]
        if state.switch is not None:
            return UNDER_WAY
        if command.order_epoch != state.order_epoch + 1:
            return f"the topic order has changed meanwhile: its epoch is {state.order_epoch}"
        if len(command.stages) != state.count:
            return f"there are {state.count} stages, not {len(command.stages)}"
        if unknown := [topic for topic in named if topic not in state.topics]:
            return f"there is no topic {unknown[0]}"
        if len(set(named)) != len(named):
            return "a topic is named twice"
        for stage, topics in enumerate(command.stages):
            for topic in topics:
                if topic in state.endings and state.topics[topic].stage != stage:
                    return f"topic {topic} ends"
                if topic in state.pins and state.topics[topic].stage != stage:
                    return f"topic {topic} is pinned to stage {state.topics[topic].stage}"
        return ""

    def placement(self) -> list[list[int]]:
        """Return the topics of each stage, from the highest on."""
        return self._placement([[]] * self._state.count)

    def _placement(self, named: list[list[int]]) -> list[list[int]]:
        """Return all topics by stage: those named, then the others of the stage in their present order."""
        topics = self._state.topics
        placed = {topic for stage in named for topic in stage}
        stages = [list(stage) for stage in named]
        for topic in self._state.order:
            if topic not in placed:
                stages[topics[topic].stage].append(topic)
        return stages

    def begin(self, switch: Switch) -> None:
        """Begin a change at the bottom stage; one inside stages is done at once."""
        topics = self._state.topics
        if any(topics[topic].stage != stage for stage, each in enumerate(switch.stages) for topic in each):
            self._state.switch = switch
            self._seal(switch)
            return
        self.ordered(OrderRide(switch.order_epoch, [topic for each in switch.stages for topic in each]))
        self.by = switch.by
        self._answer((switch.client_id, switch.incarnation), switch.request)

    def _answer(self, session: SessionKey, request: int, refusal: str = "") -> None:
        if session[0]:
            self._outbox.reply(*session, OrderChanged(request, self._state.order_epoch, refusal))

    def ordered(self, ride: OrderRide) -> None:
        """The order changed inside stages only: nothing that rides depends on it (R3)."""
        self._state.order, self._state.order_epoch = ride.order, ride.order_epoch
        if self._state.index > 0:
            self._outbox.up(ride)

    def pin(self, command: Pin) -> None:
        """An operator pins topics, or lets them go."""
        state = self._state
        session = command.client_id, command.incarnation
        if unknown := [topic for topic in command.topics if topic not in state.topics]:
            self._answer(session, command.request, f"there is no topic {unknown[0]}")
            return
        state.pins = state.pins | set(command.topics) if command.is_pinned else state.pins - set(command.topics)
        self._answer(session, command.request)

    # -- flush and marks ---------------------------------------------------------------------------------------

    def flush(self, origin: int, ride: FlushRide) -> None:
        """The flush comes up the belt: nothing older can come from below any more."""
        switch = self._state.switch
        if switch is None:
            switch = self._state.switch = Switch(ride.order_epoch)
        switch.stages = ride.stages
        switch.marked.add(origin)
        self._seal(switch)

    def mark(self, origin: int, ride: MarkRide) -> None:
        """Another stage is sealed. Its mark may come before the flush."""
        if self._state.switch is None:
            self._state.switch = Switch(ride.order_epoch)
        self._state.switch.marked.add(origin)
        self._go_on(self._state.switch)

    def _seal(self, switch: Switch) -> None:
        state = self._state
        switch.is_sealed = True
        for other in range(state.count):
            if other == state.index - 1:
                self._outbox.up(FlushRide(switch.order_epoch, switch.stages))
            elif other != state.index:
                self._outbox.send(other, MarkRide(switch.order_epoch))
        self._go_on(switch)

    def _go_on(self, switch: Switch) -> None:
        others = self._state.count - 1
        if switch.is_sealed and not switch.is_sent and len(switch.marked) == others:
            switch.is_sent = True
            self._hand_over(switch)
        if switch.is_sent and len(switch.finished) == others:
            self._switch(switch)

    def holds(self, command: AnyCommand) -> bool:
        """Tell whether a sealed stage keeps a command for later, or drops it: requests planned for the old order are
        dropped, because every session hears of the new one when this stage is in it. Those planned for an even older
        one are answered, because what the session will hear then builds on the old one."""
        switch = self._state.switch
        assert switch is not None
        if isinstance(command, Create):
            if command.order_epoch >= switch.order_epoch:
                switch.held.append(command)
            elif command.order_epoch < self._state.homes_epoch:
                self.refuse(command)
            return True
        if isinstance(command, HELD):
            switch.held.append(command)
            return True
        return False

    def is_early(self, command: Deliver) -> bool:
        """Tell whether a ride is of the new order already, and keep it for then."""
        switch = self._state.switch
        if switch is None or command.origin not in switch.finished:
            return False
        switch.held.append(command)
        return True

    def home_of(self, topic: int, origin: int) -> int | None:
        """Return the home of a topic in the order that the next ride of that stage belongs to; ``None``: unknown."""
        manager, switch = self._state.topics.get(topic), self._state.switch
        if manager is None:
            return None
        if switch is None or origin not in switch.finished:
            return manager.stage
        return next(stage for stage, topics in enumerate(switch.stages) if topic in topics)

    # -- the hand-over -----------------------------------------------------------------------------------------

    def _hand_over(self, switch: Switch) -> None:
        """Tell every other stage the numbers of this one, which is quiet, and the state of topics that go there."""
        state = self._state
        mine = [each for each in state.topics.values() if each.stage == state.index]
        numbers, passed = joined((each.id, each.number) for each in mine), places(state, mine)
        for other in range(state.count):
            if other != state.index:
                going = [
                    state.topics[topic] for topic in switch.stages[other] if state.topics[topic].stage == state.index
                ]
                first = SwitchRide(switch.order_epoch, numbers, passed=passed)
                parts = [first, *self._handing.parts(switch.order_epoch, going)]
                for part in parts[:-1]:
                    self._outbox.send(other, replace(part, more=True))
                self._outbox.send(other, parts[-1])

    def take(self, origin: int, ride: SwitchRide) -> None:
        """A part of another stage's hand-over: most of it is kept at once, one part in a step."""
        switch = self._state.switch
        assert switch is not None, "a stage hands over only when all are sealed"
        switch.parts.append(self._handing.take_numbers(ride))
        if not ride.more:
            switch.finished.add(origin)
            self._go_on(switch)

    # -- the switch --------------------------------------------------------------------------------------------

    def _switch(self, switch: Switch) -> None:
        """Go over to the new order, for the parts of all other stages are here."""
        state = self._state
        state.switch = None
        since = state.homes_epoch
        self._move(switch)
        self._take_numbers(switch.parts)
        for part in switch.parts:
            self._handing.take(part)
        mine = (state.topics[topic] for topic in switch.stages[state.index])
        came = [each for each in mine if each.moved == switch.order_epoch]
        self._moved.update(each.id for each in came if each.head)
        self._handing.came(came)
        self._begin_groups_anew()
        self._sessions.restart_timers()
        told = self.moved([each for each in state.topics.values() if each.moved > since], since)
        for session in state.sessions.values():
            if session.connected:
                self._outbox.reply(session.client_id, session.incarnation, told)
        if state.is_bottom:
            self.by = switch.by
            self._answer((switch.client_id, switch.incarnation), switch.request)
        state.due += switch.held

    def _move(self, switch: Switch) -> None:
        state = self._state
        state.order_epoch = state.homes_epoch = switch.order_epoch
        state.order = [topic for stage in switch.stages for topic in stage]
        state.on_stage = [bit_set(stage) for stage in switch.stages]
        left: set[int] = set()
        for stage, topics in enumerate(switch.stages):
            for topic in topics:
                manager = state.topics[topic]
                if manager.stage != stage:
                    if manager.stage == state.index:
                        left.add(topic)
                        state.kept -= len(manager.records)
                        manager.records, manager.head, manager.expired = {}, 0, 0
                        manager.marks, manager.mark_at = [], 0
                        manager.log_first, manager.log_base = 0, {}
                        manager.confirmed = manager.void = manager.abandoned = manager.late = 0
                    manager.stage, manager.moved = stage, switch.order_epoch
        if state.is_bottom:
            self._moved |= left
        for session in state.sessions.values():
            before = len(session.open)
            session.open = {place: None for place in session.open if place[0] not in left}
            state.open_numbers.add(session.owner, len(session.open) - before)
            session.passed_on, session.earlier = 0, None
            session.vouched = {}  # the last number of each topic further down is known now
            for topic in left.intersection(session.used):
                session.used[topic] = session.used[topic][0], 0

    def _take_numbers(self, parts: list[SwitchRide]) -> None:
        """Raise every ``LLC`` to its topic's ``LC``. What was told before rises again, in one order with the rest."""
        state = self._state
        known = [each for each in state.topics.values() if each.told and not each.has_passed]
        numbers = {each.id: each.number for each in known}
        for part in parts:
            for topic, number in pairs(part.numbers):
                manager = state.topics[topic]
                if manager.stage >= state.index and number > manager.number:
                    numbers[topic] = number
        hear(state, numbers.items(), places(state, known) + [part for each in parts for part in each.passed])

    def _begin_groups_anew(self) -> None:
        """The next timestamp of each topic regards its whole group (R21), for who fills in what has changed."""
        state, here = self._state, self._state.index
        state.overlaps.classes.place(state.on_stage[here], sum(state.on_stage[here + 1 :]))
        state.partings.begin_anew()
        for manager in state.topics.values():
            manager.filled = manager.idle_since = 0
            if manager.base:
                manager.base = {}
            manager.switched = manager.counted = manager.number
            manager.is_retired = False
        state.window_began = state.now
