"""Every way to drive a paho client: callbacks come on the thread, and within the call, where paho has them."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as stock
import pytest
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, connect, subscribed, until

import inorder.paho as mqtt
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto


def drive(client: mqtt.Client, step: Any, is_enough: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_enough():
        assert time.monotonic() < deadline, "waited in vain"
        step(client)


def by_loop(client: mqtt.Client) -> None:
    client.loop(0.05)


def by_hand(client: mqtt.Client) -> None:
    """As the documentation of paho has it for loops of one's own, without any callback for sockets."""
    sock: Any = client.socket()
    ready = select.select([sock], [sock] if client.want_write() else [], [], 0.05)
    if ready[0]:
        client.loop_read()
    if ready[1]:
        client.loop_write()
    client.loop_misc()


@pytest.mark.parametrize("step", [by_loop, by_hand])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_application_drives_the_loop_itself(mosquitto: Mosquitto, make: Make, step: Any, qos: int) -> None:
    topic = unique("logged/t")
    client = make()
    log = Log(client)
    client.connect("127.0.0.1", mosquitto.port)
    drive(client, step, client.is_connected)
    client.subscribe(f"{topic}/#", qos)
    drive(client, step, log.subscribed.is_set)
    infos = [client.publish(f"{topic}/{at % 2}", str(at), qos) for at in range(60)]
    drive(client, step, lambda: len(log.messages) == 60 and len(log.told) == 61)
    assert log.payloads == [str(at).encode() for at in range(60)]
    assert log.threads == {threading.current_thread().name}
    assert all(info.is_published() for info in infos)
    assert {each.inorder.verdict for each in log.messages} == {mqtt.Verdict.IN_ORDER}


def test_loop_forever_in_the_main_thread(mosquitto: Mosquitto, make: Make) -> None:
    """What is due without a word from the broker wakes it, and ``disconnect()`` in a callback ends it."""
    topic, client = unique("t"), make()
    log = Log(client)
    client.on_connect = lambda *_: client.subscribe(topic)

    def on_subscribe(*_: Any) -> None:
        for at in range(20):
            client.publish(topic, str(at))

    def on_message(client: Any, userdata: Any, message: mqtt.MQTTMessage) -> None:
        log._on_message(client, userdata, message)
        if len(log.messages) == 20:
            client.disconnect()

    client.on_subscribe, client.on_message = on_subscribe, on_message
    client.connect("127.0.0.1", mosquitto.port)
    client.loop_forever()
    assert log.payloads == [str(at).encode() for at in range(20)]
    assert log.threads == {threading.current_thread().name}


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.005)


class NullLock:
    """As Home Assistant's client has it in the place of paho's locks: all of its calls are on one thread."""

    def __enter__(self) -> NullLock:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def acquire(self, blocking: bool = False, timeout: int = -1) -> None:
        pass

    def release(self) -> None:
        pass


LOCKS = [name for name in vars(stock.Client(mqtt.CallbackAPIVersion.VERSION2)) if name.endswith("_mutex")]


def on_event_loop(client: Any, threads: set[str]) -> asyncio.Task[None]:
    """Have the running event loop drive a client, with calls that are of no use on another thread."""
    loop = asyncio.get_running_loop()

    def on_register_write(client: Any, userdata: Any, sock: Any) -> None:
        threads.add(threading.current_thread().name)
        loop.add_writer(sock, client.loop_write)

    client.on_socket_open = lambda c, u, sock: loop.add_reader(sock, client.loop_read)
    client.on_socket_close = lambda c, u, sock: loop.remove_reader(sock)
    client.on_socket_register_write = on_register_write
    client.on_socket_unregister_write = lambda c, u, sock: loop.remove_writer(sock)

    async def misc() -> None:
        while True:
            client.loop_misc()
            await asyncio.sleep(0.2)

    return asyncio.create_task(misc())


@pytest.mark.parametrize("locks", [[], LOCKS], ids=["pahos_locks", "null_locks"])
async def test_an_event_loop_drives_it_by_the_callbacks_for_sockets(
    mosquitto: Mosquitto, make: Make, locks: list[str]
) -> None:
    topic, client, threads = unique("t"), make(), set[str]()
    for name in locks:
        setattr(client, name, NullLock())
    log, ended = Log(client), list[Any]()
    client.on_disconnect = lambda c, u, flags, reason, properties: ended.append(reason)
    task = on_event_loop(client, threads)
    try:
        client.connect("127.0.0.1", mosquitto.port)
        await _until(client.is_connected)
        client.subscribe(topic, 1)
        await _until(log.subscribed.is_set)
        for at in range(50):
            client.publish(topic, str(at), at % 3)
        await _until(lambda: len(log.messages) == 50 and len(log.told) == 51)
        assert log.payloads == [str(at).encode() for at in range(50)]
        assert log.threads == threads == {threading.current_thread().name}
        client.disconnect()
        await _until(lambda: bool(ended))
        assert ended == [0]
    finally:
        task.cancel()


def never_waits(client: Any) -> Callable[[], None]:
    """Have a client's timestamps not come, and every wait for them or for inorder's thread fail; return what has them
    come."""
    ordering, held = client._ordering, list[Any]()
    submit = ordering.session.submit
    ordering.session.submit = held.append

    def fail(*_: object) -> None:
        raise AssertionError("the application's loop was kept")

    ordering.outgoing.changed.wait = ordering.settle = fail

    def release() -> None:
        del ordering.settle  # where the client ends, it may look at what came in
        for publication in held:
            submit(publication)

    return release


