"""The tables of a report: figures with explanations, and lists of topics, subscribers, pairs and stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from inorder_analytics.report.charts import bar
from inorder_analytics.report.markup import Child, Markup, name, tag
from inorder_analytics.report.words import (
    PARTS,
    Figure,
    bytes_each,
    count,
    degree,
    ms,
    percent,
)
from inorder_analytics.results import (
    PairFigures,
    RunFigures,
    StageOverhead,
    SubscriberFigures,
    Summary,
    TopicFigures,
    TopicPopularity,
)

MOST_ROWS: Final = 200
"""Of a list in the report; the result has them all."""

Row = TypeVar("Row")
Column = tuple[str, Callable[[Any], Child], bool]
"""Its title, what stands in it, and whether that is a number."""


def table(columns: Sequence[Column], rows: Sequence[Row]) -> Markup:
    """Return a table of a readable number of rows, with a note if there are more."""
    shown = rows[:MOST_ROWS]
    head = tag("tr", *(tag("th", title, scope="col", class_=_side(is_number)) for title, _, is_number in columns))
    body = [
        tag("tr", *(tag("td", cell(row), class_=_side(is_number)) for _, cell, is_number in columns)) for row in shown
    ]
    whole = tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="scroll")
    if len(shown) == len(rows):
        return whole
    rest = f"The first {count(len(shown))} of {count(len(rows))}; the result as JSON or Parquet has them all."
    return tag("div", whole, tag("p", rest, class_="note"))


def figure_table(figures: Iterable[Figure], summary: Summary) -> Markup:
    """Return figures with one line of explanation each; the broker's own, if any, stand beside them."""
    figures = tuple(figures)
    has_raw = any(each.raw for each in figures)
    columns: list[Column] = [("Figure", lambda each: explained(each.label, each.meaning), False)]
    if has_raw:
        columns.append(("Broker alone", lambda each: each.of(summary, "raw"), True))
    columns.append(("Delivered" if has_raw else "Value", lambda each: _delivered(each, summary), True))
    return table(columns, figures)


def latency_table(summary: Summary) -> Markup:
    """Return percentiles of each part of the latency, with a bar to the 99th."""
    most = max((spread.p99 or 0.0 for spread in (getattr(summary, path) for _, _, path in PARTS)), default=0.0)
    columns: list[Column] = [
        ("Part", lambda part: explained(part[0], part[1]), False),
        ("Median", lambda part: ms(getattr(summary, part[2]).p50), True),
        ("90 %", lambda part: ms(getattr(summary, part[2]).p90), True),
        ("99 %", lambda part: ms(getattr(summary, part[2]).p99), True),
        ("", lambda part: bar(getattr(summary, part[2]).p99 or 0.0, most), False),
    ]
    return table(columns, PARTS)


def run_table(rows: Sequence[RunFigures]) -> Markup:
    """Return the recorded runs side by side."""
    return table(
        [
            ("Run", lambda row: name(row.run), False),
            ("Events", lambda row: count(row.events), True),
            ("Subscribers", lambda row: count(row.subscribers), True),
            ("Degree, broker", lambda row: degree(row.ordering_degree_raw), True),
            ("Degree, delivered", lambda row: degree(row.ordering_degree_delivered), True),
            ("Violations, broker", lambda row: count(row.tno_violations_raw), True),
            ("Violations, delivered", lambda row: _violations(row.tno_violations_delivered), True),
            ("Latency, median", lambda row: ms(row.latency_ms.p50), True),
            ("99 %", lambda row: ms(row.latency_ms.p99), True),
            ("Bytes", lambda row: bytes_each(row.bytes_per_event), True),
        ],
        rows,
    )


def topic_table(rows: Sequence[TopicFigures]) -> Markup:
    """Return topics, the busiest first."""
    return table(
        [("Topic", lambda row: name(row.topic), False), *_run(rows), *_notification(rows)],
        sorted(rows, key=lambda row: -row.events),
    )


