"""What a stranger's frame costs a worker: twice as much of it, twice the work, whatever there is already.

Each frame is given to a worker whose stage has as much as the frame (topics, open numbers, another client's
filters), so that what costs one times the other is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from tests.costs import ROOM, Steps
from tests.worker.helpers import TestJournal, settings, until
from tests.worker.raw_client import RawClient

from inorder.protocol.names import Filter, FilterKind, exact
from inorder.protocol.pairs import joined
from inorder.protocol.wire import (
    AskDurable,
    AskHeads,
    AskNumbers,
    ChangeAutomatic,
    ChangeLog,
    ChangeOrder,
    ClientCounts,
    ClientFrame,
    CreateTimestamps,
    DrainWorker,
    EndSubscription,
    EventLife,
    Failure,
    FindEvent,
    FindNumber,
    Frame,
    Hello,
    LogRule,
    MoveStage,
    NameTopics,
    NewEvent,
    NumberState,
    Ping,
    PinTopics,
    Pong,
    ReadLog,
    ReleaseNumbers,
    Renew,
    Report,
    Resolve,
    SaveClock,
    Settle,
    ShowAutomatic,
    ShowLogs,
    ShowOpenNumbers,
    ShowOrder,
    ShowReports,
    ShowSubscriptions,
    ShowTopics,
    ShowWorker,
    SpaceFilter,
    Subscribe,
    Subscribed,
    Wait,
    encode_frame,
)
from inorder_worker.service import Worker
from inorder_worker.service.connection import Connection

SIZE = 100
"""Of the smaller one."""
NOISE = 400
"""Steps that are not for the size's sake: a collection, a timer that is due."""

Made = Callable[[int], Frame]


def wild(text: str, kind: FilterKind = FilterKind.MQTT) -> Filter:
    return Filter(text, kind, text)


def life(number: int) -> EventLife:
    return EventLife(1, number, [10, 20], "in_order", 3, 4)


