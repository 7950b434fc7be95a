"""Rolling upgrade: clients and workers of two neighbouring protocol versions work together, whichever is the newer one.

What a newer release may do is done to one side here: it speaks a version more, appends fields to its frames, and has a
frame that the older version lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from tests.client.helpers import Site, events_of, published, take_events, until

from inorder.client import client as client_module
from inorder.client import worker_link
from inorder.errors import VersionMismatch
from inorder.protocol.wire import (
    HEADER_BYTES,
    PROTOCOL_VERSIONS,
    Frame,
    Heads,
    Renew,
    Welcome,
    encode_frame,
    known_to,
)
from inorder_worker.service import connection, server

OLD, NEW = (1, 1), (1, 2)
Versions = tuple[int, int]
Patch = pytest.MonkeyPatch


def speak(patch: Patch, *, client: Versions, worker: Versions) -> None:
    for module in (client_module, worker_link):
        patch.setattr(module, "PROTOCOL_VERSIONS", client)
    for part in (connection, server):
        patch.setattr(part, "PROTOCOL_VERSIONS", worker)


def with_more_fields(frame: Frame) -> bytes:
    """Encode a frame as a release that has appended fields to it."""
    body = msgspec.msgpack.encode([*msgspec.msgpack.decode(encode_frame(frame)[HEADER_BYTES:]), {"new": 1}, None])
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def extend(patch: Patch, module: Any) -> None:
    patch.setattr(module, "encode_frame", with_more_fields)


def left_out(patch: Patch) -> list[str]:
    """Note the kinds of all frames that are not sent because the other side lacks them."""
    names: list[str] = []

    def known(version: int, frames: Iterable[Frame]) -> list[Frame]:
        given = list(frames)
        kept = known_to(version, given)
        names.extend(type(each).__name__ for each in given if each not in kept)
        return kept

    for module in (worker_link, connection):
        patch.setattr(module, "known_to", known)
    return names


async def works(site: Site, has_shown: Callable[[], object]) -> None:
    """Subscribe, publish, extend, leave and come back: all that frames are for."""
    async with site.client("one") as one, site.client("two") as two:
        await one.subscribe("a", "news/#")
        await two.subscribe("a", "news/#")
        await published(one, "a", 3)
        await published(two, "news/x", 2)
        await site.stop()
        await site.start()
        await until(lambda: one.stats().connected and two.stats().connected)
        await published(one, "news/x", 2)
        await one.unsubscribe("a")
        seen = [[(each.topic, each.number) for each in events_of(await take_events(each, 7))] for each in (one, two)]
        assert seen[0] == seen[1]
        assert not one.stats().gaps + two.stats().gaps
        await until(lambda: bool(has_shown()), "a frame that is not sent")


@pytest.mark.parametrize(("client", "worker"), [(OLD, NEW), (NEW, OLD), (NEW, NEW)])
async def test_neighbours_work_together(site: Site, monkeypatch: Patch, client: Versions, worker: Versions) -> None:
    """The older side ignores fields that it does not know, and never sees a frame that it does not have."""
    speak(monkeypatch, client=client, worker=worker)
    extend(monkeypatch, worker_link if client is NEW else connection)
    monkeypatch.setattr(Heads, "from_version", 2)
    monkeypatch.setattr(Renew, "from_version", 2)
    names = left_out(monkeypatch)
    await works(site, lambda: client is worker or {"Heads", "Renew"} & {*names})
    assert {*names} == {(OLD, NEW): {"Heads"}, (NEW, OLD): {"Renew"}, (NEW, NEW): set()}[client, worker]


def test_a_frame_that_a_version_lacks_is_left_out(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Heads, "from_version", 2)
    welcome = Welcome(1, 1, "w", 1, [], 1)
    assert known_to(1, [welcome, Heads([1, 1])]) == [welcome]
    assert known_to(2, [welcome, Heads([1, 1])]) == [welcome, Heads([1, 1])]


@pytest.mark.parametrize(("client", "worker"), [((3, 4), (1, 2)), ((1, 2), (3, 4))])
async def test_versions_that_are_not_neighbours_are_named_both(
    site: Site, monkeypatch: Patch, client: Versions, worker: Versions
) -> None:
    speak(monkeypatch, client=client, worker=worker)
    with pytest.raises(VersionMismatch) as caught:
        await site.client("one").__aenter__()
    assert (caught.value.ours, caught.value.theirs) == (client, worker)
    text = str(caught.value)
    for lowest, highest in (client, worker):
        assert f"speaks {lowest} to {highest}" in text or f"the other {lowest} to {highest}" in text


async def test_a_version_that_was_not_offered_is_refused(site: Site, monkeypatch: Patch) -> None:
    """A worker that answers with one of its own liking would not be understood."""
    monkeypatch.setattr(server, "common_version", lambda hello, versions: 5)
    with pytest.raises(VersionMismatch) as caught:
        await site.client("one").__aenter__()
    assert (caught.value.ours, caught.value.theirs) == (PROTOCOL_VERSIONS, (5, 5))
