"""The application's publishes: they are numbered in the order of the calls and sent when their timestamps are there."""

from __future__ import annotations

import time
from typing import Final, Literal

from paho.mqtt import client as paho
from paho.mqtt.client import MQTTMessageInfo, PayloadType
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from inorder.errors import InorderError, InvalidTopic, LinkError, Refused
from inorder.logs import logger
from inorder.paho.aliases import alias_of
from inorder.paho.embedding import Embedding
from inorder.paho.failures import error_code
from inorder.paho.publication import PacketProperties, Publication, WriteInfo, user_pairs
from inorder_adapters import mqtt_rules
from inorder_adapters.stamp_property import STAMP_PROPERTY, check_properties

_log = logger("inorder.paho")

INLINE_SECONDS: Final = 2.0
"""How long a call waits for a timestamp where no network loop of paho runs that could send later."""
DISCONNECT_SECONDS: Final = 5.0
"""How long ``disconnect()`` and ``loop_stop()`` wait for the timestamps of what was published before."""
UNSPECIFIED_ERROR: Final = 0x80
PACKET_TOO_LARGE: Final = 0x95
_ABOUT_THE_SESSION: Final = frozenset({0x89, 0x8B, 0x8D, 0x8E, 0x98, 0x9C, 0x9D, 0xA0})
"""Why a broker of MQTT 5 ends a connection whatever is published on it: it is busy or shuts down, keepalive was missed,
the session was taken over, an operator did it, another server is to be used, the time is over."""
_RELEASED: Final = (paho.mqtt_ms_wait_for_pubcomp, paho.mqtt_ms_resend_pubrel)


