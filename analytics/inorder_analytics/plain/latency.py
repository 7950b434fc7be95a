"""Latency from publish to notification, in parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from inorder_analytics.plain.recorded import Event, Recorded
from inorder_analytics.reading import Row

SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class EventTimes:
    """An accepted event with its times at the subscribers that wanted it. All in microseconds, corrected by the clocks'
    offsets.

    Attributes:
        published_at: by the publisher's own clock.
        own: by interested and notified client, from the publish call to its notification.
        missing: interested clients that were not notified.
        latency: to the last of those that were notified; the next three are its parts at that one.
        error: the bound of its error, ``None`` where one of the two clocks is not known.
    """

    event: Event
    published_at: int | None
    own: dict[str, int]
    missing: int
    latency: int | None = None
    timestamp: int | None = None
    ens: int | None = None
    waiting: int | None = None
    error: int | None = None

    @property
    def is_interesting(self) -> bool:
        """Tell whether some subscriber wanted the event."""
        return bool(self.own) or self.missing > 0

    @property
    def is_prompt(self) -> bool:
        """Tell whether all subscribers that wanted the event were notified within a second."""
        return not self.missing and bool(self.own) and max(self.own.values()) <= SECOND_US

    @property
    def is_negative(self) -> bool:
        """Tell whether a part is below zero, as the clocks are further apart than was measured."""
        return any(each is not None and each < 0 for each in (self.latency, self.timestamp, self.ens, self.waiting))


def lived(run: Recorded) -> Iterator[EventTimes]:
    """Return the accepted events of a run."""
    for event, published in run.accepted.items():
        told = run.first_notified.get(event, {})
        wanted = run.interested(event)
        began = _corrected(run, published, "published_at")
        own: dict[str, int] = {}
        for client in wanted:
            ended = _corrected(run, told[client], "delivered_at") if client in told else None
            if began is not None and ended is not None:
                own[client] = ended - began
        missing = len(wanted) - len(own)
        if not own:
            yield EventTimes(event, published.published_at, own, missing)
            continue
        last = min(own, key=lambda client: (-own[client], client))
        yield _split(run, event, published, told[last], own, missing, own[last])


def _split(
    run: Recorded, event: Event, published: Row, notified: Row, own: dict[str, int], missing: int, latency: int
) -> EventTimes:
    stamped, arrived = _corrected(run, published, "stamped_at"), _corrected(run, notified, "arrived_at")
    errors = run.clock_of(published)[1], run.clock_of(notified)[1]
    return EventTimes(
        event,
        published.published_at,
        own,
        missing,
        latency,
        timestamp=_between(_corrected(run, published, "published_at"), stamped),
        ens=_between(stamped, arrived),
        waiting=_between(arrived, _corrected(run, notified, "delivered_at")),
        error=None if errors[0] is None or errors[1] is None else errors[0] + errors[1],
    )


def _corrected(run: Recorded, row: Row, name: str) -> int | None:
    """Return a row's time by the worker's clock."""
    value: int | None = getattr(row, name)
    return None if value is None else value + run.clock_of(row)[0]


def _between(since: int | None, until: int | None) -> int | None:
    return None if since is None or until is None else until - since
