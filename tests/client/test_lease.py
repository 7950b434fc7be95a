"""R12: a client that its workers do not hear, and how it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import Site, events_of, gaps_of, keys, new_site, published, take, take_events, times, until

from inorder import Bounded, Client, Gap, GapReason
from inorder.client import clock
from inorder.errors import Abandoned, Forgotten
from inorder.testing.services import FaultProxy

TIMEOUT = 1.2


class Cut:
    """A client whose way to the worker leads through a proxy."""

    def __init__(self, site: Site, proxy: FaultProxy) -> None:
        self.site, self.proxy = site, proxy

    def client(self, mode: Any = "strict") -> Client:
        return Client(
            f"memory://{self.site.name}",
            workers=[f"127.0.0.1:{self.proxy.port}"],
            client_id="cut",
            mode=mode,
            times=times(connect_timeout=0.5),
        )

    def away(self) -> None:
        """Nothing comes through any more; the worker knows at once."""
        self.proxy.stall()
        self.proxy.cut()

    async def lapsed(self, client: Client) -> None:
        await until(lambda: clock.waking_or_sleeping() >= client._endpoint.lease.until, "the end of the lease")

    async def expired(self) -> None:
        state = self.site.worker._host.stage(0)._state
        await until(lambda: "cut" not in [client for client, _ in state.sessions], "the end of the session")


@asynccontextmanager
async def cut_site(folder: Path, **changes: Any) -> AsyncIterator[Cut]:
    settings = {"session_timeout": TIMEOUT, "publisher_grace": 0.2, **changes}
    async with FaultProxy(1) as proxy, new_site(folder, advertise=f"127.0.0.1:{proxy.port}", **settings) as site:
        proxy.target_port = int(site.address.rpartition(":")[2])
        yield Cut(site, proxy)


@pytest.fixture
async def cut(tmp_path: Path) -> AsyncIterator[Cut]:
    async with cut_site(tmp_path) as made:
        yield made


async def test_who_is_cut_from_the_worker_only_holds_and_begins_anew(cut: Cut) -> None:
    """The counter-example: both have a and b; A is cut from the workers only and expires; its broker serves it."""
    site = cut.site
    async with cut.client() as away, site.client("other") as other, site.client("p") as publisher:
        for each in (away, other):
            await each.subscribe("a", "b")
        await published(publisher, "a", 2)
        await published(publisher, "b", 1)
        before = keys(await take_events(away, 3))
        cut.away()
        await cut.lapsed(away)
        await published(publisher, "a", 3)
        await cut.expired()
        await published(publisher, "b", 2)
        await until(lambda: away.stats().waiting == 5, "held events")
        assert away.stats().undelivered == 0

        await cut.proxy.heal()
        gaps = await take(away, 2)
        assert sorted(gaps, key=str) == [
            Gap("memory", "a", 3, 5, GapReason.EXPIRED),
            Gap("memory", "b", 2, 3, GapReason.EXPIRED),
        ]
        await published(publisher, "b", 2)
        await published(publisher, "a", 1)
        after = await take(away, 3)
        assert keys(await take_events(other, 11)) == [
            *before,
            *_numbered("a", 3, 4, 5),
            *_numbered("b", 2, 3),
            *keys(after),
        ]
        assert keys(after) == [*_numbered("b", 4, 5), *_numbered("a", 6)]
        assert away.stats().waiting == 0


def _numbered(topic: str, *numbers: int) -> list[tuple[str, int | None]]:
    return [(topic, number) for number in numbers]


async def test_a_publisher_names_what_it_published_over_a_connection_that_is_gone(cut: Cut) -> None:
    """R19: the worker has dropped its session, and knows nothing of it any more."""
    site = cut.site
    async with site.client("s") as subscriber, cut.client() as publisher:
        await subscriber.subscribe("a", "b")
        await published(publisher, "a", 2)
        cut.away()
        await cut.expired()
        await cut.proxy.heal()
        await published(publisher, "b", 1)
        assert keys(await take_events(subscriber, 3)) == [*_numbered("a", 1, 2), *_numbered("b", 1)]
        topics = {each.name: each for each in site.worker._host.stage(0)._state.topics.values()}
        assert topics["b"].records[1].deps == [topics["a"].id, 2]


async def test_a_bounded_reader_tags_meanwhile(cut: Cut) -> None:
    site = cut.site
    async with cut.client(Bounded(buffer=10)) as away, site.client("other") as other, site.client("p") as publisher:
        for each in (away, other):
            await each.subscribe("a")
        await published(publisher, "a", 1)
        cut.away()
        await cut.lapsed(away)
        await published(publisher, "a", 2, first=1)
        seen = events_of(await take(away, 3))
        assert [(each.number, str(each.verdict)) for each in seen] == [(1, "in_order"), (2, "late"), (3, "late")]
        await cut.expired()
        await cut.proxy.heal()
        lease = away._endpoint.lease
        await until(lambda: away.stats().connected and lease.until > clock.waking_or_sleeping(), "the lease")
        await until(lambda: not away._endpoint.ordering.interrupted, "the new start")
        await published(publisher, "a", 1, first=3)
        (last,) = await take(away, 1)
        assert [(each.number, str(each.verdict)) for each in events_of([last])] == [(4, "in_order")]
        assert away.stats().gaps == 0


async def test_who_is_back_in_time_has_missed_nothing(tmp_path: Path) -> None:
    async with cut_site(tmp_path, session_timeout=600.0) as cut:
        site = cut.site
        async with cut.client() as away, site.client("p") as publisher:
            await away.subscribe("a", "b")
            cut.away()
            away._endpoint.lease.until = 0.0
            await published(publisher, "a", 3)
            await until(lambda: away.stats().waiting == 3, "held events")
            await cut.proxy.heal()
            assert keys(await take(away, 3)) == _numbered("a", 1, 2, 3)


async def test_a_machine_that_slept_holds_until_the_worker_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No timer of the event loop has gone on meanwhile, but the sessions of the workers have run out."""
    async with cut_site(tmp_path, session_timeout=600.0) as cut:
        site = cut.site
        async with cut.client() as away, site.client("p") as publisher:
            await away.subscribe("a")
            cut.away()
            awake = clock.waking_or_sleeping
            monkeypatch.setattr(clock, "waking_or_sleeping", lambda: awake() + 301.0)
            monkeypatch.setattr(away._clock, "uptime", lambda: awake() + 301.0)
            await published(publisher, "a", 1)
            await until(lambda: away.stats().waiting == 1, "the held event")
            assert away.stats().undelivered == 0
            await cut.proxy.heal()
            assert keys(await take(away, 1)) == _numbered("a", 1)


