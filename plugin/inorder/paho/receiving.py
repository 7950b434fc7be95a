"""The broker's messages on their way through the order to the callbacks, and their acknowledgements."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import Any, Final

from msgspec import structs
from paho.mqtt import client as paho
from paho.mqtt.enums import MQTTErrorCode

from inorder.endpoint.notifications import Gap, Verdict
from inorder.logs import logger
from inorder.paho.aliases import aliases_allowed, named
from inorder.paho.callbacks import CallbackOnMessage
from inorder.paho.embedding import Embedding
from inorder.paho.message import ours, without_stamp
from inorder.paho.ordering import Arrived

_log = logger("inorder.paho")

ACK_SECONDS: Final = 0.5
ACKS_HELD: Final = 8
"""A PUBACK waits for the callback, as paho has it. Where the event waits for its turn, the broker must not wait for the
PUBACK too long: what the event waits for may be behind it in a full window."""
UNHEARD_SECONDS: Final = 5.0
MAX_UNHEARD: Final = 10_000
"""How long, and how many, messages of a session that the broker has kept wait for a handler."""


class Receiving(Embedding):
    """Messages, gaps and acknowledgements."""

    def _handle_publish(self) -> MQTTErrorCode:
        if self._ordering is not None and self._protocol == paho.MQTTv5 and aliases_allowed(self._connect_properties):
            read = self._in_packet
            read["packet"] = bytearray(named(read["command"], bytes(read["packet"]), self._received_aliases))
        return super()._handle_publish()

    def _handle_on_message(self, message: paho.MQTTMessage) -> None:
        self._give(message)
        ordering = self._ordering
        mine = ours(message)
        if ordering is None or ordering.session is None:
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
        if self._on_message is None and not self._has_handler(message):
            if self._keep_unheard(arrived):
                return
        elif self._unheard:
            self._is_passed = True
        if self._manual_ack and message.qos:
            self._unacknowledged.add(message.mid)
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

    # -- what is not acknowledged ------------------------------------------------------------------------------

    def ack(self, mid: int, qos: int) -> MQTTErrorCode:
        """See paho."""
        self._unacknowledged.discard(mid)
        return super().ack(mid, qos)

    @property
    def is_acknowledged(self) -> bool:
        """Tell whether all messages are acknowledged for which the broker waits (R24). With ``manual_ack`` those that
        wait for their turn count as such: what they wait for may be behind them in a full window."""
        return super().is_acknowledged and not (self._acks or self._unacknowledged)

    # -- messages that came before their handlers ------------------------------------------------------------------

    @property  # type: ignore[override]
    def on_message(self) -> CallbackOnMessage | None:
        """See paho."""
        return self._on_message

    @on_message.setter
    def on_message(self, func: CallbackOnMessage | None) -> None:
        with self._callback_mutex:
            self._on_message = func  # type: ignore[assignment]
        self._look_at_unheard()

    def message_callback_add(self, sub: str, callback: CallbackOnMessage) -> None:
        """See paho."""
        super().message_callback_add(sub, callback)
        self._look_at_unheard()

    def _has_handler(self, message: paho.MQTTMessage) -> bool:
        with self._callback_mutex, suppress(UnicodeDecodeError):
            matching = self._on_message_filtered.iter_match(message.topic)  # type: ignore[no-untyped-call]
            return next(matching, None) is not None
        return False

    def _keep_unheard(self, arrived: Arrived) -> bool:
        """Keep a message without a handler, which paho would drop: the broker's retained messages come with the first
        connection, when a program may not have set its handlers. They wait a while, unacknowledged."""
        if time.monotonic() < (self._unheard_until or 0.0) and len(self._unheard) < MAX_UNHEARD:
            self._unheard.append(arrived)
            return True
        if not self._has_warned:
            self._has_warned = True
            hint = "no callback is set for it: such messages are dropped, as paho does; this is said once"
            _log.warning(
                "event=message_unheard topic=%s hint=%s", arrived.message._topic.decode(errors="replace"), hint
            )
        return False

    def _look_at_unheard(self) -> None:
        """Deliver the kept messages, in a turn of the loop, after a handler was added or the wait is over."""
        if self._unheard and self._ordering is not None:
            self._is_unheard_due = True
            self._ordering.ask_for_turn()

    def _tell_unheard(self) -> None:
        """Deliver the messages that came before their handler, in the order of arrival."""
        is_over = self._unheard and time.monotonic() >= (self._unheard_until or 0.0)
        if not (self._is_unheard_due or is_over):
            return
        waiting, is_late, self._is_unheard_due = self._unheard, self._is_passed, False
        self._unheard, self._is_passed = deque(), False
        try:
            while waiting:
                arrived = waiting.popleft()
                told = arrived.message.inorder
                if is_late and told.verdict is Verdict.IN_ORDER:  # others were told meanwhile
                    arrived.message.inorder = structs.replace(told, verdict=Verdict.LATE)
                self._tell(arrived)
        finally:  # a callback may raise
            self._unheard += waiting

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
