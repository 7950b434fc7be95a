"""Makes the faults of a plan happen."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.chaos.client import Command
from tests.chaos.plan import Fault
from tests.chaos.processes import ClientSeat, Seat
from tests.chaos.site import STAGES, Site, topic_names

from inorder.errors import InorderError
from inorder.protocol.wire import HEADER_BYTES
from inorder.testing.services import FaultProxy, Server, ServerFailed
from inorder_worker.admin import Cluster
from inorder_worker.sequencer.link_wire import LinkHello

ORDER_PATIENCE = 10.0
CLOSE_PATIENCE = 10.0
DELAY = 0.05
LINK_TAG: Final = 48
assert LinkHello.__struct_config__.tag == LINK_TAG
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A stage lost its worker by a fault at ``at`` (s), and went to another process."""

    at: float
    stage: int
    fault: Fault


class Faults:
    """Carries faults out.

    Args:
        mark: told what happens.

    Attributes:
        done: how many of each kind happened.
        take_overs: what they led to.
        breaks: those of workers and stores, from when to when, s.
    """

    def __init__(self, site: Site, mark: Callable[[str], None]) -> None:
        self.site, self._mark = site, mark
        self.done: Counter[str] = Counter()
        self.take_overs: list[TakeOver] = []
        self.breaks: list[tuple[Fault, float, float]] = []
        self._begun: dict[Fault, float] = {}
        self._held: dict[str, set[str]] = {}

    def held(self, name: str) -> set[str]:
        """Return the filters that a reader was told to hold last."""
        return self._held.setdefault(name, set(self.site.options.filters(name)))

    async def run(self, plan: list[Fault]) -> None:
        """Begin each fault at its time; return when all are over."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for fault in plan:
                await asyncio.sleep(max(0.0, began + fault.at - loop.time()))
                group.create_task(self._make(fault), name=str(fault))

    async def _make(self, fault: Fault) -> None:
        make: Callable[[Fault], Awaitable[bool | None]] = getattr(self, f"_{fault.kind}")
        is_done = await make(fault) is not False
        self.done[fault.kind] += is_done
        self._mark(f"{'end of' if is_done else 'not done:'} {fault}")
        if (began := self._begun.pop(fault, None)) is not None:
            self.breaks.append((fault, began, time.monotonic()))

    # -- workers -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _owner(self, fault: Fault) -> AsyncIterator[tuple[Seat, list[int]]]:
        """Yield the seat that has the fault's stage, locked, and all stages that it has."""
        stage = _stage_of(fault)
        while True:
            seat = self.site.seat_of((await self.site.holders())[stage])
            async with seat.lock:
                own = [each.stage for each in (await self.site.holders()).values() if each.address == seat.address]
                if seat.server.is_running and stage in own:
                    self._mark(f"{seat.name}: {fault}")
                    self._begun[fault] = time.monotonic()
                    yield seat, own
                    return
            await asyncio.sleep(LOOK_SECONDS)

    async def _kill_worker(self, fault: Fault) -> None:
        async with self._owner(fault) as (seat, stages):
            await seat.kill()
            self._lost(fault, stages)  # only now: until then it may have answered
            await asyncio.sleep(fault.seconds)

    async def _stop_worker(self, fault: Fault) -> None:
        async with self._owner(fault) as (seat, stages):
            before, at = await self.site.holders(), time.monotonic()
            seat.signal(signal.SIGSTOP)
            await asyncio.sleep(fault.seconds)
            after = await self.site.holders()
            seat.signal(signal.SIGCONT)
            taken = [each for each in stages if after[each].epoch > before[each].epoch]
            self.take_overs += [TakeOver(at, each, fault) for each in taken]

    async def _take_over(self, fault: Fault) -> bool:
        stage = _stage_of(fault)
        holders = await self.site.holders()
        others = [each for each in self.site.seats if stage in each.stages and each.address != holders[stage].address]
        seat = random.Random(fault.seed).choice(others)
        async with seat.lock:
            self._begun[fault] = time.monotonic()
            await seat.kill()
            lost = [each for each in seat.stages if holders[each].address != seat.address]
            self._lost(fault, lost)
            seat.server.takes_over = True
            try:
                await asyncio.to_thread(seat.server.start)
            except ServerFailed:
                return False
            finally:
                seat.server.takes_over = False
        return True

    def _lost(self, fault: Fault, stages: list[int]) -> None:
        at = time.monotonic()
        self.take_overs += [TakeOver(at, each, fault) for each in stages]

    async def _cut_worker(self, fault: Fault) -> None:
        async with self._owner(fault) as (seat, _):
            seat.way.cut(WHOSE[fault.whose])

    async def _stall_worker(self, fault: Fault) -> None:
        async with self._owner(fault) as (seat, _):
            pass
        async with _stalled(seat.way, fault):
            await asyncio.sleep(fault.seconds)

    async def _delay_worker(self, fault: Fault) -> None:
        async with self._owner(fault) as (seat, _):
            seat.way.delay = DELAY
        await asyncio.sleep(fault.seconds)
        seat.way.delay = 0.0

    async def _cut_store(self, fault: Fault) -> None:
        async with self._owner(fault) as (seat, _):
            if seat.store_way is not None:
                seat.store_way.cut()

    async def _stall_store(self, fault: Fault) -> None:
        async with self._owner(fault) as (seat, _):
            pass
        assert seat.store_way is not None
        async with _stalled(seat.store_way, fault):
            await asyncio.sleep(fault.seconds)

    # -- servers -----------------------------------------------------------------------------------------------

    async def _kill_broker(self, fault: Fault) -> None:
        await self._restart(self.site.broker, fault)

    async def _kill_store(self, fault: Fault) -> None:
        assert self.site.postgres is not None
        await self._restart(self.site.postgres, fault)

    async def _restart(self, server: Server, fault: Fault) -> None:
        async with self.site.server_lock:
            self._begun[fault] = time.monotonic()
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(fault.seconds)
            await asyncio.to_thread(server.start)

    # -- clients -----------------------------------------------------------------------------------------------

    async def _cut_broker(self, fault: Fault) -> None:
        self.site.clients[fault.target].way.cut()

    async def _stall_broker(self, fault: Fault) -> None:
        async with _stalled(self.site.clients[fault.target].way, fault):
            await asyncio.sleep(fault.seconds)

    async def _kill_client(self, fault: Fault) -> None:
        seat = self.site.clients[fault.target]
        async with seat.lock:
            seat.kill()
            seat.read()
            seat.killed.append(time.monotonic())
            self._held.pop(fault.target, None)
            seat.start()

    async def _stop_client(self, fault: Fault) -> None:
        seat = self.site.clients[fault.target]
        async with seat.lock:
            seat.signal(signal.SIGSTOP)
            await asyncio.sleep(fault.seconds)
            seat.signal(signal.SIGCONT)

    async def _send_away(self, fault: Fault) -> None:
        seat = self.site.clients[fault.target]
        async with seat.lock:
            if fault.way == "stop":
                seat.signal(signal.SIGSTOP)
                await asyncio.sleep(fault.seconds)
                seat.signal(signal.SIGCONT)
                return
            if fault.way == "kill":
                seat.kill()
            else:
                await seat.close(CLOSE_PATIENCE)
            seat.read()
            seat.killed.append(time.monotonic())
            await asyncio.sleep(fault.seconds)
            seat.start()

    async def _change_subscription(self, fault: Fault) -> None:
        seat: ClientSeat = self.site.clients[fault.target]
        async with seat.lock:
            topic = random.Random(fault.seed).choice(topic_names())
            held = self.held(fault.target)
            seat.tell(Command("unsubscribe" if topic in held else "subscribe", (topic,)))
            held ^= {topic}

    # -- the order ---------------------------------------------------------------------------------------------

    async def _change_order(self, fault: Fault) -> bool:
        """Give each topic a stage drawn anew; false where the workers did not do it in time."""
        rng, self._begun[fault] = random.Random(fault.seed), time.monotonic()
        try:
            async with asyncio.timeout(ORDER_PATIENCE):
                while True:
                    try:
                        await self._give_stages(rng)
                        return True
                    except (InorderError, OSError):  # the worker asked was lost, or somebody else was faster
                        await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            return False

    async def _give_stages(self, rng: random.Random) -> None:
        addresses = rng.sample(self.site.addresses, len(self.site.addresses))
        async with Cluster(addresses) as cluster:
            now = await cluster.order()
            stages: list[list[int]] = [[] for _ in range(STAGES)]
            for topic in sorted(now.topics, key=lambda each: each.id):
                drawn = rng.randrange(STAGES)
                stages[drawn if topic.name.startswith("load/") else topic.stage].append(topic.id)
            await cluster.change(now.order_epoch + 1, stages)


def is_link(first: bytes) -> bool:
    """Tell whether a connection's first frame is that of another worker."""
    return first[HEADER_BYTES + 1 : HEADER_BYTES + 2] == bytes([LINK_TAG])


def is_client(first: bytes) -> bool:
    """Tell whether it is that of a client."""
    return not is_link(first)


WHOSE: dict[str, Callable[[bytes], bool]] = {"clients": is_client, "workers": is_link, "all": bool, "": bool}


def _stage_of(fault: Fault) -> int:
    return int(fault.target.rpartition(" ")[2])


@asynccontextmanager
async def _stalled(way: FaultProxy, fault: Fault) -> AsyncIterator[None]:
    way.stall(fault.way, WHOSE[fault.whose])  # type: ignore[arg-type]
    try:
        yield
    finally:
        await way.heal()
