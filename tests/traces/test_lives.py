"""Clients whose recording has more than one life, and readers that are too slow: rows of both are judged as what they
are, with no violation that is none (R5, R12, R17, R18)."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.analytics.traces import write
from tests.client.helpers import Site, gaps_of, new_site, published, take, take_events, take_through, times, until
from tests.client.test_durable import done_with, kill
from tests.client.test_restored import Restorable
from tests.traces.helpers import Row, assert_well, audited, of, part, recording, rows_in

from inorder import Client, Gap, GapReason
from inorder.errors import Forgotten, Replaced
from inorder.ports import Arrival
from inorder_analytics import reading


def lives_of(folder: Path, client: str) -> list[list[Row]]:
    """Return what was told to a client, by incarnation, in order."""
    lives: dict[int, list[Row]] = {}
    opened = of(rows_in(folder), client, "opened")
    for row in sorted(opened, key=lambda row: row["recorded_at"]):
        lives[row["incarnation"]] = []
    told = [row for row in rows_in(folder) if row["client"] == client and row["delivery_index"] is not None]
    for row in sorted(told, key=lambda row: row["delivery_index"]):
        lives[row["incarnation"]].append(row)
    return list(lives.values())


def told(life: list[Row]) -> list[tuple[Any, ...]]:
    """Return each notification as topic, number and verdict; a gap as topic, first, last and reason."""
    return [
        part(row, "topic", "number", "verdict")
        if row["kind"] == "notified"
        else part(row, "topic", "number", "last_number", "detail")
        for row in life
    ]


def indexes(life: list[Row]) -> list[int]:
    return [row["delivery_index"] for row in life]


# -- a durable subscriber that comes back (R18) ------------------------------------------------------------------------


def durable(site: Site, folder: Path) -> Client:
    return recording(site, "desk", folder, durable=True, times=times(save_delay=0.01))


async def resumed(tmp_path: Path) -> Path:
    """A durable subscriber is killed with one event in its hands, comes back, and misses what a topic without a log has
    had meanwhile. Another subscriber is there all the time."""
    folder = tmp_path / "traces"
    settings: dict[str, Any] = {"log_topics": ["memory:log/#"], "session_timeout": 0.5, "publisher_grace": 0.3}
    async with (
        new_site(tmp_path, **settings) as site,
        recording(site, "other", folder) as other,
        recording(site, "pub", folder) as pub,
    ):
        await other.subscribe("log/a", "plain")
        first = await durable(site, folder).__aenter__()
        await first.subscribe("log/a", "plain")
        await published(pub, "plain", 1)
        await published(pub, "log/a", 9)
        await done_with(first, 7)
        await until(lambda: saved(site) == [1, 6], "the saved clock")
        await take(first, 2)
        await kill(first)
        state = site.worker._host.stage(0)._state
        await until(lambda: "desk" not in [client for client, _ in state.sessions], "the end of the session")
        await published(pub, "log/a", 5, first=9)
        await published(pub, "plain", 2, first=1)
        async with durable(site, folder) as second:
            await published(pub, "plain", 1, prefix="last ")
            await take_through(second, b"last 0")
        await take_through(other, b"last 0")
    return folder


def saved(site: Site) -> list[int]:
    """Return the numbers of the saved clock."""
    clock = site.worker._host.stage(0)._state.clocks.get("desk")
    return [] if clock is None else sorted(clock.numbers.values())


async def test_a_durable_subscriber_resumes(tmp_path: Path) -> None:
    folder = await resumed(tmp_path)
    first, second = lives_of(folder, "desk")
    assert told(first) == [("plain", 1, "in_order"), *(("log/a", at, "in_order") for at in range(1, 10))]
    assert told(second) == [
        ("plain", 2, 3, "expired"), *(("log/a", at, "in_order") for at in range(7, 15)), ("plain", 4, "in_order"),
    ]  # fmt: skip
    assert [row["redelivered"] for row in second] == [None, *([True] * 3), *([False] * 6)]
    began = [part(row, "incarnation", "topic", "number") for row in of(rows_in(folder), "desk", "subscribed")]
    one, two = first[0]["incarnation"], second[0]["incarnation"]
    assert set(began) == {(one, "log/a", 0), (one, "plain", 0), (two, "log/a", 6), (two, "plain", 3)}
    assert of(rows_in(folder), "desk", "unsubscribed") == []  # it goes on while the client is away
    found = assert_well(folder, events=18, gaps={"expired": 2})
    assert (found["subscribers"], found["repeated"], found["notifications"]) == (2, 0, 37)
    assert {each["length"] for each in found["runs"][0]["by_pair"]} == {16}


async def test_a_repeat_without_a_mark_is_found(tmp_path: Path) -> None:
    """R18: that the traces of a resume are well means something."""
    folder = await resumed(tmp_path)
    rows = [msgspec.structs.asdict(row) for row in reading.rows(reading.Traces(folder).table())]
    (again,) = [row for row in rows if row["redelivered"] and row["number"] == 8]
    again["redelivered"] = False
    found = audited(write(tmp_path / "unmarked", rows))
    assert [(each["rule"], each["subscribers"]) for each in found["violations"]] == [("R18", ["desk"])]
    assert found["violations"][0]["events"][0]["number"] == 8


# -- another domain ----------------------------------------------------------------------------------------------------


async def test_another_domain(site: Site, tmp_path: Path) -> None:
    """The store is put back: numbers and topic ids are given again, for other events, in a life of its own."""
    folder = tmp_path / "traces"
    async with (
        recording(site, "one", folder) as one,
        recording(site, "two", folder) as two,
        recording(site, "pub", folder) as pub,
    ):
        for each in (one, two):
            await each.subscribe("a", "news/#")
        await published(pub, "a", 3)
        point = Restorable(site, tmp_path)
        await published(pub, "news/later", 2)
        await published(pub, "a", 2, first=3)
        for each in (one, two):
            await take_events(each, 7)
        await point.put_back(one, two, pub)
        await published(pub, "news/other", 1, prefix="n")
        await published(pub, "a", 2, prefix="new ")
        await published(pub, "news/later", 1, prefix="last ")
        for each in (one, two):
            await take_through(each, b"last 0")
    domains = []
    for client in ("one", "two"):
        former, later = lives_of(folder, client)
        assert len(former) == 9
        assert set(told(former)[7:]) == {("a", 6, 6, "restored"), ("news/later", 3, 3, "restored")}
        assert told(later) == [(topic, at, "in_order") for topic, at in (
            ("news/other", 1), ("a", 4), ("a", 5), ("news/later", 1),
        )]  # fmt: skip
        domains += [{row["domain"] for row in life} for life in (former, later)]
        assert [indexes(life) for life in (former, later)] == [list(range(1, 10)), list(range(1, 5))]
    assert domains[:2] == domains[2:]
    assert all(len(each) == 1 for each in domains)
    ids = {(row["domain"], row["topic"]): row["topic_id"] for row in of(rows_in(folder), "pub", "published")}
    (before,), (after,) = domains[:2]
    assert ids[before, "news/later"] == ids[after, "news/other"]  # the same id, for another topic
    assert [part(row, "domain", "number") for row in of(rows_in(folder), "one", "unsubscribed")] == [
        (before, 5), (before, 2), (after, 5), (after, 1), (after, 1),
    ]  # fmt: skip
    found = assert_well(folder, events=11, gaps={"restored": 4})
    assert (found["subscribers"], found["runs"][0]["by_pair"][0]["length"]) == (2, 11)


async def test_open_publishes_of_another_domain(site: Site, tmp_path: Path) -> None:
    """One that may have a number of the former domain is forgotten there; one that was never asked for is published in
    the new one, in the new life and with its first counter."""
    folder = tmp_path / "traces"
    async with recording(site, "one", folder) as one, recording(site, "pub", folder) as pub:
        await one.subscribe("a")
        await published(pub, "a", 1)
        await take_events(one, 1)
        point = Restorable(site, tmp_path)
        await site.stop()
        asked = pub.publish("a", b"asked")
        pub._endpoint.publishing.requests()  # as if it had left, and the answer been lost
        fresh = pub.publish("a", b"fresh")
        await site.start()
        await point.put_back(one, pub)
        with pytest.raises(Forgotten):
            await asked
        await fresh
        await take_through(one, b"fresh")
    rows = sorted(of(rows_in(folder), "pub", "published"), key=lambda row: row["recorded_at"])
    assert [part(row, "outcome", "number", "counter") for row in rows] == [
        ("accepted", 1, 1), ("forgotten", None, 2), ("accepted", 2, 1),
    ]  # fmt: skip
    assert [row["incarnation"] == rows[0]["incarnation"] for row in rows] == [True, True, False]
    assert [row["domain"] == rows[0]["domain"] for row in rows] == [True, True, False]
    assert_well(folder, events=2, gaps={"restored": 1})


# -- overflow ----------------------------------------------------------------------------------------------------------


async def test_a_reader_that_is_too_slow(site: Site, tmp_path: Path) -> None:
    """What was given up is a gap at its place, with its reason; nobody has left anything out silently."""
    folder = tmp_path / "traces"
    slow = times(max_undelivered=10)
    async with (
        recording(site, "one", folder, times=slow) as one,
        recording(site, "other", folder) as other,
        recording(site, "pub", folder) as pub,
    ):
        for each in (one, other):
            await each.subscribe("a", "b")
        await published(pub, "a", 8)
        await published(pub, "b", 4)
        await published(pub, "a", 4, first=8)
        await until(lambda: one.stats().overflow == 6, "the overflow")
        await take(one, 12)
        await published(pub, "a", 1, first=12)
        await take_through(one, b"12")
        await take_through(other, b"12")
    ((life,), (complete,)) = lives_of(folder, "one"), lives_of(folder, "other")
    assert told(life)[10:] == [("b", 3, 4, "overflow"), ("a", 9, 12, "overflow"), ("a", 13, "in_order")]
    assert indexes(life) == list(range(1, 14))
    arrivals = [row["arrival_index"] for row in life if row["kind"] == "notified"]
    assert arrivals == [*range(1, 11), 17], "those that were given up have their indexes"
    assert len(complete) == 17
    found = assert_well(folder, events=17, gaps={"overflow": 6})
    assert found["runs"][0]["by_pair"][0]["length"] == 11


async def test_a_client_that_is_closed_in_an_overflow(site: Site, tmp_path: Path) -> None:
    """What was given up and not told yet is told at the end of the stream, and recorded."""
    folder = tmp_path / "traces"
    async with recording(site, "pub", folder) as pub:
        async with recording(site, "one", folder, times=times(max_undelivered=10)) as one:
            await one.subscribe("a")
            await published(pub, "a", 15)
            await until(lambda: one.stats().overflow == 5, "the overflow")
        left = [each async for each in one.events()]
    assert left[-1] == Gap("memory", "a", 11, 15, GapReason.OVERFLOW)
    (life,) = lives_of(folder, "one")
    assert told(life)[-1] == ("a", 11, 15, "overflow")
    assert [row["number"] for row in of(rows_in(folder), "one", "unsubscribed")] == [15]
    assert_well(folder, events=15, gaps={"overflow": 5})


async def test_another_domain_in_an_overflow(site: Site, tmp_path: Path) -> None:
    """What was given up has numbers of the former domain: their gap belongs to the former life."""
    folder = tmp_path / "traces"
    async with (
        recording(site, "one", folder, times=times(max_undelivered=4)) as one,
        recording(site, "other", folder) as other,
        recording(site, "pub", folder) as pub,
    ):
        for each in (one, other):
            await each.subscribe("a")
        point = Restorable(site, tmp_path)
        await published(pub, "a", 8)
        await until(lambda: one.stats().overflow == 4, "the overflow")
        await take_events(other, 8)
        await point.put_back(one, other, pub)
        assert gaps_of(await take(one, 6)) == [
            Gap("memory", "a", 5, 8, GapReason.OVERFLOW), Gap("memory", "a", 9, 9, GapReason.RESTORED),
        ]  # fmt: skip
        for at in range(8):
            await published(pub, "a", 1, prefix="new ", first=at)
            await take_through(one, b"new %d" % at)
        await take_through(other, b"new 7")
    former, later = lives_of(folder, "one")
    assert told(former)[4:] == [("a", 5, 8, "overflow"), ("a", 9, 9, "restored")]
    assert told(later) == [("a", at, "in_order") for at in range(1, 9)]
    assert_well(folder, events=16, gaps={"overflow": 4, "restored": 2})


async def test_a_client_that_was_replaced(site: Site, tmp_path: Path) -> None:
    """Its stream has ended; what still reaches it then nobody is told of, and it does not count as left out."""
    folder = tmp_path / "traces"
    async with recording(site, "pub", folder) as pub:
        first = await recording(site, "one", folder).__aenter__()
        await first.subscribe("a")
        await published(pub, "a", 1)
        await take_events(first, 1)
        first._fail(Replaced("another process has this client id"))
        first._links["memory"].ens.close = partial(asyncio.sleep, 0)  # type: ignore[method-assign]
        now = asyncio.get_running_loop().time()
        clock = first._endpoint.ordering.clock[1]
        endpoint = first._endpoint
        content = "memory", Arrival("a", b""), 0
        endpoint.arrivals.deliver(endpoint.ordering.receive(1, clock + 1, [], content, 0, now))
        first._driver.perform()
        await first.close()
        await published(pub, "a", 1, first=1)
    (life,) = lives_of(folder, "one")
    assert told(life) == [("a", 1, "in_order")]
    assert [row["number"] for row in of(rows_in(folder), "one", "unsubscribed")] == [1]
    assert_well(folder, events=2)
