"""What an audit finds in traces: every planted fault by its name, and nothing where rows are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.analytics.traces import DOMAIN, INCARNATION, Trace, write

from inorder.errors import InvalidOption
from inorder_analytics.audit import Audit, audit, to_plain
from inorder_analytics.reading import Traces

ORDER = "a1 b1 a2 b2 a3 b3"


def healthy() -> Trace:
    """Two strict subscribers of two topics; two publishers, of whom each event depends on all before it."""
    trace = Trace()
    for client in ("p", "q", "s1", "s2"):
        trace.opened(client)
        trace.clock(client, 0, 1)
    for client in ("s1", "s2"):
        trace.subscribed(client, "a")
        trace.subscribed(client, "b")
    for at, event in enumerate(ORDER.split(), start=1):
        before = {"a": 0, "b": 0}
        for each in ORDER.split()[: at - 1]:
            before[each[0]] = int(each[1:])
        other = "b" if event[0] == "a" else "a"
        deps = [2 if other == "b" else 1, before[other]]
        publisher = "p" if event[0] == "a" else "q"
        trace.published(publisher, event[0], int(event[1:]), at=100 + at, counter=at, dependencies=deps)
    for client in ("s1", "s2"):
        for at, event in enumerate(ORDER.split(), start=1):
            trace.notified(client, event[0], int(event[1:]), at=200 + at)
    return trace


def judge(tmp_path: Path, trace: Trace, **how: Any) -> Audit:
    return audit(Traces(write(tmp_path, trace.rows)), **how)


def rules(found: Audit) -> list[str]:
    return sorted(violation.rule for run in found.runs for violation in run.violations)


def events_of(found: Audit, rule: str) -> list[tuple[list[tuple[str, int]], list[str]]]:
    """Return, of each violation of a rule, the events and subscribers that it names."""
    return [
        ([(event["topic"], event["number"]) for event in each["events"]], each["subscribers"])
        for each in to_plain(found)["violations"]
        if each["rule"] == rule
    ]


def rows_of(trace: Trace, client: str) -> list[dict[str, Any]]:
    return [row for row in trace.rows if row["client"] == client and row["kind"] == "notified"]


def swap(one: dict[str, Any], two: dict[str, Any]) -> None:
    for name in ("delivery_index", "delivered_at"):
        one[name], two[name] = two[name], one[name]


def closed(trace: Trace) -> None:
    """Let the indexes of notifications and gaps count again without a hole."""
    for client in {row["client"] for row in trace.rows}:
        rows = [row for row in trace.rows if row["client"] == client and row["delivery_index"] is not None]
        for at, row in enumerate(sorted(rows, key=lambda row: row["delivery_index"]), start=1):
            row["delivery_index"] = at


def test_a_healthy_trace(tmp_path: Path) -> None:
    found = judge(tmp_path, healthy())
    assert rules(found) == []
    assert found.is_ok
    (run,) = found.runs
    assert (run.events, run.notifications, run.not_judged) == (6, 12, [])
    assert run.pairs.used == 1
    plain = to_plain(found)
    assert (plain["subscribers"], plain["ordering_degree_delivered"], plain["tno_violations_raw"]) == (2, 1, 0)


def test_two_deliveries_in_opposite_orders(tmp_path: Path) -> None:
    trace = healthy()
    rows = rows_of(trace, "s2")
    swap(rows[2], rows[3])  # b2 before a2, which it depends on
    found = judge(tmp_path, trace)
    assert not found.is_ok
    assert rules(found) == ["R4", "TNO"]
    assert events_of(found, "TNO") == [([("mqtt:a", 2), ("mqtt:b", 2)], ["s1", "s2"])]
    assert events_of(found, "R4") == [([("mqtt:b", 2), ("mqtt:a", 2)], ["s2"])]
    (pair,) = to_plain(found)["runs"][0]["by_pair"]
    assert (pair["tno_violations_delivered"], pair["length"]) == (1, 6)
    assert to_plain(found)["violations"][1]["events"][0]["publisher"] is not None


def test_a_silent_drop(tmp_path: Path) -> None:
    trace = healthy()
    trace.rows.remove(rows_of(trace, "s2")[2])
    closed(trace)
    found = judge(tmp_path, trace)
    assert rules(found) == ["R17"]
    assert events_of(found, "R17") == [([("mqtt:a", 2)], ["s2"])]


def test_a_reported_gap_is_no_violation(tmp_path: Path) -> None:
    trace = healthy()
    rows = rows_of(trace, "s2")
    gone = rows[2]
    gone |= {"kind": "gap", "detail": "lost", "last_number": gone["number"], "verdict": None}
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert found.runs[0].gaps == {"lost": 1}


def test_a_repetition(tmp_path: Path) -> None:
    trace = healthy()
    trace.notified("s2", "a", 3, at=300)
    found = judge(tmp_path, trace)
    assert "R5" in rules(found)
    assert events_of(found, "R5") == [([("mqtt:a", 3)], ["s2"])]


def test_a_number_for_two_events(tmp_path: Path) -> None:
    trace = healthy()
    (row,) = [row for row in trace.rows if row["counter"] == 6]
    row["number"] = 2  # q's third is b2 now, as its second
    found = judge(tmp_path, trace)
    assert "R1" in rules(found)
    assert ([("mqtt:b", 2), ("mqtt:b", 2)], []) in events_of(found, "R1")


def test_a_number_that_changes_on_the_way(tmp_path: Path) -> None:
    trace = healthy()
    rows_of(trace, "s2")[2]["number"] = 9  # a2 comes as a9
    found = judge(tmp_path, trace)
    assert "R4" in rules(found)  # a3 after a9
    assert ([("mqtt:a", 2)], ["s2"]) in events_of(found, "R17")


def test_publisher_order(tmp_path: Path) -> None:
    """One publisher's two events in topics that only one subscriber shares: no two orders differ."""
    trace = Trace()
    trace.opened("s1")
    trace.published("p", "a", 1, counter=1)
    trace.published("p", "b", 1, counter=2)
    trace.streams(s1="b1 a1")
    found = judge(tmp_path, trace)
    assert rules(found) == ["R19"]
    assert events_of(found, "R19") == [([("mqtt:b", 1), ("mqtt:a", 1)], ["s1"])]


