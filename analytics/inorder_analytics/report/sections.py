"""The sections of a report, from the headline down to the method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from inorder_analytics.report.charts import Line, Value, line_chart
from inorder_analytics.report.definitions import DEFINITIONS
from inorder_analytics.report.markup import Child, Markup, name, tag
from inorder_analytics.report.tables import (
    Column,
    explained,
    figure_table,
    latency_table,
    pair_table,
    popularity_table,
    run_table,
    stage_table,
    subscriber_table,
    table,
    topic_table,
)
from inorder_analytics.report.words import (
    COST,
    GAPS,
    NOTIFICATION,
    ORDER,
    bytes_each,
    count,
    degree,
    instant,
    many,
    ms,
    percent,
    seconds,
    size,
    verdict_of,
)
from inorder_analytics.results import Result, TopicOrder, WindowFigures

MOST_CHARTED: Final = 5
"""Recorded runs whose course is drawn: the newest ones."""
SET_MS: Final = 1000.0
"""A clock that is known less exactly than this was set, as none drifts so far between two looks."""


def headline(result: Result) -> Markup:
    """Return the verdict with the two figures behind it."""
    verdict = verdict_of(result)
    return tag(
        "section",
        tag("h2", verdict.headline),
        tag("p", verdict.text),
        tag(
            "div",
            _hero("Ordering degree", degree(result.ordering_degree_raw), degree(result.ordering_degree_delivered)),
            _hero("TNO violations", count(result.tno_violations_raw), count(result.tno_violations_delivered)),
            class_="heroes",
        )
        if verdict.tone != "open"
        else None,
        class_=f"verdict {verdict.tone}",
    )


def sections(result: Result) -> Iterator[Markup]:
    """Return all sections with contents, in order."""
    yield _size(result)
    if len(result.by_run) > 1:
        yield section("Recorded runs", None, run_table(result.by_run))
    yield section("Order", "Pairs of subscribers, compared over the events that both had.", figure_table(ORDER, result))
    yield section(
        "Notification and latency",
        "How soon subscribers knew, and where the time went.",
        figure_table(NOTIFICATION, result),
        latency_table(result),
        *_clocks(result),
    )
    yield from _over_time(result)
    if result.by_topic:
        yield section("Topics", "Latency: from the publish call to the last subscriber.", topic_table(result.by_topic))
    if result.by_subscriber:
        about = "Latency: from the publish call to its own notification."
        yield section("Subscribers", about, subscriber_table(result.by_subscriber))
    if result.worst_pairs:
        yield section("Pairs that agreed least", _sample(result), pair_table(result.worst_pairs))
    yield _cost(result)
    if result.popularity:
        about = "Popular topics belong higher in the topic order: their timestamps then visit fewer stages."
        orders = [part for each in result.topic_order for part in _order(each, len(result.topic_order) > 1)]
        yield section("Popularity and topic order", about, popularity_table(result.popularity), *orders)
    yield from _gaps(result)
    yield _read(result)
    yield _method()


def section(title: str, about: str | None, *children: Child) -> Markup:
    """Return a section with its heading and a sentence on its contents."""
    return tag("section", tag("h2", title), tag("p", about, class_="about") if about else None, *children)


def _hero(label: str, raw: str, delivered: str) -> Markup:
    return tag(
        "div",
        tag("span", label, class_="hero-label"),
        tag("span", tag("b", raw), tag("small", "broker alone")),
        tag("span", "→", class_="hero-arrow", aria_hidden="true"),
        tag("span", tag("b", delivered), tag("small", "delivered")),
        class_="hero",
    )


def _size(result: Result) -> Markup:
    figures = (
        ("Events", result.events), ("Publishers", result.publishers), ("Subscribers", result.subscribers),
        ("Topics", result.topics), ("Recorded runs", len(result.by_run)),
    )  # fmt: skip
    return tag(
        "dl", *(tag("div", tag("dt", label), tag("dd", count(value))) for label, value in figures), class_="size"
    )


def _sample(result: Result) -> str:
    pairs = result.pairs
    if pairs.used == pairs.total:
        return f"All {many(pairs.total, 'pair', 'pairs')} of subscribers were compared."
    return (
        f"Of {count(pairs.total)} pairs of subscribers a sample of {count(pairs.used)} was compared (at most "
        f"{count(pairs.limit)} a run, seed {pairs.seed}); all figures of the order are of these."
    )


def _clocks(result: Result) -> Iterator[Markup]:
    notes = []
    if result.clock_error_ms.max is not None:
        error = result.clock_error_ms
        shares = ((error.p50, "of half of the events"), (error.p99, "of 99 in 100"), (error.max, "of all"))
        bounds = ", ".join(f"{of} by {ms(bound)} at most" for bound, of in shares if bound is not None)
        notes.append(f"Latencies are off, {bounds}: so well are the clocks known.")
        if error.max is not None and error.max >= SET_MS:
            notes.append("A clock was set while it was recorded; of the events at that time nothing better is known.")
    if result.uncorrected:
        notes.append(f"Of {many(result.uncorrected, 'event', 'events')} a clock is not known; it is taken as exact.")
    if result.negative_latencies:
        events = many(result.negative_latencies, "event has", "events have")
        notes.append(f"{events} a part of the latency below zero, because clocks differ; it is kept as it is.")
    if notes:
        yield tag("p", " ".join(notes), class_="note")


def _over_time(result: Result) -> Iterator[Markup]:
    runs: dict[str, list[WindowFigures]] = {}
    for window in sorted(result.by_window, key=lambda each: each.start):
        runs.setdefault(window.run, []).append(window)
    newest = sorted(runs, key=lambda run: runs[run][-1].start)[-MOST_CHARTED:]
    if not newest:
        return
    about = f"In windows of {seconds(result.window_s)} by the time of the publish call, in UTC."
    if len(newest) < len(runs):
        about += f" The newest {len(newest)} of {len(runs)} recorded runs."
    parts: list[Child] = []
    for run in newest:
        if len(runs) > 1:
            parts.append(tag("h3", "Run ", name(run)))
        parts.append(_course(runs[run], result.window_s))
    yield section("Over time", about, *parts)


def _course(windows: Sequence[WindowFigures], window_s: float) -> Markup:
    times, rows = _filled(windows, window_s)
    latency = [
        [None if row is None else getattr(row.latency_ms, rank) for row in rows] for rank in ("p50", "p90", "p99")
    ]
    events: list[Value] = [0 if row is None else row.events for row in rows]
    late: list[Value] = [None if row is None else row.late_percent for row in rows]
    in_1s: list[Value] = [None if row is None else row.notified_1s_percent for row in rows]
    named = zip(("Median", "90 %", "99 %"), latency, (2, 1, 3), strict=True)
    return tag(
        "div",
        line_chart("Latency", times, [Line(label, values, color) for label, values, color in named], ms),
        line_chart("Events in the window", times, [Line("Events", events, 2)], _whole),
        line_chart("Late", times, [Line("Late", late, 3)], percent),
        line_chart("Notified in 1 s", times, [Line("Notified in 1 s", in_1s, 1)], percent),
        class_="charts",
    )


def _filled(windows: Sequence[WindowFigures], window_s: float) -> tuple[list[datetime], list[WindowFigures | None]]:
    """Return windows with the missing ones, in which nothing was published: there a line is interrupted."""
    times: list[datetime] = []
    rows: list[WindowFigures | None] = []
    step = timedelta(seconds=window_s)
    for window in windows:
        if times and window.start - times[-1] > 1.5 * step:
            quiet = {times[-1] + step, window.start - step}
            times += sorted(quiet)
            rows += [None] * len(quiet)
        times.append(window.start)
        rows.append(window)
    return times, rows


def _whole(value: float | None) -> str:
    return count(value if value is None or value % 1 else int(value))


def _cost(result: Result) -> Markup:
    parts: list[Child] = [figure_table(COST, result)]
    if result.message_overhead:
        parts += [tag("h3", "Message overhead by stage"), stage_table(result.message_overhead)]
    saved = ""
    if result.bytes_per_event is not None and result.bytes_per_event_24:
        share = 100 * result.bytes_per_event / result.bytes_per_event_24
        saved = (
            f" Here {bytes_each(result.bytes_per_event)} travelled where the papers count "
            f"{bytes_each(result.bytes_per_event_24)}: {percent(share)}."
        )
    return section("Cost", f"What the order costs in bytes and messages.{saved}", *parts)


def _order(order: TopicOrder, is_named: bool) -> Iterator[Markup]:
    if order.suggested is None:
        return
    yield tag("h3", "Suggested topic order", *((", run ", name(order.run)) if is_named else ()))
    stages = [tag("li", tag("b", f"Stage {stage}: "), *_listed(topics)) for stage, topics in enumerate(order.suggested)]
    yield tag("ul", *stages)
    if order.swaps:
        swaps = [tag("li", name(lower), " goes up, ", name(higher), " down") for higher, lower in order.swaps]
        yield tag("p", "From the present order these change places:")
        yield tag("ul", *swaps)
    else:
        yield tag("p", "From the present order no change of place is worth it.")


def _listed(topics: Sequence[str], most: int = 40) -> list[Child]:
    parts: list[Child] = []
    for topic in topics[:most]:
        parts += [", " if parts else None, name(topic)]
    if len(topics) > most:
        parts.append(f" and {count(len(topics) - most)} more")
    return parts or ["empty"]


def _gaps(result: Result) -> Iterator[Markup]:
    rows = [(reason, number) for reason, number in result.gaps.items() if number]
    if rows:
        columns: list[Column] = [
            ("Reason", lambda row: explained(row[0], GAPS.get(row[0])), False),
            ("Numbers", lambda row: count(row[1]), True),
        ]
        about = "Numbers that subscribers were told to be missing, all subscribers together."
        yield section("Gaps", about, table(columns, rows))


def _read(result: Result) -> Markup:
    files, damaged = result.files, result.files.damaged
    # A bounded copy of a result says how many there were of what it was cut to.
    cut = [f"{list_}: {count(number)}" for list_, number in sorted(result.cut.items())]
    number_damaged = result.cut.get("files.damaged", len(damaged))
    facts: list[tuple[str, Child]] = [
        ("Traces", name(result.path)),
        ("Made at", instant(result.made_at)),
        ("Read", f"{many(result.rows, 'row', 'rows')} in {many(files.read, 'file', 'files')}, {size(files.bytes)}"),
        ("Pairs", _sample(result)),
        ("Window", seconds(result.window_s)),
        ("Rows not recorded", count(result.dropped_rows)),
        ("Damaged files", count(number_damaged)),
        ("Lists that were cut", ", ".join(cut) if cut else None),
    ]
    terms = [part for label, value in facts if value for part in (tag("dt", label), tag("dd", value))]
    parts: list[Child] = [tag("dl", *terms, class_="facts")]
    if result.dropped_rows:
        rows = many(result.dropped_rows, "row was", "rows were")
        why = "because a client's buffer was full or its disk failed"
        parts.append(tag("p", f"{rows} not recorded, {why}: all figures are of the others.", class_="warning"))
    if damaged:
        columns: list[Column] = [
            ("Damaged file", lambda each: name(each.file), False),
            ("Why", lambda each: each.reason, False),
        ]
        parts += [tag("p", "These files were left out:", class_="warning"), table(columns, damaged)]
    return section("What was read", None, *parts)


def _method() -> Markup:
    terms = [part for term, text in DEFINITIONS.items() for part in (tag("dt", term), tag("dd", text))]
    return section("Method and definitions", None, tag("dl", *terms, class_="terms"))
