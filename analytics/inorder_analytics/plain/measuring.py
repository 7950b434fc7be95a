"""Computation of the whole result from rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

from msgspec.structs import replace

from inorder_analytics.parts import Ranks, RunPart, Topic, percent, percentiles, ranked, together
from inorder_analytics.plain.latency import EventTimes, lived
from inorder_analytics.plain.pairs import compared
from inorder_analytics.plain.recorded import Event, Recorded, event_of, recorded_runs
from inorder_analytics.reading import Row, Traces, rows
from inorder_analytics.results import Files, Result, SubscriberFigures, WindowFigures

WINDOW_S: Final = 60.0
MAX_PAIRS: Final = 200
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def measure(
    traces: Traces,
    *,
    window_s: float = WINDOW_S,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
    made_at: datetime | None = None,
) -> Result:
    """Measure all traces under a path.

    Args:
        window_s: seconds of a time window.
        max_pairs: the most pairs of subscribers that are compared in one run.
        seed: of the sample, where there are more.
        made_at: stands in the result; now, where it is not given.
    """
    read: list[int] = []

    def every() -> Iterable[Row]:
        for file, table in traces.tables():
            read.append(file.bytes)
            yield from rows(table)

    result = measure_rows(
        every(),
        path=traces.path,
        window_s=window_s,
        max_pairs=max_pairs,
        seed=seed,
        made_at=made_at or datetime.now(UTC),
    )
    files = Files(read=len(read), bytes=sum(read), damaged=traces.damaged)
    return replace(result, rows=result.rows + traces.copies, files=files)


def measure_rows(
    given: Iterable[Row],
    *,
    path: str = "",
    window_s: float = WINDOW_S,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
    made_at: datetime = EPOCH,
) -> Result:
    """Measure rows (:func:`inorder_analytics.reading.rows`)."""
    runs = list(recorded_runs(given).values())
    living = [list(lived(run)) for run in runs]
    window_us = round(window_s * 1_000_000)
    return together(
        [_part(run, own, window_us, max_pairs, seed) for run, own in zip(runs, living, strict=True)],
        _ranks(list(chain.from_iterable(living))),
        path=path,
        rows=sum(run.rows for run in runs),
        window_s=window_s,
        files=Files(),
        limit=max_pairs,
        seed=seed,
        made_at=made_at,
    )


def _part(run: Recorded, living: Sequence[EventTimes], window_us: int, max_pairs: int, seed: int) -> RunPart:
    sample, pairs = compared(run, max_pairs, seed)
    gaps: Counter[str] = Counter()
    for row in run.gaps:
        if row.number is not None:
            gaps[row.detail or ""] += (row.number if row.last_number is None else row.last_number) - row.number + 1
    return RunPart(
        run=run.run,
        subscribers=sorted(run.subscribers),
        publishers=sorted(run.publishers),
        sample=sample,
        ranks=_ranks(living),
        pairs=pairs,
        topics=_topics(run, living),
        by_subscriber=_by_subscriber(run, living),
        by_window=_by_window(run, living, window_us),
        paths=_paths(run),
        gaps=gaps,
        dropped=run.dropped_rows,
    )


def _ranks(living: Sequence[EventTimes]) -> Ranks:
    parts = {
        name: ranked(getattr(each, name) for each in living) for name in ("latency", "timestamp", "ens", "waiting")
    }
    return Ranks(**parts, clock_error=ranked(each.error for each in living if each.latency is not None))


def _paths(run: Recorded) -> list[tuple[int, int | None, int | None, int]]:
    ways = Counter(
        (row.stage, *((None, None) if _stages(row) is None else (row.entry_stage, row.top_stage)))
        for row in run.accepted.values()
        if row.stage is not None
    )
    return [(*way, count) for way, count in ways.items()]


def _entries(row: Row) -> int | None:
    """Return the entries of a publish's timestamp, its own number included."""
    if row.entries is not None:
        return int(row.entries)
    return None if row.dependencies is None else 1 + len(row.dependencies) // 2


def _stages(row: Row) -> int | None:
    """Return how many stages a publish's timestamp visited."""
    return None if row.entry_stage is None or row.top_stage is None else int(row.entry_stage - row.top_stage + 1)


