"""The ordering module alone: no broker, no worker, no I/O; events that are in order, and events that are not.

Beside it the least that could be done: a counter for each topic, and events handed on as they come.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import OrderingTimes
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import TopicInfo, TopicStart
from inorder_bench.match import Aim, Size
from inorder_bench.processes import RunFailed
from inorder_bench.rows import Result, Row, Say, paired, spread

PAYLOAD = b"x" * 100
DISORDER = (0.0, 0.1, 0.5)
SHARE = 5.0
WAITING_SHARE = 50.0
"""Of a throughput run's events: a million at its usual size."""
AIM = Aim(">=", 300_000)
AIM_FLAT = Aim(">=", 0.9)
"""With so many waiting events, of what it does with none."""
AIM_BYTES = 1_000
TRACED = 100_000
"""So many events are enough to see what one takes: tracing memory takes time."""
COUNTER = "a counter for each topic"
NONE_WAITS = "two topics, no event waits"

Arrived = tuple[int, int, list[int]]


def arrivals(count: int, topics: int = 2, disorder: float = 0.0) -> list[Arrived]:
    """Return ``count`` events of topics in turn, all overlapping, as topic, number and dependencies; a share of them
    changed places with one of the next fifty."""
    chance = random.Random(1)
    numbers, events = [0] * topics, list[Arrived]()
    for at in range(count):
        topic = at % topics
        numbers[topic] += 1
        # the latest first, as stages write them
        others = [(topic - back) % topics for back in range(1, topics)]
        # not by ``pairs``: what makes the events is counted with what reads them, and must not become dearer either
        deps = [part for each in others if numbers[each] for part in (each + 1, numbers[each])]
        events.append((topic + 1, numbers[topic], deps))
    for at in range(count) if disorder else ():
        if chance.random() < disorder:
            other = min(count - 1, at + chance.randrange(1, 50))
            events[at], events[other] = events[other], events[at]
    return events


def ordering_module(topics: int) -> OrderingModule:
    """Return an ordering module that is subscribed to topics 1 to ``topics`` and has room for everything."""
    module = OrderingModule("strict", OrderingTimes(max_waiting=10**9, max_waiting_bytes=10**12))
    starts = [TopicStart(TopicInfo(topic, "s", f"t{topic}", 0), 0, []) for topic in range(1, topics + 1)]
    module.subscribed(starts, 0.0, filters=False)
    return module


def waiting_module(waiting: int) -> OrderingModule:
    """Return one with four topics, in which so many events of the second wait for one of the first."""
    module = ordering_module(4)
    for number in range(1, waiting + 1):
        module.receive(2, number, [1, 1], PAYLOAD, len(PAYLOAD), 0.0)
    return module


def two_topics(count: int) -> list[Arrived]:
    """Return events of the third and the fourth topic, which depend on each other."""
    return [(topic + 2, number, [part + 2 * (at % 2 == 0) for at, part in enumerate(deps)])
            for topic, number, deps in arrivals(count)]  # fmt: skip


def alone(size: Size, say: Say) -> Result:
    """W6: events per second of processor time, with disorder, and with many that wait. Raises RunFailed."""
    count, waiting = size.share(SHARE), size.share(WAITING_SHARE)
    named = {f"{share:.0%} disorder": arrivals(count, disorder=share) for share in DISORDER}
    others = two_topics(count)
    waits, many = f"two topics, {waiting:,} events wait", f"{waiting:,} events that waited are let go"
    rates: dict[str, list[float]] = {}
    for repeat in range(size.repeats):
        steps: dict[str, Callable[[], float]] = {COUNTER: lambda: _counted(others)}
        steps |= {name: partial(_in_new_module, events) for name, events in named.items()}
        steps[NONE_WAITS] = lambda: _received(waiting_module(0), others)
        for name in steps if repeat % 2 == 0 else list(steps)[::-1]:
            rates.setdefault(name, []).append(steps[name]())
            say(f"repeat {repeat + 1} of {size.repeats}: {name}: {rates[name][-1]:,.0f} events/s")
        module = waiting_module(waiting)
        rates.setdefault(waits, []).append(_received(module, others))
        rates.setdefault(many, []).append(_let_go(module, waiting))
        say(f"repeat {repeat + 1} of {size.repeats}: {waits}: {rates[waits][-1]:,.0f} events/s")
        del module
    return Result(rows=_rows(rates, [*named], waits, many, count, waiting, _bytes_each(min(waiting, TRACED))))


