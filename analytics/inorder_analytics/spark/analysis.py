"""The transforms in sequence, from rows of runs to their facts and figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from inorder_analytics.parts import Compared, ComparedPair, Ranks, RunPart, Topic, percent, percentiles, witness
from inorder_analytics.results import SubscriberFigures, WindowFigures
from inorder_analytics.spark import figures, interest, pairs
from inorder_analytics.spark.arrays import collected
from inorder_analytics.spark.events import events
from inorder_analytics.spark.names import Names, named
from inorder_analytics.spark.reception import published, receptions, with_latency

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLACES: Final = pa.schema([("who", pa.int32()), ("delivered_place", pa.int64())])

Rows = list[dict[str, Any]]
Say = Callable[[str], None]


def analyse(
    session: SparkSession, rows: DataFrame, facts: Path, *, window_s: float, max_pairs: int, seed: int, say: Say
) -> list[RunPart]:
    """Compute runs, and write one row for each of their events to ``facts``.

    Args:
        rows: all rows of these runs, as :func:`~.schema.prepared` returns them.
        facts: a folder that is written anew.
        window_s: the length of a time window.
        max_pairs, seed: how many pairs of subscribers of a run are compared, and which.
        say: is told of each step.
    """
    say("naming topics and clients")
    names = named(session, rows)
    found = interest.intervals(rows, names).persist()
    accepted = published(rows, names).persist()
    chosen = pairs.sample(names, max_pairs, seed)
    told = with_latency(receptions(rows, names), accepted, found).persist()
    try:
        parts = _started(names, chosen)
        say("following each event")
        events(told, accepted, interest.segments(found), names).write.mode("overwrite").parquet(str(facts))
        say("comparing subscribers two by two")
        _compare(session, told, names, parts, chosen)
        say("adding up subscribers, topics and time windows")
        written, window_us = session.read.parquet(str(facts)), round(window_s * 1_000_000)
        sums, ranks, asked, gaps, ranks_by, topics, windows, paths = collected(
            figures.by_subscriber(told),
            figures.ranks_of_subscribers(told),
            figures.asked_of(accepted, found),
            figures.gaps(rows),
            figures.ranks_by(written, window_us),
            figures.by_topic(written),
            figures.by_window(written, window_us),
            figures.paths(written),
        )
    finally:
        for table in (told, accepted, found):
            table.unpersist()
    _add_subscribers(sums, ranks, asked, names, parts)
    for each in gaps:
        parts[each["run"]].gaps[each["reason"]] = each["numbers"]
    _add_facts(ranks_by, topics, windows, paths, parts)
    return list(parts.values())


def ranks_of(facts: DataFrame) -> Ranks:
    """Return the percentiles over the events of several runs."""
    (rows,) = collected(figures.ranks(facts))
    return Ranks(**{each["part"]: each["ranked"] for each in rows})


def _started(names: Names, chosen: pairs.Sample) -> dict[str, RunPart]:
    parts = {
        run: RunPart(run=run, subscribers=[], publishers=[], sample=chosen.by_run[run])
        for run in sorted({run for run, _ in names.clients})
    }
    for each in names.incarnations:
        part = parts[each["run"]]
        part.dropped += each["dropped"] or 0
        if each["subscribes"] and each["client"] not in part.subscribers[-1:]:
            part.subscribers.append(each["client"])
        if each["publishes"] and each["client"] not in part.publishers[-1:]:
            part.publishers.append(each["client"])
    return parts


def _compare(
    session: SparkSession, told: DataFrame, names: Names, parts: dict[str, RunPart], chosen: pairs.Sample
) -> None:
    none: dict[str, Any] = {"raw": {}, "delivered": {}}
    compared = {}
    if chosen.pairs:
        both = pairs.joined(told, chosen.table(session))
        (rows,) = collected(pairs.compare(both))
        compared = {each["pair"]: each for each in rows}
    found = []
    for at, (a, b) in enumerate(chosen.pairs):
        row = compared.get(at, none)  # a pair without any event in common has no row
        found.append((a, b, msgspec.convert(row["raw"], Compared), msgspec.convert(row["delivered"], Compared)))
    known = _named_places(session, told, names, {(a, place) for a, _, _, each in found for place in each.witnesses})
    for a, b, raw, delivered in found:
        run, client = names.clients[a]
        named_pair = ComparedPair(
            a=client,
            b=names.clients[b][1],
            raw=raw,
            delivered=delivered,
            witness=witness({place: known[a, place] for place in delivered.witnesses}, delivered),
        )
        parts[run].pairs.append(named_pair)


def _named_places(
    session: SparkSession, told: DataFrame, names: Names, places: set[tuple[int, int]]
) -> dict[tuple[int, int], tuple[str, int]]:
    """Return label and number of the events at places of delivered streams."""
    if not places:
        return {}
    rows = [{"who": who, "delivered_place": place} for who, place in sorted(places)]
    table = session.createDataFrame(pa.Table.from_pylist(rows, _PLACES))
    (known,) = collected(figures.named_events(told, table, names))
    return {(each["who"], each["delivered_place"]): (each["label"], each["number"]) for each in known}


def _add_subscribers(sums: Rows, ranks: Rows, asked: Rows, names: Names, parts: dict[str, RunPart]) -> None:
    sums_of = {each["who"]: each for each in sums}
    ranks_of = {each["who"]: each["ranked"] for each in ranks}
    asked_of = {each["who"]: each["asked"] for each in asked}
    subscribers = {(run, client) for run, part in parts.items() for client in part.subscribers}
    for who, (run, client) in enumerate(names.clients):
        if (run, client) not in subscribers:
            continue
        each = sums_of.get(who, {"events": 0, "late": 0, "in_order": 0, "in_time": 0})
        parts[run].by_subscriber.append(
            SubscriberFigures(
                run=run,
                client=client,
                events=each["events"],
                late_percent=percent(each["late"], each["late"] + each["in_order"]),
                notified_1s_percent=percent(each["in_time"], asked_of.get(who, 0)),
                latency_ms=percentiles(ranks_of.get(who)),
            )
        )


def _add_facts(ranks: Rows, topics: Rows, windows: Rows, paths: Rows, parts: dict[str, RunPart]) -> None:
    ranked = {(each["run"], each["part"], each["label"], each["start_us"]): each["ranked"] for each in ranks}
    for run, part in parts.items():
        every = {name: ranked.get((run, name, None, None), []) for name in Ranks.__struct_fields__}
        part.ranks = Ranks(**every)
    for each in topics:
        sums: dict[str, Any] = {key: value or 0 for key, value in each.items() if key not in ("run", "home")}
        latency = ranked.get((each["run"], "topic", each["label"], None), [])
        parts[each["run"]].topics.append(Topic(**sums, home=each["home"], latency=latency))
    for each in windows:
        parts[each["run"]].by_window.append(
            WindowFigures(
                run=each["run"],
                start=EPOCH + timedelta(microseconds=each["start_us"]),
                events=each["events"],
                late_percent=percent(each["late"], each["late"] + each["in_order"]),
                notified_1s_percent=percent(each["whole"], each["asked"]),
                latency_ms=percentiles(ranked.get((each["run"], "window", None, each["start_us"]))),
            )
        )
    for each in paths:
        way = (each["stage"], each["entry_stage"], each["top_stage"], each["events"])
        parts[each["run"]].paths.append(way)
    for part in parts.values():
        part.topics.sort(key=lambda each: each.label)
        part.by_window.sort(key=lambda each: each.start)
        part.paths.sort(key=lambda each: (each[0], *(-1 if stage is None else stage for stage in each[1:3])))


def by_generation(facts: dict[str, int], runs: Iterable[str]) -> dict[int, list[str]]:
    """Return the runs by the generation that has their facts."""
    found: dict[int, list[str]] = defaultdict(list)
    for run in runs:
        found[facts[run]].append(run)
    return dict(found)
