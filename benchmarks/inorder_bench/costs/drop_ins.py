"""What order costs programs of other libraries, and programs that block: each with its own import and with ours.

Two publishers in one process, in turn; two subscribers in another one. A real broker and a real worker; the contenders
in turn. inorder's subscribers must both have seen all events, in the same order, else the benchmark fails.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, Final

import msgspec

from inorder.testing.services import Mosquitto, RedisServer, WorkerServer
from inorder_bench.clocks import within
from inorder_bench.rows import Row, Say, paired, spread

TOPICS: Final = ("drop-ins/one", "drop-ins/two")
"""Publisher ``i`` publishes to topic ``i``; each subscriber subscribes to both."""
SUBSCRIBERS: Final = 2
BATCH: Final = 100
"""Publishes that share a pipeline."""
WINDOW: Final = 1_000
"""Publishes of one publisher that may be open."""
LIMIT_S: Final = 120.0


class Task(msgspec.Struct, frozen=True):
    """One process: what it does, with which library; ``at_once``: publishes that leave together."""

    role: str
    program: str
    library: str
    port: int
    worker: str
    events: int
    at_once: int


class Told(msgspec.Struct, frozen=True):
    """What a process measured: begin and end (s, monotonic), processor time (s), what each subscriber saw."""

    began: float
    ended: float
    cpu_s: float
    orders: list[str] = []


class Seen:
    """What one subscriber sees: how many events, and a digest of their order."""

    def __init__(self, events: int) -> None:
        self.left, self._digest = events, hashlib.sha256()
        self.all = threading.Event()

    def took(self, payload: bytes) -> None:
        """One more."""
        self._digest.update(payload)
        self.left -= 1
        if not self.left:
            self.all.set()

    @property
    def order(self) -> str:
        """The digest."""
        return self._digest.hexdigest()


def payloads(task: Task) -> Iterator[tuple[int, bytes]]:
    """Yield publisher and payload (100 bytes), those of one batch together."""
    for number in range(task.events):
        which = number // task.at_once % len(TOPICS)
        yield which, f"{which}:{number}".encode().ljust(100)


def _published(task: Task, clients: Sequence[Any]) -> Iterator[Any]:
    """Publish, and yield what the clients return for it."""
    return (clients[which].publish(TOPICS[which], payload) for which, payload in payloads(task))


# -- redis-py --------------------------------------------------------------------------------------------------------


def publish_redis(task: Task, ready: Callable[[], None]) -> None:
    """One after the other, or in pipelines."""
    library: Any = importlib.import_module(task.library)
    with ExitStack() as stack:
        clients = [stack.enter_context(library.Redis(port=task.port)) for _ in TOPICS]
        for client in clients:
            client.publish("warm-up", b"")
        ready()
        events = payloads(task)
        while batch := list(islice(events, task.at_once)):
            which = batch[0][0]
            if task.at_once == 1:
                clients[which].publish(TOPICS[which], batch[0][1])
                continue
            with clients[which].pipeline(transaction=False) as pipeline:
                for _, payload in batch:
                    pipeline.publish(TOPICS[which], payload)
                pipeline.execute()


def read_redis(task: Task, seen: list[Seen], ready: Callable[[], None]) -> None:
    """A thread for each subscriber."""
    library: Any = importlib.import_module(task.library)

    def read(pubsub: Any, one: Seen) -> None:
        while one.left:
            message = pubsub.get_message(timeout=LIMIT_S)
            if message is not None:
                one.took(message["data"])

    with ExitStack() as stack:
        calls = []
        for one in seen:
            client = stack.enter_context(library.Redis(port=task.port))
            pubsub = stack.enter_context(client.pubsub(ignore_subscribe_messages=True))
            pubsub.subscribe(*TOPICS)
            for _ in TOPICS:
                pubsub.get_message(timeout=LIMIT_S)
            calls.append((read, pubsub, one))
        _in_threads(calls, ready)


# -- paho-mqtt -------------------------------------------------------------------------------------------------------


def _paho_client(task: Task, stack: ExitStack) -> Any:
    library: Any = importlib.import_module(task.library)
    client, connected = library.Client(library.CallbackAPIVersion.VERSION2), threading.Event()
    client.max_queued_messages_set(0)
    client.on_connect = lambda *_: connected.set()
    client.connect("127.0.0.1", task.port)
    client.loop_start()
    stack.callback(client.loop_stop)
    stack.callback(client.disconnect)
    connected.wait(LIMIT_S)
    return client


def publish_paho(task: Task, ready: Callable[[], None]) -> None:
    """With ``loop_start``; ``wait_for_publish`` on the oldest of those that are open."""
    with ExitStack() as stack:
        clients = [_paho_client(task, stack) for _ in TOPICS]
        ready()
        for info in within(WINDOW, _published(task, clients)):
            info.wait_for_publish(LIMIT_S)


def read_paho(task: Task, seen: list[Seen], ready: Callable[[], None]) -> None:
    """``on_message``, with ``loop_start``."""
    with ExitStack() as stack:
        for one in seen:
            client, subscribed = _paho_client(task, stack), threading.Event()
            client.on_message = lambda _, __, message, one=one: one.took(message.payload)
            client.on_subscribe = lambda *_, subscribed=subscribed: subscribed.set()
            client.subscribe([(topic, 0) for topic in TOPICS])
            subscribed.wait(LIMIT_S)
        ready()
        for one in seen:
            one.all.wait(LIMIT_S)


# -- inorder's own clients -------------------------------------------------------------------------------------------


def _client_of(task: Task) -> Any:
    library: Any = importlib.import_module(task.library)
    return library.Client(f"mqtt://127.0.0.1:{task.port}", workers=[task.worker], options={"protocol": 4})


def publish_own(task: Task, ready: Callable[[], None]) -> None:
    """By the blocking client, or by the asyncio one."""
    if task.library != "inorder.sync":
        asyncio.run(_publish_asyncio(task, ready))
        return
    with ExitStack() as stack:
        clients = [stack.enter_context(_client_of(task)) for _ in TOPICS]
        ready()
        for publish in within(WINDOW, _published(task, clients)):
            publish.result(LIMIT_S)


async def _publish_asyncio(task: Task, ready: Callable[[], None]) -> None:
    async with _client_of(task) as one, _client_of(task) as other:
        await asyncio.to_thread(ready)
        for publish in within(WINDOW, _published(task, (one, other))):
            await publish


def read_own(task: Task, seen: list[Seen], ready: Callable[[], None]) -> None:
    """A thread for each subscriber that blocks, or a task."""
    if task.library != "inorder.sync":
        asyncio.run(_read_asyncio(task, seen, ready))
        return
    with ExitStack() as stack:
        clients = [stack.enter_context(_client_of(task)) for _ in seen]
        for client in clients:
            client.subscribe(*TOPICS)

        def read(events: Iterable[Any], one: Seen) -> None:
            for event in events:
                one.took(event.payload)
                if not one.left:
                    return

        _in_threads([(read, client.events(), one) for client, one in zip(clients, seen, strict=True)], ready)


async def _read_asyncio(task: Task, seen: list[Seen], ready: Callable[[], None]) -> None:
    async def read(events: AsyncIterator[Any], one: Seen) -> None:
        async for event in events:
            one.took(event.payload)
            if not one.left:
                return

    async with _client_of(task) as one, _client_of(task) as other:
        for client in (one, other):
            await client.subscribe(*TOPICS)
        await asyncio.to_thread(ready)
        await asyncio.gather(read(one.events(), seen[0]), read(other.events(), seen[1]))


def _in_threads(calls: list[tuple[Any, ...]], ready: Callable[[], None]) -> None:
    threads = [threading.Thread(target=function, args=args) for function, *args in calls]
    ready()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)


# -- one process -----------------------------------------------------------------------------------------------------

PROGRAMS: Final[dict[str, tuple[Any, Any]]] = {
    "redis": (publish_redis, read_redis),
    "paho": (publish_paho, read_paho),
    "own": (publish_own, read_own),
}


def main() -> None:
    """Do the task that is given as the only argument: say when all is connected, wait for a line, tell."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    began = [0.0, 0.0]

    def ready() -> None:
        print("ready", flush=True)
        sys.stdin.readline()
        began[:] = [time.monotonic(), time.process_time()]

    publish, read = PROGRAMS[task.program]
    seen = [Seen(task.events) for _ in range(SUBSCRIBERS)] if task.role == "read" else []
    ended = [0.0, 0.0]
    if task.role == "read":
        watcher = threading.Thread(target=_note_end, args=(seen, ended))
        watcher.start()
        read(task, seen, ready)
        watcher.join()
    else:
        publish(task, ready)
        ended = [time.monotonic(), time.process_time()]
    told = Told(began[0], ended[0], ended[1] - began[1], [one.order for one in seen])
    print(msgspec.json.encode(told).decode(), flush=True)