def test_publisher_order_of_a_bounded_one_that_may_have_jumped(tmp_path: Path) -> None:
    """R20: not across numbers that it jumped over; whether there are any is not known where counters are missing."""
    trace = Trace()
    trace.opened("s1", "bounded")
    trace.published("p", "a", 1, counter=1)
    trace.published("p", "b", 1, counter=4)
    trace.streams(s1="b1 a1")
    assert rules(judge(tmp_path, trace)) == []
    for counter in (2, 3):
        trace.published("p", "c", counter, counter=counter, outcome="refused")
    trace.subscribed("s1", "a")
    trace.subscribed("s1", "b")
    assert rules(judge(tmp_path, trace)) == ["R19"]


def test_late_in_strict_mode_and_skipped(tmp_path: Path) -> None:
    trace = healthy()
    rows_of(trace, "s1")[0]["verdict"] = "late"
    assert rules(judge(tmp_path, trace)) == ["R6"]
    for row in trace.rows:
        if row["kind"] == "opened":
            row["detail"] = "bounded"
    assert rules(judge(tmp_path, trace)) == []


# -- what is missing ---------------------------------------------------------------------------------------------------


def whys(found: Audit) -> str:
    return "; ".join(f"{each.what}: {each.why}" for run in found.runs for each in run.not_judged)


def test_notifications_that_are_in_no_file_are_no_silent_drops(tmp_path: Path) -> None:
    trace = healthy()
    trace.rows.remove(rows_of(trace, "s2")[2])
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert "what s2 left out" in whys(found)
    assert "1 of its notifications are in no file" in whys(found)


def test_rows_that_were_not_recorded(tmp_path: Path) -> None:
    trace = healthy()
    trace.rows.remove(rows_of(trace, "s2")[5])
    trace.rows.remove(rows_of(trace, "s2")[2])
    closed(trace)
    trace.row("dropped", "s2", count=3)
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert "3 of its rows could not be recorded" in whys(found)
    assert found.runs[0].dropped_rows == 3


def test_a_wrong_order_is_found_though_rows_are_missing(tmp_path: Path) -> None:
    trace = healthy()
    swap(rows_of(trace, "s2")[2], rows_of(trace, "s2")[3])
    trace.rows.remove(rows_of(trace, "s2")[0])
    trace.row("dropped", "s2", count=1)
    assert rules(judge(tmp_path, trace)) == ["R4", "TNO"]


