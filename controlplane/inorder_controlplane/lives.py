"""Clients' observations of single events: the durations of their ways, and the moments of one event's life.

Times come from the clocks of many machines. Each client tells how far its clock is from that of the worker, and the
bound of the error of that; everything here is in the worker's time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from inorder.protocol.wire import EventLife, SeenLife

PERCENTILES: Final = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of ``count`` durations (ms), none below 0, whatever the clocks' errors."""

    p50: float
    p90: float
    p99: float
    count: int


@dataclass(frozen=True, slots=True)
class Latencies:
    """The durations of the parts of the way from ``publish`` to the notification; ``None`` without observations.

    Attributes:
        timestamp: from the publish call to the timestamp.
        ens: from the timestamp to the arrival from the broker.
        wait: from there to the notification: what total order cost.
        total: from the publish call to the notification.
        error_ms: the largest bound of the error that two machines' clocks may add to ``ens`` and ``total``.
    """

    timestamp: Percentiles | None
    ens: Percentiles | None
    wait: Percentiles | None
    total: Percentiles | None
    error_ms: float


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment of an event: when (µs since 1970, the worker's time), at which client, give or take ``error_us`` (-1:
    not known). ``waited_topic`` and ``waited_number``: what it had waited for, else 0."""

    at_us: int
    what: str
    who: str
    error_us: int
    verdict: str = ""
    waited_topic: int = 0
    waited_number: int = 0


def latencies(lives: Sequence[SeenLife]) -> Latencies:
    """Return the latencies of the observed events."""
    made, seen = _publishers(lives), [each for each in lives if not _is_publishers(each.life)]
    pairs = [(made[key], each) for each in seen if (key := _key(each.life)) in made]
    return Latencies(
        timestamp=_percentiles(each.life.times[1] - each.life.times[0] for each in made.values()),
        ens=_percentiles(_at(own, 0) - _at(publisher, 1) for publisher, own in pairs),
        wait=_percentiles(each.life.times[1] - each.life.times[0] for each in seen),
        total=_percentiles(_at(own, 1) - _at(publisher, 0) for publisher, own in pairs),
        error_ms=max((_error(*pair) for pair in pairs), default=0) / 1000,
    )


def moments(lives: Iterable[SeenLife]) -> list[Moment]:
    """Return the moments of one event in the order of time, and of equal ones the publisher's first."""
    return sorted(_moments(lives), key=lambda each: each.at_us)


def _moments(lives: Iterable[SeenLife]) -> Iterator[Moment]:
    for each in sorted(lives, key=lambda seen: not _is_publishers(seen.life)):
        life, who = each.life, each.client_id
        names = ("published", "stamped", "accepted") if _is_publishers(life) else ("arrived", "notified")
        for at, what in enumerate(names):
            is_end = what == "notified"
            waited = (life.waited_topic, life.waited_number) if is_end else (0, 0)
            yield Moment(_at(each, at), what, who, each.error_us, life.verdict if is_end else "", *waited)


def _publishers(lives: Iterable[SeenLife]) -> dict[tuple[int, int], SeenLife]:
    return {_key(each.life): each for each in lives if _is_publishers(each.life)}


def _is_publishers(life: EventLife) -> bool:
    return not life.verdict


def _key(life: EventLife) -> tuple[int, int]:
    return life.topic, life.number


def _at(seen: SeenLife, position: int) -> int:
    return seen.life.times[position] + seen.offset_us


def _error(one: SeenLife, other: SeenLife) -> int:
    """Return the error bound of a duration between two clients; 0 within one, which has one clock."""
    return 0 if one.client_id == other.client_id else max(one.error_us, 0) + max(other.error_us, 0)


def _percentiles(durations_us: Iterable[int]) -> Percentiles | None:
    durations = sorted(max(0, each) / 1000 for each in durations_us)
    if not durations:
        return None
    p50, p90, p99 = [durations[ceil(len(durations) * each / 100) - 1] for each in PERCENTILES]
    return Percentiles(p50, p90, p99, len(durations))
