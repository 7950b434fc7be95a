"""R12 on a real broker and a worker of its own: a client that only the worker does not hear."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.client.helpers import PATIENCE, Notification, events_of, gaps_of, keys, take, take_events, times, until

from inorder import Bounded, Client, GapReason
from inorder.client import clock
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto, WorkerServer
from inorder.testing.services.server import free_port

TIMEOUT = 2.0


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultProxy]:
    """A way to a worker that advertises it, so nobody finds another."""
    monkeypatch.setenv("INORDER_WORKER__PUBLISHER_GRACE", "0.5")
    monkeypatch.setenv("INORDER_WORKER__BEAT_INTERVAL", "0.1")
    monkeypatch.setenv("INORDER_WORKER__LINGER", "0.2")  # what expires counts on for so long
    async with FaultProxy(free_port()) as made:
        args = ["--session-timeout", str(TIMEOUT), "--advertise", f"127.0.0.1:{made.port}"]
        with WorkerServer(args=args) as worker:
            made.target_port = worker.port
            yield made


def _client(mosquitto: Mosquitto, port: int, **options: Any) -> Client:
    return Client(mosquitto.url, workers=[f"127.0.0.1:{port}"], times=times(connect_timeout=0.5), **options)


@pytest.mark.parametrize("mode", ["strict", Bounded(buffer=1000)])
async def test_it_never_delivers_in_an_order_of_its_own(mosquitto: Mosquitto, proxy: FaultProxy, mode: Any) -> None:
    """Until it is cut, and after it is back, it sees what the other one sees; in between it holds, or tags."""
    topics = [unique("a"), unique("b")]
    async with (
        _client(mosquitto, proxy.port, mode=mode) as away,
        _client(mosquitto, proxy.target_port) as other,
        _client(mosquitto, proxy.target_port) as one,
        _client(mosquitto, proxy.target_port) as two,
    ):
        publishers = dict(zip(topics, (one, two), strict=True))
        for topic in topics:
            await two.publish(topic, b"so that it knows both names", qos=1)
        for each in (away, other):
            await each.subscribe(*topics, qos=1)
        for _ in range(10):
            assert await _pair(publishers)
        first = await take_events(away, 20)

        proxy.stall()
        proxy.cut()
        await until(lambda: clock.waking_or_sleeping() >= away._endpoint.lease.until, "the end of the lease")
        pairs = await _publish_to_the_end(publishers) + 10
        for _ in range(10):
            await _pair(publishers)
        await until(lambda: _arrived(away) == 2 * pairs, "what the broker brings")
        meanwhile = await take(away, away.stats().undelivered)
        assert {str(each.verdict) for each in events_of(meanwhile)} == (set() if mode == "strict" else {"late"})

        await proxy.heal()
        await until(lambda: not away._endpoint.ordering.interrupted and away.stats().connected, "the new start")
        for _ in range(10):
            assert await _pair(publishers)
        last = await take_events(away, 20)
        seen = await take_events(other, 40 + 2 * pairs)
        assert keys(first) == keys(seen)[:20]
        assert keys(last) == keys(seen)[-20:]
        assert {str(each.verdict) for each in events_of(last)} == {"in_order"}
        assert _gaps(last) == ([(topic, 12, 11 + pairs) for topic in topics] if mode == "strict" else [])


def _arrived(client: Client) -> int:
    return client.stats().waiting + client.stats().undelivered


def _gaps(taken: list[Notification]) -> list[tuple[str, int, int]]:
    assert {each.reason for each in gaps_of(taken)} <= {GapReason.EXPIRED}
    return sorted((each.topic, each.first, each.last) for each in gaps_of(taken))


async def _pair(publishers: dict[str, Client]) -> bool:
    """Publish one event to each topic; tell whether the second one depends on the first."""
    receipts = [await each.publish(topic, b"x", qos=1) for topic, each in publishers.items()]
    return bool(receipts[-1].deps)


async def _publish_to_the_end(publishers: dict[str, Client]) -> int:
    """Publish until the topics are no pair any more: one of their two subscriptions has ended. Return how often."""
    async with asyncio.timeout(PATIENCE):
        for count in itertools.count(1):
            if not await _pair(publishers):
                return count
            await asyncio.sleep(0.05)
    raise AssertionError("the subscription never ended")