def test_damaged_files(tmp_path: Path) -> None:
    trace = healthy()
    trace.rows.remove(rows_of(trace, "s2")[2])
    closed(trace)
    (tmp_path / "zero.parquet").touch()
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert "files are damaged" in whys(found)
    assert [each.file for each in found.damaged] == [str(tmp_path / "zero.parquet")]


@pytest.mark.parametrize("silent", ["p", "q", "s1", "s2"])
def test_a_client_that_did_not_record(tmp_path: Path, silent: str) -> None:
    trace = healthy()
    trace.rows = [row for row in trace.rows if row["client"] != silent]
    assert rules(judge(tmp_path, trace)) == []


def test_the_order_of_events_of_unrecorded_publishers(tmp_path: Path) -> None:
    trace = healthy()
    swap(rows_of(trace, "s2")[2], rows_of(trace, "s2")[3])
    trace.rows = [row for row in trace.rows if row["client"] not in ("p", "q")]
    found = judge(tmp_path, trace)
    assert events_of(found, "TNO") == [([("mqtt:a", 2), ("mqtt:b", 2)], ["s1", "s2"])]
    assert to_plain(found)["violations"][0]["events"][0]["publisher"] is None


def test_what_may_be_void_is_not_missed(tmp_path: Path) -> None:
    """R16: b2 was cancelled before the broker had it; nobody notified of it, and nothing tells of a gap."""
    trace = healthy()
    for row in trace.rows:
        if row["kind"] == "published" and (row["topic"], row["number"]) == ("b", 2):
            row["outcome"] = "cancelled"
    trace.rows = [
        row for row in trace.rows if not (row["kind"] == "notified" and (row["topic"], row["number"]) == ("b", 2))
    ]
    closed(trace)
    assert rules(judge(tmp_path, trace)) == []


def test_an_early_end_misses_nothing(tmp_path: Path) -> None:
    """A client that stopped, or was killed, had not heard of the rest."""
    trace = healthy()
    for row in rows_of(trace, "s2")[3:]:
        trace.rows.remove(row)
    assert rules(judge(tmp_path, trace)) == []


def test_where_a_subscription_ended_counts(tmp_path: Path) -> None:
    trace = healthy()
    for row in rows_of(trace, "s2")[4:]:
        trace.rows.remove(row)
    trace.unsubscribed("s2", "b", 3, at=400)
    found = judge(tmp_path, trace)
    assert events_of(found, "R17") == [([("mqtt:b", 3)], ["s2"])]


def test_subscriptions_that_are_not_recorded(tmp_path: Path) -> None:
    trace = healthy()
    trace.rows.remove(rows_of(trace, "s2")[2])
    closed(trace)
    trace.rows = [row for row in trace.rows if row["kind"] != "subscribed"]
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert "no subscription of it is recorded" in whys(found)


def test_a_subscription_that_begins_too_late(tmp_path: Path) -> None:
    """R7: a2 was published 103 ms after the start, when s2's subscription was complete, and it begins behind it. Not
    said where the clocks may be as far apart."""
    trace = healthy()
    for row in trace.rows:
        if row["kind"] == "subscribed" and row["client"] == "s2" and row["topic"] == "a":
            row["number"] = 2
    for row in rows_of(trace, "s2")[0:3:2]:
        trace.rows.remove(row)
    closed(trace)
    assert rules(judge(tmp_path, trace)) == ["R7"]
    for row in trace.rows:
        if row["kind"] == "clock":
            row["error_us"] = 60_000
    assert rules(judge(tmp_path, trace)) == []
    trace.rows = [row for row in trace.rows if row["kind"] != "clock"]
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert "no clock of p, q, s1, s2 is known" in whys(found)


# -- several lives -----------------------------------------------------------------------------------------------------


