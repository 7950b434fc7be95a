"""A price ticker: ``redis_ticker.py watch [PORT]`` shows the prices of all shares, ``redis_ticker.py feed [PORT]``
publishes what it reads, a share and its price on each line."""

import sys

import inorder.redis as redis


def watch(client: redis.Redis) -> None:
    last: dict[str, str] = {}

    def show(message: dict[str, str]) -> None:
        share = message["channel"].removeprefix("price:")
        before, last[share] = last.get(share), message["data"]
        print(f"{share} {message['data']}" + (f" (was {before})" if before else ""))

    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.psubscribe(**{"price:*": show})
        pubsub.subscribe("market")
        print("watching")
        for message in pubsub.listen():
            print(f"the market is {message['data']}")
            if message["data"] == "closed":
                break


def feed(client: redis.Redis) -> None:
    client.publish("market", "open")
    for line in sys.stdin:
        share, price = line.split()
        count = client.publish(f"price:{share}", price)
        print(f"{share} {price}: {count} watching")
    with client.pipeline() as pipeline:
        pipeline.set("market", "closed")
        pipeline.publish("market", "closed")
        pipeline.execute()


def main() -> None:
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 6379
    with redis.Redis("localhost", port, decode_responses=True) as client:
        {"watch": watch, "feed": feed}[sys.argv[1]](client)


if __name__ == "__main__":
    main()
