"""The parts of each run, and their combination into a result: each figure is defined here once, for every engine.

Everything but percentiles can be added up. What each figure means stands in :mod:`inorder_analytics.results`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import fsum
from typing import Any, Final

import msgspec

from inorder_analytics.results import (
    WORST_PAIRS,
    ClockError,
    Displacement,
    EventName,
    Files,
    PairFigures,
    Pairs,
    Percentiles,
    Result,
    RunFigures,
    StageOverhead,
    SubscriberFigures,
    Summary,
    TopicFigures,
    TopicOrder,
    TopicPopularity,
    WindowFigures,
    Witness,
)
from inorder_worker.sequencer.popularity import swaps

ALPHA: Final = 0.1
BETA: Final = 0.2
"""The papers' choice for the swap function (R15)."""

Ranked = Sequence[int] | None
"""The 50th, 90th and 99th percentile and the maximum, in microseconds; empty or ``None`` where there are no values."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The common stream of two subscribers.

    Attributes:
        length: S.
        displaced, farthest: the sum and the maximum of D, by how many places an event's ranks differ.
        descents: neighbours in the first one's order that the second has the other way round.
        opposite: pairs of events in opposite orders.
        detected: sequences of three neighbours that both have.
        before, after: the places in the first one's own stream of the first two neighbours that the second has the
            other way round.
    """

    length: int = 0
    displaced: int = 0
    farthest: int = 0
    descents: int = 0
    opposite: int = 0
    detected: int = 0
    before: int | None = None
    after: int | None = None

    @property
    def degree(self) -> float | None:
        """The ordering degree: the sum of (S - D) / S^2."""
        return (self.length * self.length - self.displaced) / (self.length * self.length) if self.length else None

    @property
    def occurred(self) -> int:
        """The number of sequences of three neighbours that one of the two has."""
        return 2 * max(self.length - 2, 0) - self.detected

    @property
    def witnesses(self) -> list[int]:
        """The places of the two events that show a violation, or nothing."""
        return [place for place in (self.before, self.after) if place is not None]


