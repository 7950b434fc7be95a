"""An MQTT broker as an ENS."""

from __future__ import annotations

import asyncio

from inorder.errors import Closed, InorderError, LinkError, UsageError
from inorder.ports import EnsCapabilities, EnsSink, Outgoing
from inorder.protocol.filters import MAX_TOPIC_BYTES, mqtt_filter
from inorder.protocol.names import Filter
from inorder_adapters import mqtt_rules
from inorder_adapters.mqtt.connection import Connection
from inorder_adapters.mqtt.options import Target
from inorder_adapters.stamp_property import Properties, check_no_properties, check_properties


class MqttEns:
    """One client of an MQTT broker."""

    def __init__(self, target: Target, client_id: str) -> None:
        self.address = str(target.address)
        self.space = target.options.space
        self.capabilities = EnsCapabilities(
            properties=target.protocol == 5 and target.options.envelope == "auto",
            retain=True,
            qos=(0, 1, 2),
            max_topic_bytes=MAX_TOPIC_BYTES,
        )
        self._target = target
        self._client_id = client_id
        self._sink: EnsSink | None = None
        self._connection: Connection | None = None
        self._opening: Connection | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        version = "5" if self._target.protocol == 5 else "3.1.1"
        return f"<MqttEns {self.address} MQTT {version} {'connected' if self._connection else 'not connected'}>"

    def parse_filter(self, text: object) -> Filter:
        """Check a subscription filter; shared subscriptions are refused. Raises InvalidFilter."""
        return mqtt_filter(text)

    def check_topic(self, topic: object) -> str:
        """Check a topic to publish to. Raises InvalidTopic."""
        return mqtt_rules.check_topic(topic)

    def encode_payload(self, payload: object) -> bytes:
        """Encode a payload as paho-mqtt does. Raises InvalidPayload."""
        return mqtt_rules.encode_payload(payload)

    def check_properties(self, properties: Properties) -> Properties:
        """Check a user's own properties. Raises InvalidOption."""
        return check_properties(properties) if self._target.protocol == 5 else check_no_properties(properties)

    async def connect(self, sink: EnsSink) -> None:
        """Connect to the broker, once. Raises BrokerUnreachable, Unauthorized, InvalidOption, Closed."""
        if self._is_closed:
            raise Closed(f"the connection to {self.address} is closed")
        if self._connection is not None or self._opening is not None:
            raise UsageError(f"already connected to {self.address}")
        self._sink = sink
        connection = Connection(self._target, self._client_id, sink, self._lost)
        self._opening = connection
        try:
            await connection.open()
        finally:
            self._opening = None
        self._connection = connection
        self.capabilities = connection.capabilities

    async def subscribe(self, filter: Filter, *, qos: int = 0) -> None:
        """Subscribe and wait for SUBACK. Raises Refused, LinkError."""
        await self._connected().subscribing.subscribe(filter.text, qos)

    async def unsubscribe(self, filter: Filter) -> None:
        """Unsubscribe and wait for UNSUBACK. Raises Refused, LinkError."""
        await self._connected().subscribing.unsubscribe(filter.text)

    async def barrier(self) -> None:
        """Wait until the client has read all messages that the broker has for it now. Raises LinkError."""
        await self._connected().barrier()

    def publish(self, message: Outgoing, token: int) -> None:
        """Hand a message over to the broker. Raises Closed before the first connect and after close."""
        connection = self._connection
        if connection is not None:
            connection.outbox.put(message, token)
            connection.schedule()
            return
        if self._sink is None or self._is_closed:
            raise Closed(f"the connection to {self.address} is not open")
        error = LinkError(f"not connected to broker {self.address}")
        asyncio.get_running_loop().call_soon(self._refuse, self._sink, token, error)

    async def close(self) -> None:
        """Disconnect when all publishes have left or ``close_timeout`` has passed."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._opening is not None:
            self._opening.abort()
        if self._connection is not None:
            try:
                await self._connection.close()
            finally:
                self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            raise LinkError(f"not connected to broker {self.address}")
        return self._connection

    def _refuse(self, sink: EnsSink, token: int, error: InorderError) -> None:
        if not self._is_closed:
            sink.refused(token, error)

    def _lost(self, error: InorderError) -> None:
        self._connection = None
        if self._sink is not None and not self._is_closed:
            self._sink.connection_lost(error)
