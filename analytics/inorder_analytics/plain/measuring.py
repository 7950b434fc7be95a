"""From rows to the whole result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from inorder_analytics.plain.latency import Lived, lived
from inorder_analytics.plain.overhead import entries_of, message_overhead, popularity, stages_of, topic_order
from inorder_analytics.plain.pairs import Pair, compared, order_figures, worst_pairs
from inorder_analytics.plain.percentiles import in_ms, mean, ms, nearest_rank, percent
from inorder_analytics.plain.recorded import Event, Recorded, event_of, recorded_runs
from inorder_analytics.reading import Row, Traces, rows
from inorder_analytics.results import (
    ClockError,
    Files,
    Pairs,
    Result,
    RunFigures,
    SubscriberFigures,
    Summary,
    TopicFigures,
    WindowFigures,
)

WINDOW_S: Final = 60.0
MAX_PAIRS: Final = 200
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Measured:
    """One run, and what all figures are made of."""

    run: Recorded
    pairs: Pairs
    compared: list[Pair]
    lived: list[Lived] = field(default_factory=list)


def measure(
    traces: Traces,
    *,
    window_s: float = WINDOW_S,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
    made_at: datetime | None = None,
) -> Result:
    """Measure all that lies under a path.

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
    runs = [_measured(run, max_pairs, seed) for run in recorded_runs(given).values()]
    window_us = round(window_s * 1_000_000)
    return Result(
        path=path,
        made_at=made_at,
        rows=sum(each.run.rows for each in runs),
        window_s=window_s,
        pairs=_all_pairs(runs, max_pairs, seed),
        by_run=[RunFigures(run=each.run.run, pairs=each.pairs, **_summary([each])) for each in runs],
        by_topic=[figures for each in runs for figures in _by_topic(each)],
        by_subscriber=[figures for each in runs for figures in _by_subscriber(each)],
        by_window=[figures for each in runs for figures in _by_window(each, window_us)],
        worst_pairs=worst_pairs([pair for each in runs for pair in each.compared]),
        message_overhead=[overhead for each in runs for overhead in message_overhead(each.run)],
        popularity=[topic for each in runs for topic in popularity(each.run)],
        topic_order=[topic_order(each.run) for each in runs],
        **_summary(runs),
    )


def _measured(run: Recorded, max_pairs: int, seed: int) -> _Measured:
    return _Measured(run, *compared(run, max_pairs, seed), list(lived(run)))


def _all_pairs(runs: Sequence[_Measured], limit: int, seed: int) -> Pairs:
    total, used = sum(each.pairs.total for each in runs), sum(each.pairs.used for each in runs)
    return Pairs(total=total, used=used, limit=limit, seed=seed)


# -- the summary -----------------------------------------------------------------------------------------------------


def _summary(runs: Sequence[_Measured]) -> dict[str, Any]:
    """Return the fields of a summary, of one run or of several together."""
    recorded = [each.run for each in runs]
    pairs = [pair for each in runs for pair in each.compared]
    notifications = [row for run in recorded for row in run.notifications]
    living = [each for measured in runs for each in measured.lived]
    gaps: Counter[str] = Counter()
    for row in chain.from_iterable(run.gaps for run in recorded):
        if row.number is not None:
            last = row.number if row.last_number is None else row.last_number
            gaps[row.detail or ""] += last - row.number + 1
    summary = Summary(
        events=sum(len(run.events) for run in recorded),
        subscribers=len(set().union(*(run.subscribers for run in recorded))),
        publishers=len(set().union(*(run.publishers for run in recorded))),
        topics=len({run.label(event[:2]) for run in recorded for event in run.events}),
        late_percent=_late_percent(notifications),
        notified_1s_percent=_notified_1s(living),
        gaps=dict(sorted(gaps.items())),
        dropped_rows=sum(run.dropped_rows for run in recorded),
        **order_figures([pair.raw for pair in pairs], "raw"),
        **order_figures([pair.delivered for pair in pairs], "delivered"),
        **_latency(living),
        **_overhead([row for run in recorded for row in run.accepted.values()]),
    )
    return {name: getattr(summary, name) for name in Summary.__struct_fields__}


def _latency(living: Sequence[Lived]) -> dict[str, Any]:
    timed = [each for each in living if each.latency is not None]
    errors = sorted(each.error for each in timed if each.error is not None)
    return {
        "latency_ms": in_ms(each.latency for each in timed if each.latency is not None),
        "timestamp_ms": in_ms(each.timestamp for each in timed if each.timestamp is not None),
        "ens_ms": in_ms(each.ens for each in timed if each.ens is not None),
        "waiting_ms": in_ms(each.waiting for each in timed if each.waiting is not None),
        "clock_error_ms": ClockError(
            p50=ms(nearest_rank(errors, 50)),
            p99=ms(nearest_rank(errors, 99)),
            max=ms(errors[-1]) if errors else None,
        ),
        "negative_latencies": sum(each.is_negative for each in timed),
        "uncorrected": sum(each.error is None for each in timed),
    }


def _overhead(accepted: Sequence[Row]) -> dict[str, Any]:
    entries = mean([each for row in accepted if (each := entries_of(row)) is not None])
    return {
        "bytes_per_event": mean([row.stamp_bytes for row in accepted if row.stamp_bytes is not None]),
        "bytes_per_event_24": None if entries is None else 24 * entries,
        "entries_per_event": entries,
        "stages_per_event": mean([each for row in accepted if (each := stages_of(row)) is not None]),
    }


def _late_percent(notifications: Iterable[Row]) -> float | None:
    verdicts = Counter(row.verdict for row in notifications)
    return percent(verdicts["late"], verdicts.total())


def _notified_1s(living: Iterable[Lived]) -> float | None:
    interesting = [each for each in living if each.is_interesting]
    return percent(sum(each.is_prompt for each in interesting), len(interesting))


# -- by topic, subscriber, window --------------------------------------------------------------------------------


def _by_topic(measured: _Measured) -> list[TopicFigures]:
    run = measured.run
    events = Counter(run.label(event[:2]) for event in run.events)
    notifications: dict[str, list[Row]] = defaultdict(list)
    for row in run.notifications:
        notifications[run.label((row.domain, row.topic_id))].append(row)
    living: dict[str, list[Lived]] = defaultdict(list)
    for each in measured.lived:
        living[run.label(each.event[:2])].append(each)
    return [
        TopicFigures(
            run=run.run,
            topic=topic,
            events=events[topic],
            late_percent=_late_percent(notifications[topic]),
            notified_1s_percent=_notified_1s(living[topic]),
            latency_ms=in_ms(each.latency for each in living[topic] if each.latency is not None),
        )
        for topic in sorted(events)
    ]


def _by_subscriber(measured: _Measured) -> list[SubscriberFigures]:
    run = measured.run
    notifications: dict[str, list[Row]] = defaultdict(list)
    for row in run.notifications:
        notifications[row.client].append(row)
    own: dict[str, list[int]] = defaultdict(list)
    meant: Counter[str] = Counter()
    for each in measured.lived:
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
            latency_ms=in_ms(own[client]),
        )
        for client in sorted(run.subscribers)
    ]


def _by_window(measured: _Measured, window_us: int) -> list[WindowFigures]:
    run = measured.run
    windows: dict[int, list[Lived]] = defaultdict(list)
    of_event: dict[Event, int] = {}
    for each in measured.lived:
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
            notified_1s_percent=_notified_1s(windows[start]),
            latency_ms=in_ms(each.latency for each in windows[start] if each.latency is not None),
        )
        for start in sorted(windows)
    ]
