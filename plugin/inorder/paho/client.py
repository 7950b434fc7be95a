"""paho-mqtt's client with the one order of inorder: what paho does it still does, between socket and callbacks.

paho connects, reads, writes, keeps alive, reconnects and calls back, on the threads where it always did. What it
receives goes to an inorder client on the event loop's thread and comes back in order, through a queue that paho's
own loop empties; what it is to send waits for its timestamp in the order of the calls.
"""

from __future__ import annotations

import select
import socket
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from paho.mqtt import client as paho
from paho.mqtt.client import MQTTMessageInfo, PayloadType
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from inorder.client.configured import ClientConfiguration, configured
from inorder.core.filters import mqtt_filter
from inorder.core.names import Filter
from inorder.core.notifications import Gap
from inorder.errors import InorderError, InvalidFilter, InvalidTopic, LinkError, Refused
from inorder.logs import logger
from inorder.paho import library
from inorder.paho.message import ours, without_stamp
from inorder.paho.ordering import Arrived, Ordering
from inorder.paho.publication import Publication, Written, error_code, user_pairs
from inorder_adapters import mqtt_rules
from inorder_adapters.mqtt.arrivals import ArrivalReader
from inorder_adapters.stamp_property import STAMP_PROPERTY, check_properties

_log = logger("inorder.paho")

CallbackOnGap = Callable[["Client", Any, Gap], None]

INLINE_SECONDS: Final = 2.0
"""How long a call waits for a timestamp where no network loop of paho runs that could send later."""
DISCONNECT_SECONDS: Final = 5.0
"""How long ``disconnect()`` and ``loop_stop()`` wait for the timestamps of what was published before."""
ACK_SECONDS: Final = 0.5
ACKS_HELD: Final = 8
"""A PUBACK waits for the callback, as paho has it. Where the event waits for its turn, the broker must not wait for the
PUBACK too long: what the event waits for may be behind it in a full window."""
SLICE_SECONDS: Final = 0.05
"""How long one round of callbacks may take before keepalive and socket have their turn again."""
READ_AHEAD: Final = 64
"""Messages that are read at most before anything else is done."""

LEAVE_SECONDS: Final = 1.0
"""How long after a loop ended by an exception another one may begin as if nothing had happened. Then nobody reads what
the broker sends, and this client leaves the workers: it would hold up others, and look well to operators."""
LINGER_SECONDS: Final = 1.0
_RELEASED: Final = (paho.mqtt_ms_wait_for_pubcomp, paho.mqtt_ms_resend_pubrel)

library.check()


