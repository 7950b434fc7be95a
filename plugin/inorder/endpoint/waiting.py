"""Events that wait for their turn, each asleep on the first number it still needs.

A waiting event is looked at again only when that number is reached, so an event costs O(its dependencies) in all,
however many others wait (R4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

import msgspec

from inorder.endpoint.notifications import GapReason, Verdict
from inorder.endpoint.ticks import Ticks, Waiting

TIDY_AT = 64
"""Places of those that left, beyond twice as many as wait, before they are dropped."""


class Sequenced(msgspec.Struct, gc=False, eq=False):
    """An event with a timestamp, on its way to the application; or a hole: a number without an event (R17).

    Attributes:
        topic, number: its own number.
        deps: flat list of what comes before it.
        content: whatever the client needs to make the notification; ``None`` for a hole. It must not refer back to
            this object: the garbage collector does not look here, so that many waiting events cost it nothing.
        size: bytes it occupies while it waits.
        arrived: when it arrived (s).
        retained: the broker sent it from its store.
        ticks: see :mod:`inorder.endpoint.ticks`.
        verdict: set when it is notified.
        hole: for a hole, why the number is skipped; ``None`` in it for a void, which is skipped without report.
        done: it left (notified, dropped or replaced); what still points to it ignores it.
        repaired: it came from the event log (R18).
        waited_topic, waited_number: the number that it slept on last, 0 where it never slept.
    """

    topic: int
    number: int
    deps: list[int]
    content: Any
    size: int
    arrived: float
    retained: bool = False
    ticks: Ticks = ()
    verdict: Verdict = Verdict.IN_ORDER
    is_hole: bool = False
    hole: GapReason | None = None
    done: bool = False
    repaired: bool = False
    waited_topic: int = 0
    waited_number: int = 0

    def __repr__(self) -> str:
        kind = f"hole ({self.hole or 'void'})" if self.is_hole else "event"
        return f"<{kind} {self.topic}:{self.number} after {self.deps}>"


def hole(topic: int, number: int, deps: list[int], reason: GapReason | None, now: float) -> Sequenced:
    """Return a number that is to be skipped when its own dependencies are met (R17)."""
    return Sequenced(topic, number, deps, None, 0, now, is_hole=True, hole=reason)


class WaitingRoom:
    """All waiting events by topic and number, with the numbers that wake them.

    Args:
        has_limits: events may go before their turn (R6): :meth:`lowest`, :meth:`before` and :meth:`oldest` are asked.

    Attributes:
        entries: what waits, by topic and number. Do not change it.
        size: bytes that waiting events count for.
        count: waiting events, holes not counted.
        changed: called with the topic of what has come, or left; ``None``: nobody is interested.
    """

    def __init__(self, has_limits: bool) -> None:
        self._has_limits = has_limits
        self.entries: dict[int, dict[int, Sequenced]] = {}
        self._order: dict[int, list[int]] = {}
        self._alarms: dict[int, dict[int, list[Sequenced]]] = {}
        self._arrivals: deque[Sequenced] = deque()
        self._by_ticks = Waiting()
        self.size = 0
        self.count = 0
        self.changed: Callable[[int], None] | None = None

    @property
    def alarms(self) -> Mapping[int, Mapping[int, list[Sequenced]]]:
        """The sleeping events by topic and number, with some that have left since. Do not change it."""
        return self._alarms

    def get(self, topic: int, number: int) -> Sequenced | None:
        """Return what waits under this number."""
        waiting = self.entries.get(topic)
        return None if waiting is None else waiting.get(number)

    def topic(self, topic: int) -> dict[int, Sequenced]:
        """Return what waits in a topic, by number."""
        return self.entries.get(topic, {})

    def events(self) -> list[Sequenced]:
        """Return all events that wait."""
        return [each for waiting in self.entries.values() for each in waiting.values() if not each.is_hole]

    def put(self, entry: Sequenced) -> None:
        """Let an entry wait. It is not woken before :meth:`sleep` says on what."""
        topic, number = entry.topic, entry.number
        waiting = self.entries.get(topic)
        if waiting is None:
            self.entries[topic] = {number: entry}
        else:
            waiting[number] = entry
        if not entry.is_hole:
            self.count += 1
            self.size += entry.size
        if self._has_limits:
            heappush(self._order.setdefault(topic, []), number)
            if not entry.is_hole:
                self._arrivals.append(entry)
                self._by_ticks.put(entry)
        if self.changed is not None:
            self.changed(topic)

    def remove(self, entry: Sequenced) -> None:
        """An entry leaves. Its heap and alarm places are cleared when they are next met."""
        entry.done = True
        waiting = self.entries.get(entry.topic)
        if waiting is not None and waiting.get(entry.number) is entry:
            del waiting[entry.number]
            if not entry.is_hole:
                self.count -= 1
                self.size -= entry.size
            if self._has_limits:
                self._tidy(entry.topic, waiting)
            if self.changed is not None:
                self.changed(entry.topic)

    def _tidy(self, topic: int, waiting: dict[int, Sequenced]) -> None:
        """Drop the places of events that have left, once these are the majority."""
        if len(self._arrivals) > 2 * self.count + TIDY_AT:
            self._arrivals = deque(each for each in self._arrivals if not each.done)
            self._by_ticks.tidy(2 * self.count + TIDY_AT)
        if len(self._order[topic]) > 2 * len(waiting) + TIDY_AT:
            self._order[topic] = sorted(waiting)

    def sleep(self, entry: Sequenced, topic: int, number: int) -> None:
        """Wake the entry when ``topic``, whose clock is below it, reaches ``number``."""
        entry.waited_topic, entry.waited_number = topic, number
        alarms = self._alarms.get(topic)
        if alarms is None:
            self._alarms[topic] = {number: [entry]}
        elif (sleepers := alarms.get(number)) is not None:
            sleepers.append(entry)
        else:
            alarms[number] = [entry]

    def wake(self, topic: int, number: int) -> Sequence[Sequenced]:
        """Return (and forget) what sleeps on a number."""
        alarms = self._alarms.get(topic)
        return alarms.pop(number, ()) if alarms else ()

    def wake_range(self, topic: int, first: int, last: int) -> list[Sequenced]:
        """Return (and forget) all that sleeps on numbers of ``topic`` from ``first`` to ``last``."""
        alarms = self._alarms.get(topic, {})
        numbers = range(first, last + 1)
        due = sorted(each for each in alarms if each in numbers) if len(alarms) < len(numbers) else numbers
        return [entry for each in due for entry in alarms.pop(each, ())]

    def wake_from(self, topic: int, number: int) -> list[Sequenced]:
        """Return (and forget) all that sleeps on ``number`` of ``topic`` or a higher one."""
        alarms = self._alarms.get(topic, {})
        due = [each for each in alarms if each >= number]
        return [entry for each in due for entry in alarms.pop(each)]

    def lowest(self, topic: int) -> Sequenced | None:
        """Return the waiting entry of ``topic`` with the lowest number."""
        order = self._order.get(topic)
        if not order:
            return None
        waiting = self.entries[topic]
        while order:
            entry = waiting.get(order[0])
            if entry is not None:
                return entry
            heappop(order)
        return None

    def before(self, entry: Sequenced) -> Sequenced | None:
        """Return a waiting event that comes before the entry by its ticks (R23)."""
        found: Sequenced | None = self._by_ticks.before(entry.ticks)
        return found

    def oldest(self) -> Sequenced | None:
        """Return the event that waits longest."""
        arrivals = self._arrivals
        while arrivals and arrivals[0].done:
            arrivals.popleft()
        return arrivals[0] if arrivals else None

    def drop(self, topic: int) -> list[Sequenced]:
        """Forget what waits in a topic; return what slept on its numbers."""
        for entry in list(self.topic(topic).values()):
            self.remove(entry)
        self.entries.pop(topic, None)
        self._order.pop(topic, None)
        if self.changed is not None:
            self.changed(topic)
        return self.wake_from(topic, 0)

    def describe(self) -> dict[str, Any]:
        """Return the waiting events, by topic and number; the sleepers of each number; and, with bounded waiting, the
        waiting times, the longest first."""
        asleep = {
            topic: {number: [each for each in sleepers if not each.done] for number, sleepers in its.items()}
            for topic, its in self._alarms.items()
        }
        arrivals = [each for each in self._arrivals if not each.done]
        return {
            "entries": {topic: dict(waiting) for topic, waiting in self.entries.items() if waiting},
            "asleep": {topic: kept for topic, its in asleep.items() if (kept := {n: s for n, s in its.items() if s})},
            "arrivals": [(each.topic, each.number) for each in arrivals],
        }