# -- by topic, subscriber, window --------------------------------------------------------------------------------


def _topics(run: Recorded, living: Sequence[EventTimes]) -> list[Topic]:
    topics: dict[str, Topic] = {}
    for event in run.events:
        topic = topics.setdefault(label := run.label(event[:2]), Topic(label=label, topic_id=event[1]))
        topic.events, topic.topic_id = topic.events + 1, min(topic.topic_id, event[1])
    for row in run.notifications:
        topic = topics[run.label((row.domain, row.topic_id))]
        topic.late, topic.in_order = topic.late + (row.verdict == "late"), topic.in_order + (row.verdict == "in_order")
    by_label: dict[str, list[EventTimes]] = defaultdict(list)
    for each in living:
        by_label[run.label(each.event[:2])].append(each)
    for label, own in by_label.items():
        _add_accepted(topics[label], run, own)
    return list(topics.values())


def _add_accepted(topic: Topic, run: Recorded, living: Sequence[EventTimes]) -> None:
    topic.asked, topic.whole = sum(each.is_interesting for each in living), sum(each.is_prompt for each in living)
    timed = [each for each in living if each.latency is not None]
    topic.negative, topic.uncorrected = (
        sum(each.is_negative for each in timed),
        sum(each.error is None for each in timed),
    )
    topic.latency = ranked(each.latency for each in timed)
    published = [run.accepted[each.event] for each in living]
    topic.stamp_bytes, topic.stamped = _sum(row.stamp_bytes for row in published)
    topic.entries, topic.with_entries = _sum(map(_entries, published))
    topic.stages, topic.with_stages = _sum(map(_stages, published))
    homes = [
        (row.published_at or 0, each.event[2], row.stage)
        for each, row in zip(living, published, strict=True)
        if row.stage is not None
    ]
    topic.home = max(homes)[2] if homes else None


def _sum(values: Iterable[int | None]) -> tuple[int, int]:
    """Return the sum and the number of the known values."""
    known = [each for each in values if each is not None]
    return sum(known), len(known)


def _late_percent(notifications: Iterable[Row]) -> float | None:
    verdicts = Counter(row.verdict for row in notifications)
    return percent(verdicts["late"], verdicts.total())


def _by_subscriber(run: Recorded, living: Sequence[EventTimes]) -> list[SubscriberFigures]:
    notifications: dict[str, list[Row]] = defaultdict(list)
    for row in run.notifications:
        notifications[row.client].append(row)
    own: dict[str, list[int]] = defaultdict(list)
    meant: Counter[str] = Counter()
    for each in living:
        meant.update(run.interested(each.event))
        for client, latency in each.own.items():
            own[client].append(latency)
    return [
        SubscriberFigures(
            run=run.run,
            client=client,
            events=len({event_of(row) for row in notifications[client]}),
            late_percent=_late_percent(notifications[client]),
            notified_1s_percent=percent(sum(latency <= 1_000_000 for latency in own[client]), meant[client]),
            latency_ms=percentiles(ranked(own[client])),
        )
        for client in sorted(run.subscribers)
    ]


def _by_window(run: Recorded, living: Sequence[EventTimes], window_us: int) -> list[WindowFigures]:
    windows: dict[int, list[EventTimes]] = defaultdict(list)
    of_event: dict[Event, int] = {}
    for each in living:
        if each.published_at is not None:
            start = of_event[each.event] = each.published_at // window_us * window_us
            windows[start].append(each)
    notifications: dict[int, list[Row]] = defaultdict(list)
    for row in run.notifications:
        event = event_of(row)
        if event in of_event:
            notifications[of_event[event]].append(row)
    return [
        WindowFigures(
            run=run.run,
            start=EPOCH + timedelta(microseconds=start),
            events=len(windows[start]),
            late_percent=_late_percent(notifications[start]),
            notified_1s_percent=percent(
                sum(each.is_prompt for each in windows[start]), sum(each.is_interesting for each in windows[start])
            ),
            latency_ms=percentiles(ranked(each.latency for each in windows[start])),
        )
        for start in sorted(windows)
    ]