def subscriber_table(rows: Sequence[SubscriberFigures]) -> Markup:
    """Return subscribers, those with the most events first."""
    return table(
        [("Subscriber", lambda row: name(row.client), False), *_run(rows), *_notification(rows)],
        sorted(rows, key=lambda row: -row.events),
    )


def pair_table(rows: Sequence[PairFigures]) -> Markup:
    """Return pairs of subscribers, those that agreed least first, with the two events of a violation."""
    return table(
        [
            ("Subscribers", _pair, False),
            *_run(rows),
            ("Common events", lambda row: count(row.length), True),
            ("Degree, broker", lambda row: degree(row.ordering_degree_raw), True),
            ("Degree, delivered", lambda row: degree(row.ordering_degree_delivered), True),
            ("Violations, broker", lambda row: count(row.tno_violations_raw), True),
            ("Violations, delivered", lambda row: _violations(row.tno_violations_delivered), True),
        ],
        rows,
    )


def stage_table(rows: Sequence[StageOverhead]) -> Markup:
    """Return the messages that stages handle for each other."""
    return table(
        [
            ("Stage", lambda row: f"Stage {row.stage}", False),
            *_run(rows),
            ("Own events", lambda row: count(row.own), True),
            ("Of other stages", lambda row: count(row.foreign), True),
            ("Message overhead", lambda row: percent(row.percent), True),
            ("", lambda row: bar(row.percent or 0.0, 100.0, 3), False),
        ],
        rows,
    )


def popularity_table(rows: Sequence[TopicPopularity]) -> Markup:
    """Return each topic's share of the events."""
    most = max((row.per_1000 for row in rows), default=0.0)
    return table(
        [
            ("Topic", lambda row: name(row.topic), False),
            *_run(rows),
            ("Events", lambda row: count(row.events), True),
            ("Per 1,000", lambda row: f"{row.per_1000:,.1f}", True),
            ("", lambda row: bar(row.per_1000, most, 1), False),
        ],
        rows,
    )


def _notification(rows: Sequence[TopicFigures | SubscriberFigures]) -> list[Column]:
    most = max((row.events for row in rows), default=0)
    return [
        ("Events", lambda row: count(row.events), True),
        ("", lambda row: bar(row.events, most), False),
        ("Late", lambda row: percent(row.late_percent), True),
        ("In 1 s", lambda row: percent(row.notified_1s_percent), True),
        ("Median", lambda row: ms(row.latency_ms.p50), True),
        ("90 %", lambda row: ms(row.latency_ms.p90), True),
        ("99 %", lambda row: ms(row.latency_ms.p99), True),
    ]


def _run(rows: Iterable[Any]) -> list[Column]:
    """Return the column of the recorded run if rows are of several."""
    return [] if len({row.run for row in rows}) < 2 else [("Run", lambda row: name(row.run), False)]


def explained(label: str, meaning: str | None) -> Markup:
    """Return a name with one line of explanation below."""
    return tag("span", tag("b", label), tag("small", meaning) if meaning else None, class_="explained")


def _delivered(figure: Figure, summary: Summary) -> Markup:
    tone = {True: "good", False: "bad", None: None}[figure.is_ideal(summary)]
    return tag("b", figure.of(summary, "delivered"), class_=tone)


def _violations(number: int) -> Markup:
    return tag("span", count(number), class_="bad" if number else None)


def _pair(pair: PairFigures) -> Markup:
    return tag("span", tag("b", name(pair.a), " and ", name(pair.b)), _witness(pair), class_="explained")


def _witness(pair: PairFigures) -> Markup | None:
    if pair.witness is None:
        return None
    first, second = pair.witness.first, pair.witness.second
    return tag(
        "small",
        name(pair.a), " had ", name(first.topic), f" number {count(first.number)} before ", name(second.topic),
        f" number {count(second.number)}, ", name(pair.b), " had them the other way round.",
    )  # fmt: skip


def _side(is_number: bool) -> str | None:
    return "number" if is_number else None