class ComparedPair(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of two subscribers of a run; a sorts before b."""

    a: str
    b: str
    raw: Compared
    delivered: Compared
    witness: Witness | None = None

    def figures(self, run: str) -> PairFigures:
        """Return the pair's figures in a result."""
        return PairFigures(
            run=run,
            a=self.a,
            b=self.b,
            length=self.delivered.length,
            length_raw=self.raw.length,
            ordering_degree_raw=self.raw.degree,
            ordering_degree_delivered=self.delivered.degree,
            tno_violations_raw=self.raw.opposite,
            tno_violations_delivered=self.delivered.opposite,
            witness=self.witness,
        )


class Topic(msgspec.Struct, kw_only=True):
    """Sums over the events of one topic.

    Attributes:
        topic_id: the lowest, where domains have several.
        late, in_order: notifications.
        asked, whole: events that were meant for somebody, and those of which everybody was notified within a second.
        negative, uncorrected: events with a latency, see :class:`~inorder_analytics.results.Summary`.
        stamp_bytes, entries, stages: sums, over ``stamped``, ``with_entries`` and ``with_stages`` accepted events.
        home: the stage where it was last.
    """

    label: str
    topic_id: int
    events: int = 0
    late: int = 0
    in_order: int = 0
    asked: int = 0
    whole: int = 0
    negative: int = 0
    uncorrected: int = 0
    stamp_bytes: int = 0
    stamped: int = 0
    entries: int = 0
    with_entries: int = 0
    stages: int = 0
    with_stages: int = 0
    home: int | None = None
    latency: list[int] = []


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of the parts of the latency, over one run or all."""

    latency: list[int] = msgspec.field(default_factory=list)
    timestamp: list[int] = msgspec.field(default_factory=list)
    ens: list[int] = msgspec.field(default_factory=list)
    waiting: list[int] = msgspec.field(default_factory=list)
    clock_error: list[int] = msgspec.field(default_factory=list)


class RunPart(msgspec.Struct, kw_only=True):
    """The part of a result that belongs to one run, whatever other runs there are."""

    run: str
    subscribers: list[str]
    publishers: list[str]
    sample: Pairs
    ranks: Ranks = msgspec.field(default_factory=Ranks)
    pairs: list[ComparedPair] = msgspec.field(default_factory=list)
    topics: list[Topic] = msgspec.field(default_factory=list)
    by_subscriber: list[SubscriberFigures] = msgspec.field(default_factory=list)
    by_window: list[WindowFigures] = msgspec.field(default_factory=list)
    paths: list[tuple[int, int | None, int | None, int]] = msgspec.field(default_factory=list)
    gaps: dict[str, int] = msgspec.field(default_factory=dict)
    dropped: int = 0

    def by_topic(self) -> list[TopicFigures]:
        """Return the figures of each topic by its label."""
        return [
            TopicFigures(
                run=self.run,
                topic=each.label,
                events=each.events,
                late_percent=percent(each.late, each.late + each.in_order),
                notified_1s_percent=percent(each.whole, each.asked),
                latency_ms=percentiles(each.latency),
            )
            for each in sorted(self.topics, key=lambda each: each.label)
        ]

    def popularity(self) -> list[TopicPopularity]:
        """Return each topic's events per 1,000, the most popular first."""
        total = sum(each.events for each in self.topics)
        return [
            TopicPopularity(run=self.run, topic=each.label, events=each.events, per_1000=1000 * each.events / total)
            for each in sorted(self.topics, key=lambda each: (-each.events, each.label))
        ]

    def overhead(self) -> list[StageOverhead]:
        """Return what each stage handled for its own topics and for others."""
        own: dict[int, int] = {}
        foreign: dict[int, int] = {}
        for home, entry, top, events in self.paths:
            own[home] = own.get(home, 0) + events
            if entry is None or top is None:
                continue
            for stage in range(top, entry + 1):
                if stage != home:
                    foreign[stage] = foreign.get(stage, 0) + events
        return [
            StageOverhead(
                run=self.run,
                stage=stage,
                own=own.get(stage, 0),
                foreign=foreign.get(stage, 0),
                percent=percent(foreign.get(stage, 0), own.get(stage, 0) + foreign.get(stage, 0)),
            )
            for stage in sorted(own.keys() | foreign.keys())
        ]

    def topic_order(self) -> TopicOrder:
        """Return the topic order that the run's popularity suggests (R15)."""
        known = [(each, each.home) for each in self.topics if each.home is not None]
        if not known:
            return TopicOrder(run=self.run)
        stages: list[list[Topic]] = [[] for _ in range(max(home for _, home in known) + 1)]
        for topic, home in known:
            stages[home].append(topic)
        popular = iter(sorted((each for each, _ in known), key=_by_popularity))
        suggested = [[next(popular).label for _ in stage] for stage in stages]
        # Topics by their place among all, as ids may be of several domains: the same where there is one.
        numbered = sorted(self.topics, key=lambda each: (each.topic_id, each.label))
        ids = {each.label: at for at, each in enumerate(numbered)}
        counts = {ids[each.label]: each.events for each in self.topics}
        found = swaps([[ids[each.label] for each in stage] for stage in stages], counts, (), ALPHA, BETA)
        return TopicOrder(
            run=self.run,
            suggested=suggested,
            swaps=[(numbered[one].label, numbered[two].label) for one, two in found],
        )


def summary(parts: Iterable[RunPart], ranks: Ranks) -> Summary:
    """Return the figures of runs together.

    Args:
        ranks: percentiles over the events of all of them.
    """
    parts = list(parts)
    topics = [each for part in parts for each in part.topics]
    pairs = [pair for part in parts for pair in part.pairs]
    gaps = Counter[str]()
    for part in parts:
        gaps.update(part.gaps)

    def total(name: str) -> int:
        return sum(getattr(each, name) for each in topics)

    entries = mean(total("entries"), total("with_entries"))
    return Summary(
        events=total("events"),
        subscribers=len({client for part in parts for client in part.subscribers}),
        publishers=len({client for part in parts for client in part.publishers}),
        topics=len({each.label for each in topics}),
        **order_figures(pairs),
        late_percent=percent(total("late"), total("late") + total("in_order")),
        notified_1s_percent=percent(total("whole"), total("asked")),
        latency_ms=percentiles(ranks.latency),
        timestamp_ms=percentiles(ranks.timestamp),
        ens_ms=percentiles(ranks.ens),
        waiting_ms=percentiles(ranks.waiting),
        clock_error_ms=_clock_error(ranks.clock_error),
        negative_latencies=total("negative"),
        uncorrected=total("uncorrected"),
        bytes_per_event=mean(total("stamp_bytes"), total("stamped")),
        bytes_per_event_24=None if entries is None else 24 * entries,
        entries_per_event=entries,
        stages_per_event=mean(total("stages"), total("with_stages")),
        gaps=dict(sorted(gaps.items())),
        dropped_rows=sum(part.dropped for part in parts),
    )


def order_figures(pairs: Sequence[ComparedPair]) -> dict[str, Any]:
    """Return the order figures of pairs of subscribers, by the names of a summary."""
    return stream_figures([each.raw for each in pairs], "raw") | stream_figures(
        [each.delivered for each in pairs], "delivered"
    )


def stream_figures(streams: Sequence[Compared], which: str) -> dict[str, Any]:
    """Return the order figures of pairs' common streams, by the names of a summary.

    Args:
        which: ``raw`` or ``delivered``.
    """
    degrees = [each.degree for each in streams if each.degree is not None]
    length, detected = (sum(getattr(each, name) for each in streams) for name in ("length", "detected"))
    neighbours = sum(each.length - 1 for each in streams if each.length)
    detection = "sequence_detection_raw_percent" if which == "raw" else "sequence_detection_percent"
    return {
        f"ordering_degree_{which}": mean(fsum(each.length * (each.degree or 0) for each in streams), length),
        f"ordering_degree_{which}_min": min(degrees, default=None),
        f"tno_violations_{which}": sum(each.opposite for each in streams),
        f"conflict_rate_{which}": mean(sum(each.descents for each in streams), neighbours),
        f"displacement_{which}": Displacement(
            mean=mean(sum(each.displaced for each in streams), length),
            max=max((each.farthest for each in streams), default=0) if length else None,
        ),
        detection: percent(detected, sum(each.occurred for each in streams)),
    }


def together(
    parts: Sequence[RunPart],
    ranks: Ranks,
    *,
    path: str,
    rows: int,
    window_s: float,
    files: Files,
    limit: int,
    seed: int,
    made_at: datetime | None = None,
) -> Result:
    """Return the result of runs, sorted by their ids.

    Args:
        ranks: percentiles over the events of all of them.
        limit, seed: of the sample of pairs.
        made_at: stands in the result; now, where it is not given.
    """
    return Result(
        **_fields(summary(parts, ranks)),
        path=path,
        made_at=made_at or datetime.now(UTC),
        rows=rows,
        window_s=window_s,
        files=files,
        pairs=_pairs_together(parts, limit, seed),
        by_run=[RunFigures(run=part.run, pairs=part.sample, **_fields(summary([part], part.ranks))) for part in parts],
        by_topic=[each for part in parts for each in part.by_topic()],
        by_subscriber=[each for part in parts for each in part.by_subscriber],
        by_window=[each for part in parts for each in part.by_window],
        worst_pairs=worst_first(pair.figures(part.run) for part in parts for pair in part.pairs)[:WORST_PAIRS],
        message_overhead=[each for part in parts for each in part.overhead()],
        popularity=[each for part in parts for each in part.popularity()],
        topic_order=[part.topic_order() for part in parts],
    )


def _fields(found: Summary) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Summary.__struct_fields__}


