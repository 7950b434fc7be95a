"""Ordering modules by hand, as short as tests of them are to be."""

from __future__ import annotations

from collections.abc import Iterable

from tests.core.cluster import seen, wait

from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Mode, OrderingTimes
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.wire import NumberAnswer, Numbers, NumberState, TopicInfo, TopicStart


def start_of(topic: int, start: int = 0, base: Iterable[int] = ()) -> TopicStart:
    return TopicStart(TopicInfo(topic, "m", f"t{topic}", 0), start, list(base))


def new_reader(mode: Mode = "strict", times: OrderingTimes | None = None, **starts: int) -> OrderingModule:
    made = OrderingModule(mode, times)
    topics = {name: number for number, name in enumerate("abcd", start=1)}
    made.subscribed([start_of(topics[name], start) for name, start in starts.items()], 0.0, filters=False)
    return made


def get(module: OrderingModule, topic: int, number: int, *deps: int, now: float = 0.0, size: int = 1) -> list[str]:
    return seen(module.receive(topic, number, list(deps), None, size, now))


def until(module: OrderingModule, end: float, now: float = 0.0) -> list[str]:
    """What time alone brings up to then, where all that the broker has is read at once."""
    return seen(wait(module, now, end))


def answer(
    module: OrderingModule,
    topic: int,
    *answers: tuple[int, NumberState] | tuple[int, NumberState, list[int]],
    now: float,
) -> list[str]:
    return seen(module.answered(Numbers(1, topic, [NumberAnswer(*each) for each in answers]), now))


def waiting_in(module: OrderingModule) -> list[Sequenced]:
    """Return what waits, for whatever."""
    said = module.describe()
    waiting = [each for its in said["waiting"]["entries"].values() for each in its.values() if not each.is_hole]
    unbegun = [each for its in said["unbegun"]["topics"].values() for each in (*its["held"], *its["parked"])]
    return [*unbegun, *waiting, *said["on_hold"]]
