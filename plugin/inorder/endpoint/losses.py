"""Lost numbers: the confirmed and overdue ones that were not read before a barrier came back (R24)."""

from __future__ import annotations

from collections import deque

from inorder.endpoint.barriers import Brokers, CaughtUp
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced


class Losses:
    """The times for barriers at brokers, and the losses that the barriers prove."""

    def __init__(self, turns: Turns, brokers: Brokers) -> None:
        self._turns, self._brokers = turns, brokers

    @property
    def due(self) -> float | None:
        """Return when the next barrier is to begin (s), or ``None``."""
        return min((when for _, when in self._barriers_due()), default=None)

    def barriers(self, now: float) -> list[str]:
        """Return the spaces whose brokers are to be asked now."""
        asked = [broker for broker, due in self._barriers_due() if due <= now]
        for broker in asked:
            broker.begin(now)
        return [broker.space for broker in asked]

    def caught_up(self, space: str, now: float) -> None:
        """Mark numbers as lost that were overdue when a broker's barrier began, as the barrier has come back."""
        turns, broker, made = self._turns, self._brokers.of(space), list[Sequenced]()
        broker.passed(now)
        due = turns.agenda.proven(broker)
        for reader in due:
            made += self._lose_overdue(reader, now)
            reader.missing.ask_unread()
        turns.run(deque(made), now)
        for topic, reader in list(turns.jumping.items()):
            if reader.missing.broker is broker:
                turns.skip(reader, reader.jumped.overdue(broker.proven))
                if not reader.jumped:
                    del turns.jumping[topic]
        for reader in due:
            turns.agenda.note(reader)

    def not_caught_up(self, space: str, now: float) -> None:
        """A barrier will not come back: the connection to its broker is gone."""
        broker, turns = self._brokers.of(space), self._turns
        broker.failed(now)
        for reader in turns.agenda.waiting_for(broker):
            if reader.missing.ask_unread():
                turns.agenda.note(reader)

    def _barriers_due(self) -> list[tuple[CaughtUp, float]]:
        due = ((broker, broker.due(time)) for broker, time in self._turns.agenda.unproven())
        return [(broker, when) for broker, when in due if when is not None]

    def _lose_overdue(self, reader: TopicReader, now: float) -> list[Sequenced]:
        """Confirmed numbers that did not arrive within ``loss_timeout`` become holes."""
        turns, missing, made = self._turns, reader.missing, list[Sequenced]()
        clock, proven, loss = reader.clock, missing.broker.proven, turns.times.loss_timeout
        while (due := missing.next_loss(clock, loss)) is not None and due <= proven:
            number, deps = missing.next_lost()
            if number not in turns.room.topic(reader.topic):
                made.append(turns.put_hole(reader, number, deps, reader.loss_reason(number, loss), now))
        return made
