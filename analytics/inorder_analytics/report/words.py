"""Figures in words: their format, their meaning, and their conclusion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from inorder_analytics.results import Summary

NONE: Final = "\N{EN DASH}"
"""The traces do not say."""


def count(value: float | None) -> str:
    """Return a whole number with all its digits, grouped."""
    return NONE if value is None else f"{value:,}"


def degree(value: float | None) -> str:
    """Return a share of one with up to six digits, cut, so that a share below 1 never looks like 1."""
    if value is None:
        return NONE
    if value in (0, 1):
        return f"{value:.0f}"
    cut = math.floor(value * 1e6) / 1e6 if value > 0.5 else float(f"{value:.4g}")
    return f"{cut:.6f}".rstrip("0").ljust(4, "0")


def percent(value: float | None) -> str:
    """Return a percentage that is never rounded up to 100 nor down to 0."""
    if value is None:
        return NONE
    if 0 < value < 0.01:
        return "< 0.01 %"
    return f"{decimal(min(value, 99.99) if value < 100 else value, 2)} %"


def decimal(value: float | None, digits: int = 2) -> str:
    """Return a number with at most so many digits after the point."""
    if value is None:
        return NONE
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ms(value: float | None) -> str:
    """Return milliseconds in a readable form."""
    if value is None:
        return NONE
    size = abs(value)
    if size >= 1000:
        return f"{decimal(value / 1000, 2)} s"
    return f"{decimal(value, 0 if size >= 100 else 1 if size >= 10 else 2)} ms"


def size(value: float | None) -> str:
    """Return bytes in a readable form."""
    if value is None:
        return NONE
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{decimal(value, 1)} {unit}"
        value /= 1000
    return f"{decimal(value, 1)} TB"


def bytes_each(value: float | None) -> str:
    """Return bytes of an event."""
    return NONE if value is None else f"{decimal(value, 1)} B"


def seconds(value: float) -> str:
    """Return a duration in seconds."""
    return f"{value:g} s"


def instant(value: datetime) -> str:
    """Return a time in UTC."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def many(number: int, one: str, more: str) -> str:
    """Return a number with its noun."""
    return f"{count(number)} {one if number == 1 else more}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table of figures.

    Attributes:
        raw, delivered: where it stands in a summary; ``raw`` is empty where the broker alone has none.
        ideal: what a perfect order has; ``None`` where there is none such.
    """

    label: str
    meaning: str
    delivered: str
    write: Callable[[Any], str]
    raw: str = ""
    ideal: float | None = None

    def of(self, summary: Summary, which: str) -> str:
        """Return the value as text; ``which`` is raw or delivered."""
        path = self.raw if which == "raw" else self.delivered
        return self.write(attrgetter(path)(summary)) if path else ""

    def is_ideal(self, summary: Summary) -> bool | None:
        """Tell whether the delivered value is ideal; ``None`` if that is open."""
        value = attrgetter(self.delivered)(summary)
        return None if self.ideal is None or value is None else value == self.ideal


ORDER: Final = (
    Figure(
        "Ordering degree",
        "How alike pairs of subscribers saw their common events; 1 is the very same order.",
        "ordering_degree_delivered", degree, "ordering_degree_raw", 1,
    ),
    Figure(
        "Lowest ordering degree of a pair",
        "Of the two subscribers that agreed least.",
        "ordering_degree_delivered_min", degree, "ordering_degree_raw_min", 1,
    ),
    Figure(
        "TNO violations",
        "Pairs of events that two subscribers saw in opposite orders.",
        "tno_violations_delivered", count, "tno_violations_raw", 0,
    ),
    Figure(
        "Conflict rate",
        "The share of neighbours in one subscriber's order that the other has the other way round.",
        "conflict_rate_delivered", degree, "conflict_rate_raw", 0,
    ),
    Figure(
        "Displacement, mean",
        "By how many places an event stood elsewhere for the other subscriber.",
        "displacement_delivered.mean", decimal, "displacement_raw.mean", 0,
    ),
    Figure(
        "Displacement, greatest",
        "The greatest of these distances.",
        "displacement_delivered.max", count, "displacement_raw.max", 0,
    ),
    Figure(
        "Sequences detected by both",
        "Of all sequences of three events that one of two subscribers saw, those that the other saw too.",
        "sequence_detection_percent", percent, "sequence_detection_raw_percent", 100,
    ),
)  # fmt: skip

NOTIFICATION: Final = (
    Figure("Late", "Notifications that were tagged: a later event had been delivered before.", "late_percent", percent),
    Figure(
        "Notified in 1 s",
        "Events of which everybody who subscribes to them knew within a second of the publish call.",
        "notified_1s_percent", percent,
    ),
)  # fmt: skip

COST: Final = (
    Figure("Timestamp as it travelled", "Bytes with each event, on average.", "bytes_per_event", bytes_each),
    Figure(
        "Timestamp at 24 bytes an entry",
        "What it would have been with the entries of the papers.",
        "bytes_per_event_24", bytes_each,
    ),
    Figure(
        "Entries of a timestamp",
        "The event's own number and those that it depends on, on average.",
        "entries_per_event", decimal,
    ),
    Figure("Stages visited", "How many stages a timestamp went through, on average.", "stages_per_event", decimal),
)  # fmt: skip

PARTS: Final = (
    ("Timestamp", "from the publish call until the event has its number", "timestamp_ms"),
    ("Broker", "from there until the broker has brought it to the last subscriber", "ens_ms"),
    ("Waiting", "until everything that comes before it was delivered", "waiting_ms"),
    ("Together", "from the publish call to the last notification", "latency_ms"),
)
"""Name, meaning and place in a summary of the parts of the latency."""

GAPS: Final = {
    "abandoned": "given up, since their publisher was gone or did not confirm",
    "lost": "confirmed, never arrived, and in no event log",
    "skipped": "jumped over by a subscriber that waits for a bounded time",
    "expired": "older than what is kept, or of a subscription that had ended",
    "unstamped": "arrived without their timestamps",
    "overflow": "given up by a subscriber that was too slow",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The headline of a report: ``tone`` is good, bad or open."""

    tone: str
    headline: str
    text: str


def verdict_of(summary: Summary) -> Verdict:
    """Return the analysis' conclusion in two sentences."""
    if summary.ordering_degree_delivered is None:
        return Verdict(
            "open",
            "There is no order to judge",
            "No two subscribers have events in common. At least two that subscribe to the same topics must record.",
        )
    alone = _broker_alone(summary)
    if summary.tno_violations_delivered:
        pairs = many(summary.tno_violations_delivered, "pair of events", "pairs of events")
        return Verdict("bad", "The order was broken", f"Subscribers disagree about {pairs}. {alone}".strip())
    return Verdict("good", "The order held", f"All subscribers saw one order. {alone}".strip())


def _broker_alone(summary: Summary) -> str:
    if summary.ordering_degree_raw is None:
        return ""
    if not summary.tno_violations_raw:
        return "The broker alone brought the events in one order, too."
    pairs = many(summary.tno_violations_raw, "pair of events", "pairs of events")
    return (
        f"The broker alone would have shown {pairs} in opposite orders (ordering degree "
        f"{degree(summary.ordering_degree_raw)})."
    )