async def test_a_subscriber_that_is_served_keeps_its_lease(cut: Cut) -> None:
    """Over several timeouts, idle and without anything to commit."""
    async with cut.client() as client:
        await client.subscribe("a")
        first = client._endpoint.lease.until
        await until(lambda: client._endpoint.lease.until > first + 2 * TIMEOUT, "renewals")
        assert client._endpoint.ordering.is_leased
        assert cut.proxy.accepted == 1


async def test_a_subscription_that_is_changed_while_it_is_gone_begins_anew_as_a_whole(cut: Cut) -> None:
    site = cut.site
    async with cut.client() as away, site.client("p") as publisher:
        await away.subscribe("a", "b")
        await published(publisher, "a", 1)
        assert keys(await take(away, 1)) == _numbered("a", 1)
        cut.away()
        change = asyncio.ensure_future(away.subscribe("c"))
        leaving = asyncio.ensure_future(away.unsubscribe("b"))
        await cut.expired()
        await published(publisher, "a", 2)
        await cut.proxy.heal()
        await change
        await leaving
        assert await take(away, 1) == [Gap("memory", "a", 2, 3, GapReason.EXPIRED)]
        await published(publisher, "b", 1)
        await published(publisher, "a", 1)
        await published(publisher, "c", 1)
        assert keys(await take(away, 2)) == [*_numbered("a", 4), *_numbered("c", 1)]


async def test_a_publish_of_a_session_that_is_forgotten_fails_with_words(cut: Cut) -> None:
    """R1: it was numbered, but nobody heard; the number is given up. It must not get another one."""
    async with cut.site.client("other") as other, cut.client() as away:
        await other.subscribe("a")
        await published(away, "a", 1)
        cut.proxy.stall("down")
        lost = away.publish("a", b"lost")
        state = cut.site.worker._host.stage(0)._state
        await until(lambda: next(iter(state.topics.values())).number == 2, "the number")
        cut.away()
        await cut.expired()
        await cut.proxy.heal()
        with pytest.raises(Forgotten, match="session_timeout; it was not published") as raised:
            await lost
        assert (raised.value.topic, raised.value.may_be_delivered) == ("a", False)
        receipt = await away.publish("a", b"new")
        assert receipt.number == 3
        seen = await take_events(other, 2)
        assert keys(seen) == _numbered("a", 1, 3)
        assert [(each.first, each.reason) for each in gaps_of(seen)] == [(2, GapReason.ABANDONED)]


async def test_a_request_that_never_left_is_numbered_after_the_session_was_forgotten(cut: Cut) -> None:
    async with cut.client() as away:
        await published(away, "a", 1)
        cut.away()
        await cut.expired()
        waiting = away.publish("a", b"late")
        await cut.proxy.heal()
        assert (await waiting).number == 2


async def test_forgotten_is_no_abandoned() -> None:
    """A caller that publishes again after one must think twice after the other."""
    assert not issubclass(Forgotten, Abandoned)
    assert "may or may not have been delivered" in str(Forgotten("a", may_be_delivered=True))
