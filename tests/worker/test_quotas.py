"""How much may last of clients that show no token."""

from __future__ import annotations

from tests.worker.helpers import TestJournal, settings
from tests.worker.raw_client import RawClient

from inorder.protocol.names import exact
from inorder.protocol.wire import Resolve, SpaceFilter, Subscribe, Subscribed
from inorder_worker.service import Worker
from inorder_worker.service.gate import ANYBODYS


async def test_all_clients_without_a_token_make_and_have_so_much_together() -> None:
    """Topics stay for ever: a worker that asks for no token must not be filled up by whoever reaches it."""
    options = settings(max_token_topics=1, max_token_subscriptions=1, max_token_unconfirmed=3)
    async with Worker(options, journal=TestJournal()) as running:
        async with RawClient(running.address, "a") as client:
            await client.resolve(*(f"new/{each}" for each in range(ANYBODYS)))
        async with RawClient(running.address, "b") as client:
            assert (client.welcome.access.role, client.welcome.access.max_topics) == ("admin", ANYBODYS)
            assert client.welcome.access.max_owned == 3 * ANYBODYS
            await client.resolve("new/1")
            client.send(Resolve(1, [("s", "one/more")]))
            assert (await client.failure_frame()).message == (
                "the group of clients without a token may make 10 topics; it has made 10, and 1 more are too many"
            )
        for each in range(ANYBODYS + 1):
            async with RawClient(running.address, f"d{each}") as client:
                client.send(Subscribe(1, [SpaceFilter("s", exact("new/1"))], durable=True))
                if each < ANYBODYS:
                    await client.next(Subscribed)
                else:
                    assert (await client.failure_frame()).code == "forbidden"