def test_several_incarnations(tmp_path: Path) -> None:
    """A durable subscriber that was killed behind b2 had saved its clock at a1, b1: what it gets again is marked."""
    trace = healthy()
    for row in rows_of(trace, "s2")[4:]:
        trace.rows.remove(row)
    later = INCARNATION + 1
    trace.opened("s2", at=300, incarnation=later)
    trace.subscribed("s2", "a", 1, at=301, incarnation=later)
    trace.subscribed("s2", "b", 1, at=301, incarnation=later)
    for at, event in enumerate(ORDER.split()[2:]):
        trace.notified("s2", event[0], int(event[1:]), at=310 + at, incarnation=later, redelivered=at < 2)
    assert rules(judge(tmp_path, trace)) == []
    trace.rows[-4]["redelivered"] = False  # a2, again without a mark
    assert events_of(judge(tmp_path, trace), "R18") == [([("mqtt:a", 2)], ["s2"])]
    trace.rows[-4]["redelivered"] = True
    swap(trace.rows[-4], trace.rows[-3])
    found = judge(tmp_path, trace)
    assert set(rules(found)) == {"R18", "R4", "TNO"}
    assert "s2 (start 2)" in str(found.runs[0].violations[0])


def test_a_restored_domain_begins_anew(tmp_path: Path) -> None:
    """The numbers of the former domain come again, for other events; its end is told as a gap."""
    trace = healthy()
    again = healthy()
    trace.gap("s1", "a", 4, 9, "restored", at=300)
    for row in again.rows:
        row |= {"incarnation": INCARNATION + 1, "recorded_at": row["recorded_at"] + 10**6}
        if row["domain"] is not None:
            row["domain"] = DOMAIN + 1
    trace.rows += again.rows
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert found.runs[0].events == 12


def test_runs_are_judged_apart(tmp_path: Path) -> None:
    trace, other = healthy(), healthy()
    swap(rows_of(other, "s2")[2], rows_of(other, "s2")[3])
    for row in other.rows:
        row["run"] = "bad"
    trace.rows += other.rows
    found = judge(tmp_path, trace)
    assert [(run.run, len(run.violations)) for run in found.runs] == [("bad", 2), ("r", 0)]
    assert judge(tmp_path, trace, run="r").is_ok
    assert not judge(tmp_path, trace, run="bad").is_ok
    with pytest.raises(InvalidOption, match="nope"):
        judge(tmp_path, trace, run="nope")


# -- pairs, unsubscriptions, copies ------------------------------------------------------------------------------------


def test_an_unsubscription_longer_ago_than_the_linger(tmp_path: Path) -> None:
    """R20. s1: a1, leaves a; takes b after 65 s, 70 s later b1. s2 had b1 first, then a1. A part of s1's trace does not
    say that it did not."""
    trace = Trace()
    for client in ("s1", "s2"):
        trace.opened(client)
        trace.subscribed(client, "a")
    trace.subscribed("s2", "b")
    trace.subscribed("s1", "b", at=65_000)
    trace.published("p", "a", 1, counter=1)
    trace.published("q", "b", 1, counter=1, at=70_000)
    trace.notified("s1", "a", 1, at=5)
    trace.unsubscribed("s1", "a", 1, at=10)
    trace.notified("s1", "b", 1, at=70_010)
    trace.notified("s2", "b", 1, at=70_010)
    trace.notified("s2", "a", 1, at=70_020)
    assert rules(judge(tmp_path, trace)) == []
    assert rules(judge(tmp_path, trace, linger=90)) == ["TNO"]
    trace.rows = [row for row in trace.rows if row["kind"] != "unsubscribed"]
    assert rules(judge(tmp_path, trace)) == ["TNO"]
    trace.row("dropped", "s1", count=1)
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert "longer than the linger" in whys(found)


def test_a_sample_of_pairs_is_stated(tmp_path: Path) -> None:
    trace = Trace().streams(s1=ORDER, s2=ORDER, s3=ORDER)
    found = judge(tmp_path, trace, max_pairs=1)
    assert "the order of 2 of 3 pairs of subscribers: only 1 are compared" in whys(found)


def test_a_row_is_one_however_often_it_is_there(tmp_path: Path) -> None:
    """In several files, as after a compaction that was killed, and in one, as after another one of those."""
    trace = healthy()
    write(tmp_path / "compacted", [*trace.rows, *trace.rows])
    found = judge(tmp_path, trace)
    assert rules(found) == []
    assert (found.rows, found.copies) == (3 * len(trace.rows), 2 * len(trace.rows))
