"""The yardstick of ``inorder analyze``: DuckDB, in one process, computes the same result from the same files.

    python -m inorder_bench.costs.traces_in_duckdb PATH    prints the result as JSON

Every figure comes from SQL below, written for DuckDB from the definitions in docs/ANALYTICS.md; only the comparison of
two streams, which counts inversions, and the offsets of a clock are made by the functions that Spark's tasks call, in
as many threads as there are processors. Sums become figures as in an analysis (:mod:`inorder_analytics.parts`).
No Spark is started.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec

from inorder_analytics.clocks import clocks
from inorder_analytics.parts import Compared, ComparedPair, Ranks, RunPart, Topic, percent, percentiles, together
from inorder_analytics.plain.measuring import MAX_PAIRS, WINDOW_S
from inorder_analytics.results import EventName, Files, Pairs, Result, SubscriberFigures, WindowFigures, Witness, encode
from inorder_analytics.sampling import pairs_of
from inorder_analytics.spark.ranks import compared

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_INSTANTS: Final = ("recorded_at", "published_at", "stamped_at", "arrived_at", "delivered_at")
ROWS: Final = f"""
CREATE VIEW traces AS
SELECT * REPLACE (coalesce(run, '') AS run, coalesce(incarnation, 0) AS incarnation,
                  {", ".join(f"epoch_us({name}) AS {name}" for name in _INSTANTS)})
FROM read_parquet($files, union_by_name = true)
WHERE client IS NOT NULL AND kind IS NOT NULL
"""

NAMES: Final = """
CREATE TABLE sessions AS
SELECT *, row_number() OVER (PARTITION BY who ORDER BY first_at, incarnation) - 1 AS rank
FROM (
    SELECT run, client, incarnation,
           dense_rank() OVER (ORDER BY run, client) - 1 AS who,
           min(coalesce(recorded_at, 0)) AS first_at,
           bool_or(kind = 'published') AS publishes,
           bool_or(kind = 'subscribed'
                   OR (kind = 'notified' AND coalesce(verdict NOT IN ('duplicate', 'before'), true))) AS subscribes,
           coalesce(sum("count") FILTER (kind = 'dropped'), 0)::BIGINT AS dropped
    FROM traces GROUP BY run, client, incarnation
);
CREATE TABLE topics AS
SELECT run, domain, topic_id,
       row_number() OVER (ORDER BY run, domain, topic_id) - 1 AS topic,
       coalesce(min(coalesce(space, '') || ':' || traces.topic), 'topic ' || topic_id) AS label,
       bool_or(kind = 'subscribed' AND number IS NOT NULL) AS has_subscribed
FROM traces WHERE domain IS NOT NULL AND topic_id IS NOT NULL
GROUP BY run, domain, topic_id;
"""

MEASURED: Final = """
SELECT run, client, incarnation, list({moment: coalesce(recorded_at, 0), off: offset_us, error: error_us}) AS measured
FROM traces WHERE kind = 'clock' AND offset_us IS NOT NULL AND error_us IS NOT NULL GROUP BY ALL
"""
CLOCKS: Final = """
CREATE TABLE clocks AS
SELECT run, client, incarnation, since, lead(since, 1, 9223372036854775807) OVER its AS until, offset_us, error_us
FROM (SELECT unnest($told::STRUCT(run VARCHAR, client VARCHAR, incarnation BIGINT, since BIGINT, offset_us BIGINT,
                                  error_us BIGINT)[], recursive := true))
WINDOW its AS (PARTITION BY run, client, incarnation ORDER BY since);
"""
_CLOCK: Final = """
LEFT JOIN clocks clock ON clock.run = r.run AND clock.client = r.client AND clock.incarnation = r.incarnation
      AND coalesce(recorded_at, 0) >= clock.since AND coalesce(recorded_at, 0) < clock.until
