"""As fast as possible: two publishers, two subscribers, two topics, 100-byte payloads, a window of open publishes."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.job import Job
from benchmarks.processes import Run, run
from benchmarks.rows import Row, Say, paired, spread
from inorder.core.stamp import TotalStamp, encode_stamp
from inorder.testing.services import Mosquitto, RedisServer, WorkerServer

WARM_UP = 1_000
AIM = 0.5


@dataclass(frozen=True, slots=True)
class Contender:
    """One client in one configuration. ``is_yardstick``: the fastest of these is what inorder is compared with."""

    name: str
    client: str
    has_property: bool = False
    is_yardstick: bool = True


@dataclass(frozen=True, slots=True)
class Match:
    """One broker and protocol, and who is measured there; inorder is always one of them."""

    title: str
    broker: type[Mosquitto] | type[RedisServer]
    protocol: int
    contenders: tuple[Contender, ...]


INORDER = Contender("inorder", "inorder", is_yardstick=False)
MATCHES = {
    "mqtt5": Match(
        "throughput, MQTT 5 (stamp in a user property)",
        Mosquitto,
        5,
        (
            INORDER,
            Contender("paho, one property, loop_start", "paho threads", True),
            Contender("paho, one property, no threads", "paho direct", True),
            Contender("paho, no property, loop_start", "paho threads", is_yardstick=False),
            Contender("paho, no property, no threads", "paho direct", is_yardstick=False),
        ),
    ),
    "mqtt311": Match(
        "throughput, MQTT 3.1.1 (stamp before the payload)",
        Mosquitto,
        4,
        (INORDER, Contender("paho, loop_start", "paho threads"), Contender("paho, no threads", "paho direct")),
    ),
    "redis": Match(
        "throughput, Redis",
        RedisServer,
        0,
        (
            INORDER,
            Contender("redis-py, pipelines", "redis-py pipelines"),
            Contender("redis-py, tasks", "redis-py tasks"),
        ),
    ),
}


def property_value() -> str:
    """Return a property value as long as the stamp of such a workload."""
    return encode_stamp(TotalStamp(2**31, 2, 20_000, [1, 20_000])).decode()


def start_broker(match: Match, stack: ExitStack) -> Mosquitto | RedisServer:
    """Start a match's broker; no client's queue is bounded, so that nothing is dropped."""
    if match.broker is Mosquitto:
        return stack.enter_context(Mosquitto(max_queued=0))
    args = ("--client-output-buffer-limit", "pubsub", "0", "0", "0")
    return stack.enter_context(RedisServer(args=args))


def make_job(
    match: Match, contender: Contender, url: str, worker: str, repeat: int, *, events: int, warm_up: int, rate: float
) -> Job:
    """Return the job of a contender; its role is set when it is run."""
    return Job(
        client=contender.client,
        role="",
        url=url,
        workers=[worker],
        protocol=match.protocol,
        events=events,
        warm_up=warm_up,
        rate=rate,
        property_value=property_value() if contender.has_property else "",
        name=f"{repeat}-{contender.client.replace(' ', '-')}",
    )


def measure(name: str, events: int, repeats: int, say: Say) -> list[Row]:
    """Measure all contenders of a match in turn, forwards and backwards, ``repeats`` times."""
    match = MATCHES[name]
    runs: dict[str, list[Run]] = {each.name: [] for each in match.contenders}
    with ExitStack() as stack:
        broker = start_broker(match, stack)
        worker = stack.enter_context(WorkerServer())
        for repeat in range(repeats):
            order = match.contenders if repeat % 2 == 0 else match.contenders[::-1]
            for contender in order:
                job = make_job(
                    match, contender, broker.url, worker.url, repeat, events=events, warm_up=WARM_UP, rate=0.0
                )
                done = run(job)
                runs[contender.name].append(done)
                say(f"{match.title}: {contender.name}: {done.events_per_s:,.0f} events/s")
    return _rows(match, runs)


def _rows(match: Match, runs: dict[str, list[Run]]) -> list[Row]:
    rates = {name: [each.events_per_s for each in its] for name, its in runs.items()}
    yardstick = max(
        (each.name for each in match.contenders if each.is_yardstick), key=lambda name: spread(rates[name]).median
    )
    rows = []
    for each in match.contenders:
        is_ours = each is INORDER
        against = paired(rates["inorder"], rates[yardstick if is_ours else each.name])
        rows.append(
            Row(
                workload=match.title,
                name=each.name,
                unit="events/s",
                value=spread(rates[each.name]),
                ratio=against,
                yardstick=f"of {yardstick}" if is_ours else "is inorder to this",
                aim=f">= {AIM}" if is_ours else "",
                reached=against.median >= AIM if is_ours else None,
                more={
                    "publish cpu us": spread([run.publish_us for run in runs[each.name]]).median,
                    "receive cpu us": spread([run.receive_us for run in runs[each.name]]).median,
                },
            )
        )
    return rows
