"""Disorder that the wire really has: paho's own client shows it, ours does not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import paho.mqtt.client as stock
import pytest
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, connect, subscribed, until

import inorder.paho as mqtt
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto


class Swapping:
    """A connection to a broker that passes packets of QoS 0 on in another order: each PUBLISH to a topic with ``slow``
    in its name waits until the next PUBLISH has passed, or :meth:`flush`. A thread for each direction."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._held: list[tuple[socket.socket, bytes]] = []
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [client, broker]
            threading.Thread(target=self._copy, args=(client, broker), daemon=True).start()
            threading.Thread(target=self._swap, args=(broker, client), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            sink.close()

    def _swap(self, broker: socket.socket, client: socket.socket) -> None:
        data = b""
        try:
            while more := broker.recv(65_536):
                data += more
                while (packet := _packet(data)) is not None:
                    data = data[len(packet) :]
                    with self._lock:
                        if packet[0] & 0xF0 == 0x30 and b"slow" in packet[:40]:
                            self._held.append((client, packet))
                            continue
                        client.sendall(packet)
                        if packet[0] & 0xF0 == 0x30:
                            self._flush(client)
        except OSError:
            pass

    def _flush(self, client: socket.socket) -> None:
        mine = [packet for owner, packet in self._held if owner is client]
        self._held = [(owner, packet) for owner, packet in self._held if owner is not client]
        for packet in mine:
            client.sendall(packet)

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            each.close()


def _packet(data: bytes) -> bytes | None:
    """Return the whole packet at the front."""
    size, shift, at = 0, 0, 1
    while True:
        if at >= len(data):
            return None
        size |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            break
    return data[: at + size] if len(data) >= at + size else None


@contextmanager
def swapping(mosquitto: Mosquitto) -> Iterator[Swapping]:
    proxy = Swapping(mosquitto.port)
    try:
        yield proxy
    finally:
        proxy.close()


def _has(log: Log, count: int) -> bool:
    return len(log.messages) == count


@pytest.mark.parametrize("protocol", [mqtt.MQTTv5, mqtt.MQTTv311])
def test_two_clients_see_one_order_where_paho_sees_two(mosquitto: Mosquitto, make: Make, protocol: int) -> None:
    """Two readers of two topics; on the way to one of them events of one topic are overtaken by those of the other."""
    root = unique("logged/t")
    slow, fast = f"{root}/slow", f"{root}/fast"
    bare: Any = stock.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTProtocolVersion(protocol))
    with swapping(mosquitto) as proxy:
        try:
            direct = subscribed(make(protocol=protocol), mosquitto, f"{root}/#")
            swapped = subscribed(make(protocol=protocol), mosquitto, f"{root}/#", port=proxy.port)
            raw = subscribed(bare, mosquitto, f"{root}/#", port=proxy.port)
            publisher = make(protocol=protocol)
            connect(publisher, mosquitto)
            count = 100
            for at in range(count):
                publisher.publish(fast if at % 2 else slow, f"{at:03}").wait_for_publish(PATIENCE)
            for log in (direct, swapped, raw):
                until(partial(_has, log, count), "all messages")
        finally:
            bare.disconnect()
            bare.loop_stop()
    expected = [f"{at:03}".encode() for at in range(count)]
    # in the payload form of MQTT 3.1.1 paho's own client sees the stamp in front
    assert [each[-3:] for each in raw.payloads] != expected, "nothing was out of order on the wire"
    assert direct.payloads == expected
    assert swapped.payloads == expected
    assert {each.inorder.verdict for each in swapped.messages} == {mqtt.Verdict.IN_ORDER}
    assert direct.gaps + swapped.gaps == []


def test_what_never_comes_is_a_gap_in_its_place(mosquitto: Mosquitto, make: Make) -> None:
    """R17 at ``on_gap``, on the thread of the other callbacks."""
    root = unique("t")
    with swapping(mosquitto) as proxy:
        log = Log(client := make())
        told: list[Any] = []
        threads = set()

        def on_gap(client: Any, userdata: Any, gap: mqtt.Gap) -> None:
            told.append((gap.topic, gap.first, gap.last, str(gap.reason)))
            threads.add(threading.current_thread().name)

        def on_message(client: Any, userdata: Any, message: mqtt.MQTTMessage) -> None:
            told.append(bytes(message.payload))
            log._on_message(client, userdata, message)

        connect(client, mosquitto, proxy.port)
        client.on_gap, client.on_message = on_gap, on_message
        client.subscribe([(f"{root}/fast", 0), (f"{root}/slow", 0)])
        assert log.subscribed.wait(PATIENCE)
        publisher = make()
        connect(publisher, mosquitto)
        publisher.publish(f"{root}/fast", "1").wait_for_publish(PATIENCE)
        publisher.publish(f"{root}/slow", "2").wait_for_publish(PATIENCE)  # held for ever
        until(lambda: len(told) == 2, "the gap")
    assert told == [b"1", (f"{root}/slow", 1, 1, "lost")]
    assert threads == log.threads
