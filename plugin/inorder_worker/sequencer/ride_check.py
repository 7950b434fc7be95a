"""The check of a ride from another worker before it is stepped.

A stage trusts its commands. A ride that it could not process would be refused, sent again and refused for ever, and a
wrong one would spoil the order; so its shape, its direction and the topics it names are checked before it is journaled.
"""

from __future__ import annotations

from collections.abc import Iterable

from inorder.errors import ProtocolError
from inorder.protocol.pairs import firsts
from inorder.protocol.wire import MAX_NUMBER
from inorder_worker.sequencer.rides import (
    AnyRide,
    CompleteRide,
    ExpireRide,
    FlushRide,
    LingerEndRide,
    LogRulesRide,
    MarkRide,
    OrderRide,
    PopularityRide,
    SettleRide,
    StampRide,
    SubscribedRide,
    SubscriptionRide,
    SwapRide,
    SwitchRide,
    TopicRide,
    TopicsEndRide,
)
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.telling import PARTS


def check_ride(ride: AnyRide, origin: int, stage: Stage) -> None:
    """Check the next ride from stage ``origin``. Raises ProtocolError."""
    match ride:
        case StampRide():
            _check_stamp(ride, origin, stage)
        case CompleteRide():
            _require(origin < stage.index and _is_flat(ride.deps), ride, origin)
            home = stage.home_of(ride.topic, origin)
            known = home is not None and (home != stage.index or stage.has_number(ride.topic, ride.number))
            _require(known, ride, origin)
        case SubscriptionRide():
            _require(_is_belt(origin, stage) and _is_flat(ride.starts), ride, origin)
            _require(all(map(_is_flat, ride.bases.values())) and _is_flat(ride.saved), ride, origin)
            _require(len(ride.kept) % 3 == 0 and _are_places(ride.passed), ride, origin)
            _check_known([*firsts(ride.saved), *(each.topic for each in ride.resumed)], origin, stage)
            _check_known([*ride.topics, *ride.plain, *ride.fresh, *ride.left, *firsts(ride.starts)], origin, stage)
            _check_known(firsts(ride.kept, 3), origin, stage)
        case SubscribedRide():
            _require(origin == 0 and stage.index == stage.count - 1 and _is_flat(ride.starts), ride, origin)
            _require(all(map(_is_flat, ride.bases.values())) and len(ride.kept) % 3 == 0, ride, origin)
            _require({*ride.topics, *ride.left} <= set(firsts(ride.starts)), ride, origin)
            _check_known([*ride.topics, *ride.left, *firsts(ride.kept, 3)], origin, stage)
        case TopicRide():
            _require(_is_belt(origin, stage), ride, origin)
            _require(all(stage.index < info.stage < stage.count and info.id > 0 for info in ride.topics), ride, origin)
        case TopicsEndRide():
            _require(_is_belt(origin, stage), ride, origin)
            _check_known(ride.topics, origin, stage)
        case LingerEndRide() | ExpireRide() | LogRulesRide():
            _require(_is_belt(origin, stage), ride, origin)
        case SettleRide():
            counts = [len(each) % 3 for each in (ride.confirmed, ride.void, ride.abandoned)]
            _require(not any(counts), ride, origin)
        case _:
            _check_order(ride, origin, stage)


def _check_order(
    ride: FlushRide | MarkRide | SwitchRide | OrderRide | PopularityRide | SwapRide, origin: int, stage: Stage
) -> None:
    """A change of the topic order, or what is said before one."""
    match ride:
        case FlushRide():
            _require(_is_belt(origin, stage) and len(ride.stages) == stage.count, ride, origin)
            _check_known([topic for each in ride.stages for topic in each], origin, stage)
        case MarkRide():
            _require(not _is_belt(origin, stage) and origin != stage.index, ride, origin)
        case SwitchRide():
            # a stage hands over when it has everybody's mark, ours too
            _require(stage.is_sealed and not stage.is_ahead(origin) and _is_flat(ride.numbers), ride, origin)
            _require(_are_places(ride.passed), ride, origin)
            _check_switch(ride, origin, stage)
        case OrderRide():
            _require(_is_belt(origin, stage), ride, origin)
            _check_known(ride.order, origin, stage)
        case PopularityRide():
            _require(_is_belt(origin, stage) and _is_flat(ride.counts), ride, origin)
            _check_known(firsts(ride.counts), origin, stage)
        case SwapRide():
            _require(origin == 0 and stage.index == stage.count - 1 and _is_flat(ride.pairs), ride, origin)
            _check_known(ride.pairs, origin, stage)


def _check_switch(ride: SwitchRide, origin: int, stage: Stage) -> None:
    for session in ride.sessions:
        triples = (session.answers, session.used)
        _require(all(len(each) % 3 == 0 for each in triples) and _is_flat(session.open), ride, origin)
    _check_known(firsts(ride.numbers), origin, stage)
    _check_known([each.id for each in ride.topics] + [each.topic for each in ride.records], origin, stage)


def _check_stamp(ride: StampRide, origin: int, stage: Stage) -> None:
    """A timestamp goes up; it has a number from its home stage on."""
    _require(_is_belt(origin, stage) and origin <= ride.entry < stage.count, ride, origin)
    _require(_is_flat(ride.after) and _is_flat(ride.deps), ride, origin)
    _require(len(ride.required) <= 2 * stage.count and _is_flat(ride.required), ride, origin)
    home = stage.home_of(ride.topic, origin)
    _require(home == ride.home or (home is None and stage.is_ahead(origin)), ride, origin)
    if ride.number:
        _require(0 < ride.number <= MAX_NUMBER and ride.home >= origin and 0 <= ride.top <= stage.index, ride, origin)
    else:
        _require(ride.home < origin, ride, origin)
    _check_known(firsts(ride.deps), origin, stage)


def _is_belt(origin: int, stage: Stage) -> bool:
    return origin == stage.index + 1


def _is_flat(parts: list[int]) -> bool:
    return len(parts) % 2 == 0 and min(parts, default=0) >= 0 and max(parts, default=0) <= MAX_NUMBER


def _are_places(parts: list[int]) -> bool:
    return len(parts) % PARTS == 0 and _is_flat(parts)


def _check_known(topics: Iterable[int], origin: int, stage: Stage) -> None:
    if stage.is_ahead(origin):
        return  # what came up before it may be held back here (R14)
    unknown = [topic for topic in topics if topic > stage.last_topic]  # others came up, and may have ended
    if unknown:
        raise ProtocolError(f"a ride names topics that did not come up before it: {unknown[:5]}")


def _require(allowed: bool, ride: AnyRide, origin: int) -> None:
    if not allowed:
        raise ProtocolError(f"a {type(ride).__name__} from stage {origin} is not well formed")
