"""Durable subscriptions: R18, what clients and operators ask of the bottom stage. ``resuming`` has the rest."""

from __future__ import annotations

from inorder.protocol.pairs import pairs
from inorder.protocol.portions import fitting, portions
from inorder.protocol.wire import Done, Durable, KnownSubscription, SpaceFilter, Subscriptions
from inorder_worker.sequencer.commands import EndDurable, SaveNumbers
from inorder_worker.sequencer.ending import Ending
from inorder_worker.sequencer.rides import ExpireRide
from inorder_worker.sequencer.sequencing import Subscription
from inorder_worker.sequencer.state import Outbox, StageState
from inorder_worker.sequencer.subscribing import Subscribing

SUBSCRIPTIONS_IN_FRAME = 500
"""Subscriptions in one answer to an operator."""


class DurableSubscriptions:
    """The department of the bottom stage that keeps saved clocks."""

    def __init__(self, state: StageState, outbox: Outbox, subscribing: Subscribing, ending: Ending) -> None:
        self._state, self._outbox, self._subscribing, self._ending = state, outbox, subscribing, ending

    def command(self, command: SaveNumbers | EndDurable) -> None:
        """A command of this department."""
        if isinstance(command, SaveNumbers):
            self.save(command)
            self._ending.read(command)
        else:
            self.end(command)

    def save(self, command: SaveNumbers) -> None:
        """The application is done with these numbers. Clocks only rise; one of a former process counts no more."""
        known = self._state.overlaps.get(command.client_id)
        clock = self._state.clocks.get(command.client_id)
        if known is not None and clock is not None and known.incarnation == command.incarnation:
            for topic, number in pairs(command.numbers):
                number = self._given(topic, number)
                if topic in known.active and number > clock.numbers.get(topic, 0):
                    clock.numbers[topic] = number
                    clock.has_begun(topic)
            reached = command.reached[: 1 + self._state.count]  # no more stages are there
            if self._is_reached(reached):
                clock.reached = reached
        self._outbox.reply(command.client_id, command.incarnation, Done(command.request))

    def _given(self, topic: int, number: int) -> int:
        """Bound a client's saved number by the last one that this stage has given: the event of a later one would be
        skipped when it comes. (Numbers of topics further up are bounded where the subscription resumes.)"""
        manager = self._state.topics.get(topic)
        is_known = manager is not None and manager.stage == self._state.index
        return min(number, manager.number) if is_known and manager is not None else number

    def _is_reached(self, reached: list[int]) -> bool:
        """Tell whether an order epoch and the ticks behind it can have been reached, as far as this stage knows. A
        client that was misled by a forged stamp goes back later on (R23)."""
        state = self._state
        return len(reached) > 1 and reached[0] <= state.homes_epoch and reached[1] <= state.tick

    def end(self, command: EndDurable) -> None:
        """End a subscription whose client must be certain of its end (R12)."""
        state, name = self._state, command.subscriber
        known = state.overlaps.get(name)
        sessions = [each for each in state.sessions.values() if each.client_id == name]
        refusal = ""
        if known is None or not known.filters:  # what is left of it, if anything, lingers (R10)
            refusal = "there is no subscription of that client"
        elif any(each.connected for each in sessions):
            refusal = "that client is connected; close it first"
        elif sessions:
            refusal = "that client was heard less than session_timeout ago and may still notify; try again later"
        else:
            self._subscribing.expired(ExpireRide(name, known.incarnation, known.version))
        self._outbox.reply(command.client_id, command.incarnation, Done(command.request, refusal))

    # -- queries -----------------------------------------------------------------------------------------------

    def durable(self, request: int, client_id: str) -> Durable:
        """Return what a client may resume."""
        known = self._state.overlaps.get(client_id)
        filters: list[SpaceFilter] = []
        if known is not None and known.durable and client_id in self._state.clocks:
            filters = known.filters
        return Durable(request, filters)

    def show(self, request: int) -> list[Subscriptions]:
        """Return all subscriptions, in frames of a bounded size."""
        found = portions(map(self._described, self._subscribed()), SUBSCRIPTIONS_IN_FRAME)
        frames = [Subscriptions(request, part, more=True) for part in found]
        frames[-1].more = False
        return frames

    def _subscribed(self) -> list[Subscription]:
        return sorted((each for each in self._state.overlaps if each.filters), key=lambda each: each.client_id)

    def _described(self, known: Subscription) -> KnownSubscription:
        state = self._state
        session = state.sessions.get((known.client_id, known.incarnation))
        away = -1 if session is None else 0 if session.connected else max(1, state.now - session.since)
        filters = fitting(known.filters)
        return KnownSubscription(known.client_id, known.durable, away, filters, len(known.active), known.owner)
