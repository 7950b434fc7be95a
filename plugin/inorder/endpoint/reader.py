"""One topic of a subscriber: its clock, and its missing, passed over and given up numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from inorder.endpoint.barriers import CaughtUp
from inorder.endpoint.gaps import MAX_PASSED, JumpedNumbers, MissingNumbers, NumberSet
from inorder.endpoint.notifications import GapReason
from inorder.endpoint.waiting import Sequenced


class TopicReader:
    """A subscriber's knowledge of one topic, from the topic's start on. A topic that begins anew gets a new reader.

    Args:
        topic: the topic's id.
        start: the clock begins here; the first number to be read is the next one.
        broker: the broker of the topic's space.
        base: what counts as dependencies of the first number, as flat pairs (R8).
        given_up: what arrived before the start was known, and found no room.
    """

    __slots__ = (
        "base",
        "clock",
        "end",
        "given_up",
        "jumped",
        "missing",
        "passed",
        "reported",
        "restored",
        "start",
        "topic",
    )

    def __init__(
        self, topic: int, start: int, broker: CaughtUp, base: Sequence[int] = (), given_up: NumberSet | None = None
    ) -> None:
        self.topic = topic
        # The last number that was notified of or skipped. It only rises; whoever raises it wakes what sleeps on the
        # numbers up to it. What waits in the room has higher numbers (a forged stamp apart, see Turns.overtaken).
        self.clock = start
        # start <= clock, and it never changes: the subscription did not have what is at or below it.
        self.start = start
        # R22: a topic that was left is let go when the clock is there; None while it is read for good.
        self.end: int | None = None
        # R8: dependencies of number start + 1 alone, beside its own; empty once the clock is above the start.
        # Topics that begin together have the same list.
        self.base = base
        # A number is missing if it is above the clock, not above missing.known, and does not wait in the room.
        self.missing = MissingNumbers(start, broker)
        # Gaps have told of the numbers that were skipped or will be, up to this one. It only rises, and may be above
        # the clock: one gap tells of a whole run when the first of it is skipped (R17).
        self.reported = 0
        # R6: up to the clock, above what was reported; they have not come, and no gap has told of them.
        self.jumped = JumpedNumbers()
        # R5: gaps have told of them, and they have not come; the lowest are forgotten beyond MAX_PASSED ranges.
        self.passed = NumberSet()
        # Up to the start, where another domain has begun: they have not come, and what comes of them is not from before
        # the subscription; the lowest are forgotten beyond MAX_PASSED ranges.
        self.restored = NumberSet()
        # They came and found no room; their gap will say so, unless a log gives them back (R18).
        self.given_up = NumberSet() if given_up is None else given_up

    def __repr__(self) -> str:
        return f"<TopicReader {self.topic} at {self.clock} since {self.start}>"

    @property
    def unreported(self) -> int:
        """The lowest number that was neither notified of nor reported."""
        return max(self.clock, self.reported) + 1

    def add_base(self, entry: Sequenced) -> None:
        """Add the topic's base to the dependencies of its first number (R8)."""
        if entry.number == self.start + 1:
            entry.deps = [*entry.deps, *self.base]
        if self.clock > self.start:
            self.base = ()

    def told(self, first: int, last: int) -> None:
        """A gap tells of these numbers: what comes of them all the same is late (R5)."""
        self.passed.add(first, last)
        self.passed.keep(MAX_PASSED)

    def take_restored(self, number: int) -> bool:
        """Tell whether a number has yet to come that a new domain gave before the start was known; it has come now."""
        is_new = self.restored.discard(number)
        self.restored.keep(MAX_PASSED)
        return is_new

    def needs_any(self, through: int, present: Collection[int]) -> bool:
        """Tell whether a number up to ``through`` is missing (not ``present``) whose fate nobody has told yet."""
        confirmed = self.missing.confirmed
        return any(number not in present and number not in confirmed for number in range(self.clock + 1, through + 1))

    def loss_reason(self, number: int, loss_timeout: float) -> GapReason:
        """Return (once) why a confirmed number is given up."""
        if self.given_up.discard(number):
            return GapReason.OVERFLOW
        at = self.missing.unstamped_at
        known = self.missing.learned_at(number)
        since = 0.0 if known is None else known - loss_timeout
        return GapReason.UNSTAMPED if at is not None and at >= since else GapReason.LOST

    def proof_due(self, loss_timeout: float) -> float | None:
        """Return up to when, by the broker's time, all must be known to be read before a number is lost, is reported as
        jumped, or may be asked for (R24); ``None``: nothing waits for that."""
        missing, jumped = self.missing, self.jumped.due()
        loss = missing.next_loss(self.clock, loss_timeout)
        unasked = missing.unasked_at if missing.known > self.clock else None
        return min((each for each in (loss, unasked, jumped) if each is not None), default=None)

    def describe(self) -> dict[str, Any]:
        """Return everything that the reader knows, in plain containers."""
        return {
            "clock": self.clock,
            "start": self.start,
            "end": self.end,
            "base": list(self.base),
            "missing": self.missing.describe(),
            "reported": self.reported,
            "jumped": self.jumped.describe(),
            "passed": self.passed.describe(),
            "restored": self.restored.describe(),
            "given_up": self.given_up.describe(),
        }


class SubscriptionClock(Mapping[int, int]):
    """The last number notified of or skipped, by topic: the clocks of all readers, as they are when it is looked at."""

    __slots__ = ("_readers",)

    def __init__(self, readers: Mapping[int, TopicReader]) -> None:
        self._readers = readers

    def __getitem__(self, topic: int) -> int:
        return self._readers[topic].clock

    def __contains__(self, topic: object) -> bool:
        return topic in self._readers

    def __iter__(self) -> Iterator[int]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __repr__(self) -> str:
        return repr(dict(self))
