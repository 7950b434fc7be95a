"""Conversion of paho-mqtt's messages into arrivals of the port."""

from __future__ import annotations

from paho.mqtt.client import MQTTMessage

from inorder.ports import Arrival
from inorder_adapters.payload_form import split
from inorder_adapters.stamp_property import take_stamp


class ArrivalReader:
    """Turns messages into arrivals, with the filter of each subscription identifier."""

    def __init__(self) -> None:
        self._filter_of_id: dict[int, str] = {}
        self._via_of_ids: dict[tuple[int, ...], tuple[str, ...]] = {}
        self._last_id = 0

    def identifier(self, text: str) -> int:
        """Return the subscription identifier of a filter; a new filter gets a new one."""
        for known, filter_text in self._filter_of_id.items():
            if filter_text == text:
                return known
        self._last_id += 1
        self._filter_of_id[self._last_id] = text
        self._via_of_ids.clear()
        return self._last_id

    def forget(self, text: str) -> None:
        """Forget a filter after an unsubscription."""
        self._filter_of_id = {known: other for known, other in self._filter_of_id.items() if other != text}
        self._via_of_ids.clear()

    def read(self, message: MQTTMessage) -> Arrival:
        """Return a message as an arrival. Raises UnicodeDecodeError where its topic is not UTF-8."""
        topic = message.topic
        payload = message.payload
        if type(payload) is not bytes:
            payload = bytes(payload)
        stamp: bytes | None = None
        own: tuple[tuple[str, str], ...] = ()
        via: tuple[str, ...] = ()
        if message.properties is not None:
            properties = message.properties.__dict__
            if "UserProperty" in properties:
                stamp, own = take_stamp(properties["UserProperty"])
            if "SubscriptionIdentifier" in properties:
                via = self.via(tuple(properties["SubscriptionIdentifier"]))
        if stamp is None:
            stamp, payload = split(payload)
        return Arrival(topic, payload, stamp, message.retain, message.dup, via, message.qos, own)

    def via(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """Return the filters that subscription identifiers stand for."""
        via = self._via_of_ids.get(ids)
        if via is None:
            via = tuple(self._filter_of_id[known] for known in ids if known in self._filter_of_id)
            self._via_of_ids[ids] = via
        return via