class Sending(Embedding):
    """Publications, from paho's request to send to the broker's answer."""

    def publish(
        self,
        topic: str,
        payload: PayloadType = None,
        qos: int = 0,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> MQTTMessageInfo:
        """Publish, as paho does; a publish that paho, the broker's limits or the token refuse takes no number.

        Raises:
            InvalidOption: a user property of the name ``inorder``, a ValueError.
        """
        ordering = self._ordering
        if ordering is None:
            return super().publish(topic, payload, qos, retain, properties)
        if properties is not None:
            check_properties(tuple(each for each in user_pairs(properties) if each[0] == STAMP_PROPERTY))
        if self._leaving is not None:
            try:
                self._go_on(reads=False)
            except InorderError as error:
                _log.error("event=publish_unconnected topic=%s error=%s", topic, error)
        topic = self._named(topic, properties)
        try:
            self._limits.check_call(topic, payload, qos, retain, properties)
            if ordering.session is not None and is_ordered(topic, payload, retain):
                ordering.session.check_publish(topic)
        except InorderError as error:
            _log.error("event=publish_failed topic=%s error=%s", topic, error)
            info = MQTTMessageInfo(self._mid_generate())
            info.rc = error_code(error)
            return info
        info = super().publish(topic, payload, qos, retain, properties)
        if qos and info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS and (message := self._out_messages.get(info.mid)):
            self._number(message)  # the window is full: its number is that of this call all the same
        if self._is_external:
            self._know_event_loop()
            self._send_ready()
        elif self._is_inline and self._sock is not None:
            self._send_all(INLINE_SECONDS)
        return info

    def _named(self, topic: str, properties: Properties | None) -> str:
        """Return the topic that an alias stands for by the application's earlier publishes, or any other topic
        unchanged. Raises ValueError for one that stands for nothing, over which brokers close the connection."""
        alias = alias_of(properties) if self._protocol == paho.MQTTv5 else 0
        if not alias:
            return topic
        if topic:
            self._aliases[alias] = topic
        elif alias not in self._aliases:
            raise ValueError(f"Invalid topic: nothing was published before with a topic and the alias {alias}.")
        return self._aliases[alias]

    def _number_kept(self) -> None:
        """Request numbers for the publishes that paho kept while unconnected, ahead of any new one."""
        ordering = self._ordering
        if ordering is None:
            return
        with ordering.numbering:
            if len(ordering.outgoing.by_mid) < len(self._out_messages):
                for message in list(self._out_messages.values()):
                    if message.state not in _RELEASED:
                        self._number(message)

    def _number(self, message: paho.MQTTMessage) -> None:
        """Request a number for a publish that paho keeps, unless another thread did. A second number would be nobody's,
        and every strict subscriber would wait for it until it is given up."""
        ordering, mid = self._ordering, message.mid
        if ordering is None:
            return
        with ordering.numbering:
            if mid in ordering.outgoing.by_mid or self._out_messages.get(mid) is not message:  # it may be over by now
                return
            publication = self._publication(
                mid, message._topic, message.payload, message.qos, message.retain, message.properties, None
            )
            ordering.outgoing.by_mid[mid] = publication
            ordering.publish(publication)

    def _publication(
        self,
        mid: int,
        topic: bytes,
        payload: bytes | bytearray,
        qos: int,
        retain: bool,
        properties: Properties | None,
        info: MQTTMessageInfo | None,
    ) -> Publication:
        text = topic.decode()
        is_total = is_ordered(text, payload, retain)
        if is_total:
            try:
                mqtt_rules.check_topic(text)
            except InvalidTopic:  # what the broker is to refuse
                is_total = False
        own = properties if self._protocol == paho.MQTTv5 else None
        return Publication(mid, text, bytes(payload), qos, retain, own, info, is_total=is_total)

    def _send_publish(
        self,
        mid: int,
        topic: bytes,
        payload: bytes | bytearray = b"",
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        info: MQTTMessageInfo | None = None,
        properties: Properties | None = None,
    ) -> MQTTErrorCode:
        ordering = self._ordering
        if ordering is None:
            return super()._send_publish(mid, topic, payload, qos, retain, dup, info, properties)
        if self._sock is None or (ordering.session is None and self._leaving is not None):
            return MQTTErrorCode.MQTT_ERR_NO_CONN
        with ordering.numbering:
            self._number_kept()
            known = ordering.outgoing.by_mid.get(mid) if qos else None
            publication = known or self._publication(mid, topic, payload, qos, retain, properties, info)
            if qos:
                ordering.outgoing.by_mid[mid] = publication
            ordering.outgoing.want(publication, dup=dup)
            if known is None:
                ordering.publish(publication)
        if publication.is_ready and not self._is_inline:
            ordering.put(lambda client: client._send_ready())
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _send_ready(self) -> None:
        """Send the publications that may be sent, in the order of the calls. One thread at a time."""
        ordering = self._ordering
        while ordering is not None and ordering.outgoing.is_due and self._send_lock.acquire(blocking=False):
            try:
                while (publication := ordering.outgoing.take()) is not None:
                    if not self._send_one(publication):
                        return
            finally:
                self._send_lock.release()

    def _send_one(self, publication: Publication) -> bool:
        ordering = self._ordering
        assert ordering is not None
        if publication.is_sent:
            return True
        payload, properties = publication.on_the_wire(has_properties=self._protocol == paho.MQTTv5)
        topic = ordering.outgoing.wire_topic(publication).encode()
        written = None if publication.qos else WriteInfo(publication, self._written)
        publication.is_sent = True
        try:
            self._check_limits(publication, topic, payload, properties)
            code = super()._send_publish(
                publication.mid,
                topic,
                payload,
                publication.qos,
                publication.retain,
                publication.dup,
                written,
                properties,
            )
        except InorderError as error:
            self._publish_failed(publication, error)
            return True
        except ValueError as error:
            refusal = Refused(f"the publish was refused by paho-mqtt: {error}")
            self._publish_failed(publication, refusal, MQTTErrorCode.MQTT_ERR_PAYLOAD_SIZE)
            return True
        if code == MQTTErrorCode.MQTT_ERR_NO_CONN:
            publication.is_sent = False
            ordering.outgoing.put_back(publication)
            return False
        ordering.outgoing.sent(publication)
        return True

    def _check_limits(
        self, publication: Publication, topic: bytes, payload: bytes, properties: PacketProperties
    ) -> None:
        """Raise PayloadTooLarge or InvalidOption for a publish over which the broker would close the connection. Now
        the stamp is there, which may be a long one, and the broker, which may be another one."""
        limits = self._limits
        size = 0
        if limits.packet_bytes:
            own = 0 if properties is None else len(properties.pack())  # type: ignore[no-untyped-call]
            size = len(topic) + own + len(payload)
        limits.check(size, len(publication.payload), publication.qos, publication.retain, publication.alias)

    def _closed_by_broker(self, reason: ReasonCode | None) -> None:
        """Handle a connection that the broker closed; a publish that always causes this counts as refused."""
        ordering = self._ordering
        with self._requests_lock:
            is_asked = bool(self._subscribes or self._unsubscribes)  # it may be over one of these
        is_of_session = reason is not None and reason.value in _ABOUT_THE_SESSION
        if ordering is None or is_asked or is_of_session or not self.is_connected():
            return
        publication = ordering.outgoing.closed()
        if publication is not None:
            why = "" if reason is None else f" ({reason})"
            error = Refused(f"the broker closed {publication.closings} connections over it{why}")
            code = MQTTErrorCode.MQTT_ERR_PAYLOAD_SIZE if reason == PACKET_TOO_LARGE else None
            ordering.put(lambda client: client._publish_failed(publication, error, code))

    def _send_all(self, seconds: float) -> None:
        """Wait until every publication that paho wants to send has left, and send them here if nobody else does."""
        ordering = self._ordering
        assert ordering is not None
        outgoing, deadline = ordering.outgoing, time.monotonic() + seconds
        while outgoing.is_waiting and self._sock is not None and ordering.session is not None:
            self._send_ready()
            with outgoing.changed:
                if not outgoing.is_waiting or (outgoing.is_due and not self._send_lock.locked()):
                    continue
                if time.monotonic() >= deadline:
                    hint = f"their timestamps did not come within {seconds:g} s; they are sent when they do"
                    _log.warning("event=publishes_wait hint=%s", hint)
                    return
                outgoing.changed.wait(0.02)

    def _written(self, publication: Publication, code: MQTTErrorCode) -> None:
        """Handle a QoS 0 publish that left, or that was lost with the connection."""
        if code == MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._accepted(publication)
        else:
            publication.error = LinkError("the connection broke before it was sent")
            self._refuse(publication, publication.error)

    def _accepted(self, publication: Publication) -> None:
        publication.is_accepted = True
        ordering = self._ordering
        if ordering is not None and ordering.session is not None and publication.token:
            ordering.session.ens.accepted(publication.token)

    def _refuse(self, publication: Publication, error: InorderError) -> None:
        publication.error = error
        ordering = self._ordering
        if ordering is not None and ordering.session is not None and publication.token:
            ordering.session.ens.refused(publication.token, error)

    def _publish_failed(self, publication: Publication, error: InorderError, code: MQTTErrorCode | None = None) -> None:
        """Tell the application, in the way of a broker's refusal, of a publication that will never be sent."""
        code = code or error_code(error)
        _log.error("event=publish_failed topic=%s error=%s", publication.topic, error)
        self._refuse(publication, error)
        if not publication.qos:
            if publication.info is not None:
                publication.info.rc = code
                publication.info._set_as_published()
            return
        with self._out_message_mutex:
            message = self._out_messages.get(publication.mid)
            if message is not None:
                message.info.rc = code
                why = "Not authorized" if code == MQTTErrorCode.MQTT_ERR_ACL_DENIED else "Unspecified error"
                reason = ReasonCode(PacketTypes.PUBACK, why)
                if message.state in (paho.mqtt_ms_queued, paho.mqtt_ms_publish):
                    self._inflight_messages += 1  # paho takes it off for every message that ends
                self._do_on_publish(publication.mid, reason, Properties(PacketTypes.PUBACK))  # type: ignore[no-untyped-call]

    def _do_on_publish(self, mid: int, reason_code: ReasonCode, properties: Properties) -> MQTTErrorCode:
        ordering = self._ordering
        publication = None if ordering is None else ordering.outgoing.by_mid.get(mid)
        if publication is not None and publication.error is None:
            if reason_code.is_failure:
                self._refuse(publication, Refused(f"the publish was refused by the broker: {reason_code}"))
            else:
                self._accepted(publication)
        if ordering is not None:
            ordering.outgoing.in_flight.discard(mid)
            ordering.outgoing.answered(mid)
            if ordering.outgoing.is_due:
                ordering.put(lambda client: client._send_ready())
        code = super()._do_on_publish(mid, reason_code, properties)
        if ordering is not None and ordering.outgoing.by_mid.get(mid) is publication:
            ordering.outgoing.by_mid.pop(mid, None)  # paho keeps it until the callback has returned, too
        return code

    def _handle_pubackcomp(self, cmd: Literal["PUBACK", "PUBCOMP"]) -> MQTTErrorCode:
        if self._ordering is not None and cmd == "PUBACK":
            self._know_refusal(PacketTypes.PUBACK)
        return super()._handle_pubackcomp(cmd)

    def _know_refusal(self, packet_type: int) -> None:
        """Make paho understand a reason code that it does not expect in an answer (mosquitto's 0x95, packet too large):
        paho would close the connection and send the refused packet again, for ever."""
        body = self._in_packet["packet"]
        if len(body) > 2:
            try:
                ReasonCode(packet_type, identifier=body[2])
            except (KeyError, ValueError):
                _log.error("event=publish_refused mid=%d code=0x%02X", int.from_bytes(body[:2], "big"), body[2])
                body[2] = UNSPECIFIED_ERROR

    def _handle_pubrec(self) -> MQTTErrorCode:
        if self._ordering is not None:
            self._know_refusal(PacketTypes.PUBREC)
        ordering, body = self._ordering, self._in_packet["packet"]
        publication = None if ordering is None else ordering.outgoing.by_mid.get(int.from_bytes(body[:2], "big"))
        if ordering is not None and publication is not None:
            ordering.outgoing.answered(publication.mid)
            if len(body) > 2 and body[2] >= 0x80:  # paho goes on as if it were accepted
                self._refuse(publication, Refused(f"the publish was refused by the broker: code 0x{body[2]:02X}"))
            else:
                ordering.outgoing.received(publication)
        return super()._handle_pubrec()

    def drop_out_messages(self) -> list[paho.MQTTMessage]:
        """See paho; their numbers are skipped."""
        dropped = super().drop_out_messages()
        if self._ordering is not None:
            for message in dropped:
                publication = self._ordering.outgoing.by_mid.pop(message.mid, None)
                self._ordering.outgoing.in_flight.discard(message.mid)
                self._ordering.outgoing.unanswered.pop(message.mid, None)
                if publication is not None:
                    self._refuse(publication, Refused("the application dropped it"))
        return dropped


def is_ordered(topic: str, payload: object, retain: bool) -> bool:
    """Tell whether a publish gets a number: topics with $ and empty retained messages do not."""
    return not topic.startswith("$") and not (retain and not payload and payload != 0)
