"""Real clients' traces through the audit: nothing is wrong with them, and each fault planted into them is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.analytics.traces import write
from tests.client.helpers import Site, published, take_events, take_through
from tests.traces.helpers import recording

from inorder import Bounded
from inorder_analytics.audit import audit, to_plain
from inorder_analytics.reading import Traces, rows

Row = dict[str, Any]
TOPICS = ("a", "b", "c/1", "c/2")


async def traffic(site: Site, folder: Path) -> None:
    """Two publishers; readers of each kind, one of which leaves a topic and comes back, and one that misses an event;
    and one that dies and comes back under its name."""
    async with (
        recording(site, "p", folder) as p,
        recording(site, "q", folder) as q,
        recording(site, "one", folder) as one,
        recording(site, "two", folder) as two,
        recording(site, "bounded", folder, mode=Bounded(buffer=3)) as bounded,
        recording(site, "tag", folder, mode="tag") as tag,
    ):
        readers = (one, two, bounded, tag)
        for each in readers:
            await each.subscribe("a", "b", "c/+")
        await asyncio.gather(*(client.publish(TOPICS[at % 4], b"%d" % at) for at in range(80) for client in (p, q)))
        for each in readers:
            await take_events(each, 160)
        await site.lose(two, published(p, "a", 1, prefix="lost"))
        await two.unsubscribe("b")
        await published(q, "b", 3, prefix="without two ")
        await two.subscribe("b")
        await published(q, "b", 2, prefix="with two ")
        await published(p, "a", 2, prefix="last")
        for each in readers:
            await take_through(each, b"last1")
    async with recording(site, "one", folder) as again, recording(site, "p", folder) as p:
        await again.subscribe("a", "b")
        await published(p, "a", 3, prefix="again")
        await take_through(again, b"again2")


@pytest.fixture
async def recorded(site: Site, tmp_path: Path) -> list[Row]:
    """Rows of a run."""
    folder = tmp_path / "traces"
    await traffic(site, folder)
    return [msgspec.structs.asdict(row) for row in rows(Traces(folder).table())]


def judged(folder: Path, given: list[Row]) -> dict[str, Any]:
    return to_plain(audit(Traces(write(folder, given, per_file=10_000))))


def delivered(given: list[Row], client: str) -> list[Row]:
    """Return what a client was notified of in its first life, in that order."""
    first = min((row["recorded_at"], row["incarnation"]) for row in given if row["client"] == client)[1]
    found = [row for row in given if (row["client"], row["incarnation"], row["kind"]) == (client, first, "notified")]
    return sorted((row for row in found if row["delivery_index"]), key=lambda row: int(row["delivery_index"]))


async def test_all_is_well(recorded: list[Row], tmp_path: Path) -> None:
    found = judged(tmp_path / "copy", recorded)
    assert found["violations"] == []
    assert (found["ok"], found["tno_violations_delivered"], found["ordering_degree_delivered"]) == (True, 0, 1)
    assert found["gaps"]["lost"] == 1
    assert (found["events"], found["subscribers"]) == (171, 4)
    assert {each["a"] for each in found["runs"][0]["by_pair"]} == {"bounded", "one", "tag"}


def swap(given: list[Row]) -> Row:
    """Let "two" be notified of two neighbours in the other order; return the one that comes too late."""
    stream = delivered(given, "two")
    one, two = stream[70], stream[71]
    for name in ("delivery_index", "delivered_at"):
        one[name], two[name] = two[name], one[name]
    return one


def drop(given: list[Row]) -> Row:
    """Let "two" not be notified of an event, and nobody say so."""
    stream = delivered(given, "two")
    gone = stream[70]
    given.remove(gone)
    later = [row for row in given if (row["client"], row["incarnation"]) == ("two", gone["incarnation"])]
    for row in later:
        if row["delivery_index"] is not None and row["delivery_index"] > gone["delivery_index"]:
            row["delivery_index"] -= 1
    return gone


def duplicate(given: list[Row]) -> Row:
    """Let "two" be notified of an event again at the end."""
    stream = delivered(given, "two")
    mine = [row["delivery_index"] for row in given if row["client"] == "two" and row["delivery_index"] is not None]
    twice = {**stream[70], "delivery_index": max(mine) + 1}
    given.append(twice)
    return twice


def renumber(given: list[Row]) -> Row:
    """Let two events have one number, as their publishers got it."""
    ours = [row for row in given if row["kind"] == "published" and row["topic"] == "a"]
    ours[10]["number"] = ours[11]["number"]
    return ours[10]


@pytest.mark.parametrize(
    ("plant", "rule", "subscribers"),
    [(swap, "TNO", {"one", "two"}), (drop, "R17", {"two"}), (duplicate, "R5", {"two"}), (renumber, "R1", set())],
)
async def test_planted_faults_are_named(
    recorded: list[Row], tmp_path: Path, plant: Callable[[list[Row]], Row], rule: str, subscribers: set[str]
) -> None:
    wrong = plant(recorded)
    found = judged(tmp_path / "planted", recorded)
    assert not found["ok"]
    named = [
        set(each["subscribers"])
        for each in found["violations"]
        if each["rule"] == rule
        and (f"{wrong['space']}:{wrong['topic']}", wrong["number"])
        in [(event["topic"], event["number"]) for event in each["events"]]
    ]
    assert subscribers in named, found["violations"]
