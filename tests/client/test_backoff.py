"""Many who lost a peer at the same moment do not come back at the same moment. In virtual time, with seeded chance."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from tests import virtual_time

from inorder import ClientTimes, backoff
from inorder.client.ens_link import EnsLink
from inorder.client.worker_link import WorkerLink
from inorder.client.workers import Workers
from inorder.errors import BrokerUnreachable, LinkError, WorkerUnreachable
from inorder.protocol.wire import PROTOCOL_VERSIONS, Hello, StageInfo
from inorder_worker.service.links import StageLink

MANY = 80
BACK = 10.0
"""The second at which the peer is there again."""
TIMES = ClientTimes()
HELLO = Hello(*PROTOCOL_VERSIONS, "", "one", 1)
NOBODY: Any = SimpleNamespace()


class Peer:
    """A peer that nobody reaches before ``BACK``.

    Attributes:
        came: when somebody did. tried: each one's attempts.
    """

    def __init__(self) -> None:
        self.came: list[float] = []
        self.tried: dict[object, list[float]] = {}
        self.all_are_back = asyncio.Event()

    async def attempt(self, who: object, error: LinkError) -> None:
        now = asyncio.get_running_loop().time()
        self.tried.setdefault(who, []).append(now)
        if now < BACK:
            raise error
        self.came.append(now)
        if len(self.came) == MANY:
            self.all_are_back.set()
        await asyncio.Event().wait()


def link(peer: Peer, patch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    """A client's connection to a worker that it has lost."""
    patch.setattr(WorkerLink, "connect", lambda self: peer.attempt(self, WorkerUnreachable(["w"], "it is down")))
    return WorkerLink("localhost:1", lambda: HELLO, NOBODY, TIMES).run()


def search(peer: Peer, patch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    """A client that looks for the worker of a stage."""
    workers = Workers(["localhost:1"], HELLO, NOBODY, TIMES)
    patch.setattr(Workers, "_try", lambda self, *_: passed_over(peer.attempt(self, LinkError("it is down"))))
    workers._is_lacking.set()
    return workers.run()


def listen(peer: Peer, patch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    """A client that looks for a worker to listen to, as its own is silent."""
    workers = Workers(["localhost:1"], HELLO, NOBODY, TIMES)
    patch.setattr(Workers, "_listen_to", lambda self, _: passed_over(peer.attempt(self, LinkError("it is down"))))
    workers._is_unheard.set()
    return workers.run()


def broker(peer: Peer, patch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    """A client that has lost its broker."""
    ens: Any = SimpleNamespace(address="b")
    ens.connect = lambda sink: peer.attempt(sink, BrokerUnreachable("b", "it is down"))
    lost = EnsLink(ens, "b", NOBODY, TIMES)
    lost.connection_lost(LinkError("it is down"))
    return lost.run()


def worker(peer: Peer, patch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    """A worker that has lost the one of another stage."""
    patch.setattr(StageLink, "_serve", lambda self: peer.attempt(self, LinkError("it is down")))
    links: Any = SimpleNamespace(
        cluster=SimpleNamespace(place=lambda stage: StageInfo(stage, 1, "localhost:1")),
        origins=lambda target: [StageInfo(1, 1, "here")],
        host=SimpleNamespace(heartbeat=SimpleNamespace(look_around_soon=lambda: None)),
    )
    return StageLink(0, links).run()


async def passed_over(attempt: Coroutine[Any, Any, None]) -> str:
    """What is not reached is asked again, and that is all."""
    try:
        await attempt
    except LinkError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("lost", "longest"), [(link, 5.0), (search, 5.0), (listen, 5.0), (broker, 5.0), (worker, 2.0)])
def test_those_who_lost_a_peer_together_come_back_one_by_one(
    lost: Any, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "_chance", random.Random(1))

    async def outage() -> None:
        peer = Peer()
        tasks = [asyncio.create_task(lost(peer, monkeypatch)) for _ in range(MANY)]
        await peer.all_are_back.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        tenths = [int(10 * when) for when in peer.came]
        assert max(map(tenths.count, tenths)) <= MANY / 8
        assert max(peer.came) <= BACK + longest
        firsts = [next(filter(None, times)) for times in peer.tried.values()]  # at 0 it is lost
        assert len({round(when, 4) for when in firsts}) > MANY / 2  # also where it is back at once
        assert max(firsts) <= longest / 5

    virtual_time.run(outage())


@pytest.mark.parametrize(("failures", "bound"), [(0, 0.05), (1, 0.1), (6, 3.2), (7, 5.0), (10_000, 5.0)])
def test_a_pause_is_any_part_of_a_bound_that_doubles(
    failures: int, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "_chance", random.Random(1))
    drawn = [backoff.pause(0.05, 5.0, failures) for _ in range(1_000)]
    assert 0 <= min(drawn) < 0.01 * bound
    assert 0.99 * bound < max(drawn) <= bound


def test_programs_that_seed_chance_draw_pauses_of_their_own() -> None:
    random.seed(7)
    first = backoff.pause(1.0, 1.0, 0)
    random.seed(7)
    assert backoff.pause(1.0, 1.0, 0) != first
