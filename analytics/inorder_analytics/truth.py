"""The truth of generated runs, known by construction, in the names of :class:`inorder_analytics.results.Summary`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, Final

import msgspec
import numpy as np

from inorder_analytics.generating import MOST_PAIRS, SHUFFLES, Ints, MadeRun, Plan, Reception
from inorder_analytics.parts import Compared, percent, percentiles, ranked, stream_figures
from inorder_analytics.plain.streams import compare

_COMPARED: Final = [[compare(one, two) for two in SHUFFLES] for one in SHUFFLES]
NAMED: Final = 1_000
"""Planted violations that are named; more are counted."""


@dataclass(slots=True)
class Truth:
    """Collects the truth run by run.

    Attributes:
        pairs: raw and delivered streams of two subscribers; ``None`` where there are too many to say.
        latencies: of all events that reached anybody, to the last one, in microseconds.
    """

    plan: Plan
    pairs: tuple[list[Compared], list[Compared]] | None = field(default_factory=lambda: ([], []))
    latencies: list[Ints] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    topics: Counter[str] = field(default_factory=Counter)
    prompt: int = 0
    entries: int = 0
    stamp_bytes: int = 0
    stages: int = 0
    publishers: set[int] = field(default_factory=set)
    runs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, run: MadeRun, latencies: Ints, reached: Ints, stages: Ints, names: Sequence[str]) -> None:
        """Add one run.

        Args:
            latencies: of each event, to the last subscriber that was notified.
            reached: how many were notified of each.
            names: of the topics.
        """
        order, subscribers = run.order, len(run.seen)
        self.latencies.append(latencies[reached > 0])
        prompt = int(np.sum((reached == subscribers) & (latencies <= 1_000_000)))
        self.prompt += prompt
        self.entries += int(order.entries.sum())
        self.stamp_bytes += int(order.stamp_bytes.sum())
        self.stages += int(stages.sum())
        self.publishers.update(np.unique(order.publisher).tolist())
        counts = np.bincount(order.topic, minlength=len(names))
        self.topics.update({name: int(count) for name, count in zip(names, counts, strict=True) if count})
        for subscriber, event in run.violations:
            two = [{"topic": names[order.topic[at]], "number": int(order.number[at])} for at in (event + 1, event)]
            self.violations.append({"run": run.name, "subscriber": subscriber_name(subscriber), "events": two})
        pairs = None if subscribers * (subscribers - 1) // 2 > MOST_PAIRS else _pairs(run)
        if pairs is None or self.pairs is None:
            self.pairs = None
        else:
            for known, new in zip(self.pairs, pairs, strict=True):
                known += new
        lost, late = (sum(len(getattr(each, name)) for each in run.seen) for name in ("lost", "late"))
        figures = {"run": run.name, "events": run.events, "late": late, "lost": lost, "violations": len(run.violations)}
        self.runs.append({**figures, **_order(pairs), "notified_1s_percent": percent(prompt, run.events)})

    def to_plain(self) -> dict[str, Any]:
        """Return the truth in plain JSON types."""
        plan = self.plan
        late, lost = (sum(run[name] for run in self.runs) for name in ("late", "lost"))
        notifications = plan.events * plan.subscribers - lost
        latencies = np.sort(np.concatenate(self.latencies)).tolist()
        return {
            "plan": asdict(plan),
            "events": plan.events,
            "subscribers": plan.subscribers,
            "publishers": len(self.publishers),
            "topics": len(self.topics),
            "notifications": notifications,
            "late": late,
            "late_percent": percent(late, notifications),
            "gaps": {"lost": lost} if lost else {},
            "dropped_rows": 0,
            **_order(self.pairs),
            "notified_1s_percent": percent(self.prompt, plan.events),
            "latency_ms": msgspec.to_builtins(percentiles(ranked(latencies))),
            "negative_latencies": 0,
            "uncorrected": 0,
            "bytes_per_event": self.stamp_bytes / plan.events,
            "bytes_per_event_24": 24 * self.entries / plan.events,
            "entries_per_event": self.entries / plan.events,
            "stages_per_event": self.stages / plan.events,
            "popularity": dict(self.topics.most_common()),
            "planted": len(self.violations),
            "violations": self.violations[:NAMED],
            "runs": self.runs,
        }


def subscriber_name(at: int) -> str:
    """Return a subscriber's client id."""
    return f"subscriber-{at + 1:05}"


def publisher_name(at: int) -> str:
    """Return a publisher's client id."""
    return f"publisher-{at + 1:02}"


def _pairs(run: MadeRun) -> tuple[list[Compared], list[Compared]]:
    planted = Counter(subscriber for subscriber, _ in run.violations)
    raw, delivered = [], []
    for one, two in combinations(range(len(run.seen)), 2):
        raw.append(_raw(run.events, run.seen[one], run.seen[two]))
        delivered.append(_delivered(run.events, run.seen[one], run.seen[two], planted[one] + planted[two]))
    return raw, delivered


def _raw(events: int, one: Reception, two: Reception) -> Compared:
    """Compare two subscribers' arrivals: each block adds what its two shuffles differ by, as nothing is lost."""
    kinds = len(SHUFFLES)
    both = np.bincount(one.shuffles * kinds + two.shuffles, minlength=kinds**2).reshape(kinds, kinds)
    each = [(int(both[a, b]), _COMPARED[a][b]) for a in range(kinds) for b in range(kinds) if both[a, b]]
    sums = {
        name: sum(count * getattr(common, name) for count, common in each)
        for name in ("displaced", "opposite", "descents")
    }
    length = events - len(np.union1d(one.lost, two.lost))
    return Compared(length=length, farthest=max((common.farthest for _, common in each), default=0), **sums)


def _delivered(events: int, one: Reception, two: Reception, planted: int) -> Compared:
    """Compare two subscribers' notifications: each planted violation swaps two neighbours that both have."""
    gone = np.union1d(np.union1d(one.lost, two.lost), np.union1d(one.late, two.late))
    sums = {"displaced": 2 * planted, "opposite": planted, "descents": planted}
    return Compared(length=events - len(gone), farthest=int(planted > 0), **sums)


def _order(pairs: tuple[list[Compared], list[Compared]] | None) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for which, streams in zip(("raw", "delivered"), pairs or ([], []), strict=True):
        figures |= msgspec.to_builtins(stream_figures(streams, which))
    known = {name: value for name, value in figures.items() if not name.startswith("sequence_detection")}
    return dict.fromkeys(known) if pairs is None else known
