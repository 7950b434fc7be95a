"""What clients record: each kind of row, each column, over a broker in this process."""

from __future__ import annotations

import asyncio
import datetime
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.client.helpers import Site, events_of, new_site, take_events, times, until
from tests.traces.helpers import known, of, part, recording, rows_in

UTC = datetime.UTC


async def test_publishes_and_notifications(site: Site, tmp_path: Path) -> None:
    """Two events of two topics, the second after the first: every column of their rows."""
    folder = tmp_path / "traces"
    began = datetime.datetime.now(UTC)
    async with recording(site, "sub", folder) as sub, recording(site, "pub", folder) as pub:
        await sub.subscribe("a", "b")
        await pub.publish("a", b"123")
        await pub.publish("b", b"")
        await take_events(sub, 2)
        incarnations = {"sub": sub.incarnation, "pub": pub.incarnation}
        domain = sub._endpoint.domain
    ended = datetime.datetime.now(UTC)
    rows = rows_in(folder)
    for row in rows:
        assert part(row, "schema_version", "run") == (1, "default")
        assert row["incarnation"] == incarnations[row["client"]]
        assert row["domain"] == domain
        assert began <= row["recorded_at"] <= ended

    first, second = of(rows, "pub", "published")
    for row in (first, second):
        assert part(row, "space", "ordering", "outcome") == ("memory", "total", "accepted")
        assert row["published_at"] <= row["stamped_at"] <= row["accepted_at"] <= row["recorded_at"]
        assert part(row, "stage", "entry_stage", "top_stage") == (0, 0, 0)
    assert part(first, "topic", "topic_id", "number", "counter", "payload_size") == ("a", 1, 1, 1, 3)
    assert part(first, "dependencies", "entries") == ([], 1)
    assert part(second, "topic", "topic_id", "number", "counter", "payload_size") == ("b", 2, 1, 2, 0)
    assert part(second, "dependencies", "entries") == ([1, 1], 2)

    notified = of(rows, "sub", "notified")
    expected = [("a", 1, 1, 1, 1, [], 3), ("b", 2, 1, 2, 2, [1, 1], 0)]
    names = ("topic", "topic_id", "number", "arrival_index", "delivery_index", "dependencies", "payload_size")
    assert [part(row, *names) for row in notified] == expected
    for row in notified:
        assert part(row, "space", "verdict", "retained", "redelivered", "repaired") == (
            "memory", "in_order", False, False, False,
        )  # fmt: skip
        assert began <= row["arrived_at"] <= row["delivered_at"] == row["recorded_at"] <= ended
        assert row["waited_us"] == (row["delivered_at"] - row["arrived_at"]) // datetime.timedelta(microseconds=1)
        assert {"waited_topic_id", "waited_number", "outcome", "published_at"}.isdisjoint(known(row))


async def test_a_client_that_begins_and_its_subscriptions(site: Site, tmp_path: Path) -> None:
    """The mode, where each topic began, topics that a filter gets later, and where each ended."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder, mode="tag") as sub, recording(site, "pub", folder) as pub:
        await pub.publish("a/1", b"")
        await sub.subscribe("a/+", "b")
        await pub.publish("a/1", b"")
        await pub.publish("a/2", b"")
        await take_events(sub, 2)
        await sub.unsubscribe("b")
    rows = rows_in(folder)
    assert [row["detail"] for row in of(rows, "sub", "opened")] == ["tag"]
    assert [row["detail"] for row in of(rows, "pub", "opened")] == ["strict"]
    began = {row["topic"]: row["number"] for row in of(rows, "sub", "subscribed")}
    assert began == {"a/1": 1, "a/2": 0, "b": 0}
    assert [part(row, "topic", "number") for row in of(rows, "sub", "unsubscribed")] == [
        ("b", 0), ("a/1", 2), ("a/2", 1),
    ]  # fmt: skip


async def test_the_other_orders_and_a_publish_that_was_cancelled(site: Site, tmp_path: Path) -> None:
    """They have no number, no timestamp and no place among arrivals; what is not known is null."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder) as sub, recording(site, "pub", folder) as pub:
        await sub.subscribe("t")
        await pub.publish("t", b"f", order="fifo")
        await pub.publish("t", b"nn", order="none")
        pub.publish("t", b"never").cancel()
        await take_events(sub, 2)
    rows = rows_in(folder)
    fifo, none, cancelled = of(rows, "pub", "published")
    assert part(fifo, "ordering", "outcome", "counter", "payload_size") == ("fifo", "accepted", 1, 1)
    assert part(none, "ordering", "outcome", "counter", "payload_size") == ("none", "accepted", None, 2)
    assert part(cancelled, "ordering", "outcome", "counter", "payload_size") == ("total", "cancelled", 1, 5)
    unknown = {"number", "stamped_at", "dependencies", "entries", "stamp_bytes", "stage", "entry_stage", "top_stage"}
    for row in (fifo, none, cancelled):
        assert unknown.isdisjoint(known(row))
    assert cancelled["accepted_at"] is None
    assert fifo["accepted_at"] is not None
    assert [part(row, "verdict", "delivery_index", "arrival_index") for row in of(rows, "sub", "notified")] == [
        ("fifo", 1, None), ("unsequenced", 2, None),
    ]  # fmt: skip


