"""The subscriptions of one connection: requests to the broker, and its answers."""

from __future__ import annotations

import asyncio

from paho.mqtt.client import Client
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from inorder.errors import LinkError, TimedOut
from inorder.patience import Patience
from inorder_adapters.mqtt.arrivals import ArrivalReader
from inorder_adapters.mqtt.failures import request_refusal
from inorder_adapters.mqtt.options import Target
from inorder_adapters.mqtt.properties import make_properties

_Answer = asyncio.Future[ReasonCode | None]


class Subscribing:
    """Subscribes, unsubscribes, and knows by which subscription identifier a filter is called.

    Attributes:
        reader: reads what arrives by the subscriptions.
        qos: the highest that was subscribed with.
        has_identifiers: the broker knows subscription identifiers.
    """

    def __init__(self, client: Client, target: Target) -> None:
        self._client, self._target = client, target
        self._unanswered: dict[int, _Answer] = {}
        self._is_ended = False
        self.reader = ArrivalReader()
        self.qos = 0
        self.has_identifiers = False

    async def subscribe(self, text: str, qos: int) -> None:
        """Subscribe and wait for SUBACK. Raises Refused, LinkError."""
        await self._answer(self.ask(text, qos), f"the subscription to {text!r}")

    async def unsubscribe(self, text: str) -> None:
        """Unsubscribe and wait for UNSUBACK. Raises Refused, LinkError."""
        self._check()
        answer = self._sent(*self._client.unsubscribe(text))
        await self._answer(answer, f"the end of the subscription to {text!r}")
        self.reader.forget(text)

    def ask(self, text: str, qos: int) -> _Answer:
        """Send SUBSCRIBE and return a future of the answer's code. Raises LinkError."""
        self._check()
        self.qos = max(self.qos, qos)
        if self._target.protocol != 5:
            return self._sent(*self._client.subscribe(text, qos))
        properties = None
        if self.has_identifiers:
            identifier = self.reader.identifier(text)
            properties = make_properties(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=identifier)
        options = SubscribeOptions(qos=qos, retainAsPublished=False)
        return self._sent(*self._client.subscribe(text, options=options, properties=properties))

    def answered(self, mid: int, codes: list[ReasonCode]) -> None:
        """The broker has answered a request."""
        future = self._unanswered.pop(mid, None)
        if future is not None and not future.done():
            future.set_result(codes[0] if codes else None)

    def end(self, error: Exception) -> None:
        """Fail all requests that wait, and later ones: the connection is gone."""
        self._is_ended = True
        for future in self._unanswered.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as seen: its waiter may be gone
        self._unanswered.clear()

    def _check(self) -> None:
        if self._is_ended:
            raise LinkError(f"not connected to broker {self._target.address}")

    def _sent(self, rc: MQTTErrorCode, mid: int | None) -> _Answer:
        if rc != MQTTErrorCode.MQTT_ERR_SUCCESS or mid is None:
            raise LinkError(f"not connected to broker {self._target.address}")
        future = self._unanswered[mid] = asyncio.get_running_loop().create_future()
        return future

    async def _answer(self, future: _Answer, what: str) -> None:
        seconds = self._target.options.ack_timeout
        try:
            async with Patience(seconds):
                code = await future
        except TimeoutError:
            raise TimedOut(what, seconds) from None
        if code is not None and code.value >= 0x80:
            raise request_refusal(what, str(code))
