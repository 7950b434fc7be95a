"""The result as data: JSON and back, the bounded copy, and the sample of pairs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import combinations

import msgspec
import pytest

from inorder.errors import UsageError
from inorder_analytics.results import (
    Damaged,
    EventName,
    Files,
    PairFigures,
    Percentiles,
    Result,
    SubscriberFigures,
    TopicFigures,
    TopicOrder,
    WindowFigures,
    Witness,
    decode,
    encode,
    to_plain,
)
from inorder_analytics.sampling import pairs_of

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


def test_a_result_is_the_same_after_json() -> None:
    witness = Witness(first=EventName(topic="m:a", number=1), second=EventName(topic="m:b", number=2**62))
    result = Result(
        path="traces",
        made_at=AT,
        latency_ms=Percentiles(p50=1.5, p90=2.0, p99=3.0),
        gaps={"lost": 2},
        worst_pairs=[PairFigures(run="r", a="x", b="y", ordering_degree_delivered=0.5, witness=witness)],
        topic_order=[TopicOrder(run="r", suggested=[["m:a"], []], swaps=[("m:a", "m:b")])],
    )
    assert decode(encode(result)) == result
    plain = json.loads(encode(result))
    assert plain == to_plain(result)
    assert plain["made_at"] == "2026-01-02T03:04:05.678901Z"
    assert plain["ordering_degree_raw"] is None


def test_what_is_no_result_is_refused_by_name() -> None:
    for data in (b"{}", b"[", b'{"path": 1, "made_at": "2026-01-01T00:00:00Z"}', b"\xff"):
        with pytest.raises(UsageError, match=r"^out\.json is not the result of an analysis: "):
            decode(data, "out.json")
    newer = encode(msgspec.structs.replace(Result(path="", made_at=AT), version=99))
    with pytest.raises(UsageError, match="version 99"):
        decode(newer)


def test_a_bounded_copy_keeps_the_summary_and_says_what_it_cut() -> None:
    result = Result(
        path="traces",
        made_at=AT,
        events=7,
        files=Files(damaged=[Damaged(file=str(at), reason="short") for at in range(4)]),
        by_topic=[TopicFigures(run="r", topic=str(at), events=at % 3) for at in range(6)],
        by_subscriber=[SubscriberFigures(run="r", client=str(at), events=at) for at in range(3)],
        by_window=[WindowFigures(run="r", start=AT.replace(minute=at)) for at in range(5)],
    )
    copy = result.bounded(items=3)
    assert copy.events == 7
    assert [each.topic for each in copy.by_topic] == ["1", "2", "5"]
    assert copy.by_subscriber == result.by_subscriber
    assert [each.start.minute for each in copy.by_window] == [2, 3, 4]
    assert copy.cut == {"by_topic": 6, "by_window": 5, "files.damaged": 4}
    assert result.bounded() == result


def test_a_bounded_copy_keeps_to_its_bytes() -> None:
    result = Result(path="traces", made_at=AT, by_topic=[TopicFigures(run="r", topic="t" * 1000)] * 100)
    copy = result.bounded(size=20_000)
    assert 0 < len(copy.by_topic) < 20
    assert len(encode(copy)) <= 20_000
    assert copy.cut == {"by_topic": 100}


def test_up_to_the_limit_all_pairs_are_used() -> None:
    clients = ["c", "a", "d", "b", "a"]
    assert pairs_of("run", clients, 6, seed=1) == (6, list(combinations("abcd", 2)))
    assert pairs_of("run", ["a"], 6, seed=1) == (0, [])
    assert pairs_of("run", [], 6, seed=1) == (0, [])


def test_the_sample_depends_on_run_and_seed_alone() -> None:
    clients = [f"c{at:04}" for at in range(3000)]
    total, used = pairs_of("run", clients, 200, seed=1)
    assert total == 3000 * 2999 // 2
    assert len(set(used)) == 200
    assert all(a < b for a, b in used)
    assert pairs_of("run", clients[::-1], 200, seed=1) == (total, used)
    others = [pairs_of("run", clients, 200, seed=2)[1], pairs_of("other", clients, 200, seed=1)[1]]
    assert used not in others
    # Known for ever: a result of another release compares the same pairs.
    assert pairs_of("run", ["a", "b", "c", "d"], 2, seed=7)[1] == [("b", "c"), ("b", "d")]
