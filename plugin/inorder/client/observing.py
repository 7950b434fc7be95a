"""A client's reports to the workers for operators: its counts, and the lives of a sample of events.

Nothing waits for it and nothing decides by it; while no worker is reached it is left out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from heapq import heappush, heapreplace
from typing import Final

from inorder.endpoint.notifications import Verdict
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.wire import ClientCounts, EventLife, Frame, Report, Reported, Wait

SAMPLED: Final = 32
"""Lives of publishes in one report at most, and as many of notifications."""
KEPT_OFFSETS: Final = 8
"""Answers of which the one with the least error tells the clock's offset."""
DRIFT: Final = 500e-6
"""What a clock may gain in a second, s: as fast as NTP slews one. So an older answer has an error that grows."""


def mixed(topic: int, number: int) -> int:
    """Return a 32-bit hash of an event id, the same everywhere and evenly distributed over events."""
    return (number * 0x9E3779B1 + topic * 0x85EBCA6B) & 0xFFFFFFFF


class LifeSample:
    """The events of one interval with the lowest hashes. Who sees other events of the same stream besides chooses the
    same ones of it, or fewer.

    Attributes:
        bound: an event is chosen, for now, if its mixed bits are lower.
    """

    def __init__(self, size: int = SAMPLED) -> None:
        self._size = size
        self._heap: list[tuple[int, int, EventLife]] = []
        self.bound = 1 << 32
        self._count = 0

    def add(self, bits: int, life: EventLife) -> None:
        """Keep the life of a chosen event."""
        self._count += 1
        entry = -bits, self._count, life
        if len(self._heap) < self._size:
            heappush(self._heap, entry)
        else:
            heapreplace(self._heap, entry)
        if len(self._heap) == self._size:
            self.bound = -self._heap[0][0]

    def take(self) -> list[EventLife]:
        """Return the lives in the order of observation, and begin the next interval."""
        lives = [life for _, _, life in sorted(self._heap, key=lambda each: each[1])]
        self._heap.clear()
        self.bound = 1 << 32
        return lives


class ClockOffset:
    """The offset from this machine's clock to the worker's: the quicker an answer, the more exact.

    Attributes:
        best: the offset and the bound of its error (µs; -1: not known), when it was answered last.
        at_us: when that was, by this machine's clock, µs since 1970.
    """

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}
        self._found: deque[tuple[int, int, int]] = deque(maxlen=KEPT_OFFSETS)  # when, offset, error
        self.best, self.at_us = (0, -1), 0

    def asked(self, request: int, now_us: int) -> None:
        """Note that a question leaves."""
        self._asked = {request: now_us}

    def answered(self, request: int, at_us: int, now_us: int) -> None:
        """Note the worker's answer with its time."""
        asked = self._asked.pop(request, None)
        if asked is None:
            return
        if now_us < asked:  # the clock was set back meanwhile: nothing that was found holds any more
            self.forget()
            return
        offset, error = at_us - (asked + now_us) // 2, (now_us - asked + 1) // 2
        aged = [(each, found + 1 + int(abs(now_us - at) * DRIFT)) for at, each, found in self._found]
        if any(abs(offset - each) > error + bound for each, bound in aged):
            self._found.clear()  # a clock was set: of what was before nothing is left
            aged = []
        self._found.append((now_us, offset, error))
        self.best = min((*aged, (offset, error)), key=lambda each: each[1])
        self.at_us = now_us

    def forget(self) -> None:
        """Forget the offset, as either clock is another one from now on."""
        self._asked.clear()
        self._found.clear()
        self.best = (0, -1)


class Observer:
    """Observes the ways of a client's events and makes its reports.

    Args:
        counts: returns the client's present counts.
        waits: returns what holds its events up.
        now: the event loop's clock, s.
    """

    def __init__(
        self, counts: Callable[[], ClientCounts], waits: Callable[[], list[Wait]], now: Callable[[], float]
    ) -> None:
        self._counts, self._waits, self._now = counts, waits, now
        self._published, self._notified = LifeSample(), LifeSample()
        self._offset = ClockOffset()
        self._told: ClientCounts | None = None
        self._told_waits: list[Wait] = []
        self._since_epoch = 0.0

    # -- what happens ------------------------------------------------------------------------------------------

    def accepted(self, topic: int, number: int, published_at: float, stamped_at: float) -> None:
        """Note that the broker has accepted an event of ours (times: s, of the event loop)."""
        bits = mixed(topic, number)
        if bits < self._published.bound:
            times = [self._microseconds(each) for each in (published_at, stamped_at, self._now())]
            self._published.add(bits, EventLife(topic, number, times))

    def notified(self, entry: Sequenced, verdict: Verdict) -> None:
        """Note that the application was notified of an event."""
        bits = mixed(entry.topic, entry.number)
        if bits < self._notified.bound:
            times = [self._microseconds(entry.arrived), self._microseconds(self._now())]
            life = EventLife(entry.topic, entry.number, times, verdict.value, entry.waited_topic, entry.waited_number)
            self._notified.add(bits, life)

    # -- reports -----------------------------------------------------------------------------------------------

    def report(self, request: int) -> Report | None:
        """Return the report to send now, or ``None`` without news."""
        counts, waits = self._counts(), self._waits()
        lives = [*self._published.take(), *self._notified.take()]
        if counts == self._told and not lives and waits == self._told_waits:
            return None
        report = Report(request, self._told is None, counts, *self._offset.best, lives, waits)
        self._told, self._told_waits = counts, waits
        self._offset.asked(request, self._wall_us())
        return report

    def told(self, frame: Reported) -> None:
        """Note that a worker has taken a report."""
        self._offset.answered(frame.request, frame.at_us, self._wall_us())

    @property
    def offset(self) -> tuple[int, int, int]:
        """Return the offset to the worker's clock, its error bound (µs; -1: unknown), and its time (µs since 1970)."""
        return *self._offset.best, self._offset.at_us

    def other_worker(self) -> None:
        """Note that reports go to another worker from now on."""
        self._offset.forget()

    def _wall_us(self) -> int:
        """Return the time of day, and use it as the reference for times of the event loop."""
        wall = time.time()
        self._since_epoch = wall - self._now()
        return int(wall * 1_000_000)

    def _microseconds(self, at: float) -> int:
        if not self._since_epoch:
            self._wall_us()
        return int((at + self._since_epoch) * 1_000_000)


class Reporting:
    """Sends a client's reports to the workers at intervals.

    Args:
        interval: how often, s; 0: never.
        is_heard: tells whether the worker of the bottom stage is reached.
        next_request: returns an id for a report.
        send: sends one.
    """

    def __init__(
        self,
        observer: Observer,
        interval: float,
        is_heard: Callable[[], bool],
        next_request: Callable[[], int],
        send: Callable[[Frame], None],
    ) -> None:
        self.observer, self._interval = observer, interval
        self._is_heard, self._next_request, self._send = is_heard, next_request, send
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start reporting."""
        if self._interval:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._report_due)

    def _report_due(self) -> None:
        self.report()
        self.begin()

    def report(self) -> None:
        """Send a report of everything seen since the last one."""
        if self._interval and self._is_heard():
            report = self.observer.report(self._next_request())
            if report is not None:
                self._send(report)

    def end(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()