def _note_end(seen: list[Seen], ended: list[float]) -> None:
    for one in seen:
        if not one.all.wait(2 * LIMIT_S):
            os._exit(1)
    ended[:] = [time.monotonic(), time.process_time()]


# -- all of them -----------------------------------------------------------------------------------------------------


class Match(msgspec.Struct, frozen=True):
    """A library, and what takes its place."""

    title: str
    program: str
    theirs: str
    ours: str
    at_once: int
    share: float


MATCHES: Final = (
    Match("redis-py, one after the other", "redis", "redis", "inorder.redis", 1, 0.1),
    Match(f"redis-py, pipelines of {BATCH}", "redis", "redis", "inorder.redis", BATCH, 1.0),
    Match("paho-mqtt, loop_start", "paho", "paho.mqtt.client", "inorder.paho", 1, 1.0),
    Match("inorder's client that blocks, MQTT", "own", "inorder", "inorder.sync", 1, 1.0),
)
"""``share``: of the events that the command names, as this one is slow."""


class OrderDiffers(Exception):
    """Two subscribers of inorder's have seen different orders, or not all."""


def measure(events: int, repeats: int, say: Say) -> list[Row]:
    """Measure every library beside its replacement."""
    rows: list[Row] = []
    unbounded = ("--client-output-buffer-limit", "pubsub", "0", "0", "0")  # a slow subscriber loses nothing
    with Mosquitto(max_queued=0) as mosquitto, RedisServer(args=unbounded) as redis, WorkerServer() as worker:
        for match in MATCHES:
            port = redis.port if match.program == "redis" else mosquitto.port
            found: dict[str, list[dict[str, float]]] = {match.theirs: [], match.ours: []}
            for repeat in range(repeats):
                for library in list(found)[:: 1 if repeat % 2 == 0 else -1]:
                    count = max(2 * BATCH, int(events * match.share) // (2 * BATCH) * 2 * BATCH)
                    task = Task("", match.program, library, port, worker.url, count, match.at_once)
                    found[library].append(run(task))
                    say(f"{match.title}: {library}: {found[library][-1]['events/s']:,.0f} events/s")
            rows += _rows(match, found)
    return rows


def run(task: Task) -> dict[str, float]:
    """Run a program in two processes, and return the figures of both. Raises OrderDiffers."""
    environment = {**os.environ, "INORDER_CLIENT__WORKERS": task.worker}
    with ExitStack() as stack:
        processes = []
        for role in ("read", "publish"):
            text = msgspec.json.encode(msgspec.structs.replace(task, role=role)).decode()
            command = [sys.executable, "-m", "inorder_bench.costs.drop_ins", text]
            begun = subprocess.Popen(command, text=True, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            process: Any = stack.enter_context(begun)
            stack.callback(process.kill)
            processes.append(process)
            if process.stdout.readline() != "ready\n":
                raise OrderDiffers(f"{task.library}: the process that should {role} has ended")
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        publisher, reader = (msgspec.json.decode(each.stdout.readline(), type=Told) for each in processes[::-1])
    if task.library.startswith("inorder") and len(set(reader.orders)) != 1:
        raise OrderDiffers(f"{task.library}: two subscribers have seen different orders")
    seconds = reader.ended - publisher.began
    return {
        "events/s": task.events / seconds,
        "publish cpu us": publisher.cpu_s / task.events * 1e6,
        "receive cpu us": reader.cpu_s / task.events * 1e6,
    }


def _rows(match: Match, found: dict[str, list[dict[str, float]]]) -> list[Row]:
    speeds = {library: [each["events/s"] for each in its] for library, its in found.items()}
    rows = []
    for library, its in found.items():
        cpu = {key: spread([each[key] for each in its]).median for key in its[0] if key != "events/s"}
        is_ours = library == match.ours
        rows.append(
            Row(
                workload=f"drop-ins, {match.title}",
                name=library,
                unit="events/s",
                value=spread(speeds[library]),
                ratio=paired(speeds[match.ours], speeds[match.theirs]) if is_ours else None,
                yardstick=f"of {match.theirs}" if is_ours else "",
                more=cpu,
            )
        )
    return rows


if __name__ == "__main__":
    main()
