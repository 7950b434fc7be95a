"""What of a role decides everything it will ever do: two roles with equal keys behave alike.

The publisher's collections keep their order, which means something. Of a subscriber, the alarms and heaps are sorted
and what left is dropped; the order of arrivals counts only where events may be let go out of turn (R6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec
from tests.core.table import PublisherRole, SubscriberRole

from inorder.endpoint.waiting import Sequenced, WaitingRoom

Key = Any


def publisher_key(role: PublisherRole) -> Key:
    """Return the key of a publisher, with all that it was told."""
    return "publisher", role.name, frozen(role.publisher), frozen(role.publications), frozen(role.stamped)


def subscriber_key(role: SubscriberRole) -> Key:
    """Return the key of a subscriber, with all that it was notified of."""
    module = role.module
    fields = {name: value for name, value in vars(module).items() if name not in ("_room", "counts", "times", "mode")}
    parts = sorted((name, unordered(value)) for name, value in fields.items())
    history = frozen(role.history.notified), frozen(role.history.gaps), frozen(role.history.spans)
    ens = sorted(each.text for each in role.ens)
    return (
        "subscriber",
        role.name,
        tuple(parts),
        _room(module._room, keeps_order=role.mode != "strict"),
        frozen(role.subscriber),
        history,
        tuple(ens),
        tuple(sorted(role.naming)),
        role.is_opening,
        role.history.expiries,
    )


def _room(room: WaitingRoom, *, keeps_order: bool) -> Key:
    waiting = sorted(frozen(each) for topic in room._entries.values() for each in topic.values())
    alarms = [
        (topic, number, *sorted(frozen(each) for each in sleepers if not each.done))
        for topic, its in room._alarms.items()
        for number, sleepers in its.items()
    ]
    arrivals = [(each.topic, each.number) for each in room._arrivals if not each.done] if keeps_order else []
    return tuple(waiting), tuple(sorted(alarms)), tuple(arrivals)


def frozen(value: Any) -> Key:
    """Return a value, and all it is made of, as tuples."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case Enum():
            return value.name
        case Sequenced():
            label = "" if value.content is None else value.content.label
            return "sequenced", value.topic, value.number, tuple(value.deps), value.is_hole, value.retained, label
        case dict():
            return tuple((frozen(key), frozen(each)) for key, each in value.items())
        case list() | tuple() | deque():
            return tuple(frozen(each) for each in value)
        case set() | frozenset():
            return tuple(sorted(frozen(each) for each in value))
        case _ if callable(value):
            return value.__name__  # how an event is put into a log (R18): it never changes
    return type(value).__name__, *(frozen(each) for each in _fields(value))


def unordered(value: Any) -> Key:
    """As :func:`frozen`, but for mappings and sequences whose order means nothing."""
    if isinstance(value, dict):
        return tuple(sorted((key, unordered(each)) for key, each in value.items()))
    if isinstance(value, list) and value and isinstance(value[0], Sequenced):
        return tuple(sorted(frozen(each) for each in value))
    return frozen(value)


def _fields(value: Any) -> Iterator[Any]:
    names: Iterable[str] = (
        value.__struct_fields__
        if isinstance(value, msgspec.Struct)
        else getattr(value, "__slots__", None) or vars(value)
    )
    for name in names:
        yield getattr(value, name)