async def test_indexes_are_in_the_order_in_which_the_application_is_notified(site: Site, tmp_path: Path) -> None:
    """Of all verdicts, though many come in one turn of the event loop, and what is in order is recorded at its end."""
    folder = tmp_path / "traces"
    orders: tuple[Any, ...] = ("total", "none", "fifo", "total", "total", "none")
    async with recording(site, "sub", folder) as sub, recording(site, "pub", folder) as pub:
        await sub.subscribe("t")
        site.hub.stall("sub")
        for at in range(120):
            await pub.publish("t", b"x" * at, order=orders[at % len(orders)])
        site.hub.resume("sub")
        seen = events_of(await take_events(sub, 120))
    rows = sorted(of(rows_in(folder), "sub", "notified"), key=lambda row: row["delivery_index"])
    assert [row["delivery_index"] for row in rows] == list(range(1, 121))
    assert [row["payload_size"] for row in rows] == [len(event.payload) for event in seen] == list(range(120))


async def test_the_clocks_offset(site: Site, tmp_path: Path) -> None:
    """Client and worker are one process here, so the offset is within its error; at the end it is known."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder, times=times(report_interval=0.02)) as sub:
        await sub.subscribe("t")
        await until(lambda: sub._reporting.observer.offset[1] >= 0, "the worker's answer")
    rows: list[Any] = of(rows_in(folder), "sub", "clock")
    assert rows
    for row in rows:
        assert abs(row["offset_us"]) <= row["error_us"] + 1000


async def test_the_stages_that_a_timestamp_visited(tmp_path: Path) -> None:
    """d, at stage 1, shares subscribers with a at stage 0, so its timestamps go up there; e, at stage 2, shares none.
    After e (R19) the next one to d enters at stage 2."""
    folder = tmp_path / "traces"
    order = [["memory:a", "memory:b"], ["memory:c", "memory:d"], ["memory:e", "memory:f"]]
    async with new_site(tmp_path, stages=3, topic_order=order) as site, AsyncExitStack() as stack:
        for name in ("one", "two"):
            await (await stack.enter_async_context(site.client(name))).subscribe("a", "d")
        publisher = await stack.enter_async_context(recording(site, "pub", folder))
        for topic in ("d", "a", "e", "d"):
            await publisher.publish(topic, b"")
        await publisher.close()
    rows = of(rows_in(folder), "pub", "published")
    assert [part(row, "topic", "number", "stage", "entry_stage", "top_stage") for row in rows] == [
        ("d", 1, 1, 1, 0), ("a", 1, 0, 1, 0), ("e", 1, 2, 2, 2), ("d", 2, 1, 2, 0),
    ]  # fmt: skip


async def test_gathered(site: Site, tmp_path: Path) -> None:
    """A thousand publishes at once are a thousand rows, in the order of their numbers at the subscriber."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder) as sub, recording(site, "pub", folder) as pub:
        await sub.subscribe("t")
        await asyncio.gather(*(pub.publish("t", b"x") for _ in range(1000)))
        await take_events(sub, 1000)
    rows = rows_in(folder)
    assert [row["number"] for row in of(rows, "sub", "notified")] == list(range(1, 1001))
    assert sorted(row["number"] for row in of(rows, "pub", "published")) == list(range(1, 1001))
