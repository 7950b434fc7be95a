"""The application's publications, from paho's request to send to the broker's acceptance."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from paho.mqtt.client import MQTTMessageInfo
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties

from inorder.errors import InorderError
from inorder.paho.aliases import alias_of
from inorder_adapters.mqtt.properties import PublishProperties, stamped_properties
from inorder_adapters.payload_form import wire_payload
from inorder_adapters.stamp_property import MAX_PROPERTY_BYTES

CLOSINGS_UNTIL_CAREFUL: Final = 2
MAX_CLOSINGS: Final = 3
"""Connections that a broker closes over one publish, sent alone, before that counts as its refusal."""

PacketProperties = PublishProperties | Properties | None


class Publication:
    """One publish of the application.

    Attributes:
        mid, topic, payload, qos, retain, own: as paho would send them; ``own`` are the application's properties,
            packed, ``None`` where there are none (or the protocol has none).
        pairs: the application's user properties.
        is_total: it gets a timestamp; else it only keeps its place among the others.
        info: what ``publish()`` returned; ``None`` for QoS 1 and 2, whose message paho keeps.
        is_wanted: paho wants it sent on this connection, ``is_sent``: it was.
        is_ready: it may be sent on this connection: its timestamp is there and stands (R16).
        token: of the latest hand-over; 0 before the first.
        call: which one it is of all that paho wanted sent; negative before that.
        is_received: the broker of this connection has said that it has it (QoS 2): it is not sent again. Brokers repeat
            that after a reconnection, before the timestamp is known to stand; what is sent after its release is
            released by nobody, and takes up the broker's window for good.
        is_accepted: by the broker. error: why it never will be.
        alias: the broker's short name of the topic (MQTT 5), 0 for none.
        closings: how many connections in a row the broker has closed over it.
    """

    __slots__ = (
        "alias",
        "call",
        "closings",
        "dup",
        "error",
        "in_payload",
        "info",
        "is_accepted",
        "is_ready",
        "is_received",
        "is_sent",
        "is_total",
        "is_wanted",
        "mid",
        "own",
        "pairs",
        "payload",
        "qos",
        "retain",
        "stamp",
        "token",
        "topic",
    )

    def __init__(
        self,
        mid: int,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        properties: Properties | None,
        info: MQTTMessageInfo | None,
        *,
        is_total: bool,
    ) -> None:
        self.mid, self.topic, self.payload, self.qos, self.retain, self.info = mid, topic, payload, qos, retain, info
        self.own = None if properties is None else bytes(properties.pack())  # type: ignore[no-untyped-call]
        self.pairs = user_pairs(properties)
        self.is_total = is_total
        self.alias = alias_of(properties)
        self.closings = 0
        self.dup = False
        self.is_wanted = self.is_sent = self.is_received = self.is_accepted = False
        self.is_ready = not is_total
        self.stamp: bytes | None = None
        self.in_payload = False
        self.token = 0
        self.call = -1
        self.error: InorderError | None = None

    def on_the_wire(self, *, has_properties: bool) -> tuple[bytes, PacketProperties]:
        """Return payload and properties with the stamp where it belongs."""
        stamp = self.stamp
        own = None if self.own is None else PublishProperties(self.own)
        if stamp is None:
            return wire_payload(None, self.payload, retain=self.retain), own
        if has_properties and not self.in_payload and len(stamp) <= MAX_PROPERTY_BYTES:
            return self.payload, stamped_properties(stamp, self.own)
        return wire_payload(stamp, self.payload, retain=self.retain), own


class Outgoing:
    """All publications that are under way, by message id, and in the order of paho's calls those to send now. Any
    thread.

    Attributes:
        changed: notified when something becomes due.
        in_flight: message ids that are sent and not acknowledged (QoS 2: not completed, over all connections). After a
            reconnection paho wants all it keeps sent at once, whatever its window; brokers close the connection over
            that, each time, or refuse what is above their window.
        window: how many may be in flight; 0 for any number.
        unanswered: what was sent with QoS 1 or 2 on this connection and has no answer, by message id, the oldest first.
        is_careful: one is sent after the other, as the broker has closed connections over one of several.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.by_mid: dict[int, Publication] = {}
        self.in_flight: set[int] = set()
        self.window = 0
        self.unanswered: dict[int, Publication] = {}
        self.is_careful = False
        self._fruitless = 0  # connections in a row that the broker has closed without an answer to any
        self._aliases: dict[int, str] = {}
        self._took_room = False  # what was taken last was not in flight before
        self._queue: deque[Publication] = deque()
        self._calls = itertools.count()
        self._lock = threading.Lock()

    @property
    def is_waiting(self) -> bool:
        """Tell whether paho wants to send a publication that has not left yet."""
        return bool(self._queue)

    @property
    def is_due(self) -> bool:
        """Tell whether the next publication may be sent now."""
        try:
            head = self._queue[0]
        except IndexError:
            return False
        if head.error is not None or head.is_received:
            return True
        if not head.is_ready:
            return False
        if not head.qos:
            return True
        if self.is_careful and self.unanswered:
            return False
        return not 0 < self.window <= len(self.in_flight) or head.mid in self.in_flight

    def want(self, publication: Publication, *, dup: bool) -> None:
        """Queue a publication that paho wants to send."""
        with self._lock:
            publication.dup = dup
            if publication.is_wanted:
                return
            publication.is_wanted = True
            if publication.call < 0:
                publication.call = next(self._calls)
            at, rank = len(self._queue), self._rank(publication)
            while at and self._rank(self._queue[at - 1]) > rank:  # published before the connection was there again
                at -= 1
            self._queue.insert(at, publication)

    def _rank(self, publication: Publication) -> tuple[bool, int]:
        """Return a sort key: publications in the broker's window go first, as only their end makes room."""
        return not publication.qos or publication.mid not in self.in_flight, publication.call

    def take(self) -> Publication | None:
        """Remove and return the next publication if it may be sent now, without failed and received ones."""
        with self._lock:
            while self.is_due:
                publication = self._queue.popleft()
                if publication.error is None and not publication.is_received:
                    if publication.qos:
                        self._took_room = publication.mid not in self.in_flight
                        self.in_flight.add(publication.mid)
                        self.unanswered[publication.mid] = publication
                    return publication
        return None

    def received(self, publication: Publication) -> None:
        """Note that the broker has received a QoS 2 publication and keeps it until its release."""
        publication.is_received = True
        self.in_flight.add(publication.mid)

    def put_back(self, publication: Publication) -> None:
        """Put the publication that was taken last, and could not be sent, back to the front. What an earlier connection
        has sent goes on to count in the broker's window. A new connection may have begun meanwhile: paho wants there
        what it keeps, once."""
        with self._lock:
            if publication.qos:
                if self._took_room:
                    self.in_flight.discard(publication.mid)
                self.unanswered.pop(publication.mid, None)
            if publication.is_wanted and publication not in self._queue:
                self._queue.appendleft(publication)

    def answered(self, mid: int) -> None:
        """Note the broker's answer to a publication, which shows that the connection makes progress."""
        if self.unanswered.pop(mid, None) is not None:
            self._fruitless, self.is_careful = 0, False

    def closed(self) -> Publication | None:
        """Note that the broker has closed the connection; return the publish that always causes this, to give up.

        Brokers of MQTT 3.1.1, and some of MQTT 5, refuse a publish by that. What was sent behind it has no answer
        either, nor may what was sent before: after two such connections one is sent after the other.
        """
        unanswered, self.unanswered = list(self.unanswered.values()), {}
        if not unanswered:
            return None
        if not self.is_careful:
            self._fruitless += 1
            self.is_careful = self._fruitless >= CLOSINGS_UNTIL_CAREFUL
            return None
        (publication,) = unanswered
        publication.closings += 1
        return publication if publication.closings >= MAX_CLOSINGS else None

    def wire_topic(self, publication: Publication) -> str:
        """Return the topic to send: an empty one if this connection knows the application's alias."""
        is_known = publication.alias and self._aliases.get(publication.alias) == publication.topic
        return "" if is_known else publication.topic

    def sent(self, publication: Publication) -> None:
        """Note that a publication was sent, and with it the broker's knowledge of its topic alias."""
        if publication.alias:
            self._aliases[publication.alias] = publication.topic

    def connecting(self) -> None:
        """Prepare for a new connection. Paho will want again what it keeps (QoS 1 and 2); QoS 0 that was not sent yet
        is sent on the new one. What was sent with QoS 2 the broker may have: it counts there from the beginning, before
        paho sends it, or its release, again."""
        with self._lock:
            self.unanswered.clear()
            self._aliases.clear()
            kept = dict(self.by_mid)  # others publish meanwhile
            self.in_flight = {mid for mid in list(self.in_flight) if mid in kept and kept[mid].qos == 2}
            for publication in kept.values():
                publication.is_wanted = publication.is_sent = publication.is_received = False
            for publication in self.all():
                publication.is_ready = not publication.is_total
            self._queue = deque(each for each in self._queue if not each.qos)

    def all(self) -> Iterable[Publication]:
        """Return all unsent and all unacknowledged publications."""
        return [*self.by_mid.values(), *(each for each in list(self._queue) if not each.qos)]

    def tell(self) -> None:
        """Wake the threads that wait for a due publication."""
        with self.changed:
            self.changed.notify_all()


class WriteInfo(MQTTMessageInfo):
    """The message info that paho gets for a QoS 0 publish, which reports when the publish was written or lost."""

    __slots__ = ("done", "publication")

    def __init__(self, publication: Publication, done: Any) -> None:
        super().__init__(publication.mid)
        self.publication, self.done = publication, done

    def _set_as_published(self) -> None:
        info = self.publication.info
        if info is not None:
            if self.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                info.rc = self.rc
            info._set_as_published()
        self.done(self.publication, self.rc)


def user_pairs(properties: Properties | None) -> tuple[tuple[str, str], ...]:
    """Return the user properties of a packet."""
    return () if properties is None else tuple(properties.__dict__.get("UserProperty", ()))
