"""One analysis of many runs beside each other: against figures worked out by hand, and against plain Python."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.analytics.spark import scenarios
from tests.analytics.traces import write

from inorder_analytics.plain import measure
from inorder_analytics.reading import Traces
from inorder_analytics.results import Result, decode, to_plain
from inorder_analytics.spark.job import Job, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=scenarios.EPOCH_US)

# Run -> figure -> its value; the arithmetic stands with each trace in scenarios.py.
BY_HAND: dict[str, dict[str, Any]] = {
    "order": {
        "events": 5,
        "subscribers": 2,
        "publishers": 0,
        "topics": 2,
        "ordering_degree_raw": 0.76,
        "ordering_degree_delivered": 0.92,
        "ordering_degree_raw_min": 0.76,
        "ordering_degree_delivered_min": 0.92,
        "tno_violations_raw": 4,
        "tno_violations_delivered": 1,
        "conflict_rate_raw": 3 / 4,
        "conflict_rate_delivered": 1 / 4,
        "displacement_raw": {"mean": 6 / 5, "max": 2},
        "displacement_delivered": {"mean": 2 / 5, "max": 1},
        "late_percent": 0,
        "notified_1s_percent": None,
        "sequence_detection_raw_percent": 0,
        "sequence_detection_percent": 0,
        "latency_ms": {"p50": None, "p90": None, "p99": None},
        "bytes_per_event": None,
        "bytes_per_event_24": None,
        "stages_per_event": None,
    },
    "same": {
        "ordering_degree_delivered": 1,
        "tno_violations_delivered": 0,
        "conflict_rate_delivered": 0,
        "sequence_detection_percent": 100,
        "sequence_detection_raw_percent": 100,
    },
    "latency": {
        "events": 3,
        "subscribers": 2,
        "publishers": 1,
        "late_percent": 20,
        "notified_1s_percent": 100 / 3,
        "latency_ms": {"p50": 50, "p90": 1010, "p99": 1010},
        "timestamp_ms": {"p50": 5, "p90": 40, "p99": 40},
        "ens_ms": {"p50": 5, "p90": 1009, "p99": 1009},
        "waiting_ms": {"p50": 40, "p90": 101, "p99": 101},
        "clock_error_ms": {"p50": 5, "p99": 5, "max": 5},
        "negative_latencies": 1,
        "uncorrected": 0,
        "bytes_per_event": (10 + 31 + 40) / 3,
        "entries_per_event": (1 + 3 + 5) / 3,  # of the second: its own and two dependencies
        "bytes_per_event_24": 24 * 3,
        "stages_per_event": (2 + 1) / 2,  # of the second nobody knows
        "gaps": {"lost": 1, "skipped": 6},
        "dropped_rows": 7,
    },
    "clock set": {
        "events": 4,
        "notified_1s_percent": 100,
        "latency_ms": {"p50": 5, "p90": 5, "p99": 5},
        "clock_error_ms": {"p50": 1, "p99": 8 * scenarios.HOUR + 1, "max": 8 * scenarios.HOUR + 1},
        "negative_latencies": 0,
        "uncorrected": 0,
    },
    "popular": {
        "events": 120,
        "publishers": 2,
        "subscribers": 0,
        "stages_per_event": (110 * 2 + 10) / 120,
        "ordering_degree_raw": None,
        "late_percent": None,
        "notified_1s_percent": None,
    },
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("figures") / "traces", scenarios.everything(), per_file=150)


@pytest.fixture(scope="module")
def result(spark: SparkSession, traces: Path) -> Result:
    """Made where the clock of the driver is half a day from UTC; nothing may show of it."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Pacific/Apia"
    time.tzset()
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    steps: list[tuple[int, int]] = []
    try:
        return run(
            Job(str(traces), str(traces.with_name("out"))),
            session=spark,
            on_progress=lambda step, of, what: steps.append((step, of)),
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
        assert steps == [(at, 6) for at in range(1, 7)]


@pytest.mark.parametrize("name", BY_HAND)
def test_a_run_has_the_figures_worked_out_by_hand(result: Result, name: str) -> None:
    (found,) = [each for each in to_plain(result)["by_run"] if each["run"] == name]
    differing = {key: found[key] for key, value in BY_HAND[name].items() if not _alike(found[key], value)}
    assert differing == {}


def test_the_parts_of_runs_have_the_figures_worked_out_by_hand(result: Result) -> None:
    plain = to_plain(result)

    def of(name: str, run: str) -> list[dict[str, Any]]:
        return [{k: v for k, v in each.items() if k != "run"} for each in plain[name] if each["run"] == run]

    nothing = {"p50": None, "p90": None, "p99": None}
    (pair,) = of("worst_pairs", "order")
    assert (pair["a"], pair["b"], pair["length"], pair["length_raw"]) == ("s", "t", 5, 5)
    assert pair["witness"] == {"first": {"topic": "mqtt:a", "number": 2}, "second": {"topic": "mqtt:b", "number": 2}}
    s, t = of("by_subscriber", "latency")
    assert (s["client"], s["events"], s["late_percent"], s["notified_1s_percent"]) == ("s", 3, 100 / 3, 100 * 2 / 3)
    assert (t["client"], t["events"], t["late_percent"], t["notified_1s_percent"]) == ("t", 2, 0, 100 * 2 / 3)
    assert s["latency_ms"] == {"p50": 40, "p90": 1010, "p99": 1010}  # 40, 1010, 1
    assert t["latency_ms"] == {"p50": 1, "p90": 50, "p99": 50}
    assert [each["events"] for each in of("by_topic", "latency")] == [3]
    first, second = of("by_window", "popular")
    assert (first["events"], first["latency_ms"], second["events"]) == (110, nothing, 10)
    windows = [each for each in result.by_window if each.run == "popular"]
    assert [each.start for each in windows] == [BEGIN, BEGIN + timedelta(days=2)]  # EPOCH_US begins a minute
    assert of("message_overhead", "popular") == [
        {"stage": 0, "own": 10, "foreign": 110, "percent": pytest.approx(100 * 110 / 120)},
        {"stage": 1, "own": 110, "foreign": 0, "percent": 0},
    ]
    assert of("popularity", "popular") == [
        {"topic": "mqtt:c", "events": 110, "per_1000": pytest.approx(916.667, abs=1e-3)},
        {"topic": "mqtt:a", "events": 10, "per_1000": pytest.approx(83.333, abs=1e-3)},
    ]
    assert of("topic_order", "popular") == [{"suggested": [["mqtt:c"], ["mqtt:a"]], "swaps": []}]


def test_topics_keep_their_names(result: Result) -> None:
    """B79: no folder and no type is made of a name."""
    found = {each.topic: each.events for each in result.by_topic if each.run == "na=me/%2F"}
    assert found == {f"mqtt:{topic}": at + 1 for at, topic in enumerate(scenarios.TOPICS)}


def test_all_is_as_in_plain_python(result: Result, traces: Path) -> None:
    """Twelve random runs among them, with repetitions, holes, several incarnations and clocks, and missing values."""
    expected = to_plain(measure(Traces(traces)))
    found = to_plain(result)
    for plain in (expected, found):
        del plain["made_at"]
    assert _differences(found, expected) == []
    assert found["rows"] == len(scenarios.everything())


def test_the_folder_has_the_result_for_readers(result: Result, traces: Path) -> None:
    out = traces.with_name("out")
    assert decode((out / "result.json").read_bytes()) == result
    for name in ("by_topic", "by_subscriber", "by_window", "message_overhead", "popularity"):
        assert pq.read_table(out / "results" / f"{name}.parquet").num_rows == len(getattr(result, name))
    starts = pq.read_table(out / "results" / "by_window.parquet").column("start").to_pylist()
    assert starts == [each.start for each in result.by_window]
    pairs = pq.read_table(out / "results" / "pairs.parquet")
    assert pairs.num_rows == result.pairs.used > len(result.worst_pairs)
    assert sum(pairs.column("opposite_delivered").to_pylist()) == result.tno_violations_delivered
    assert sorted(each.name for each in out.iterdir()) == [
        *(".lock", "facts", "manifest.json", "result.json", "results", "rows")
    ]
    assert json.loads((out / "manifest.json").read_text())["generation"] == 1


def _alike(found: Any, expected: Any) -> bool:
    return not _differences(found, expected)


def _differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """Return where two results differ; numbers may by what rounding does."""
    if isinstance(expected, dict) and isinstance(found, dict):
        assert found.keys() == expected.keys(), where
        return [each for key in expected for each in _differences(found[key], expected[key], f"{where}.{key}")]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(found, expected, strict=True))
        return [each for at, (one, two) in pairs for each in _differences(one, two, f"{where}[{at}]")]
    if isinstance(expected, float) or isinstance(found, float):
        is_same = found is not None and expected is not None and found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    else:
        is_same = found == expected
    return [] if is_same else [f"{where}: {found!r} != {expected!r}"]