FRAMES: dict[type, list[Made]] = {
    Ping: [lambda n: Ping(n)],
    Pong: [lambda n: Pong(n)],
    Failure: [lambda n: Failure("x" * n, "x" * n, [1] * n)],
    Hello: [
        lambda n: Hello(1, 2, "x" * n, "raw", 1, "x" * n, [each for at in range(n) for each in (at % 2, at)]),
        lambda n: Hello(1, 2, "", "r" * n, 1),
    ],
    Resolve: [
        lambda n: Resolve(1, [("s", f"new{each}") for each in range(n)]),
        lambda n: Resolve(1, [("s", "same")] * n),
        lambda n: Resolve(1, [("s", "a/" * n)]),
    ],
    NameTopics: [lambda n: NameTopics(1, [*range(1, n + 1)]), lambda n: NameTopics(1, [1] * n)],
    CreateTimestamps: [
        # of a topic the client's last ones in all others since are named (R19): here in few topics
        lambda n: CreateTimestamps(0, 1, [NewEvent(10_000 + each, each % 8 + 1) for each in range(n)]),
        lambda n: CreateTimestamps(0, 1, [NewEvent(10_000, 1)] * n),
        lambda n: CreateTimestamps(0, 1, [NewEvent(each, 1) for each in range(n, 0, -1)]),
        lambda n: CreateTimestamps(0, 1, [NewEvent(10_000, 1, [2, 1], b"x" * n, [0, 1] * n)]),
        lambda n: CreateTimestamps(0, 1, [NewEvent(10_000, 1, [p for each in range(2, n) for p in (each, 1)])]),
    ],
    Settle: [
        lambda n: Settle(0, 1, joined((1, each, each) for each in range(n, 0, -1))),
        lambda n: Settle(0, 1, [], [1, 1, 2**62], joined((each, 1, 2**62) for each in range(2, n))),
        lambda n: Settle(0, 1, [1, 1, n] * n),
        lambda n: Settle(0, 1, [], joined((1, each, n) for each in range(1, n + 1))),
        lambda n: Settle(0, 1, [1, 1, 2**62] * n, [1, 1, 2**62] * n, [1, 1, 2**62] * n),
        lambda n: Settle(0, 1, [], [], joined((1, 1, each) for each in range(n, 0, -1))),
    ],
    Subscribe: [
        lambda n: Subscribe(2, [SpaceFilter("s", exact(f"t{each}")) for each in range(n)]),
        lambda n: Subscribe(2, [SpaceFilter("s", exact("same"))] * n),
        lambda n: Subscribe(2, [SpaceFilter("s", wild(f"{each}/#")) for each in range(n)]),
        lambda n: Subscribe(2, [SpaceFilter("s", wild("#"), each % 2 == 0) for each in range(n)]),
        lambda n: Subscribe(2, [SpaceFilter("s", wild("+/" * (each % 7) + "x")) for each in range(n)]),
        lambda n: Subscribe(2, [SpaceFilter("s", wild(f"*{each}?*x", FilterKind.REDIS)) for each in range(n)]),
        lambda n: Subscribe(2, [SpaceFilter("s", wild("*", FilterKind.REDIS))] * n),
        lambda n: Subscribe(2, [SpaceFilter("s", wild("+/" * n + "#"))]),
    ],
    AskNumbers: [
        lambda n: AskNumbers(1, 0, 1, [1, n] * n),
        lambda n: AskNumbers(1, 0, 1, [1, 2**62] * n),
        lambda n: AskNumbers(1, 0, 1, joined((each, each) for each in range(1, n + 1))),
    ],
    AskHeads: [lambda n: AskHeads()],
    Renew: [lambda n: Renew(n)],
    ChangeOrder: [
        lambda n: ChangeOrder(1, 2, [[*range(n, 0, -1)]], "x" * n),
        lambda n: ChangeOrder(1, 2, [[1] * n]),
        lambda n: ChangeOrder(1, 2, [[]] * n),
    ],
    ShowOrder: [lambda n: ShowOrder(1)],
    PinTopics: [lambda n: PinTopics(1, [*range(1, n + 1)]), lambda n: PinTopics(1, [1] * n, False)],
    ReadLog: [lambda n: ReadLog(1, 0, 1, [1, 2**62] * n)],
    ChangeLog: [
        lambda n: ChangeLog(1, LogRule("s" * min(n, 255), wild("+/" * n + "#"))),
        lambda n: ChangeLog(1, LogRule("s", wild("#"))),
    ],
    ShowLogs: [lambda n: ShowLogs(1), lambda n: ShowLogs(1, names=[("s", f"t{each}") for each in range(n)])],
    SaveClock: [
        lambda n: SaveClock(1, joined((each, 1) for each in range(1, n + 1))),
        lambda n: SaveClock(1, [1, 1] * n),
        lambda n: SaveClock(1, [1, 1], [1] * n),
    ],
    AskDurable: [lambda n: AskDurable(1)],
    ShowSubscriptions: [lambda n: ShowSubscriptions(1)],
    EndSubscription: [lambda n: EndSubscription(1, "x" * n)],
    Report: [
        lambda n: Report(1, True, ClientCounts(3, 2, 1), 40, 7, [life(each + 1) for each in range(n)]),
        lambda n: Report(1, True, ClientCounts(3, 2, 1), 40, 7, [life(1)] * n),
        lambda n: Report(1, True, ClientCounts(), waits=[Wait(1, each, 1, each, 1, 1) for each in range(n)]),
        lambda n: Report(1, True, ClientCounts(), lives=[EventLife(1, 1, [1] * n, "x" * n)]),
    ],
    ShowReports: [lambda n: ShowReports(1)],
    ReleaseNumbers: [
        lambda n: ReleaseNumbers(1, 0, 1, 1, n, NumberState.ABANDONED),
        lambda n: ReleaseNumbers(1, 0, 1, 1, 2**62, NumberState.VOID),
    ],
    ShowTopics: [
        lambda n: ShowTopics(1, 0, 0, True),
        lambda n: ShowTopics(1, 0, 0, True, [*range(1, n + 1)]),
        lambda n: ShowTopics(1, 0, 0, True, [1] * n),
    ],
    ShowOpenNumbers: [lambda n: ShowOpenNumbers(1, 0, 0)],
    FindNumber: [lambda n: FindNumber(1, 0, 1, n)],
    FindEvent: [lambda n: FindEvent(1, 0, "x" * n, 1, n)],
    ShowAutomatic: [lambda n: ShowAutomatic(1)],
    ChangeAutomatic: [lambda n: ChangeAutomatic(1, 60_000, 0.1, 0.2)],
    ShowWorker: [lambda n: ShowWorker(1)],
    DrainWorker: [lambda n: DrainWorker(1, "x" * n)],
    MoveStage: [lambda n: MoveStage(1, 0, "x" * n)],
}
"""Of each frame of a client: what may be much in it, each way it may be much."""


