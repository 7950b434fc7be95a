"""What a client sees of its token's limits: clear errors at the call, and everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import Site, events_of, new_site, take_events, times, until

from inorder import Client
from inorder.errors import Forbidden, Unauthorized
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A worker that lets nobody in without a token."""
    async with new_site(tmp_path, require_token=True) as made:
        yield made


@pytest.fixture
def tokens(site: Site) -> TokenStore:
    return TokenStore(Store(f"sqlite:///{site.store}"))


@pytest.fixture
def client(site: Site, tokens: TokenStore) -> Callable[..., Client]:
    def make(name: str, role: str = "client", *, client_id: str = "", **limits: Any) -> Client:
        _, secret = tokens.issue(name, role, **limits)
        url = f"memory://{site.name}"
        clock = times(report_interval=0.02)
        return Client(url, workers=[site.address], client_id=client_id or name, token=secret, times=clock)

    return make


async def test_a_topic_that_may_not_be_published_to(client: Callable[..., Client]) -> None:
    """The call itself fails, says what is allowed, and takes no number; other publishes go on."""
    async with client("reader") as reader, client("desk", publish=["memory:in/#"], subscribe=["memory:in/+"]) as desk:
        await reader.subscribe("in/1", "other")
        first = desk.publish("in/1", b"1")
        with pytest.raises(Forbidden, match="does not allow to publish 'memory:other'; it allows memory:in/#") as told:
            desk.publish("other", b"x")
        assert (told.value.action, told.value.topic) == ("publish", "memory:other")
        assert told.value.allowed == ("memory:in/#",)
        second = desk.publish("in/1", b"2")
        assert [(await first).number, (await second).number] == [1, 2]
        assert [each.payload for each in events_of(await take_events(reader, 2))] == [b"1", b"2"]
        with pytest.raises(Forbidden) as told:
            await desk.subscribe("in/1", "in/#")
        assert (told.value.action, told.value.topic) == ("subscribe", "memory:in/#")
        assert told.value.allowed == ("memory:in/+",)
        with pytest.raises(Forbidden, match="does not allow to read 'memory:other'"):
            desk.replay("other")
        await desk.subscribe("in/+")
        assert desk.stats().connected


async def test_who_only_looks_cannot_publish(site: Site, client: Callable[..., Client]) -> None:
    async with client("viewer", "viewer") as viewer:
        with pytest.raises(Forbidden, match="role viewer may not publish; a token with role client or admin may"):
            viewer.publish("a", b"x")
        with pytest.raises(Forbidden, match="role viewer may not subscribe"):
            await viewer.subscribe("a")
        await viewer.subscribe("a", ordering="none")
        await viewer.publish("a", b"x", order="none")
        assert [each.payload for each in events_of(await take_events(viewer, 1))] == [b"x"]
        await until(lambda: site.worker._server.reports.totals.other == 1, "its report")  # which anybody may make
        assert viewer.stats().connected


async def test_a_bound_of_open_numbers_makes_publishes_wait_their_turn(
    site: Site, client: Callable[..., Client]
) -> None:
    """The client never asks for more than it may have open, so no publish fails, and never is more open."""
    highest = 0

    def look() -> None:
        nonlocal highest
        sessions = site.worker._host.stage(0)._state.sessions.values()
        highest = max(highest, *(len(session.open) for session in sessions))

    async with client("reader") as reader, client("desk", max_unconfirmed=3) as desk:
        await reader.subscribe("a")
        answer = site.worker._server.sessions.answer

        def looked_at(session: Any, frames: Any) -> None:
            look()
            answer(session, frames)

        site.worker._server.sessions.answer = looked_at  # type: ignore[method-assign]
        publishes = [desk.publish("a", b"%d" % number) for number in range(40)]
        assert [(await each).number for each in publishes] == list(range(1, 41))
        got = events_of(await take_events(reader, 40))
        assert [each.payload for each in got] == [b"%d" % number for number in range(40)]
    assert highest == 3


async def test_a_client_whose_token_is_revoked_ends_and_says_why(
    tokens: TokenStore, client: Callable[..., Client]
) -> None:
    async with client("desk") as desk:
        await desk.subscribe("a")
        (token,) = tokens.list()
        tokens.revoke(token.id)
        await until(lambda: desk._state == "closed", "the end of the client")
        with pytest.raises(Unauthorized, match="the token 'desk' was revoked"):
            desk.publish("a", b"x")


async def test_a_client_that_makes_more_topics_than_its_token_may_ends_and_says_why(
    site: Site, client: Callable[..., Client]
) -> None:
    """None of them is made, and nothing waits for ever."""
    async with client("desk", max_topics=2) as desk:
        await asyncio.gather(desk.publish("a", b"x"), desk.publish("b", b"x"))
        with pytest.raises(Forbidden, match="may make 2 topics; it has made 2, and 1 more are too many"):
            await desk.publish("c", b"x")
        await until(lambda: desk._state == "closed", "the end of the client")
    assert len(site.worker._host.stage(0)._state.topics) == 2


async def test_a_client_id_is_for_tokens_of_one_name(client: Callable[..., Client]) -> None:
    async with client("desk") as desk:
        await desk.subscribe("a")
        with pytest.raises(Forbidden, match="the client id 'desk' is another token's"):
            async with client("eve", client_id="desk"):
                pass
        assert desk.stats().connected
