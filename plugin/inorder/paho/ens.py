"""paho's connection as an ENS (see :mod:`inorder.client.embedded`)."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable

from inorder.client.embedded import EmbeddedEns
from inorder.client.options import ClientTimes
from inorder.errors import Closed, LinkError
from inorder.logs import logger
from inorder.paho.publication import Publication
from inorder.ports import Arrival, EnsCapabilities, EnsSink, Outgoing
from inorder.protocol.arrival import bytes_of
from inorder.protocol.filters import MAX_TOPIC_BYTES, mqtt_filter
from inorder.protocol.names import Filter, key_of
from inorder_adapters import mqtt_rules
from inorder_adapters.mqtt.barriers import Answered, Barriers
from inorder_adapters.stamp_property import Properties, check_properties

_log = logger("inorder.paho")

STALE_SECONDS = 2.0
"""How long after a reconnection without a session a filter still counts as wanted. Applications subscribe again when
they are told of the connection; what they do not, is over."""
SPACE = "mqtt"


class PahoEns(EmbeddedEns):
    """paho's connection as an ENS; all but the constructor is called on the event loop's thread.

    Arrivals for a filter that paho has asked for, but whose turn among the changes has not come, are kept until then
    (R9): without a route they would overtake the order. While the workers are away that may be long, so there are as
    many as may wait for their turn; what is beyond is given up, and found missing where it has a number.

    Args:
        address: of the broker, for messages and logs.
        properties: stamps travel in user properties (MQTT 5).
        ready: called when a message may be sent.
        ping: has paho send a PINGREQ, and tell on the event loop's thread when it was answered.
        times: its ``max_waiting`` and ``max_waiting_bytes``.

    Attributes:
        reached: done as soon as the workers are, when only the broker is waited for.
        is_left: nobody reads or sends for this any more.
    """

    def __init__(
        self,
        address: str,
        *,
        properties: bool,
        ready: Callable[[], None],
        ping: Callable[[Answered], None],
        times: ClientTimes,
    ) -> None:
        super().__init__(address, SPACE, EnsCapabilities(properties, True, (0, 1, 2), MAX_TOPIC_BYTES))
        self.reached = concurrent.futures.Future[None]()
        self.is_left = False
        self._ready = ready
        self._barriers = Barriers(ping)
        self._by_message: dict[int, Publication] = {}
        self._subscribed: set[Filter] = set()
        self._unordered: set[Filter] = set()
        self._stale: set[Filter] = set()
        self._expected: dict[Filter, int] = {}
        self._early: list[Arrival] = []
        self._early_bytes, self._times, self._is_overflowing = 0, times, False
        self._copies_of: dict[str | bytes, int] = {}

    async def connect(self, sink: EnsSink) -> None:
        """See :class:`~inorder.ports.Ens`."""
        if not self.reached.done():
            self.reached.set_result(None)
        await super().connect(sink)

    async def barrier(self) -> None:
        """Wait until paho has read every message that the broker has now (R24). Raises LinkError."""
        if not self._is_up:
            raise LinkError(f"not connected to broker {self.address}")
        await self._barriers.passed()

    def _now_down(self, error: Exception) -> None:
        self._barriers.end(error if isinstance(error, LinkError) else LinkError(str(error)))
        super()._now_down(error)

    # -- publishing --------------------------------------------------------------------------------------------

    def asked(self, publication: Publication, message: Outgoing) -> None:
        """Note that a message's timestamp has been requested."""
        self._by_message[id(message)] = publication

    def answered(self, message: Outgoing) -> None:
        """Forget a message whose outcome is known."""
        self._by_message.pop(id(message), None)

    def publish(self, message: Outgoing, token: int) -> None:
        """See :class:`~inorder.ports.Ens`. The message waits for its place among what paho sends."""
        if self.is_left:
            self.refused(token, Closed("the client left the workers before it was sent"))
            return
        publication = self._by_message[id(message)]
        publication.stamp, publication.in_payload = message.stamp, message.in_payload
        publication.token = token
        publication.is_ready = True
        if publication.is_accepted:  # over an earlier connection, whose word was lost with it
            self.accepted(token)
        elif publication.error is not None:
            self.refused(token, publication.error)
        else:
            self._ready()

    # -- subscriptions -----------------------------------------------------------------------------------------

    def expect(self, filters: Iterable[Filter]) -> None:
        """Note the filters that paho is subscribing to."""
        for each in filters:
            self._expected[each] = self._expected.get(each, 0) + 1

    def unexpect(self, filters: Iterable[Filter]) -> None:
        """Forget filters that the broker has refused."""
        for each in filters:
            self._expect_less(each)
        self._release()

    def unordered(self, add: Iterable[Filter], remove: Iterable[Filter]) -> None:
        """Add and remove subscriptions that inorder does not order, but that cause copies of ordered messages."""
        self._unordered = (self._unordered | set(add)) - set(remove)
        self._copies_of.clear()

    async def subscribe(self, filter: Filter, *, qos: int = 0) -> None:
        """See :class:`~inorder.ports.Ens`. The broker has acknowledged it before this is called."""
        self._subscribed.add(filter)
        self._stale.discard(filter)
        self._expect_less(filter)
        self._copies_of.clear()
        self._release()

    async def unsubscribe(self, filter: Filter) -> None:
        """See :class:`~inorder.ports.Ens`. Paho has done it."""
        self._subscribed.discard(filter)
        self._copies_of.clear()

    def filters(self) -> tuple[set[Filter], set[Filter]]:
        """Return the library's current and coming subscriptions, ordered and unordered."""
        return {*self._subscribed, *self._expected}, set(self._unordered)

    def is_subscribed(self, filter: Filter) -> bool:
        """Tell whether a filter is subscribed to."""
        return filter in self._subscribed

    def session_lost(self) -> None:
        """Mark all subscriptions as stale after the broker has forgotten them; those not soon made again end."""
        self._stale = {*self._subscribed, *self._expected}
        self._expected.clear()
        self._release()

    def stale(self) -> list[Filter]:
        """Return the filters that were not subscribed to again."""
        return list(self._stale)

    def confirmed(self, filter: Filter) -> None:
        """Note that the broker has acknowledged a filter, which is no longer stale."""
        self._stale.discard(filter)

    def copies_of(self, topic: str) -> int:
        """Return how many copies of one event the broker may send."""
        key = key_of(topic)
        copies = self._copies_of.get(key)
        if copies is None:
            if len(self._copies_of) > 10_000:
                self._copies_of.clear()
            covering = [each for each in (*self._subscribed, *self._unordered) if each.covers(topic)]
            copies = self._copies_of[key] = len(covering)
        return copies

    def _expect_less(self, filter: Filter) -> None:
        count = self._expected.get(filter, 0) - 1
        if count > 0:
            self._expected[filter] = count
        else:
            self._expected.pop(filter, None)

    # -- arrivals ----------------------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival, *, wakes: bool = True) -> None:
        """Take a message that paho received (any thread). ``wakes``: else :meth:`wake` follows soon."""
        self._report(lambda: self._take(arrival), wakes=wakes)

    def report_soon(self, report: Callable[..., object], *args: object) -> None:
        """Call a function on the event loop's thread after all earlier reports (any thread)."""

        def run() -> None:
            report(*args)

        self._report(run)

    def _take(self, arrival: Arrival) -> None:
        if self.is_left:
            return
        self._barriers.queued += arrival.qos > 0
        if self._expected and self._is_early(arrival.topic):
            self._keep(arrival)
        else:
            self._tell(lambda sink: sink.arrived(arrival))

    def _keep(self, arrival: Arrival) -> None:
        """Keep an arrival until the turn of its filter, if there is room."""
        size = bytes_of(arrival.payload, arrival.topic, arrival.properties, arrival.stamp)
        times = self._times
        if len(self._early) < times.max_waiting and self._early_bytes + size <= times.max_waiting_bytes:
            self._early.append(arrival)
            self._early_bytes += size
        elif not self._is_overflowing:
            self._is_overflowing = True
            hint = "messages of a subscription that waits for the workers are given up"
            _log.warning("event=overflow topic=%s waiting=%d hint=%s", arrival.topic, len(self._early), hint)

    def _is_early(self, topic: str) -> bool:
        return any(each.covers(topic) for each in self._expected) and not any(
            each.covers(topic) for each in self._subscribed
        )

    def _release(self) -> None:
        early, self._early, self._early_bytes, self._is_overflowing = self._early, [], 0, False
        for arrival in early:
            self._take(arrival)

    # -- rules -------------------------------------------------------------------------------------------------

    def parse_filter(self, text: object) -> Filter:
        """See :class:`~inorder.ports.Ens`."""
        return mqtt_filter(text)

    def check_topic(self, topic: object) -> str:
        """See :class:`~inorder.ports.Ens`."""
        return mqtt_rules.check_topic(topic)

    def encode_payload(self, payload: object) -> bytes:
        """See :class:`~inorder.ports.Ens`."""
        return mqtt_rules.encode_payload(payload)

    def check_properties(self, properties: Properties) -> Properties:
        """See :class:`~inorder.ports.Ens`."""
        return check_properties(properties)
