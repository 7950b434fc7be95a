"""What of a role decides everything it will ever do: two roles with equal keys behave alike.

The publisher's collections keep their order, which means something. Of a subscriber, what its ordering module says of
itself is sorted; the order of arrivals counts only where events may be let go out of turn (R6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec
from tests.core.table import PublisherRole, SubscriberRole

from inorder.endpoint.waiting import Sequenced

Key = Any


def publisher_key(role: PublisherRole) -> Key:
    """Return the key of a publisher, with all that it was told."""
    return "publisher", role.name, frozen(role.publisher.describe()), frozen(role.publications), frozen(role.stamped)


def subscriber_key(role: SubscriberRole) -> Key:
    """Return the key of a subscriber, with all that it was notified of."""
    ordering = role.module.describe()
    arrivals = ordering["waiting"].pop("arrivals") if role.mode != "strict" else ()
    history = frozen(role.history.notified), frozen(role.history.gaps), frozen(role.history.spans)
    ens = sorted(each.text for each in role.ens)
    return (
        "subscriber",
        role.name,
        unordered(ordering),
        tuple(arrivals),
        frozen(role.subscriber),
        history,
        tuple(ens),
        tuple(sorted(role.naming)),
        role.is_opening,
        role.history.expiries,
    )


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
