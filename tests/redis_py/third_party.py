"""A program of libraries that import redis-py themselves: ``third_party.py URL`` prints what they have come to."""

import sys
import time

import inorder.redis

inorder.redis.install()  # before they are imported

import redis
import socketio
from celery import Celery, group
from celery.contrib.testing.worker import start_worker

URL, PATIENCE = sys.argv[1], 60.0
app = Celery("third_party", broker=URL, backend=URL)
app.conf.update(worker_hijack_root_logger=False, worker_send_task_events=False)


@app.task  # type: ignore[untyped-decorator]
def double(number: int) -> int:
    return 2 * number


def celery() -> None:
    """Results come over channels, some of them while others are subscribed to; what is told to all workers, too."""
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=PATIENCE):
        assert type(app.backend.client) is inorder.redis.Redis
        print("results", group(double.s(number) for number in range(10))().get(timeout=PATIENCE))
        replies = app.control.ping(timeout=PATIENCE, limit=1)
        print("workers", [list(reply.values()) for reply in replies])


def socket_io() -> None:
    """Emits of a writer of their own come to all servers, this one included, by the one order."""
    servers = [socketio.Server(client_manager=socketio.RedisManager(URL), async_mode="threading") for _ in range(2)]
    seen: list[list[object]] = []
    for server in servers:
        had: list[object] = []
        server.manager._handle_emit = lambda message, had=had: had.extend(message["data"])
        server.manager.initialize()
        seen.append(had)
    emits = socketio.RedisManager(URL, write_only=True)
    emits._redis_connect()
    assert type(emits.redis) is inorder.redis.Redis
    deadline = time.monotonic() + PATIENCE
    while emits.redis.pubsub_numsub("socketio")[0][1] < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    for number in range(3):
        emits.emit("number", number)
    while min(map(len, seen)) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    print("emitted", seen)


assert redis.Redis is inorder.redis.Redis
celery()
socket_io()
