"""What decides everything that a client will ever do, as a short key: two clients with equal keys behave alike.

Everything is in it that can be reached from a client, whatever class it is of: a new attribute of the endpoint tells
states apart from the day it is there. :data:`SILENT` names what is left out, and why. Orders count, as they decide in
which order things happen; which object is meant where several are equal counts, too.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from hashlib import blake2b
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import msgspec
from tests.core.clients import Client

from inorder.endpoint.agenda import Agenda
from inorder.endpoint.arrivals import Arrivals
from inorder.endpoint.fifo import FifoSequencer
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.publishing import Publishing
from inorder.endpoint.routing import Routes
from inorder.endpoint.subscriber import Subscriber, SubscriptionChange
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced, WaitingRoom

SILENT: dict[type, tuple[str, ...]] = {
    # figures, which nobody decides by
    Arrivals: ("counts", "delivered", "gaps", "missed", "_count"),
    FifoSequencer: ("duplicates",),
    OrderingModule: ("counts",),
    Publishing: ("late_confirms", "accepted"),
    Turns: ("counts",),
    # what follows from the rest
    Agenda: ("_questions", "_fetches", "_brokers"),
    Routes: ("_routes",),
    Subscriber: ("_covered",),
    SubscriptionChange: ("covered",),
}
"""What decides nothing."""
CALLED = (BuiltinMethodType, FunctionType, MethodType, partial)
_slots: dict[type, list[str]] = {}


def client_key(client: Client) -> bytes:
    """Return the key of a client, with all that it was told and its application was notified of."""
    return blake2b(msgspec.msgpack.Encoder(enc_hook=_Frozen()).encode(client), digest_size=16).digest()


class _Frozen:
    """Takes objects apart, each once; where one is met again, it is told which one that is."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}

    def __call__(self, value: Any) -> Any:
        """Return what an object is made of."""
        if isinstance(value, CALLED):
            return getattr(value, "__name__", "")  # what it is bound to never changes
        if isinstance(value, deque):
            return [_part(each) for each in value]
        known = self._met.get(id(value))
        if known is not None:
            return ["met", known]
        self._met[id(value)] = len(self._met)
        if isinstance(value, WaitingRoom):  # it keeps places of what has left, until it meets them
            return _room(value)
        kind = type(value)
        slots = _slots.get(kind)
        if slots is None:
            slots = _slots[kind] = [name for each in kind.__mro__ for name in getattr(each, "__slots__", ())]
        silent, names = SILENT.get(kind, ()), (*slots, *getattr(value, "__dict__", ()))
        return [kind.__name__, *(_part(getattr(value, name)) for name in names if name not in silent)]


def _part(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, Sequenced):
        return _entry(value)
    if isinstance(value, list) and value and isinstance(value[0], Sequenced):
        return [_entry(each) for each in value]
    return value


def _entry(entry: Sequenced) -> Any:
    """Return an event that waits, without what only tells operators and traces of it."""
    content = None
    if entry.content is not None:
        _, arrival, _ = entry.content
        content = arrival.payload, arrival.retained, arrival.redelivered
    place = entry.topic, entry.number
    return (
        place,
        entry.deps,
        content,
        entry.arrived,
        entry.retained,
        entry.hole,
        entry.is_hole,
        entry.done,
        entry.repaired,
        entry.ticks,
    )


def _room(room: WaitingRoom) -> Any:
    said = room.describe()  # of the topics in it none comes before the others
    entries = [(topic, [_entry(each) for each in its.values()]) for topic, its in sorted(said["entries"].items())]
    asleep = [
        (topic, [(number, [(each.topic, each.number) for each in sleepers]) for number, sleepers in its.items()])
        for topic, its in sorted(said["asleep"].items())
    ]
    return entries, asleep, said["arrivals"], room.changed