"""

FOLLOWED: Final = f"""
CREATE TABLE accepted AS
SELECT topic, number, unnest(told) FROM (
    SELECT t.topic, number,
           arg_min({{published_us: published_at + coalesce(clock.offset_us, 0),
                    stamped_us: stamped_at + coalesce(clock.offset_us, 0),
                    published_at: published_at, error_us: clock.error_us,
                    stage: stage, entry_stage: entry_stage, top_stage: top_stage,
                    entries: coalesce(entries, 1 + len(dependencies) // 2), stamp_bytes: stamp_bytes}},
                   {{moment: coalesce(published_at, 9223372036854775807), who: who, incarnation: r.incarnation,
                    counter: coalesce(counter, 0)}}) AS told
    FROM traces r JOIN sessions USING (run, client, incarnation) JOIN topics t USING (run, domain, topic_id) {_CLOCK}
    WHERE kind = 'published' AND outcome = 'accepted' AND coalesce(ordering, 'total') = 'total' AND number IS NOT NULL
    GROUP BY ALL
);
CREATE TABLE heard AS
SELECT t.topic, number, who,
       min((rank << 40) + arrival_index) FILTER (NOT coalesce(repaired, false)) AS raw_place,
       min((rank << 40) + delivery_index) FILTER (verdict = 'in_order') AS delivered_place,
       count(*) FILTER (verdict = 'late') AS late,
       count(*) FILTER (verdict = 'in_order') AS in_order,
       arg_min({{delivered_us: delivered_at + coalesce(clock.offset_us, 0),
                arrived_us: arrived_at + coalesce(clock.offset_us, 0), error_us: clock.error_us}},
               (rank << 40) + coalesce(delivery_index, 0)) FILTER (verdict IN ('in_order', 'late')) AS told
FROM traces r JOIN sessions USING (run, client, incarnation) JOIN topics t USING (run, domain, topic_id) {_CLOCK}
WHERE kind = 'notified' AND verdict IN ('in_order', 'late', 'duplicate', 'before') AND number IS NOT NULL
GROUP BY ALL;
"""

INTEREST: Final = """
CREATE TABLE interest AS
WITH changes AS (
    SELECT who, t.topic, kind, number, {rank: rank, moment: coalesce(recorded_at, 0)} AS moment
    FROM traces r JOIN sessions USING (run, client, incarnation) JOIN topics t USING (run, domain, topic_id)
    WHERE kind IN ('subscribed', 'unsubscribed')
), spans AS (
    SELECT b.who, b.topic, b.number AS above,
           coalesce(min(coalesce(e.number, -1)) FILTER (e.moment > b.moment), 9223372036854775807) AS up_to
    FROM changes b LEFT JOIN changes e ON e.who = b.who AND e.topic = b.topic AND e.kind = 'unsubscribed'
    WHERE b.kind = 'subscribed' AND b.number IS NOT NULL
    GROUP BY b.who, b.topic, b.moment, b.number
    UNION ALL
    SELECT DISTINCT who, topic, -1, 9223372036854775807
    FROM heard JOIN topics USING (topic) WHERE NOT has_subscribed AND late + in_order > 0
), islands AS (
    SELECT *, sum(is_new) OVER (PARTITION BY who, topic ORDER BY above, up_to ROWS UNBOUNDED PRECEDING) AS island
    FROM (
        SELECT *, (above > coalesce(max(up_to) OVER (PARTITION BY who, topic ORDER BY above, up_to
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -2))::INT AS is_new
        FROM spans WHERE up_to > above
    )
)
SELECT who, topic, min(above) AS above, max(up_to) AS up_to FROM islands GROUP BY who, topic, island;
CREATE TABLE segments AS
SELECT topic, edge AS above, lead(edge) OVER numbers AS up_to, sum(step) OVER numbers AS interested
FROM (
    SELECT topic, edge, sum(step) AS step
    FROM (SELECT topic, above AS edge, 1 AS step FROM interest UNION ALL SELECT topic, up_to, -1 FROM interest)
    GROUP BY topic, edge
)
WINDOW numbers AS (PARTITION BY topic ORDER BY edge);
"""

EVENTS: Final = """
CREATE TABLE latencies AS
SELECT h.topic, h.number, h.who, late, in_order, told,
       CASE WHEN i.who IS NOT NULL THEN told.delivered_us - published_us END AS latency_us
FROM heard h
LEFT JOIN interest i ON i.who = h.who AND i.topic = h.topic AND h.number > i.above AND h.number <= i.up_to
LEFT JOIN accepted a ON a.topic = h.topic AND a.number = h.number;
CREATE TABLE events AS
WITH by_event AS (
    SELECT topic, number, sum(late) AS late, sum(in_order) AS in_order,
           count(*) FILTER (latency_us <= 1000000) AS in_time,
           arg_max(told, {moment: told.delivered_us, before: -who}) FILTER (latency_us IS NOT NULL) AS last
    FROM latencies GROUP BY topic, number
), asked AS (
    SELECT a.*, interested FROM accepted a
    LEFT JOIN segments s ON s.topic = a.topic AND a.number > s.above AND a.number <= s.up_to AND interested > 0
)
SELECT run, label, topic_id, number, coalesce(late, 0) AS late, coalesce(in_order, 0) AS in_order,
       a.topic IS NOT NULL AS is_accepted, interested IS NOT NULL AS is_asked,
       interested IS NOT NULL AND coalesce(in_time, 0) = interested AS is_whole,
       published_at, last.delivered_us - published_us AS latency,
       CASE WHEN last IS NOT NULL THEN stamped_us - published_us END AS timestamp,
       last.arrived_us - stamped_us AS ens, last.delivered_us - last.arrived_us AS waiting,
       a.error_us + last.error_us AS clock_error, stage, entry_stage, top_stage, entries, stamp_bytes
FROM by_event e FULL JOIN asked a USING (topic, number) JOIN topics USING (topic);
"""

RANKED: Final = "list_append(quantile_disc({0}, [0.5, 0.9, 0.99]), max({0}))"
"""Nearest rank: DuckDB reads such numbers as exact decimals."""

BY_TOPIC: Final = f"""
SELECT run, label, min(topic_id) AS topic_id, count(*) AS events, sum(late) AS late, sum(in_order) AS in_order,
       count(*) FILTER (is_asked) AS asked, count(*) FILTER (is_whole) AS whole,
       count(*) FILTER (least(latency, timestamp, ens, waiting) < 0) AS negative,
       count(*) FILTER (latency IS NOT NULL AND clock_error IS NULL) AS uncorrected,
       sum(stamp_bytes) AS stamp_bytes, count(stamp_bytes) AS stamped,
       sum(entries) AS entries, count(entries) AS with_entries,
       sum(entry_stage - top_stage + 1) AS stages, count(entry_stage - top_stage) AS with_stages,
       arg_max(stage, {{moment: coalesce(published_at, 0), number: number}}) FILTER (stage IS NOT NULL) AS home,
       {RANKED.format("latency")} AS latency
FROM events GROUP BY run, label ORDER BY run, label
"""
BY_WINDOW: Final = f"""
SELECT run, published_at - ((published_at % $window) + $window) % $window AS start, count(*) AS events,
       sum(late) AS late, sum(in_order) AS in_order,
       count(*) FILTER (is_asked) AS asked, count(*) FILTER (is_whole) AS whole, {RANKED.format("latency")} AS latency
FROM events WHERE is_accepted AND published_at IS NOT NULL GROUP BY ALL ORDER BY run, start
"""
BY_SUBSCRIBER: Final = f"""
SELECT who, count(*) FILTER (late + in_order > 0) AS events, sum(late) AS late, sum(in_order) AS in_order,
       count(*) FILTER (latency_us <= 1000000) AS in_time, {RANKED.format("latency_us")} AS latency
FROM latencies GROUP BY who
"""
ASKED: Final = """
SELECT who, sum(events)::BIGINT AS asked FROM interest JOIN (
    SELECT a.topic, above, up_to, count(*) AS events
    FROM accepted a JOIN (SELECT DISTINCT topic, above, up_to FROM interest) i
    ON i.topic = a.topic AND a.number > above AND a.number <= up_to GROUP BY ALL
) USING (topic, above, up_to) GROUP BY who
"""
PATHS: Final = """
SELECT run, stage, CASE WHEN top_stage IS NOT NULL THEN entry_stage END AS entry,
       CASE WHEN entry_stage IS NOT NULL THEN top_stage END AS top, count(*) AS events
FROM events WHERE is_accepted AND stage IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
GAPS: Final = """
SELECT run, coalesce(detail, '') AS reason, sum(coalesce(last_number - number + 1, 1))::BIGINT AS numbers
FROM traces WHERE kind = 'gap' AND number IS NOT NULL GROUP BY ALL
"""
PLACES: Final = """
SELECT coalesce(one.raw_place, -1) AS raw_a, coalesce(two.raw_place, -1) AS raw_b,
       coalesce(one.delivered_place, -1) AS delivered_a, coalesce(two.delivered_place, -1) AS delivered_b
FROM heard one JOIN heard two USING (topic, number) WHERE one.who = $a AND two.who = $b
"""
AT: Final = "SELECT label, number FROM heard JOIN topics USING (topic) WHERE who = $who AND delivered_place = $place"
_PARTS: Final = ("latency", "timestamp", "ens", "waiting", "clock_error")


def measure(path: str, *, window_s: float = WINDOW_S, max_pairs: int = MAX_PAIRS, seed: int = 0) -> Result:
    """Compute the result of all traces below a folder; none of them may be damaged or have foreign columns."""
    files = sorted(file for file in Path(path).rglob("*.parquet") if not file.name.startswith((".", "_")))
    with duckdb.connect() as data:
        data.execute(ROWS.replace("$files", str([str(file) for file in files])))
        data.execute(NAMES)
        data.execute(CLOCKS, {"told": list(_clocks(data))})
        for script in (FOLLOWED, INTEREST, EVENTS):
            data.execute(script)
        parts = _runs(data, max_pairs, seed)
        _add_sums(data, parts, round(window_s * 1_000_000))
        ranks = _ranks(data).get(None, Ranks())
        rows = _rows(data, "SELECT count(*) AS rows FROM read_parquet($files)", files=[str(file) for file in files])
    return together(
        list(parts.values()),
        ranks,
        path=path,
        rows=rows[0]["rows"],
        window_s=window_s,
        files=Files(read=len(files), bytes=sum(file.stat().st_size for file in files)),
        limit=max_pairs,
        seed=seed,
    )


def _clocks(data: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    for each in _rows(data, MEASURED):
        session = {name: each[name] for name in ("run", "client", "incarnation")}
        for since, offset, error in clocks(tuple(one.values()) for one in each["measured"]):
            yield {**session, "since": since, "offset_us": offset, "error_us": error}


def _runs(data: duckdb.DuckDBPyConnection, max_pairs: int, seed: int) -> dict[str, RunPart]:
    parts: dict[str, RunPart] = {}
    who: dict[tuple[str, str], int] = {}
    for each in _rows(data, "SELECT * FROM sessions ORDER BY run, client, rank"):
        run, client = each["run"], each["client"]
        who[run, client] = each["who"]
        part = parts.setdefault(run, RunPart(run=run, subscribers=[], publishers=[], sample=Pairs()))
        part.dropped += each["dropped"]
        for does, clients in (("subscribes", part.subscribers), ("publishes", part.publishers)):
            if each[does] and client not in clients[-1:]:
                clients.append(client)
    streaming = _rows(data, "SELECT DISTINCT who FROM heard WHERE coalesce(raw_place, delivered_place) IS NOT NULL")
    numbers = {each["who"] for each in streaming}
    for run, part in parts.items():
        clients = [client for (its, client), number in who.items() if its == run and number in numbers]
        total, used = pairs_of(run, clients, max_pairs, seed)
        part.sample = Pairs(total=total, used=len(used), limit=max_pairs, seed=seed)
        part.pairs = _compared(data, [(a, b, who[run, a], who[run, b]) for a, b in used])
    return parts


def _compared(data: duckdb.DuckDBPyConnection, pairs: list[tuple[str, str, int, int]]) -> list[ComparedPair]:
    def compare(pair: tuple[str, str, int, int]) -> ComparedPair:
        a, b, one, two = pair
        with data.cursor() as cursor:
            places = cursor.execute(PLACES, {"a": one, "b": two}).fetchnumpy()
            raw, delivered = (compared(places[f"{name}_a"], places[f"{name}_b"]) for name in ("raw", "delivered"))
            names = [
                EventName(topic=each["label"], number=each["number"])
                for place in (delivered["before"], delivered["after"])
                if place is not None
                for each in _rows(cursor, AT, who=one, place=place)
            ]
        witness = Witness(first=names[0], second=names[1]) if names else None
        streams = (msgspec.convert(each, Compared) for each in (raw, delivered))
        return ComparedPair(a=a, b=b, raw=next(streams), delivered=next(streams), witness=witness)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compare, pairs))


def _add_sums(data: duckdb.DuckDBPyConnection, parts: dict[str, RunPart], window_us: int) -> None:
    for each in _rows(data, BY_TOPIC):
        sums = {name: _ranked(value) if name == "latency" else value or 0 for name, value in each.items()}
        del sums["run"]
        parts[each["run"]].topics.append(Topic(**{**sums, "home": each["home"]}))
    for each in _rows(data, BY_WINDOW, window=window_us):
        parts[each["run"]].by_window.append(
            WindowFigures(start=EPOCH + timedelta(microseconds=each["start"]), run=each["run"], **_figures(each))
        )
    asked = {each["who"]: each["asked"] for each in _rows(data, ASKED)}
    told = {each["who"]: each for each in _rows(data, BY_SUBSCRIBER)}
    for each in _rows(data, "SELECT DISTINCT run, client, who FROM sessions WHERE subscribes ORDER BY who"):
        sums = told.get(each["who"], {"events": 0, "late": 0, "in_order": 0, "in_time": 0, "latency": None})
        figures = _figures({**sums, "whole": sums["in_time"], "asked": asked.get(each["who"], 0)})
        parts[each["run"]].by_subscriber.append(SubscriberFigures(run=each["run"], client=each["client"], **figures))
    for each in _rows(data, PATHS):
        parts[each["run"]].paths.append((each["stage"], each["entry"], each["top"], each["events"]))
    for each in _rows(data, GAPS):
        parts[each["run"]].gaps[each["reason"]] = each["numbers"]
    for run, ranks in _ranks(data, "GROUP BY run").items():
        parts[run or ""].ranks = ranks


def _figures(sums: dict[str, Any]) -> dict[str, Any]:
    return {
        "events": sums["events"],
        "late_percent": percent(sums["late"], sums["late"] + sums["in_order"]),
        "notified_1s_percent": percent(sums["whole"], sums["asked"]),
        "latency_ms": percentiles(_ranked(sums["latency"])),
    }


def _ranks(data: duckdb.DuckDBPyConnection, grouping: str = "") -> dict[str | None, Ranks]:
    """Return the percentiles of all events, by run or together (then under ``None``)."""
    columns = ", ".join(f"{RANKED.format(name)} AS {name}" for name in _PARTS)
    rows = _rows(data, f"SELECT {'run' if grouping else 'NULL AS run'}, {columns} FROM events {grouping}")
    return {each.pop("run"): Ranks(**{name: _ranked(each[name]) for name in _PARTS}) for each in rows}


def _ranked(values: list[int | None] | None) -> list[int]:
    return [each for each in values or () if each is not None]


def _rows(data: duckdb.DuckDBPyConnection, query: str, **given: Any) -> list[dict[str, Any]]:
    done = data.execute(query, given)
    names = [column[0] for column in done.description]
    return [dict(zip(names, row, strict=True)) for row in done.fetchall()]


if __name__ == "__main__":
    sys.stdout.buffer.write(encode(measure(sys.argv[1])))
