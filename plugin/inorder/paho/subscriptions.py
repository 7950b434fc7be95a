"""Subscribing and unsubscribing: the broker answers first, then the workers, then paho's callback is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from inorder.errors import InorderError, InvalidFilter
from inorder.paho.embedding import Embedding
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.names import Filter


class Subscriptions(Embedding):
    """The open requests to subscribe and unsubscribe, with their outcomes."""

    def _send_subscribe(
        self,
        dup: int,
        topics: Sequence[tuple[bytes, SubscribeOptions | int]],
        properties: Properties | None = None,
    ) -> tuple[MQTTErrorCode, int]:
        ordering = self._ordering
        if ordering is None or ordering.session is None:
            return super()._send_subscribe(dup, topics, properties)
        filters = [self._ordered(text.decode(), options) for text, options in topics]
        ens = ordering.session.ens
        ens.report_soon(ens.expect, [each for each in filters if each is not None])
        passed = [each for (text, _), known in zip(topics, filters, strict=True) if known is None
                  for each in _covered_by(text.decode())]  # fmt: skip
        if passed:
            ens.report_soon(ens.unordered, passed, [])
        for text, options in topics:
            if not (isinstance(options, SubscribeOptions) and options.retainHandling == options.RETAIN_DO_NOT_SEND):
                for each in _covered_by(text.decode()):
                    ens.report_soon(ens.kept_wanted, each)
        with self._requests_lock:
            code, mid = super()._send_subscribe(dup, topics, properties)
            self._subscribes[mid] = filters
        return code, mid

    def _ordered(self, text: str, options: SubscribeOptions | int) -> Filter | None:
        """Return the filter if its events can be ordered. Members of a shared subscription get a part of them each, and
        one that wants nothing of its own (``noLocal``, bridges) not all; topics with $ are the broker's."""
        is_partial = isinstance(options, SubscribeOptions) and options.noLocal
        if text.startswith("$") or is_partial or self._client_mode == paho.MQTT_BRIDGE:
            return None
        with suppress(InvalidFilter):
            return mqtt_filter(text)
        return None

    def _handle_suback(self) -> None:
        ordering, packet = self._ordering, self._in_packet
        body = packet["packet"]
        with self._requests_lock:
            filters = self._subscribes.pop(int.from_bytes(body[:2], "big"), None)
        if ordering is None or ordering.session is None or not filters:
            super()._handle_suback()
            return
        codes = body[-len(filters) :]
        answered = [(each, code) for each, code in zip(filters, codes, strict=False) if each is not None]
        granted = [each for each, code in answered if code < 0x80]
        refused = [each for each, code in answered if code >= 0x80]
        session, held = ordering.session, packet.copy()
        if refused:
            session.ens.report_soon(session.ens.unexpect, refused)

        def confirm(error: InorderError | None) -> None:
            ordering.put(lambda client: client._confirm(held, granted, len(filters), error))
            ordering.outgoing.tell()

        self._confirming += 1
        if granted:
            session.ens.report_soon(session.subscribed, granted, confirm)
        else:
            confirm(None)

    def _confirm(self, packet: Any, granted: list[Filter], count: int, error: InorderError | None) -> None:
        """Hand a kept SUBACK to paho. What the workers refuse counts as refused by the broker."""
        self._confirming -= 1
        if error is not None:
            packet["packet"][-count:] = bytes([0x87 if self._protocol == paho.MQTTv5 else 0x80]) * count
            with self._requests_lock:
                _, mid = super()._send_unsubscribe(False, [each.text.encode() for each in granted])
                self._silent.add(mid)
        self._replay(packet, super()._handle_suback)

    def _replay(self, packet: Any, handle: Callable[[], Any]) -> None:
        """Hand a packet that was read before to paho."""
        reading, self._in_packet = self._in_packet, packet
        try:
            handle()
        finally:
            self._in_packet = reading

    def _send_unsubscribe(
        self, dup: int, topics: list[bytes], properties: Properties | None = None
    ) -> tuple[MQTTErrorCode, int]:
        ordering = self._ordering
        if ordering is None or ordering.session is None:
            return super()._send_unsubscribe(dup, topics, properties)
        filters, passed = [], list[Filter]()
        for text in topics:
            with suppress(InvalidFilter):
                filters.append(mqtt_filter(text.decode()))
            passed += _covered_by(text.decode())
        ens = ordering.session.ens
        ens.report_soon(ens.unordered, [], passed)
        with self._requests_lock:
            code, mid = super()._send_unsubscribe(dup, topics, properties)
            self._unsubscribes[mid] = filters
        return code, mid

    def _handle_unsuback(self) -> MQTTErrorCode:
        ordering, packet = self._ordering, self._in_packet
        mid = int.from_bytes(packet["packet"][:2], "big")
        with self._requests_lock:
            filters = self._unsubscribes.pop(mid, None)
            if mid in self._silent:
                self._silent.discard(mid)
                return MQTTErrorCode.MQTT_ERR_SUCCESS
        if ordering is None or ordering.session is None or filters is None:
            return super()._handle_unsuback()
        session, held = ordering.session, packet.copy()

        def unsubscribed() -> None:
            # behind the messages that have come before
            ordering.put(lambda client: client._replay(held, client._take_unsuback))
            session.unsubscribed(filters)

        self._confirming += 1
        session.ens.report_soon(unsubscribed)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _take_unsuback(self) -> None:
        self._confirming -= 1
        super()._handle_unsuback()


def _covered_by(text: str) -> list[Filter]:
    """Return the filters that cover the topics of an unordered subscription."""
    if text.startswith("$share/"):
        text = "/".join(text.split("/")[2:])
    with suppress(InvalidFilter):
        return [mqtt_filter(text)]
    return []
