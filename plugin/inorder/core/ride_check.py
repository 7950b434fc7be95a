"""Whether a ride that came from another worker may be stepped.

A stage trusts its commands. A ride that it could not process would be refused, sent again and refused for ever, and a
wrong one would spoil the order; so its shape, its direction and the topics it names are checked before it is journaled.
"""

from __future__ import annotations

from collections.abc import Iterable

from inorder.core.commands import (
    AnyRide,
    CompleteRide,
    LingerEndRide,
    StampRide,
    SubscribedRide,
    SubscriptionRide,
    TopicRide,
)
from inorder.core.stage import Stage
from inorder.core.wire import MAX_NUMBER
from inorder.errors import ProtocolError


def check_ride(ride: AnyRide, origin: int, stage: Stage) -> None:
    """Check the next ride from stage ``origin``. Raises ProtocolError."""
    match ride:
        case StampRide():
            _check_stamp(ride, origin, stage)
        case CompleteRide():
            _require(origin < stage.index and _is_flat(ride.deps), ride, origin)
            home = stage.stage_of(ride.topic)
            known = home is not None and (home != stage.index or stage.has_number(ride.topic, ride.number))
            _require(known, ride, origin)
        case SubscriptionRide():
            _require(_is_belt(origin, stage) and _is_flat(ride.starts), ride, origin)
            _require(all(map(_is_flat, ride.bases.values())), ride, origin)
            _check_known([*ride.topics, *ride.plain, *ride.fresh, *ride.starts[::2]], stage)
        case SubscribedRide():
            _require(origin == 0 and stage.index == stage.count - 1 and _is_flat(ride.starts), ride, origin)
            _require(all(map(_is_flat, ride.bases.values())), ride, origin)
            _require(set(ride.topics) <= set(ride.starts[::2]), ride, origin)
            _check_known(ride.topics, stage)
        case TopicRide():
            _require(_is_belt(origin, stage), ride, origin)
            _require(all(stage.index < info.stage < stage.count and info.id > 0 for info in ride.topics), ride, origin)
        case LingerEndRide():
            _require(_is_belt(origin, stage), ride, origin)


def _check_stamp(ride: StampRide, origin: int, stage: Stage) -> None:
    """A timestamp goes up; it has a number from its home stage on."""
    _require(_is_belt(origin, stage) and origin <= ride.entry < stage.count, ride, origin)
    _require(_is_flat(ride.after) and _is_flat(ride.deps), ride, origin)
    _require(stage.stage_of(ride.topic) == ride.home, ride, origin)
    if ride.number:
        _require(0 < ride.number <= MAX_NUMBER and ride.home >= origin and 0 <= ride.top <= stage.index, ride, origin)
    else:
        _require(ride.home < origin, ride, origin)
    _check_known(ride.deps[::2], stage)


def _is_belt(origin: int, stage: Stage) -> bool:
    return origin == stage.index + 1


def _is_flat(parts: list[int]) -> bool:
    return len(parts) % 2 == 0 and min(parts, default=0) >= 0 and max(parts, default=0) <= MAX_NUMBER


def _check_known(topics: Iterable[int], stage: Stage) -> None:
    unknown = [topic for topic in topics if stage.stage_of(topic) is None]
    if unknown:
        raise ProtocolError(f"a ride names topics that did not come up before it: {unknown[:5]}")


def _require(allowed: bool, ride: AnyRide, origin: int) -> None:
    if not allowed:
        raise ProtocolError(f"a {type(ride).__name__} from stage {origin} is not well formed")
