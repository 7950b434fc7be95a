"""Latency, tags, sizes, popularity, by hand: every figure with its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from tests.analytics.spark import scenarios
from tests.analytics.traces import EPOCH_US, INCARNATION, Trace, write

from inorder_analytics.parts import nearest_rank
from inorder_analytics.plain import measure, measure_rows
from inorder_analytics.plain.latency import lived
from inorder_analytics.plain.recorded import Interest, recorded_runs
from inorder_analytics.reading import Row, Traces
from inorder_analytics.results import (
    ClockError,
    Percentiles,
    Result,
    StageOverhead,
    TopicOrder,
    TopicPopularity,
)


def measured(trace: Trace, window_s: float = 60.0) -> Result:
    return measure_rows((Row(**row) for row in trace.rows), window_s=window_s)


def same(value: float) -> Percentiles:
    return Percentiles(p50=value, p90=value, p99=value)


@pytest.mark.parametrize(
    ("count", "percent", "expected"),
    [
        (1, 50, 1),
        (1, 99, 1),
        (2, 50, 1),
        (3, 50, 2),
        (10, 90, 9),
        (11, 90, 10),
        (100, 99, 99),
        (101, 99, 100),
        (0, 50, None),
    ],
)
def test_nearest_rank(count: int, percent: int, expected: int | None) -> None:
    assert nearest_rank(range(1, count + 1), percent) == expected


# -- latency -----------------------------------------------------------------------------------------------------------


def clocks() -> Trace:
    """One event on three clocks. All times in ms.

    =========  ======  =====  =====================================  ==========================
    who        offset  error  its own clock                          the worker's clock
    =========  ======  =====  =====================================  ==========================
    p          +100    2      published 0, stamped 5                 published 100, stamped 105
    s1         -50     3      arrived 180, delivered 190             arrived 130, delivered 140
    s2         +30     1      arrived 80, delivered 120              arrived 110, delivered 150
    =========  ======  =====  =====================================  ==========================

    By its own clock s1 would be the last. It is s2: latency 150 - 100 = 50, of which the timestamp took 5, the ENS
    110 - 105 = 5, waiting 150 - 110 = 40. The error is at most 2 + 1 = 3.
    """
    trace = Trace()
    trace.clock("p", 100, 2, at=-1)
    trace.clock("p", 100, 2, at=600)
    trace.clock("s1", -50, 3)
    trace.clock("s2", 30, 1)
    trace.clock("s2", 999, 0, incarnation=INCARNATION + 1)  # of another start
    trace.subscribed("s1", "a")
    trace.subscribed("s2", "a")
    trace.published("p", "a", 1, at=0, stamped=5)
    trace.notified("s1", "a", 1, at=190, arrived=180)
    trace.notified("s2", "a", 1, at=120, arrived=80)
    return trace


def test_clocks_are_corrected() -> None:
    result = measured(clocks())
    assert result.latency_ms == same(50)
    assert (result.timestamp_ms, result.ens_ms, result.waiting_ms) == (same(5), same(5), same(40))
    assert result.clock_error_ms == ClockError(p50=3, p99=3, max=3)
    assert (result.negative_latencies, result.uncorrected) == (0, 0)
    assert {each.client: each.latency_ms.p50 for each in result.by_subscriber} == {"s1": 40, "s2": 50}


def test_a_clock_that_is_set_by_hours_is_off_by_what_it_was_at_the_time() -> None:
    result = measured(scenarios.clock_set())
    assert result.latency_ms == same(5)
    assert result.clock_error_ms == ClockError(p50=1, p99=8 * scenarios.HOUR + 1, max=8 * scenarios.HOUR + 1)


def test_a_clock_that_is_set_back_into_its_own_past_is_uncertain_there() -> None:
    """s's clock shows the same minute twice, first 0, then 60 s slow: whatever is taken for an event, the bound holds
    the other one, too."""
    trace = Trace()
    trace.clock("p", 0, 0.5)
    for at in range(0, 60_000, 10_000):
        trace.clock("s", 0, 0.5, at=at)
        trace.clock("s", 60_000, 0.5, at=at + 1_000)
    trace.subscribed("s", "a")
    for number in range(1, 50):
        trace.published("p", "a", number, at=number * 2_000)
        trace.notified("s", "a", number, at=(number * 2_000 + 5) % 60_000)
    recorded = recorded_runs(Row(**row) for row in trace.rows)["r"]
    for each in lived(recorded):
        assert each.latency is not None
        assert each.error is not None
        assert abs(each.latency - 5_000) <= each.error


def test_an_unknown_clock_is_counted_and_negative_parts_are_kept() -> None:
    trace = clocks()
    trace.rows = [row for row in trace.rows if not (row["kind"] == "clock" and row["client"] == "s2")]
    # s2 without an offset: arrived 80, delivered 120; so s1 is the last: 140 - 100
    assert measured(trace).latency_ms == same(40)
    assert measured(trace).uncorrected == 0
    trace.rows = [row for row in trace.rows if row["kind"] != "clock"]
    # nobody's is known: s1's 190 - 0, ens 180 - 5
    result = measured(trace)
    assert (result.latency_ms, result.ens_ms) == (same(190), same(175))
    assert (result.uncorrected, result.clock_error_ms) == (1, ClockError())
    trace.clock("s1", -185, 1)
    trace.clock("s2", -185, 1)
    # s1: arrived -5, delivered 5; s2 is earlier. latency 5, ens -5 - 5 = -10, waiting 10
    result = measured(trace)
    assert (result.latency_ms, result.ens_ms, result.waiting_ms) == (same(5), same(-10), same(10))
    assert (result.negative_latencies, result.uncorrected) == (1, 1)


def test_percentiles_of_ten_events() -> None:
    """Latencies 10, 20, ..., 100 ms: p50 is the 5th, p90 the 9th, p99 the 10th."""
    trace = Trace()
    for at in range(1, 11):
        trace.published("p", "a", at, at=1000 * at)
        trace.notified("s", "a", at, at=1000 * at + 10 * at)
    assert measured(trace).latency_ms == Percentiles(p50=50, p90=90, p99=100)


# -- who was interested ------------------------------------------------------------------------------------------------


def test_notified_within_a_second() -> None:
    """Topic a, both subscribed from the start; b from number 1 on at s1 only.

    =====  ==========  =============================  ====================================
    event  published   notified                       counts
    =====  ==========  =============================  ====================================
    a1     0           s1 10, s2 1000                 yes: exactly a second
    a2     0           s1 10, s2 1000.001             no
    a3     0           s1 10, s2 never                no
    a4     0           s1 10, s2 20 as late           yes
    a5     refused     -                              not accepted: not counted
    b1     0           -                              before s1's start: nobody is interested
    b2     0           s1 5                           yes
    b3     0           s1 5, and s2 never subscribed  yes
    =====  ==========  =============================  ====================================

    3 + 1 of 6 and late 1 of 4 + 3 + 2 = 9 notifications.
    """
    trace = Trace()
    for topic, client, start in (("a", "s1", 0), ("a", "s2", 0), ("b", "s1", 1)):
        trace.subscribed(client, topic, start)
    for topic, number in (("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("b", 2), ("b", 3)):
        trace.published("p", topic, number)
    trace.published("p", "a", 5, outcome="refused")
    for number, when in ((1, 1000), (2, 1000.001), (4, 20)):
        trace.notified("s1", "a", number, at=10)
        trace.notified("s2", "a", number, "late" if number == 4 else "in_order", at=when)
    trace.notified("s1", "a", 3, at=10)
    trace.notified("s1", "b", 2, at=5)
    trace.notified("s1", "b", 3, at=5)
    result = measured(trace)
    assert result.notified_1s_percent == pytest.approx(100 * 4 / 6)
    assert result.late_percent == pytest.approx(100 * 1 / 9)
    by_topic = {each.topic: each for each in result.by_topic}
    assert by_topic["mqtt:a"].notified_1s_percent == pytest.approx(100 * 2 / 4)
    assert by_topic["mqtt:a"].late_percent == pytest.approx(100 * 1 / 7)
    assert by_topic["mqtt:b"].notified_1s_percent == 100
    assert (by_topic["mqtt:a"].events, by_topic["mqtt:b"].events) == (4, 3)
    by_subscriber = {each.client: each for each in result.by_subscriber}
    assert by_subscriber["s1"].notified_1s_percent == 100
    assert by_subscriber["s2"].notified_1s_percent == pytest.approx(100 * 2 / 4)
    assert (by_subscriber["s1"].events, by_subscriber["s2"].events) == (6, 3)
    assert result.publishers == 1


@pytest.mark.parametrize(
    ("changes", "interested"),
    [
        ([("subscribed", 0)], True),
        ([("subscribed", 4)], True),
        ([("subscribed", 5)], False),
        ([("subscribed", 0), ("unsubscribed", 4)], False),
        ([("subscribed", 0), ("unsubscribed", 5)], True),
        ([("subscribed", 0), ("unsubscribed", 2), ("subscribed", 3)], True),
        ([("subscribed", 0), ("unsubscribed", 2), ("subscribed", 7)], False),
        ([("subscribed", 0), ("unsubscribed", 6), ("subscribed", 7)], True),
        ([("subscribed", 0), ("unsubscribed", None)], False),
    ],
)
def test_interest_in_number_5(changes: list[tuple[str, int | None]], interested: bool) -> None:
    trace = Trace()
    for at, (kind, number) in enumerate(changes):
        trace.row(kind, "s", at=at, space="mqtt", topic="a", domain=77, topic_id=1, number=number)
    trace.published("p", "a", 5)
    assert measured(trace).notified_1s_percent == (0 if interested else None)


def test_without_any_subscription_those_who_were_notified_of_the_topic() -> None:
    trace = Trace()
    for number in (1, 2):
        trace.published("p", "a", number)
    trace.streams(s1="a1 a2", s2="a1", s3="b1")
    assert measured(trace).notified_1s_percent == 50  # a1 reached s1 and s2, a2 only s1; s3 has nothing of a


def test_a_repetition_is_no_second_event() -> None:
    trace = Trace()
    trace.published("p", "a", 1)
    trace.notified("s", "a", 1, at=10)
    trace.notified("s", "a", 1, at=5000, incarnation=INCARNATION + 1, redelivered=True)
    result = measured(trace)
    assert result.latency_ms == same(10)
    assert result.by_subscriber[0].events == 1
    assert result.notified_1s_percent == 100


# -- windows -----------------------------------------------------------------------------------------------------------


def test_windows_are_aligned_to_the_epoch() -> None:
    """The first row is at the begin of a minute: one window ends at 59,999.999 ms."""
    trace = Trace()
    for number, when in enumerate((0, 59_999.999, 60_000, 180_000), start=1):
        trace.published("p", "a", number, at=when)
        trace.notified("s", "a", number, "late" if number == 3 else "in_order", at=when + number)
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=EPOCH_US)
    found = [
        (round((each.start - start).total_seconds()), each.events, each.late_percent, each.latency_ms.p50)
        for each in measured(trace).by_window
    ]
    assert found == [(0, 2, 0, 1), (60, 1, 100, 3), (180, 1, 0, 4)]
    assert [each.events for each in measured(trace, window_s=3600).by_window] == [4]
    assert [each.events for each in measured(trace, window_s=0.5).by_window] == [1, 1, 1, 1]


# -- sizes and stages --------------------------------------------------------------------------------------------------


def sizes() -> Trace:
    """Three stages; topics a (home 0), b (home 1), c (home 2).

    =====  ====  =====  ===  =======  =====  ============  =======
    event  home  entry  top  entries  bytes  dependencies  visited
    =====  ====  =====  ===  =======  =====  ============  =======
    a1     0     0      0    2        20     -             1
    b1     1     1      0    -        30     c:1 a:1 (3)   2
    b2     1     2      1    4        -      -             2
    c1     2     2      0    3        70     -             3
    =====  ====  =====  ===  =======  =====  ============  =======

    entries (2 + 3 + 4 + 3) / 4 = 3, at 24 bytes 72; bytes (20 + 30 + 70) / 3 = 40; stages 8 / 4 = 2.
    Stage 0: own a1; b1, c1 pass: 2 / 3. Stage 1: own b1, b2; c1 passes: 1 / 3. Stage 2: own c1; b2 passes: 1 / 2.
    """
    trace = Trace()
    trace.published("p", "a", 1, stage=0, entry_stage=0, top_stage=0, entries=2, stamp_bytes=20)
    trace.published("p", "b", 1, stage=1, entry_stage=1, top_stage=0, dependencies=[3, 1, 1, 1], stamp_bytes=30)
    trace.published("p", "b", 2, stage=1, entry_stage=2, top_stage=1, entries=4)
    trace.published("p", "c", 1, stage=2, entry_stage=2, top_stage=0, entries=3, stamp_bytes=70)
    trace.published("p", "c", 2, outcome="cancelled", stage=2, entry_stage=2, top_stage=0, entries=99, stamp_bytes=999)
    trace.published("p", "c", None, ordering="none", stamp_bytes=999, stage=1)
    return trace


def test_sizes_and_stages() -> None:
    result = measured(sizes())
    assert (result.events, result.entries_per_event, result.bytes_per_event_24) == (4, 3, 72)
    assert (result.bytes_per_event, result.stages_per_event) == (40, 2)
    assert result.message_overhead == [
        StageOverhead(run="r", stage=0, own=1, foreign=2, percent=200 / 3),
        StageOverhead(run="r", stage=1, own=2, foreign=1, percent=100 / 3),
        StageOverhead(run="r", stage=2, own=1, foreign=1, percent=50),
    ]


# -- popularity --------------------------------------------------------------------------------------------------------


def test_popularity_and_the_topic_order_that_it_suggests() -> None:
    """200 events: a 4, b 40, c 36, d 120, of which a, b are on stage 0 and c, d on stage 1.

    By count d, b, then c, a: two and two. R15, f(x) = exp(-1 / (0.1 (x + 1))) with x per 1,000: a 20: 0.62; d 600:
    0.98; c 180: 0.95; b 200: 0.95. a is the least of the top, d the most below it: 0.98 > 0.62 + 0.2; b against c: no.
    """
    trace = Trace()
    for topic, count, stage in (("a", 4, 0), ("b", 40, 0), ("c", 36, 1), ("d", 120, 1)):
        for number in range(1, count + 1):
            # earlier d was on stage 0
            home = 0 if topic == "d" and number == 1 else stage
            trace.published("p", topic, number, at=number, stage=home, entry_stage=stage, top_stage=0)
    result = measured(trace)
    assert result.popularity[0] == TopicPopularity(run="r", topic="mqtt:d", events=120, per_1000=600)
    assert [each.topic for each in result.popularity] == ["mqtt:d", "mqtt:b", "mqtt:c", "mqtt:a"]
    assert result.topic_order == [
        TopicOrder(run="r", suggested=[["mqtt:d", "mqtt:b"], ["mqtt:c", "mqtt:a"]], swaps=[("mqtt:a", "mqtt:d")])
    ]


def test_no_home_is_known() -> None:
    trace = Trace()
    trace.published("p", "a", 1)
    assert measured(trace).topic_order == [TopicOrder(run="r")]
    assert measured(trace).message_overhead == []


# -- gaps and what was not recorded ------------------------------------------------------------------------------------


def test_gaps_and_dropped_rows() -> None:
    trace = Trace()
    trace.gap("s1", "a", 1, 10, "lost")
    trace.gap("s2", "a", 3, 3, "lost")
    trace.gap("s2", "b", 1, 4, "abandoned")
    trace.row("dropped", "s1", count=3)
    trace.row("dropped", "s2", count=4)
    result = measured(trace)
    assert result.gaps == {"abandoned": 4, "lost": 11}
    assert result.dropped_rows == 7
    assert result.subscribers == 0  # neither subscribed nor notified


def test_files(tmp_path: Path) -> None:
    write(tmp_path, sizes().rows, per_file=4)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    result = measure(Traces(tmp_path))
    assert (result.events, result.files.read, result.rows) == (4, 2, 6)
    assert result.files.bytes == sum(path.stat().st_size for path in tmp_path.glob("00*.parquet"))
    assert [each.file for each in result.files.damaged] == [str(tmp_path / "bad.parquet")]
    assert measure(Traces(tmp_path), made_at=result.made_at) == result


def test_whether_a_client_wanted_an_event_is_told_in_one_look_at_its_subscriptions() -> None:
    """A few thousand rows of beginnings and ends took a second for each event: each beginning was held to each end."""

    class Looked(list[tuple[tuple[int, int], int]]):
        looks = 0

        def __iter__(self) -> Iterator[tuple[tuple[int, int], int]]:
            self.looks += 1
            return super().__iter__()

    seeded = Random(1)
    for _ in range(200):
        changes = [((0, seeded.randrange(9)), seeded.randrange(9)) for _ in range(8)]
        interest = Interest(changes[:4], Looked(changes[4:]))
        for number in range(10):
            wanted = any(
                start < number and not any(later > at and end < number for later, end in changes[4:])
                for at, start in changes[:4]
            )
            interest.ended.looks = 0  # type: ignore[attr-defined]
            assert interest.covers(number) == wanted
            assert interest.ended.looks == 1  # type: ignore[attr-defined]