class Client(paho.Client):
    """A :class:`paho.mqtt.client.Client` whose ``on_message`` is called in the one order of all subscribers.

    Takes what paho's takes. Messages have one more attribute, ``inorder``, and there is one more callback, ``on_gap``.

    Args:
        inorder: the workers, and how to use them; by default as :func:`~inorder.client.configured.configured` finds
            them. Without workers nothing is ordered, and this is paho's client.

    Raises:
        InvalidSetting: what was found in the environment or ``inorder.toml`` is not allowed.
    """

    def __init__(self, *args: Any, inorder: ClientConfiguration | None = None, **kwargs: Any) -> None:
        self._sock = self._sockpairR = self._sockpairW = (
            None  # paho's destructor asks for them, whatever is refused below
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().__init__(*args, **kwargs)
        for each in caught:  # they are about our caller
            warnings.warn(each.message, each.category, stacklevel=2)
        self._on_gap: CallbackOnGap | None = None
        configuration = configured() if inorder is None else inorder
        self._ordering: Ordering | None = None
        if configuration.is_ordering:
            self._ordering = Ordering(configuration, partial(_wake, weakref.ref(self)))
            weakref.finalize(self, self._ordering.end).atexit = False
        self._reader = ArrivalReader()
        self._arriving: Arrived | None = None
        self._is_reading_on = False
        self._acks: deque[Arrived] = deque()
        self._due_lock, self._send_lock, self._requests_lock = threading.Lock(), threading.Lock(), threading.RLock()
        self._subscribes: dict[int, list[Filter | None]] = {}
        self._unsubscribes: dict[int, list[Filter]] = {}
        self._silent: set[int] = set()
        self._confirming = 0
        self._looping: set[int] = set()
        self._reading = threading.Lock()
        self._runners = 0
        self._leaving: threading.Timer | None = None
        self._life_lock = threading.RLock()

    # -- what is new -------------------------------------------------------------------------------------------

    @property
    def on_gap(self) -> CallbackOnGap | None:
        """Called as ``on_gap(client, userdata, gap)`` when numbers of a topic will not come: a
        :class:`~inorder.Gap`, once for each range, in its place among the messages."""
        return self._on_gap

    @on_gap.setter
    def on_gap(self, func: CallbackOnGap | None) -> None:
        with self._callback_mutex:
            self._on_gap = func

    def gap_callback(self) -> Callable[[CallbackOnGap], CallbackOnGap]:
        """Return a decorator that sets ``on_gap``."""

        def decorator(func: CallbackOnGap) -> CallbackOnGap:
            self.on_gap = func
            return func

        return decorator

    # -- connecting --------------------------------------------------------------------------------------------

    def reconnect(self) -> MQTTErrorCode:
        """Connect again, as paho does; the workers first.

        Raises:
            WorkersUnreachable: an OSError, as where the broker cannot be reached.
            Unauthorized, VersionMismatch: the workers do not take this client in.
        """
        ordering = self._ordering
        if ordering is None or not self._host or self._port <= 0:
            return super().reconnect()
        self._lost(LinkError("the application connects again"))
        with self._life_lock:
            try:
                self._begin(goes_on=False)
            except InorderError as error:  # paho's loop tries again, and tells nobody why
                _log.warning("event=connect_failed error=%s", error)
                raise
            self._leaving = None
            ordering.restore()
        ordering.outgoing.connecting()
        ordering.outgoing.window = self._max_inflight_messages
        self._acks.clear()
        with self._requests_lock:
            self._subscribes.clear()
            self._unsubscribes.clear()
            self._silent.clear()
        code = super().reconnect()
        if ordering.life is not None:
            ordering.life.ens.up()
        return code

    def _begin(self, *, goes_on: bool) -> None:
        if self._ordering is not None:
            client_id = self._client_id.decode(errors="replace")
            self._ordering.begin(f"{self._host}:{self._port}", client_id, int(self._protocol), goes_on=goes_on)

    def disconnect(self, reasoncode: ReasonCode | None = None, properties: Properties | None = None) -> MQTTErrorCode:
        """Disconnect, as paho does; what was published before leaves before."""
        if self._ordering is not None:
            self._send_all(DISCONNECT_SECONDS)
        return super().disconnect(reasoncode, properties)

    def _handle_connack(self) -> MQTTErrorCode:
        ordering, packet = self._ordering, self._in_packet["packet"]
        if ordering is not None and ordering.life is not None and len(packet) > 1 and packet[1] == 0:
            ordering.life.ens.report_soon(ordering.life.connected, bool(packet[0] & 1))
            self._number_kept()  # before anything that on_connect publishes
        return super()._handle_connack()

    def _do_on_disconnect(self, *args: Any, **kwargs: Any) -> None:
        ordering = self._ordering
        if ordering is None:
            super()._do_on_disconnect(*args, **kwargs)
            return
        if not self._in_callback_mutex.locked():
            ordering.settle()
            self._run_due()
        if self._state.name in ("MQTT_CS_DISCONNECTING", "MQTT_CS_DISCONNECTED") and not self._has_session:
            ordering.end()
            if self._is_inline:
                _linger(self._sock)
        else:
            self._lost(LinkError("the connection to the broker ended"))
        super()._do_on_disconnect(*args, **kwargs)

    @property
    def _has_session(self) -> bool:
        """The broker keeps subscriptions and messages while this client is away."""
        if self._protocol == paho.MQTTv5:
            properties = self._connect_properties
            return properties is not None and bool(properties.__dict__.get("SessionExpiryInterval", 0))
        return not self._clean_session

    def _lost(self, error: InorderError) -> None:
        if self._ordering is not None and self._ordering.life is not None:
            self._ordering.life.ens.down(error)

    def _order_failed(self, error: InorderError) -> None:
        """The inorder client ended for good: go on with a new one over a new connection, if paho reconnects."""
        _log.error("event=order_failed error=%s", error)
        if self._ordering is not None:
            self._ordering.end()
        if self._sock is not None:
            self._sock_close()
            self._do_on_disconnect(packet_from_broker=False, v1_rc=MQTTErrorCode.MQTT_ERR_CONN_LOST)

    # -- network loops -----------------------------------------------------------------------------------------

    def loop_forever(self, timeout: float = 1.0, retry_first_connection: bool = False) -> MQTTErrorCode:
        """See paho."""
        if self._ordering is None:
            return super().loop_forever(timeout, retry_first_connection)
        if self._sockpairR is None:  # what wakes it when something is due without a word from the broker
            self._sockpairR, self._sockpairW = paho._socketpair_compat()
        self._runners += 1
        try:
            return super().loop_forever(timeout, retry_first_connection)
        except Exception as error:
            self._loop_failed(error)
            raise
        finally:
            self._runners -= 1

    def _loop_failed(self, error: Exception) -> None:
        """A loop ended by an exception, of a callback most likely: the application's affair, as with paho. Where no
        other loop goes on, the workers are not to take this client for one that reads."""
        client_id, why = self._client_id.decode(errors="replace"), f"{type(error).__name__}: {error}"
        hint = "nothing is received until a loop runs again"
        _log.error("event=loop_failed client=%s error=%s hint=%s", client_id, why, hint)
        with self._life_lock:
            if self._leaving is None and self._ordering is not None:
                self._leaving = threading.Timer(self._ordering.patience(LEAVE_SECONDS), _leave, (weakref.ref(self),))
                self._leaving.daemon = True
                self._leaving.start()

    def _leave(self) -> None:
        """Leave the workers, unless a loop has begun again."""
        ordering = self._ordering
        with self._send_lock, self._life_lock:  # in this order: what sends may find that it goes on
            if ordering is not None and self._leaving is not None and not self._runners:
                ordering.leave()

    def _go_on(self, *, reads: bool) -> None:
        """There is a loop again, or at least a publish, after one ended by an exception. Raises what a connect does."""
        if self._leaving is None:
            return
        with self._life_lock:
            timer, ordering = self._leaving, self._ordering
            if timer is None or ordering is None or (ordering.life is None and self._sock is None):
                return
            timer.cancel()
            if ordering.life is None:
                self._begin(goes_on=True)
                life: Any = ordering.life
                life.ens.up()
            if reads:
                self._leaving = None
                ordering.restore()

    def loop_stop(self) -> MQTTErrorCode:
        """See paho; what was published before leaves before."""
        if self._ordering is not None and self._thread is not None:
            self._send_all(DISCONNECT_SECONDS)
        return super().loop_stop()

    def _loop(self, timeout: float = 1.0) -> MQTTErrorCode:
        ordering, thread = self._ordering, threading.get_ident()
        if ordering is None or thread in self._looping:
            return super()._loop(timeout)
        try:
            self._go_on(reads=True)
        except InorderError as error:
            self._order_failed(error)
            return MQTTErrorCode.MQTT_ERR_CONN_LOST
        self._looping.add(thread)
        try:
            self._run_due()
            if timeout > 0 and (ordering.due or self._acks):
                timeout = 0.0 if ordering.due and not self._due_lock.locked() else min(timeout, ACK_SECONDS)
            with self._reading:  # two loops at once would read one packet with two hands
                code = self._read(partial(super()._loop, timeout))
            self._catch_up()
            return code
        finally:
            self._looping.discard(thread)

    def loop_read(self, max_packets: int = 1) -> MQTTErrorCode:
        """See paho."""
        ordering = self._ordering
        if ordering is not None and ordering.life is not None and threading.get_ident() in self._looping:
            return self._read_on(ordering, partial(super().loop_read, max_packets))
        return self._by_hand(partial(super().loop_read, max_packets))

    def _read_on(self, ordering: Ordering, read: Callable[[], MQTTErrorCode]) -> MQTTErrorCode:
        """Read as long as messages come, where paho would ask the system again after each: they cross over to the event
        loop's thread together."""
        self._is_reading_on = True
        try:
            for _ in range(READ_AHEAD):
                before = ordering.given
                code = read()
                if code or ordering.given == before:
                    break
            return code
        finally:
            self._is_reading_on = False
            ordering.wake()

    def loop_write(self) -> MQTTErrorCode:
        """See paho."""
        if self._on_socket_register_write is None:  # paho calls it itself, within publish() say
            return super().loop_write()
        return self._by_hand(super().loop_write)

    def loop_misc(self) -> MQTTErrorCode:
        """See paho."""
        return self._by_hand(super().loop_misc)

    def _by_hand(self, step: Callable[[], MQTTErrorCode]) -> MQTTErrorCode:
        """Do one step of a loop; of the application's own, also what is due."""
        thread = threading.get_ident()
        if self._ordering is None or thread in self._looping:
            return step()
        self._go_on(reads=True)
        self._looping.add(thread)
        try:
            code = self._read(step)
            self._catch_up()
            return code
        finally:
            self._looping.discard(thread)

    def _read(self, step: Callable[[], MQTTErrorCode]) -> MQTTErrorCode:
        """Do one step of a loop. What is not read cannot arrive: while a slow callback keeps the loop, missing events
        are not waited for (R17)."""
        assert self._ordering is not None
        self._ordering.time.begin()
        try:
            return step()
        finally:
            self._ordering.time.end()

    def _catch_up(self) -> None:
        """Do what is due; where the application drives the loop, wait for what its step has caused."""
        ordering = self._ordering
        if ordering is not None and self._is_inline:
            ordering.settle()
            deadline = time.monotonic() + INLINE_SECONDS
            while self._confirming and not ordering.due and time.monotonic() < deadline:
                with ordering.outgoing.changed:
                    ordering.outgoing.changed.wait(0.005)
            self._send_all(INLINE_SECONDS)
        self._run_due()

    @property
    def _is_inline(self) -> bool:
        """No loop of paho's runs by itself: what a call has to do must be done within the call."""
        return self._thread is None and not self._runners

    def _run_due(self) -> None:
        """Do, on this thread, what is due: messages, gaps, confirmations, sending. One thread at a time."""
        ordering = self._ordering
        if ordering is None:
            return
        deadline = time.monotonic() + SLICE_SECONDS
        due = ordering.due
        while self._due_lock.acquire(blocking=False):
            try:
                ordering.is_woken = False
                self._send_ready()
                while due and time.monotonic() < deadline:
                    due.popleft()(self)
                self._acknowledge()
            finally:
                self._due_lock.release()
            if not due or time.monotonic() >= deadline:
                return

    # -- receiving ---------------------------------------------------------------------------------------------

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
        with self._in_callback_mutex:
            try:
                on_gap(self, self._userdata, gap)
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

    # -- subscribing -------------------------------------------------------------------------------------------

    def _send_subscribe(
        self,
        dup: int,
        topics: Sequence[tuple[bytes, SubscribeOptions | int]],
        properties: Properties | None = None,
    ) -> tuple[MQTTErrorCode, int]:
        ordering = self._ordering
        if ordering is None or ordering.life is None:
            return super()._send_subscribe(dup, topics, properties)
        filters = [self._ordered(text.decode(), options) for text, options in topics]
        ens = ordering.life.ens
        ens.report_soon(ens.expect, [each for each in filters if each is not None])
        passed = [each for (text, _), known in zip(topics, filters, strict=True) if known is None
                  for each in _covered_by(text.decode())]  # fmt: skip
        if passed:
            ens.report_soon(ens.unordered, passed, [])
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
        if ordering is None or ordering.life is None or not filters:
            super()._handle_suback()
            return
        codes = body[-len(filters) :]
        answered = [(each, code) for each, code in zip(filters, codes, strict=False) if each is not None]
        granted = [each for each, code in answered if code < 0x80]
        refused = [each for each, code in answered if code >= 0x80]
        life, held = ordering.life, packet.copy()
        if refused:
            life.ens.report_soon(life.ens.unexpect, refused)

        def confirm(error: InorderError | None) -> None:
            ordering.put(lambda client: client._confirm(held, granted, len(filters), error))
            ordering.outgoing.tell()

        self._confirming += 1
        if granted:
            life.ens.report_soon(life.subscribed, granted, confirm)
        else:
            confirm(None)

    def _confirm(self, packet: Any, granted: list[Filter], count: int, error: InorderError | None) -> None:
        """Let paho take the SUBACK that was kept. What the workers refuse counts as refused by the broker."""
        self._confirming -= 1
        if error is not None:
            packet["packet"][-count:] = bytes([0x87 if self._protocol == paho.MQTTv5 else 0x80]) * count
            with self._requests_lock:
                _, mid = super()._send_unsubscribe(False, [each.text.encode() for each in granted])
                self._silent.add(mid)
        self._replay(packet, super()._handle_suback)

    def _replay(self, packet: Any, handle: Callable[[], Any]) -> None:
        """Have paho handle a packet that it has read before."""
        reading, self._in_packet = self._in_packet, packet
        try:
            handle()
        finally:
            self._in_packet = reading

    def _send_unsubscribe(
        self, dup: int, topics: list[bytes], properties: Properties | None = None
    ) -> tuple[MQTTErrorCode, int]:
        ordering = self._ordering
        if ordering is None or ordering.life is None:
            return super()._send_unsubscribe(dup, topics, properties)
        filters, passed = [], list[Filter]()
        for text in topics:
            with suppress(InvalidFilter):
                filters.append(mqtt_filter(text.decode()))
            passed += _covered_by(text.decode())
        ens = ordering.life.ens
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
        if ordering is None or ordering.life is None or filters is None:
            return super()._handle_unsuback()
        life, held = ordering.life, packet.copy()

        def unsubscribed() -> None:
            # behind the messages that have come before
            ordering.put(lambda client: client._replay(held, client._take_unsuback))
            life.unsubscribed(filters)

        self._confirming += 1
        life.ens.report_soon(unsubscribed)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _take_unsuback(self) -> None:
        self._confirming -= 1
        super()._handle_unsuback()

    # -- publishing --------------------------------------------------------------------------------------------

    def publish(
        self,
        topic: str,
        payload: PayloadType = None,
        qos: int = 0,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> MQTTMessageInfo:
        """Publish, as paho does; what paho refuses takes no number.

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
        info = super().publish(topic, payload, qos, retain, properties)
        if qos and info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS and (message := self._out_messages.get(info.mid)):
            self._number(message)  # the window is full: its number is that of this call all the same
        if self._is_inline and self._sock is not None:
            self._send_all(INLINE_SECONDS)
        return info

    def _number_kept(self) -> None:
        """What paho kept while there was no connection gets its numbers before anything that is published now."""
        if self._ordering is not None and len(self._ordering.outgoing.by_mid) < len(self._out_messages):
            for message in list(self._out_messages.values()):
                if message.state not in _RELEASED:
                    self._number(message)

    def _number(self, message: paho.MQTTMessage) -> None:
        ordering = self._ordering
        if ordering is None or message.mid in ordering.outgoing.by_mid:
            return
        publication = self._publication(
            message.mid, message._topic, message.payload, message.qos, message.retain, message.properties, None
        )
        ordering.outgoing.by_mid[message.mid] = publication
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
        is_total = not text.startswith("$") and not (retain and not payload)
        if is_total:
            try:
                mqtt_rules.check_topic(text)
            except InvalidTopic:  # an alias without a name, or what the broker is to refuse
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
        if self._sock is None or (ordering.life is None and self._leaving is not None):
            return MQTTErrorCode.MQTT_ERR_NO_CONN
        self._number_kept()
        known = ordering.outgoing.by_mid.get(mid) if qos else None
        publication = known or self._publication(mid, topic, payload, qos, retain, properties, info)
        if qos:
            ordering.outgoing.by_mid[mid] = publication
        ordering.outgoing.want(publication, dup=dup)
        if known is None:
            ordering.publish(publication)
        if publication.is_ready and not self._is_inline:
            ordering.put(Client._send_ready)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _send_ready(self) -> None:
        """Send what may be sent, in the order of the calls. One thread at a time."""
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
        written = None if publication.qos else Written(publication, self._written)
        publication.is_sent = True
        try:
            code = super()._send_publish(
                publication.mid,
                publication.topic.encode(),
                payload,
                publication.qos,
                publication.retain,
                publication.dup,
                written,
                properties,
            )
        except ValueError as error:
            publication.error = Refused(f"the publish was refused by paho-mqtt: {error}")
            self._publish_failed(publication, publication.error, MQTTErrorCode.MQTT_ERR_PAYLOAD_SIZE)
            return True
        if code == MQTTErrorCode.MQTT_ERR_NO_CONN:
            publication.is_sent = False
            ordering.outgoing.put_back(publication)
            return False
        return True

    def _send_all(self, seconds: float) -> None:
        """Wait until everything that paho wants sent was sent, and send it here if nobody else does."""
        ordering = self._ordering
        assert ordering is not None
        outgoing, deadline = ordering.outgoing, time.monotonic() + seconds
        while outgoing.is_waiting and self._sock is not None and ordering.life is not None:
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
        """A QoS 0 publish left, or was lost with the connection before."""
        if code == MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._accepted(publication)
        else:
            publication.error = LinkError("the connection broke before it was sent")
            self._refuse(publication, publication.error)

    def _accepted(self, publication: Publication) -> None:
        publication.is_accepted = True
        ordering = self._ordering
        if ordering is not None and ordering.life is not None and publication.token:
            ordering.life.ens.accepted(publication.token)

    def _refuse(self, publication: Publication, error: InorderError) -> None:
        publication.error = error
        ordering = self._ordering
        if ordering is not None and ordering.life is not None and publication.token:
            ordering.life.ens.refused(publication.token, error)

    def _publish_failed(self, publication: Publication, error: InorderError, code: MQTTErrorCode | None = None) -> None:
        """It will never be sent: the application learns it as it learns what a broker refuses."""
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
            if ordering.outgoing.is_due:
                ordering.put(Client._send_ready)
        code = super()._do_on_publish(mid, reason_code, properties)
        if ordering is not None and ordering.outgoing.by_mid.get(mid) is publication:
            ordering.outgoing.by_mid.pop(mid, None)  # paho keeps it until the callback has returned, too
        return code

    def _handle_pubrec(self) -> MQTTErrorCode:
        ordering, body = self._ordering, self._in_packet["packet"]
        publication = None if ordering is None else ordering.outgoing.by_mid.get(int.from_bytes(body[:2], "big"))
        if ordering is not None and publication is not None:
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
                if publication is not None:
                    self._refuse(publication, Refused("the application dropped it"))
        return dropped


def _wake(reference: weakref.ref[Client]) -> None:
    """Have a client's network loop look at what is due (the event loop's thread)."""
    client = reference()
    if client is None:
        return
    writer = client._sockpairW
    if writer is not None:
        with suppress(OSError):
            writer.send(paho.sockpair_data)
    if client._on_socket_register_write is not None and client._is_inline and client._sock is not None:
        with suppress(Exception):  # the application's; paho calls it from any thread that publishes, too
            client._call_socket_register_write()


def _leave(reference: weakref.ref[Client]) -> None:
    """Have a client leave the workers (a timer's thread)."""
    client = reference()
    if client is not None:
        client._leave()


def _linger(connected: Any) -> None:
    """Let the broker take what was written: a socket that is closed while something is unread (a CONNACK, where no
    loop ran) is reset, and what is on its way is lost with it."""
    if type(connected) is not socket.socket:
        return
    deadline = time.monotonic() + LINGER_SECONDS
    with suppress(OSError, ValueError):
        connected.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            if select.select([connected], [], [], left)[0] and not connected.recv(65_536):
                return


def _covered_by(text: str) -> list[Filter]:
    """Return, for a subscription that is not ordered, what its events' topics match."""
    if text.startswith("$share/"):
        text = "/".join(text.split("/")[2:])
    with suppress(InvalidFilter):
        return [mqtt_filter(text)]
    return []
