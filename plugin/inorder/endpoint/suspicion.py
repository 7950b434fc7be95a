"""Forged and damaged numbers: what claims a number that nobody has issued goes out without an order (R6, R17).

R6 lets an event go at the limit whatever its timestamp says. This departs from it for implausible timestamps only: one
forged stamp would else move the clock beyond all numbers that its topic will ever have, and every event after it would
be a duplicate. Such an event is held beyond the limits, the stages are asked for exactly its numbers (at once), and
what they never issued goes out without an order, as in strict mode.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from inorder.endpoint.gaps import MAX_ASKED
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced

MAX_LEAP = 100_000
"""A bounded reader passes over this many numbers beyond what is known to exist without asking whether they do."""

Claim = tuple[int, int]
"""A topic and a number of it that an event says exists."""


def is_leap(reader: TopicReader, number: int) -> bool:
    """Tell whether the clock would leap to a number without anyone having vouched for it."""
    return number > max(reader.clock, reader.missing.vouched) + MAX_LEAP


def again(entry: Sequenced) -> Sequenced:
    """Return an entry to be received once more; references to the old one are ignored."""
    other = copy(entry)
    other.done = False
    return other


class Suspicion:
    """Held events, whose numbers nobody has vouched for."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        # Their turn came by a limit; they left the waiting room. Each has a claim, and a reader of its topic.
        self._doubted: list[Sequenced] = []
        # Bytes that they count for.
        self._size = 0
        # When the stages are to be asked (s); of no meaning while nothing is doubted.
        self._ask_at = 0.0

    @property
    def count(self) -> int:
        """The number of held events."""
        return len(self._doubted)

    @property
    def size(self) -> int:
        """Bytes that they count for."""
        return self._size

    @property
    def due(self) -> float | None:
        """Return when the stages are to be asked (s), or ``None``."""
        return self._ask_at if self._doubted else None

    def claims(self, entry: Sequenced) -> list[Claim]:
        """Return the numbers to which the clocks would leap for an event without anyone having vouched for them."""
        readers = self._turns.readers
        claims = []
        if is_leap(readers[entry.topic], entry.number - 1):
            claims.append((entry.topic, entry.number))
        parts = iter(entry.deps)
        for topic in parts:
            number, reader = next(parts, 0), readers.get(topic)
            if reader is not None and is_leap(reader, number):
                claims.append((topic, number))
        return claims

    def doubt(self, entry: Sequenced, now: float) -> None:
        """Hold an event until the stages told whether its numbers exist."""
        self._turns.room.remove(entry)
        times, size = self._turns.times, self._size + entry.size
        if len(self._doubted) >= times.max_waiting or size > times.max_waiting_bytes:
            self._turns.counts.overflow += 1
            self._turns.unsequence(entry)
            return
        if not self._doubted:
            self._ask_at = now
        self._hold(again(entry))  # alarms still point to the one that left

    def _hold(self, entry: Sequenced) -> None:
        self._doubted.append(entry)
        self._size += entry.size

    def take(self) -> list[Sequenced]:
        """Return (and let go of) all that is held."""
        doubted, self._doubted, self._size = self._doubted, [], 0
        return doubted

    def take_of(self, topics: set[int]) -> list[Sequenced]:
        """Return (and let go of) what is held of these topics."""
        taken = []
        for entry in self.take():
            if entry.topic in topics:
                taken.append(entry)
            else:
                self._hold(entry)
        return taken

    def questions(self, now: float) -> dict[int, list[int]]:
        """Return the numbers to ask for now, by topic; asked again after ``gap_timeout`` while the doubt lasts."""
        claimed: dict[int, list[int]] = {}
        if self._doubted and self._ask_at <= now:
            self._ask_at = now + self._turns.times.gap_timeout
            for topic, number in sorted({claim for entry in self._doubted for claim in self.claims(entry)}):
                numbers = claimed.setdefault(topic, [])
                if len(numbers) < MAX_ASKED:
                    numbers.append(number)
        return claimed

    def claimed(self, topic: int) -> set[int]:
        """Return the numbers of a topic that events which are held claim."""
        return {number for entry in self._doubted for of, number in self.claims(entry) if of == topic}

    def settle(self, unknown: set[Claim], now: float) -> None:
        """Check the held events again: numbers that nobody issued (``unknown``) discredit an event, and one without
        doubts may go."""
        cleared: list[Sequenced] = []
        for entry in self.take():
            if entry.topic not in self._turns.readers:
                continue
            claims = self.claims(entry)
            if not unknown.isdisjoint(claims):
                self._turns.unsequence(entry)
            elif claims:
                self._hold(entry)
            else:
                cleared.append(entry)
        for entry in cleared:
            self._turns.receive(entry, now)

    def discredit(self, reader: TopicReader, number: int, asked_at: float, now: float) -> list[Sequenced]:
        """Discredit stamps with ``number``, or a dependency on it, for a number that was not issued when the stage
        answered. An event from before the question is notified without an order. Later ones may be stamped after the
        answer left: they stay, and teach their numbers anew.

        Returns what is to be looked at again."""
        turns, topic = self._turns, reader.topic
        reader.missing.forget_from(number, now)
        claiming = [each for each in turns.room.topic(topic).values() if each.number >= number]
        asleep = [each for each in turns.room.wake_from(topic, number) if not each.done]
        for entry in claiming + asleep:
            if not entry.done and entry.arrived < asked_at:
                turns.room.remove(entry)
                if not entry.is_hole:
                    turns.unsequence(entry)
        for entry in claiming:
            if not entry.done:
                turns.learn(reader, entry.number, now)
        return asleep

    def describe(self) -> dict[str, Any]:
        """Return what is held, and when it is asked for."""
        return {"events": list(self._doubted), "size": self._size, "ask_at": self._ask_at}
