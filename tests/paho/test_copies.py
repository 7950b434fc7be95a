"""Filters that overlap: a copy of a message comes beside its twin, or not at all."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import paho.mqtt.client as stock
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, connect, subscribed, until

import inorder.paho as mqtt
from inorder.client.options import ClientTimes
from inorder.endpoint.notifications import Event
from inorder.paho.ens import PahoEns
from inorder.paho.ordering import Arrived, Ordering
from inorder.ports import Arrival
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto


def test_overlapping_filters_give_as_many_copies_as_the_broker_sends(mosquitto: Mosquitto, make: Make) -> None:
    """B08, B09: paho has a message for each copy, so have we; each beside its twin, in the order."""
    root = unique("ov")
    bare: Any = stock.Client(mqtt.CallbackAPIVersion.VERSION2)
    try:
        theirs = subscribed(bare, mosquitto, f"{root}/#", f"{root}/a")
        ours = subscribed(make(protocol=mqtt.MQTTv311), mosquitto, f"{root}/#", f"{root}/a")
        apart = Log(client := make())  # the broker sends the copies of QoS 1 later, as its window allows
        connect(client, mosquitto)
        client.subscribe([(f"{root}/#", 1), (f"{root}/a", 0)])
        assert apart.subscribed.wait(PATIENCE)
        publisher = make()
        connect(publisher, mosquitto)
        for at in range(100):
            publisher.publish(f"{root}/a", str(at), 1)
        publisher.publish(f"{root}/end", "end", 1)
        for log in (ours, apart):
            until(partial(_has_end, log), "all messages")
        until(lambda: any(each.endswith(b"end") for each in theirs.payloads), "all messages of paho's")
    finally:
        bare.disconnect()
        bare.loop_stop()
    assert len(ours.messages) == len(theirs.messages)
    for log in (ours, apart):
        numbers = [each.inorder.sequence or 0 for each in log.messages[:-1]]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(1, 101))


def _has_end(log: Log) -> bool:
    return log.payloads[-1:] == [b"end"]


class Told:
    """An ordering without an event loop, and what it has the application be told."""

    def __init__(self, copies: int) -> None:
        self.ordering = Ordering(mqtt.ClientConfiguration(workers=("w:1",)), lambda: None)
        life: Any = SimpleNamespace(ens=SimpleNamespace(copies_of=lambda topic: copies), engine=None)
        self.ordering.session = life
        self.told: list[Any] = []
        self._tell = self._tell_gap = lambda each: self.told.append(each)

    def arrival(self, name: str) -> Arrival:
        return Arrival("a", name.encode(), b"", source=Arrived(mqtt.MQTTMessage(0, b"a"), 0.0))

    def event(self, number: int, name: str) -> None:
        event = Event("mqtt", "a", name.encode(), mqtt.Verdict.IN_ORDER, number)
        self.ordering.on_event(event, self.arrival(name))

    def copy(self, number: int, name: str, why: Any = "duplicate") -> Arrived:
        arrival: Any = self.arrival(name)
        self.ordering.on_passed_over(arrival, 1, number, why)
        return arrival.source  # type: ignore[no-any-return]

    @property
    def numbers(self) -> list[int | str | None]:
        due = self.ordering.due
        while due:
            due.popleft()(self)
        return [each.reason if isinstance(each, mqtt.Gap) else each.message.inorder.sequence for each in self.told]


def test_a_copy_is_beside_its_twin_or_not_given() -> None:
    """Whatever comes between them, a gap and a repair too; and copies of what is lost are not kept."""
    told = Told(copies=3)
    told.event(1, "one")
    told.copy(1, "beside")
    kept = told.copy(3, "three waits", "twin_waits")
    told.copy(3, "three waits", "twin_waits")
    lost = told.copy(7, "seven waits", "twin_waits")
    told.event(2, "two")
    apart = [told.copy(1, "not beside")]
    told.event(3, "three")
    apart.append(told.copy(3, "too many"))
    told.ordering.on_gap(mqtt.Gap("mqtt", "a", 4, 7, mqtt.GapReason.LOST))
    apart += [lost, told.copy(3, "behind a gap")]
    told.event(8, "eight, from the log")
    told.copy(8, "beside")
    told.ordering.on_unrouted(told.arrival("unsequenced"))
    apart.append(told.copy(8, "not beside"))
    assert told.numbers == [1, 1, 2, 3, 3, 3, "lost", 8, 8, None]
    assert kept.message.inorder.verdict == mqtt.Verdict.IN_ORDER
    assert [each.is_done for each in apart] == [True] * 5, "they are acknowledged"
    assert len(told.ordering._copies) == 0


def test_no_long_name_is_remembered_with_the_number_of_its_copies() -> None:
    ens = PahoEns("nowhere", properties=True, ready=lambda: None, ping=lambda answered: None, times=ClientTimes())
    name = "made/up/" + "x" * 40_000
    before = sys.getrefcount(name)
    assert [ens.copies_of(name), ens.copies_of(name)] == [0, 0]
    assert sys.getrefcount(name) == before
