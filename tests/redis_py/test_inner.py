"""The inner side of the drop-in classes, without the library's connections: what it reads is fed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from tests.client.helpers import PATIENCE, Site, new_site, times, until

from inorder.client.configured import ClientConfiguration
from inorder.endpoint.notifications import Verdict
from inorder.errors import Forbidden
from inorder.redis._message import Inorder
from inorder.redis._publisher import Publisher, Ticket
from inorder.redis._shared import HealthCheck
from inorder.redis._subscriber import Subscriber

Read = list[Any]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A worker of this test's own, in this event loop; all topics whose names begin with ``logged`` have a log."""
    async with new_site(tmp_path, log_topics=("redis:logged*",)) as made:
        yield made


def configuration(site: Site, **changes: Any) -> ClientConfiguration:
    return ClientConfiguration(**{"workers": (site.address,), "times": times(), **changes})


@asynccontextmanager
async def publishing(site: Site) -> AsyncIterator[Publisher]:
    publisher = Publisher(configuration(site), "nowhere")
    await publisher.open()
    try:
        yield publisher
    finally:
        await publisher.close()


@asynccontextmanager
async def subscribing(site: Site, *names: str, **changes: Any) -> AsyncIterator[Subscriber]:
    """A subscriber of these channels, and of patterns where there is a star."""
    subscriber = Subscriber(configuration(site, **changes), "nowhere", lambda: None)
    await subscriber.open()
    try:
        for at, name in enumerate(names):
            kind = b"psubscribe" if "*" in name else b"subscribe"
            subscriber.feed([[kind, name.encode(), at + 1]])
        await until(lambda: len(subscriber.settled) == len(names))
        subscriber.items.clear()
        yield subscriber
    finally:
        await subscriber.close()


def items(subscriber: Subscriber) -> list[Any]:
    return list(subscriber.items)


async def stamps(publisher: Publisher, *publishes: tuple[str, str]) -> list[bytes]:
    """Publish, and return what goes to the server."""
    tickets = [Ticket(channel, payload.encode()) for channel, payload in publishes]
    done = asyncio.Event()
    publisher.stamp(tickets, done.set)
    await asyncio.wait_for(done.wait(), PATIENCE)
    for each in tickets:
        assert each.error is None
        publisher.accepted(each)
    return [each.wire for each in tickets if each.wire is not None]


async def test_a_channel_with_an_event_log(site: Site) -> None:
    """Its content travels with the request, and comes from the log where the server lost it."""
    async with publishing(site) as publisher, subscribing(site, "logged") as subscriber:
        _, second = await stamps(publisher, ("logged", "1"), ("logged", "2"))
        subscriber.feed([[b"message", b"logged", second]])
        await until(lambda: len(subscriber.items) == 2)
        assert items(subscriber) == [[b"message", b"logged", b"1"], [b"message", b"logged", b"2"]]


async def test_copies_are_given_together_however_late_the_server_sends_them(site: Site) -> None:
    async with publishing(site) as publisher, subscribing(site, "other", "chan", "chan*", "c*") as subscriber:
        first, second, third = await stamps(publisher, ("chan", "1"), ("other", "2"), ("chan", "3"))
        one = [[b"message", b"chan", b"1"], [b"pmessage", b"chan*", b"chan", b"1"], [b"pmessage", b"c*", b"chan", b"1"]]
        subscriber.feed([[b"message", b"chan", first]])
        assert items(subscriber) == one
        subscriber.feed([[b"message", b"other", second]])
        subscriber.feed([[b"pmessage", b"c*", b"chan", first], [b"pmessage", b"chan*", b"chan", first]])
        assert items(subscriber)[3:] == [[b"message", b"other", b"2"]]
        subscriber.feed([[b"unsubscribe", b"chan", 3], [b"pmessage", b"chan*", b"chan", third]])
        assert [each[0] for each in items(subscriber)[4:]] == [b"unsubscribe", b"pmessage", b"pmessage"]


async def test_what_is_subscribed_to_again_at_once_goes_on(site: Site) -> None:
    """Nobody tells the workers of either, and what comes meanwhile is not lost."""
    async with publishing(site) as publisher, subscribing(site, "chan") as subscriber:
        subscriber.ends(b"message", [b"chan"])
        assert not subscriber.settled
        (wire,) = await stamps(publisher, ("chan", "1"))
        subscriber.feed([[b"unsubscribe", b"chan", 0], [b"subscribe", b"chan", 1], [b"message", b"chan", wire]])
        assert subscriber.settled == {(b"message", b"chan")}
        assert [each[0] for each in items(subscriber)] == [b"unsubscribe", b"subscribe", b"message"]


async def test_a_channel_that_the_workers_refuse_is_not_the_others_matter(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are subscribed to; what comes on it has no place in the order, and it is tried again later."""
    async with publishing(site) as publisher, subscribing(site, "open") as subscriber:
        subscribe = subscriber._client.subscribe

        async def forbidding(*filters: str) -> None:
            if "closed" in filters:
                raise Forbidden("not for this token")
            await subscribe(*filters)

        monkeypatch.setattr(subscriber._client, "subscribe", forbidding)
        subscriber.feed([[b"subscribe", b"closed", 2], [b"subscribe", b"also", 3]])
        await until(lambda: len(subscriber.settled) == 3)
        refused, confirmed = items(subscriber)
        assert (str(refused.error), confirmed[1]) == ("not for this token", b"also")
        (wire,) = await stamps(publisher, ("closed", "1"))
        subscriber.feed([[b"message", b"closed", wire]])
        assert items(subscriber)[2].inorder == Inorder(Verdict.UNSEQUENCED)
        monkeypatch.setattr(subscriber._client, "subscribe", subscribe)
        subscriber.feed([[b"subscribe", b"closed", 3]])
        await until(lambda: len(subscriber.items) == 4)
        (wire,) = await stamps(publisher, ("closed", "2"))
        subscriber.feed([[b"message", b"closed", wire]])
        assert items(subscriber)[4].inorder == Inorder(Verdict.IN_ORDER, 2)


async def test_copies_without_a_place_in_the_order_come_as_the_server_sends_them(site: Site) -> None:
    async with subscribing(site, "chan", "chan*") as subscriber:
        subscriber.feed([[b"message", b"chan", b"x"], [b"pmessage", b"chan*", b"chan", b"x"]])
        assert items(subscriber) == [[b"message", b"chan", b"x"], [b"pmessage", b"chan*", b"chan", b"x"]]


def test_the_answer_to_a_health_check_may_have_come_while_nobody_looked() -> None:
    connection, pulse = SimpleNamespace(health_check_interval=1.0, next_health_check=0.0), HealthCheck()
    assert pulse.is_due(connection, 1.0)
    assert not pulse.is_due(connection, 9.0)
    pulse.on_reception()
    assert pulse.is_due(connection, 10.0)
    assert not pulse.is_due(connection, 19.0)
    with pytest.raises(redis.ConnectionError, match="two intervals"):
        pulse.is_due(connection, 19.1)