def _pairs_together(parts: Iterable[RunPart], limit: int, seed: int) -> Pairs:
    """Return the numbers of all pairs and of the compared ones in all runs."""
    samples = [part.sample for part in parts]
    return Pairs(
        total=sum(each.total for each in samples), used=sum(each.used for each in samples), limit=limit, seed=seed
    )


def worst_first(pairs: Iterable[PairFigures]) -> list[PairFigures]:
    """Return pairs by ordering degree, delivered first, then raw, the lowest first; those without one come last."""

    def rank(each: PairFigures) -> tuple[float, float, str, str, str]:
        delivered, raw = _or_last(each.ordering_degree_delivered), _or_last(each.ordering_degree_raw)
        return delivered, raw, each.run, each.a, each.b

    return sorted(pairs, key=rank)


def witness(events: Mapping[int, tuple[str, int]], compared: Compared) -> Witness | None:
    """Return the two events of a violation: ``events`` has label and number by place in the first one's stream."""
    if not compared.witnesses:
        return None
    first, second = (events[place] for place in compared.witnesses)
    return Witness(
        first=EventName(topic=first[0], number=first[1]), second=EventName(topic=second[0], number=second[1])
    )


def percent(part: int, whole: int) -> float | None:
    """Return a part of a whole in per cent."""
    return 100 * part / whole if whole else None


def mean(total: float, count: int) -> float | None:
    """Return a mean, or ``None`` of nothing."""
    return total / count if count else None


def nearest_rank(rising: Sequence[int], percent: int) -> int | None:
    """Return the smallest of rising values with at least this share of them no greater."""
    return rising[(percent * len(rising) + 99) // 100 - 1] if rising else None


def ranked(values: Iterable[int | None]) -> list[int]:
    """Return the 50th, 90th and 99th percentile and the maximum of the known values; nothing of nothing."""
    rising = sorted(each for each in values if each is not None)
    return [found for percent in (50, 90, 99, 100) if (found := nearest_rank(rising, percent)) is not None]


def percentiles(ranked: Ranked) -> Percentiles:
    """Return percentiles in milliseconds."""
    if not ranked:
        return Percentiles()
    return Percentiles(p50=ranked[0] / 1000, p90=ranked[1] / 1000, p99=ranked[2] / 1000)


def _by_popularity(topic: Topic) -> tuple[int, int, str]:
    return -topic.events, topic.topic_id, topic.label


def _or_last(degree: float | None) -> float:
    return 2.0 if degree is None else degree


def _clock_error(ranked: Ranked) -> ClockError:
    return ClockError(p50=ranked[0] / 1000, p99=ranked[2] / 1000, max=ranked[3] / 1000) if ranked else ClockError()