def _in_new_module(events: list[Arrived]) -> float:
    return _received(ordering_module(2), events)


def _received(module: OrderingModule, events: list[Arrived]) -> float:
    """Return events per second of processor time. Raises RunFailed where one was not notified, or out of turn."""
    gc.collect()
    notified = []
    began = time.process_time()
    for topic, number, deps in events:
        notified += module.receive(topic, number, deps, PAYLOAD, len(PAYLOAD), 0.0)
    seconds = time.process_time() - began
    _check(notified, len(events))
    return len(events) / seconds


def _let_go(module: OrderingModule, waiting: int) -> float:
    gc.collect()
    began = time.process_time()
    notified = module.receive(1, 1, [], PAYLOAD, len(PAYLOAD), 0.0)
    seconds = time.process_time() - began
    if len(notified) != waiting + 1:
        raise RunFailed(f"{len(notified)} of {waiting + 1} events were notified")
    return len(notified) / seconds


def _counted(events: list[Arrived]) -> float:
    """Return events per second of the yardstick."""
    gc.collect()
    numbers: dict[int, int] = {}
    notified = []
    began = time.process_time()
    for topic, number, deps in events:
        if number == numbers.get(topic, 0) + 1:
            numbers[topic] = number
            notified.append((topic, number, deps, PAYLOAD))
    seconds = time.process_time() - began
    if len(notified) != len(events):
        raise RunFailed(f"{len(notified)} of {len(events)} events were notified")
    return len(events) / seconds


def _check(notified: list[Any], count: int) -> None:
    """Raise RunFailed unless so many events were notified, each as the next of its topic and after what it names."""
    clock: dict[int, int] = {}
    for event in notified:
        named = pairs(event.deps)
        if event.number != clock.get(event.topic, 0) + 1 or any(clock.get(topic, 0) < last for topic, last in named):
            raise RunFailed(f"event {event.number} of topic {event.topic} was notified out of turn")
        clock[event.topic] = event.number
    if len(notified) != count:
        raise RunFailed(f"{len(notified)} of {count} events were notified")


def _bytes_each(waiting: int) -> float:
    """Return the memory of an event that waits, its payload apart."""
    gc.collect()
    tracemalloc.start()
    try:
        module = waiting_module(waiting)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / module.waiting
    finally:
        tracemalloc.stop()


def _rows(
    rates: dict[str, list[float]], disordered: list[str], waits: str, many: str, count: int, waiting: int, each: float
) -> list[Row]:
    rows = [Row(workload="W6", name=COUNTER, unit="events/s", value=spread(rates[COUNTER]), more=_events(count))]
    for name in (*disordered, NONE_WAITS, waits, many):
        value = spread(rates[name])
        is_many, yardstick = name in (waits, many), NONE_WAITS if name == waits else COUNTER
        rows.append(
            Row(
                workload="W6",
                name=name,
                unit="events/s",
                value=value,
                ratio=paired(rates[name], rates[yardstick]),
                yardstick=f"{name} / {yardstick}",
                aim=str(AIM),
                reached=AIM.is_reached(value.median),
                more=_events(waiting + 1 if name == many else count) | ({"waiting": float(waiting)} if is_many else {}),
            )
        )
        if name == waits:
            rows[-1] = msgspec.structs.replace(
                rows[-1],
                aim=f"{AIM}, {AIM_FLAT.value:g} of none waiting, {AIM_BYTES:,} bytes each",
                reached=AIM.is_reached(value.median)
                and AIM_FLAT.is_reached(paired(rates[name], rates[yardstick]).median)
                and each <= AIM_BYTES,
                more=rows[-1].more | {"bytes_each": each},
            )
    return rows


def _events(count: int) -> dict[str, float]:
    return {"events": float(count)}
