"""The in-process broker as an ENS."""

from __future__ import annotations

import asyncio

from inorder.errors import BrokerUnreachable, Closed, InorderError, LinkError
from inorder.ports import Arrival, EnsCapabilities, EnsSink, Outgoing
from inorder.protocol.filters import MAX_TOPIC_BYTES, mqtt_filter
from inorder.protocol.names import Filter
from inorder_adapters import mqtt_rules
from inorder_adapters.memory.delivery import Line
from inorder_adapters.memory.hub import Hub, Member, WireMessage, hub
from inorder_adapters.memory.options import MemoryOptions
from inorder_adapters.payload_form import split, wire_payload
from inorder_adapters.stamp_property import (
    STAMP_PROPERTY,
    Properties,
    check_no_properties,
    check_properties,
    take_stamp,
)


class MemoryEns:
    """One client of an in-process broker. Topics, filters and payloads are MQTT's."""

    def __init__(self, name: str, options: MemoryOptions, client_id: str) -> None:
        self.address = f"memory:{name}"
        self.space = options.space
        self.capabilities = EnsCapabilities(
            properties=options.properties, retain=True, qos=(0, 1, 2), max_topic_bytes=MAX_TOPIC_BYTES
        )
        self._hub: Hub = hub(name)
        self._options = options
        self._client_id = client_id
        self._sink: EnsSink | None = None
        self._member: Member | None = None
        self._accepted: list[int] = []
        self._barriers: set[asyncio.Future[None]] = set()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<MemoryEns {self.address} {'connected' if self._member else 'not connected'}>"

    def parse_filter(self, text: object) -> Filter:
        """Check a subscription filter. Raises InvalidFilter."""
        return mqtt_filter(text)

    def check_topic(self, topic: object) -> str:
        """Check a topic to publish to. Raises InvalidTopic."""
        return mqtt_rules.check_topic(topic)

    def encode_payload(self, payload: object) -> bytes:
        """Return a payload as bytes. Raises InvalidPayload."""
        return mqtt_rules.encode_payload(payload)

    def check_properties(self, properties: Properties) -> Properties:
        """Check a user's own properties. Raises InvalidOption."""
        return check_properties(properties) if self.capabilities.properties else check_no_properties(properties)

    async def connect(self, sink: EnsSink) -> None:
        """Join the broker. Raises BrokerUnreachable, Closed."""
        if self._is_closed:
            raise Closed(f"{self.address} is closed")
        await asyncio.sleep(0)
        if self._hub.is_down:
            raise BrokerUnreachable(self.address, "the broker is stopped")
        self._accepted.clear()
        line = Line(self._options, self._client_id, self._hub.counters, self._arrived, self._lost)
        member = Member(self._client_id, line, overlap_once=self._options.overlap == "once")
        self._hub.join(member)
        self._sink, self._member = sink, member

    async def subscribe(self, filter: Filter, *, qos: int = 0) -> None:
        """Subscribe to a filter. Raises LinkError."""
        await asyncio.sleep(0)
        self._hub.subscribe(self._joined(), filter, qos)

    async def unsubscribe(self, filter: Filter) -> None:
        """Unsubscribe from a filter. Raises LinkError."""
        await asyncio.sleep(0)
        self._joined().filters.pop(filter.text, None)

    async def barrier(self) -> None:
        """Wait until every message that is on its way now has arrived. Raises LinkError."""
        passed = asyncio.get_running_loop().create_future()
        self._joined().line.barrier(lambda: None if passed.done() else passed.set_result(None))
        self._barriers.add(passed)
        passed.add_done_callback(self._barriers.discard)
        await passed

    def publish(self, message: Outgoing, token: int) -> None:
        """Hand a message over to the broker. Raises Closed before the first connect and after close."""
        sink, member = self._sink, self._member
        if sink is None or self._is_closed:
            raise Closed(f"{self.address} is not open")
        if member is None:
            error: InorderError = LinkError(f"{self.address} is not connected")
            asyncio.get_running_loop().call_soon(self._refuse, sink, token, error)
            return
        try:
            self._hub.publish(self._client_id, self._on_the_wire(message), retain=message.retain)
        except InorderError as refusal:
            error = refusal
            member.line.acknowledge(lambda: sink.refused(token, error))
            return
        if self._member is member:
            if not self._accepted:
                member.line.acknowledge(self._report_accepted)
            self._accepted.append(token)

    async def close(self) -> None:
        """Leave the broker."""
        self._is_closed = True
        if self._member is not None:
            self._report_accepted()
            self._hub.leave(self._member)
            self._member.line.close()
            self._member = None
            self._end_barriers()

    def _joined(self) -> Member:
        if self._member is None:
            raise LinkError(f"{self.address} is not connected")
        return self._member

    def _on_the_wire(self, message: Outgoing) -> WireMessage:
        properties = message.properties
        payload = message.payload
        if message.stamp is not None and self.capabilities.properties and not message.in_payload:
            properties = ((STAMP_PROPERTY, message.stamp.decode("ascii")), *properties)
        else:
            payload = wire_payload(message.stamp, payload, retain=message.retain)
        return WireMessage(message.topic, payload, message.qos, properties)

    def _arrived(self, message: WireMessage, via: tuple[str, ...], qos: int, retained: bool) -> None:
        if self._sink is None:
            return
        stamp, properties = take_stamp(message.properties) if self.capabilities.properties else (None, ())
        payload = message.payload
        if stamp is None:
            stamp, payload = split(payload)
        self._sink.arrived(Arrival(message.topic, payload, stamp, retained, False, via, qos, properties))

    def _report_accepted(self) -> None:
        if self._accepted and self._sink is not None:
            tokens, self._accepted = self._accepted, []
            self._sink.accepted(tokens)

    def _refuse(self, sink: EnsSink, token: int, error: InorderError) -> None:
        if not self._is_closed:
            sink.refused(token, error)

    def _end_barriers(self) -> None:
        for passed in list(self._barriers):
            if not passed.done():
                passed.set_exception(LinkError(f"{self.address} is not connected any more"))
                passed.exception()  # marks it as seen: its waiter may be gone

    def _lost(self, error: InorderError) -> None:
        sink, self._member = self._sink, None
        self._end_barriers()
        if sink is not None and not self._is_closed:
            sink.connection_lost(error)