def test_everything_that_grows_is_grown() -> None:
    """Every frame there is, and every list and text in it."""
    assert set(FRAMES) == set(get_args(ClientFrame))
    small, missing = 3, set[str]()
    for kind, ways in FRAMES.items():
        for field in msgspec.structs.fields(kind):
            sizes = [len(value) for made in ways if isinstance(value := getattr(made(SIZE), field.name), list | str)]
            grows = sizes and (field.type is str or "list" in str(field.type))
            if grows and max(sizes) <= small:
                missing.add(f"{kind.__name__}.{field.name}")
    assert missing == {"Hello.positions"}  # one for each stage of the store


class Sink:
    """A transport into nothing."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_, **__: 0

    def get_extra_info(self, name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return False


async def cost(made: Made, size: int) -> int:
    """Return the steps of taking a frame of this size, on a worker with as many topics, open numbers and filters."""
    async with Worker(settings(), journal=TestJournal()) as worker:
        async with RawClient(worker.address) as client:
            topics = [SpaceFilter("s", exact(f"t{each}")) for each in range(size)]
            client.send(Subscribe(1, topics + [SpaceFilter("s", wild(f"+/{each}/#")) for each in range(size)]))
            await client.next(Subscribed)
            topic, *_ = await client.resolve("t0")
            await client.create(topic, *range(1, size + 1))
        await until(lambda: worker.status()["sessions"] == 0 and worker._host.commits.is_idle)
        connection = Connection(worker._server)
        connection.connection_made(Sink())  # type: ignore[arg-type]
        connection.data_received(encode_frame(Hello(1, 2, "", "raw", 1)))
        await until(lambda: connection.is_welcome and worker._host.commits.is_idle)
        body = encode_frame(made(size))
        with Steps() as steps:
            connection.data_received(body)
        await until(lambda: worker._host.commits.is_idle)
        connection.connection_lost(None)
    return steps.count


WAYS = [(made, f"{kind.__name__}-{at}") for kind, ways in FRAMES.items() for at, made in enumerate(ways)]


@pytest.mark.parametrize("made", [made for made, _ in WAYS], ids=[name for _, name in WAYS])
async def test_a_frame_costs_no_more_than_it_is_long(made: Made) -> None:
    once, twice = await cost(made, SIZE), await cost(made, 2 * SIZE)
    assert twice < ROOM * once + NOISE, (once, twice)


async def hellos(count: int) -> int:
    """Return the steps of taking and answering so many hellos of one session in one read."""
    async with Worker(settings(), journal=TestJournal()) as worker:
        connection, hello = Connection(worker._server), encode_frame(Hello(1, 2, "", "raw", 1))
        connection.connection_made(Sink())  # type: ignore[arg-type]
        with Steps(of=("inorder_worker",)) as steps:
            connection.data_received(hello * count)
            await until(lambda: connection.is_welcome and worker._host.commits.is_idle and not connection._requests)
        connection.connection_lost(None)
    return steps.count


async def test_many_hellos_cost_what_each_costs() -> None:
    once, twice = await hellos(SIZE), await hellos(2 * SIZE)
    assert twice < ROOM * once + NOISE, (once, twice)
