"""The jobs of a demo run, and their results. These structs also travel between its processes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec

QUIET_SECONDS = 3.0
"""Without inorder: so long after the last arrival nothing more is expected."""

QUIET_SECONDS_ORDERED = 12.0
"""With inorder: longer, since it first finds out whether a missing event is lost (R17: 1 s, then 5 s)."""

SETTLE_SECONDS = 0.2
"""So long a complete subscriber still listens for repetitions."""

TICK_SECONDS = 0.001
"""Publishers send what is due, then sleep so long."""


class BrokerKind(StrEnum):
    """The brokers on which the demo can run."""

    MQTT = "mqtt"
    REDIS = "redis"
    MEMORY = "memory"


class Channel(msgspec.Struct, frozen=True):
    """A topic with its space (``None`` with one broker) and its broker."""

    topic: str
    space: str | None
    url: str


class SiteJob(msgspec.Struct, frozen=True, kw_only=True):
    """One site's job in one half of the demo: one publisher, and one subscriber of all topics.

    Attributes:
        name: of the site.
        kind: the broker, as in :class:`BrokerKind`.
        publishes: the site's own topic.
        subscribes: the topics of all sites, in the same order at all sites.
        count: events of one topic.
        rate: events a second of one publisher.
        workers: addresses of the ordering workers; empty for the half without inorder.
        traces, run: where its clients record, and as which run; empty: nowhere.
    """

    name: str
    kind: str
    publishes: Channel
    subscribes: tuple[Channel, ...]
    count: int
    rate: float
    workers: tuple[str, ...] = ()
    traces: str = ""
    run: str = ""

    @property
    def total(self) -> int:
        """The number of events of which the subscriber should be notified."""
        return self.count * len(self.subscribes)


class SiteResult(msgspec.Struct, kw_only=True):
    """The sequence that one site's subscriber saw.

    Attributes:
        sequence: the events in the order of notification; event ``i`` of topic ``t`` is ``t * count + i``.
        latencies_ms: from the publish call to the notification, of every event.
        verdicts: notifications by verdict (with inorder only).
        gaps: the numbers that inorder reported missing.
        problems: what went wrong, in words; empty in a good run.
        seconds: from the common start to the last notification.
    """

    sequence: list[int] = []
    latencies_ms: list[float] = []
    verdicts: dict[str, int] = {}
    gaps: int = 0
    problems: list[str] = []
    seconds: float = 0.0


class Link(Protocol):
    """A site's connection to the process that runs the demo."""

    async def ready(self) -> float:
        """Report that the site is subscribed; return the common start, as ``time.monotonic``."""

    def progress(self, seen: int) -> None:
        """Report how many events the subscriber has seen."""


@dataclass
class Recorder:
    """Records the events that a subscriber sees. Used by one thread, or under the caller's lock."""

    job: SiteJob
    result: SiteResult = field(default_factory=SiteResult)
    distinct: set[int] = field(default_factory=set)
    last_arrival: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._offsets = {channel.topic: i * self.job.count for i, channel in enumerate(self.job.subscribes)}

    def saw(self, topic: str, payload: bytes) -> None:
        """Record an event that arrived."""
        now = time.monotonic()
        index, sent = read_payload(payload)
        event = self._offsets[topic] + index
        self.result.sequence.append(event)
        self.result.latencies_ms.append((now - sent) * 1000)
        self.distinct.add(event)
        self.last_arrival = now

    @property
    def is_complete(self) -> bool:
        """Tell whether every event was seen."""
        return len(self.distinct) >= self.job.total

    def is_over(self, quiet_seconds: float) -> bool:
        """Tell whether every event was seen, or nothing came for so long."""
        return self.is_complete or time.monotonic() - self.last_arrival > quiet_seconds

    def finished(self, start: float) -> SiteResult:
        """Return the result."""
        self.result.seconds = max(0.0, self.last_arrival - start)
        return self.result


class Pace:
    """The times at which a publisher's events are due."""

    def __init__(self, job: SiteJob, start: float) -> None:
        self._count, self._rate, self._start = job.count, job.rate, start
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Tell whether every event was returned."""
        return self._next >= self._count

    def due(self) -> Sequence[int]:
        """Return the events that have become due since the last call."""
        elapsed = time.monotonic() - self._start
        until = min(self._count, int(elapsed * self._rate) + 1) if elapsed >= 0 else 0
        events = range(self._next, max(self._next, until))
        self._next = events.stop
        return events


def make_payload(index: int) -> bytes:
    """Make an event's payload: its index and the time of the publish call (the clock is the whole machine's)."""
    return b"%d %.6f" % (index, time.monotonic())


def read_payload(payload: bytes) -> tuple[int, float]:
    """Return index and time from a payload."""
    index, _, sent = payload.partition(b" ")
    return int(index), float(sent)
