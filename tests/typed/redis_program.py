"""A program with types, before and after: type checkers have nothing to say about either."""

import asyncio
from typing import Any

import redis
import redis.asyncio as aioredis
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as Lost
from redis.retry import Retry

SEEN: list[object] = []


class Prices:
    """The last price of each share."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: redis.Redis = client
        self.pubsub: redis.client.PubSub = client.pubsub(ignore_subscribe_messages=True)
        self.last: dict[str, float] = {}

    def begin(self) -> None:
        self.pubsub.subscribe("market")
        self.pubsub.psubscribe(**{"price:*": self.show})

    def show(self, message: dict[str, Any]) -> None:
        self.last[message["channel"]] = float(message["data"])

    def watch(self) -> None:
        try:
            for message in self.pubsub.listen():
                data: object = message["data"]
                SEEN.append(data)
        except (Lost, redis.ConnectionError, redis.exceptions.TimeoutError) as error:
            SEEN.append(str(error))
        finally:
            self.pubsub.close()

    def later(self) -> None:
        thread: redis.client.PubSubWorkerThread = self.pubsub.run_in_thread(sleep_time=0.1, daemon=True)
        thread.stop()

    def publish(self, share: str, price: float) -> None:
        self.client.publish(f"price:{share}", price)
        with self.client.pipeline(transaction=True) as pipeline:
            pipeline.publish("market", "open")
            replies: list[Any] = pipeline.execute()
            SEEN.append(replies)


def wrong(client: redis.Redis) -> None:
    """What type checkers find: there are types, and not just anything."""
    client.publish("market")  # type: ignore[call-arg]
    client.pipeline().execute(raise_on_error=True, twice=True)  # type: ignore[call-arg]
    redis.client.PubSub.nothing  # type: ignore[attr-defined]  # noqa: B018
    redis.nothing  # type: ignore[attr-defined]  # noqa: B018


def made() -> list[redis.Redis]:
    """Return clients, made in all ways."""
    pool: redis.ConnectionPool = redis.ConnectionPool(host="localhost", port=6379, decode_responses=True)
    return [
        redis.Redis(connection_pool=pool),
        redis.Redis("localhost", 6379, retry=Retry(ExponentialBackoff(), 3), decode_responses=True),
        redis.StrictRedis.from_url("redis://localhost", socket_timeout=5.0),
        redis.from_url("redis://localhost"),
    ]


async def read(client: aioredis.Redis) -> None:
    """Read and publish, in asyncio."""
    async with client.pubsub() as pubsub:
        await pubsub.subscribe("market")
        message: dict[str, Any] | None = await pubsub.get_message(ignore_subscribe_messages=True, timeout=1.0)
        async for each in pubsub.listen():
            pair = message, each["data"]
            SEEN.append(pair)
    async with client.pipeline(transaction=False) as pipeline:
        pipeline.publish("market", "closed")
        await pipeline.execute()
    await client.aclose(True, 3)  # type: ignore[call-arg]


def main() -> None:
    for client in made():
        Prices(client).begin()
    asyncio.run(read(aioredis.Redis(host="localhost")))
    asyncio.run(read(aioredis.from_url("redis://localhost")))
