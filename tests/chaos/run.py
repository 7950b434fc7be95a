"""One run: everything starts, faults come, faults stop, everything must converge, and what was recorded is judged."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.client import Command
from tests.chaos.faults import Faults, TakeOver
from tests.chaos.histories import Histories, ProcessStart, lost_though_logged
from tests.chaos.plan import Fault, plan
from tests.chaos.processes import ClientSeat
from tests.chaos.records import (
    Acknowledged,
    AnyRecord,
    Called,
    Failed,
    Finished,
    Missing,
    Notified,
    Stats,
    Subscribed,
    Unsubscribed,
)
from tests.chaos.site import STAGES, Meter, Options, Site, site, topic_names
from tests.chaos.store import Numbers, read_numbers

from inorder.protocol.names import mqtt_covers
from inorder_analytics.checks import History, Violation

LINGER = 60.0
LOOK_SECONDS = 0.1
LOG_LINES = 25
START_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class TakenOver:
    """How long a stage was away.

    Attributes:
        kind: of the fault that took its worker.
        seconds: from there to the next timestamp through the stage; ``None`` where none came, and for planned
            take-overs, of which it is not known when the old worker lost the stage.
        is_alone: no other fault of workers or stores came in between.
    """

    kind: str
    stage: int
    seconds: float | None
    is_alone: bool


@dataclass(slots=True)
class Result:
    """What came of a run.

    Attributes:
        violations: rules that were broken.
        stuck: what was waited for in vain, and processes that ended by themselves, in words.
        faults: how many of each kind happened.
        take_overs: see TakenOver.
        failed: publishes of living clients that raised, by error.
        repaired: events that came from a log, all subscribers together.
        history: as judged.
        logs: ends of what processes wrote.
        marks: when what began, s since the start of the run.
    """

    options: Options
    plan: list[Fault]
    violations: list[Violation] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    take_overs: list[TakenOver] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    repaired: int = 0
    history: History = field(default_factory=lambda: History(LINGER))
    logs: dict[str, str] = field(default_factory=dict)
    marks: list[tuple[float, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_ok(self) -> bool:
        return not (self.violations or self.stuck)


async def run(options: Options) -> Result:
    """Run."""
    result = Result(options, plan(options.seed, options.seconds, options.shape))
    folder = Path(tempfile.mkdtemp(prefix="inorder-chaos-"))
    began = time.monotonic()
    try:
        async with site(options, folder) as made:
            await _Run(made, result, began).whole()
    finally:
        result.seconds = time.monotonic() - began
        await asyncio.to_thread(shutil.rmtree, folder, True)
    return result


class _Run:
    def __init__(self, made: Site, result: Result, began: float) -> None:
        self.site, self.result, self.options, self._began = made, result, result.options, began
        self.faults = Faults(made, self._mark)
        self._deadline = time.monotonic() + START_PATIENCE

    def _mark(self, what: str) -> None:
        self.result.marks.append((round(time.monotonic() - self._began, 2), what))

    async def whole(self) -> None:
        self._mark("all processes are started")
        metering = [asyncio.create_task(each.writer.run(), name=each.name) for each in self.site.meters]
        await self._wait(self._is_going, "the first events of every client")
        self._mark("faults begin")
        try:
            async with asyncio.timeout(self.options.seconds + START_PATIENCE):
                await self.faults.run(self.result.plan)
        except TimeoutError:
            self.result.stuck.append("faults could not be made: the last marks say which")
        self._mark("faults are over")
        self.result.faults = self.faults.done
        await self._converge()
        self._mark("all have converged")
        for meter in self.site.meters:
            meter.writer.stop()
        await asyncio.wait(metering)
        await self._close_clients()
        for seat in self.site.seats:
            await seat.close()
        self._mark("all are stopped")
        self._note_logs()
        numbers = await asyncio.to_thread(read_numbers, self.site.url, STAGES)
        self._judge(numbers)
        self._mark("judged")

    # -- before and after the faults ---------------------------------------------------------------------------

    def _is_going(self) -> bool:
        for name in self.options.writer_names:
            if not any(isinstance(each, Acknowledged) for each in self._records(name)):
                return False
        for name in self.options.subscriber_names:
            if not any(isinstance(each, Notified) for each in self._records(name)):
                return False
        return all(any(isinstance(each, Acknowledged) for each in meter.records) for meter in self.site.meters)

    def _records(self, name: str) -> list[AnyRecord]:
        seat = self.site.clients[name]
        seat.read()
        return list(seat.lives[-1].records)

    async def _converge(self) -> None:
        """Let publishers end, publish a last event to each topic, and wait until everybody has heard of it."""
        names = self.options.writer_names
        self._deadline = time.monotonic() + self.options.patience
        for name in names:
            self.site.clients[name].tell(Command("finish"))
        for name in names:
            await self._wait(lambda name=name: self._has_finished(name), f"{name} to finish", name)  # type: ignore[misc]
        self._mark("writers have finished")
        for name in self.options.subscriber_names:
            await self._wait(lambda name=name: self._holds_what_it_should(name), f"{name} to subscribe", name)  # type: ignore[misc]
        self._mark("readers have subscribed")
        last = Meter("last", self.site.broker.url, self.site.addresses)
        topics = self._topics()
        await last.open(topics, 0)
        self.site.meters.append(last)
        futures = {topic: last.writer.publish(topic) for topic in topics}
        try:
            async with asyncio.timeout(self.options.patience):
                numbers = {topic: (await future).number or 0 for topic, future in futures.items()}
        except TimeoutError:
            self.result.stuck.append(f"the last events: {last.client!r} {last.client.stats()}")
            return
        self._mark("the last events are published")
        for name in self.options.subscriber_names:
            for topic in self._covered(name, topics):
                await self._wait(
                    lambda name=name, topic=topic: self._has_reached(name, topic, numbers[topic]),  # type: ignore[misc]
                    f"{name} to reach {topic}#{numbers[topic]}",
                    name,
                )

    def _topics(self) -> list[str]:
        """Return every topic that was published to."""
        lives = [life for name in self.options.writer_names for life in self.site.clients[name].lives]
        called = {each.topic for life in lives for each in life.records if isinstance(each, Called)}
        return sorted(called.union(topic_names()))

    def _covered(self, reader: str, topics: Iterable[str]) -> list[str]:
        return [topic for topic in topics if any(mqtt_covers(each, topic) for each in self.faults.held(reader))]

    def _has_finished(self, name: str) -> bool:
        return any(isinstance(each, Finished) for each in self._records(name))

    def _has_reached(self, name: str, topic: str, number: int) -> bool:
        """Tell whether a reader has heard of a number."""
        reached = 0
        for each in self._records(name):
            match each:
                case Notified() if each.topic == topic:
                    reached = max(reached, each.number or 0)
                case Missing() if each.topic == topic:
                    reached = max(reached, each.last)
        return reached >= number

    def _holds_what_it_should(self, name: str) -> bool:
        held: set[str] = set()
        for each in self._records(name):
            match each:
                case Subscribed():
                    held.update(each.topics)
                case Unsubscribed():
                    held.difference_update(each.topics)
        return held == self.faults.held(name)

    async def _close_clients(self) -> None:
        seats = self.site.clients.values()
        await asyncio.gather(*(seat.close(self.options.patience) for seat in seats))
        for seat in seats:
            seat.read()
        for meter in self.site.meters:
            await meter.client.close()

    async def _wait(self, condition: Callable[[], bool], what: str, client: str = "") -> None:
        """Wait for a condition; one that never holds is noted, with what its client last said of itself."""
        while not condition():
            failed = [f"{name}: {seat.has_failed}" for name, seat in self.site.clients.items() if seat.has_failed]
            if failed or time.monotonic() > self._deadline:
                last = [each.text for each in self._records(client) if isinstance(each, Stats)][-1:] if client else []
                self.result.stuck.append(f"waited in vain for {what}; {'; '.join([*failed, *last])}")
                return
            await asyncio.sleep(LOOK_SECONDS)

    # -- the judgement -----------------------------------------------------------------------------------------

    def _judge(self, numbers: Numbers) -> None:
        lives = [life for seat in self.site.clients.values() for life in _lives(seat)]
        lives += [ProcessStart(each.name, each.name, each.records) for each in self.site.meters]
        histories = Histories(lives, numbers, LINGER)
        # R24; a stall is a broker that takes later what its publisher has written (QoS 0)
        histories.history.is_direct = not any(each.kind == "stall_broker" for each in self.result.plan)
        self.result.violations = histories.judge()
        if self.options.log:
            self.result.violations += lost_though_logged(histories.history, self.options.durable_names)
        self.result.repaired = sum(
            isinstance(each, Notified) and each.repaired for life in lives for each in life.records
        )
        failed = (each.error for life in lives for each in life.records if isinstance(each, Failed))
        self.result.failed = Counter(each.partition("(")[0] for each in failed)
        self.result.history = histories.history
        self.result.stuck += [f"the store: {each}" for each in numbers.problems]
        self.result.stuck += list(self._unsettled(numbers)) if self.result.stuck else []
        self.result.take_overs = [self._taken_over(each) for each in self.faults.take_overs]

    def _unsettled(self, numbers: Numbers) -> Iterator[str]:
        """Name the numbers that somebody may wait for without end: neither confirmed nor given up."""
        for (topic, number), state in sorted(numbers.states.items()):
            if state == "PENDING":
                client, incarnation = numbers.owners[topic, number]
                yield f"{topic}#{number} of {client} ({incarnation}) is still pending"

    def _taken_over(self, take_over: TakeOver) -> TakenOver:
        seconds = self._seconds_of(take_over)
        until = take_over.at + (seconds or 0.0)
        is_alone = not any(
            began < until and ended > take_over.at
            for fault, began, ended in self.faults.breaks
            if fault is not take_over.fault
        )
        return TakenOver(take_over.fault.kind, take_over.stage, seconds, is_alone)

    def _seconds_of(self, take_over: TakeOver) -> float | None:
        """Return the time from a fault to the next timestamp that the stage answered, of what was published since."""
        if take_over.fault.kind == "take_over":
            return None
        called: set[int] = set()
        for each in self.site.meters[take_over.stage].records:
            if isinstance(each, Called) and each.when >= take_over.at:
                called.add(each.counter)
            elif isinstance(each, Acknowledged) and each.counter in called:
                return each.when - take_over.at
        return None

    def _note_logs(self) -> None:
        for seat in self.site.seats:
            self.result.logs[seat.name] = _end(seat.server.log())
        for name in self.site.clients:
            self.result.logs[name] = _end((self.site.folder / f"{name}.log").read_text(errors="replace"))


def _lives(seat: ClientSeat) -> list[ProcessStart]:
    killed = [*seat.killed, None]
    return [
        ProcessStart(role.client_id, role.name, tail.records, when, role.durable)
        for role, tail, when in zip(seat.roles, seat.lives, killed, strict=True)
    ]


def _end(text: str) -> str:
    return "\n".join(text.splitlines()[-LOG_LINES:])