async def test_an_event_loop_is_never_kept(mosquitto: Mosquitto, make: Make) -> None:
    """The workers do not answer: what is published waits by itself, also where the application disconnects."""
    topic, client, ended = unique("t"), make(), list[Any]()
    reader = await asyncio.to_thread(subscribed, make(), mosquitto, topic)
    client.on_disconnect = lambda c, u, flags, reason, properties: ended.append(reason)
    task = on_event_loop(client, set())
    try:
        client.connect("127.0.0.1", mosquitto.port)
        await _until(client.is_connected)
        release = never_waits(client)
        infos = [client.publish(topic, str(at), at % 2) for at in range(4)]
        for step in (client.loop_misc, client.loop_read, client.loop_write, client.disconnect):
            assert step() == mqtt.MQTT_ERR_SUCCESS
        assert not any(info.is_published() for info in infos)
        assert not client.is_connected()
        assert ended == []
        release()
        await _until(lambda: bool(ended))
        await _until(lambda: len(reader.messages) == 4)
    finally:
        task.cancel()
    assert ended == [0]
    assert reader.payloads == [b"0", b"1", b"2", b"3"]


def test_steps_of_a_loop_do_not_wait(mosquitto: Mosquitto, make: Make) -> None:
    """Without callbacks for sockets, too: what is published leaves with a later step."""
    topic, client = unique("t"), make()
    log = Log(client)
    client.connect("127.0.0.1", mosquitto.port)
    drive(client, by_hand, client.is_connected)
    client.subscribe(topic)
    drive(client, by_hand, log.subscribed.is_set)
    release = never_waits(client)
    for at in range(3):
        client.publish(topic, str(at))
        by_hand(client)
    release()
    drive(client, by_hand, lambda: len(log.messages) == 3)
    assert log.payloads == [b"0", b"1", b"2"]


def test_a_step_reads_all_that_is_there(mosquitto: Mosquitto, make: Make) -> None:
    """Messages cross over to inorder's thread together, not each by a call of its own, whoever drives the loop."""
    topic, client, publisher = unique("t"), make(), make()
    log = Log(client)
    client.connect("127.0.0.1", mosquitto.port)
    drive(client, by_hand, client.is_connected)
    client.subscribe(topic)
    drive(client, by_hand, log.subscribed.is_set)
    connect(publisher, mosquitto)
    for at in range(30):
        publisher.publish(topic, str(at), 1).wait_for_publish(PATIENCE)
    ordering, steps = client._ordering, 0
    before = ordering.given
    while ordering.given - before < 30:
        assert select.select([client.socket()], [], [], PATIENCE)[0]
        client.loop_read()
        steps += 1
    assert steps < 30
    drive(client, by_hand, lambda: len(log.messages) == 30)
    assert log.payloads == [str(at).encode() for at in range(30)]


def test_a_second_loop_is_refused_as_paho_has_it(mosquitto: Mosquitto, make: Make) -> None:
    """B39: ``loop_start()`` twice, ``loop_forever()`` beside it, four threads that publish: each message once."""
    topic, client = unique("t"), make()
    log = subscribed(client, mosquitto, topic)
    assert client.loop_start() == mqtt.MQTT_ERR_INVAL
    second = threading.Thread(target=client.loop_forever, kwargs={"timeout": 0.1}, daemon=True)
    second.start()
    publishers = [
        threading.Thread(target=lambda name=name: [client.publish(topic, f"{name}{at}") for at in range(100)])
        for name in "abcd"
    ]
    for each in publishers:
        each.start()
    for each in publishers:
        each.join()
    until(lambda: len(log.messages) >= 400, "all messages")
    assert sorted(log.payloads) == sorted(f"{name}{at}".encode() for name in "abcd" for at in range(100))
    for name in "abcd":  # each thread's order is kept
        mine = [each for each in log.payloads if each.startswith(name.encode())]
        assert mine == [f"{name}{at}".encode() for at in range(100)]
    numbers = [each.inorder.sequence for each in log.messages]
    assert numbers == list(range(1, 401))
    client.disconnect()
    second.join()


def test_what_is_published_without_any_loop_leaves(mosquitto: Mosquitto, make: Make) -> None:
    """paho writes within ``publish()`` where no loop runs; ``disconnect()`` at once loses nothing."""
    topic = unique("t")
    log = subscribed(make(), mosquitto, topic, qos=1)
    for count in (1, 5):
        client = make()
        client.connect("127.0.0.1", mosquitto.port)
        for at in range(count):
            assert client.publish(topic, f"{count}-{at}").is_published()
        client.disconnect()
    until(lambda: len(log.messages) == 6, "all messages")
    assert log.payloads == [b"1-0", *(f"5-{at}".encode() for at in range(5))]


def test_disconnect_and_loop_stop_right_after_publish_lose_nothing(mosquitto: Mosquitto, make: Make) -> None:
    """B30: 300 publishes and ``loop_stop()`` at once; the same with ``disconnect()``."""
    topic = unique("t")
    log = subscribed(make(), mosquitto, topic, qos=1)
    one, two = make(), make()
    connect(one, mosquitto)
    for at in range(300):
        one.publish(topic, f"a{at}")
    one.loop_stop()
    connect(two, mosquitto)
    for at in range(300):
        two.publish(topic, f"b{at}")
    two.disconnect()
    until(lambda: len(log.messages) == 600, "all messages")
    assert log.payloads == [f"{name}{at}".encode() for name in "ab" for at in range(300)]
