"""What the broker sends, on its way through the order to the callbacks; and its acknowledgements."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final

from paho.mqtt import client as paho
from paho.mqtt.enums import MQTTErrorCode

from inorder.core.notifications import Gap
from inorder.logs import logger
from inorder.paho.aliases import aliases_allowed, named
from inorder.paho.embedding import Embedding
from inorder.paho.message import ours, without_stamp
from inorder.paho.ordering import Arrived

_log = logger("inorder.paho")

ACK_SECONDS: Final = 0.5
ACKS_HELD: Final = 8
"""A PUBACK waits for the callback, as paho has it. Where the event waits for its turn, the broker must not wait for the
PUBACK too long: what the event waits for may be behind it in a full window."""


class Receiving(Embedding):
    """Messages, gaps and acknowledgements."""

    def _handle_publish(self) -> MQTTErrorCode:
        if self._ordering is not None and self._protocol == paho.MQTTv5 and aliases_allowed(self._connect_properties):
            read = self._in_packet
            read["packet"] = bytearray(named(read["command"], bytes(read["packet"]), self._received_aliases))
        return super()._handle_publish()

    def _handle_on_message(self, message: paho.MQTTMessage) -> None:
        ordering = self._ordering
        mine = ours(message)
        if ordering is None or ordering.life is None:
            super()._handle_on_message(mine)
            return
        arrived = Arrived(mine, time.monotonic())
        try:
            arrival = self._reader.read(message)
        except UnicodeDecodeError:  # paho's application gets it, and an error when it asks for the topic
            ordering.put(lambda client: client._tell(arrived))
            return
        if message.properties is not None:
            without_stamp(message.properties)
        if arrival.payload is not message.payload:
            mine.payload = arrival.payload
        arrival.source = arrived
        if message.qos == 1 and not self._manual_ack:
            self._arriving = arrived
        ordering.arrived(arrival, is_last=not self._is_reading_on)

    def _tell(self, arrived: Arrived) -> None:
        ordering, message = self._ordering, arrived.message
        try:
            super()._handle_on_message(message)
        except BaseException:
            with suppress(ValueError):
                self._acks.remove(arrived)  # not handled, so not acknowledged
            if ordering is not None and message.qos and message.inorder.sequence is not None:
                ordering.unhandled.add((message.topic, message.inorder.sequence))
            raise
        arrived.is_done = True
        if message.qos:
            self._acknowledge()

    def _tell_gap(self, gap: Gap) -> None:
        with self._callback_mutex:
            on_gap = self.on_gap
        if on_gap is None:
            _log.warning(
                "event=gap topic=%s first=%d last=%d reason=%s", gap.topic, gap.first, gap.last, str(gap.reason)
            )
            return
        me: Any = self
        with self._in_callback_mutex:
            try:
                on_gap(me, self._userdata, gap)
            except Exception as error:
                self._easy_log(paho.MQTT_LOG_ERR, "Caught exception in on_gap: %s", error)
                if not self.suppress_exceptions:
                    raise

    def _send_puback(self, mid: int) -> MQTTErrorCode:
        arriving, self._arriving = self._arriving, None
        if arriving is None or arriving.message.mid != mid:
            return super()._send_puback(mid)
        self._acks.append(arriving)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _acknowledge(self) -> None:
        """Send the acknowledgements that are due, in the order of arrival."""
        acks, now = self._acks, time.monotonic()
        while acks:
            first = acks[0]
            is_held = not first.is_done and (first.is_due or (len(acks) <= ACKS_HELD and now - first.at < ACK_SECONDS))
            if is_held:
                return
            acks.popleft()
            super()._send_puback(first.message.mid)
