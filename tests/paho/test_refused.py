"""Workers that do not take a client in, or no longer: to the application it is what a broker's refusal is."""

from __future__ import annotations

import errno
import threading
from typing import Any

import pytest
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, connect, subscribed, until

import inorder.paho as mqtt
from inorder import errors
from inorder.client.workers import Workers
from inorder.protocol.access import Permissions
from inorder.protocol.wire import Access
from inorder.sync._thread import THREAD
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto

REVOKED = errors.Unauthorized("the token was revoked", "worker")


class Token:
    """A token that can be revoked, for all clients of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_valid = True
        self.refused = 0
        connect = Workers.connect

        async def asks(workers: Workers) -> None:
            if not self.is_valid:
                self.refused += 1
                raise REVOKED
            await connect(workers)

        monkeypatch.setattr(Workers, "connect", asks)

    def revoke(self, client: Any) -> None:
        """Have it be of no use any more, and a client that is connected be told so."""
        self.is_valid = False
        THREAD.call(client._ordering.session.engine._fail, REVOKED)


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> Token:
    return Token(monkeypatch)


def test_a_token_that_is_revoked(mosquitto: Mosquitto, make: Make, token: Token) -> None:
    """The loop's thread goes on trying, the application is told as of a broker's refusal; with a token that is valid
    again all goes on."""
    topic, client = unique("t"), make()
    log, reasons, failed = Log(client), list[Any](), threading.Semaphore(0)
    client.on_connect = lambda *_: client.subscribe(topic)
    client.on_disconnect = lambda c, u, flags, reason, properties: reasons.append((reason.getName(), c.is_connected()))
    client.on_connect_fail = lambda *_: failed.release()
    client.reconnect_delay_set(0.01, 0.02)
    connect(client, mosquitto)
    until(log.subscribed.is_set, "the subscription")
    thread = client._thread
    token.revoke(client)
    for _ in range(3):
        assert failed.acquire(timeout=PATIENCE)
    assert (client.is_connected(), thread.is_alive()) == (False, True)
    assert reasons == [("Not authorized", False)]
    log.subscribed.clear()
    token.is_valid = True
    until(log.subscribed.is_set, "the subscription")
    client.publish(topic, "again")
    until(lambda: log.payloads == [b"again"], "the message")


def test_whatever_fails_does_not_end_the_loop(
    mosquitto: Mosquitto, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting that is wrong by now (a folder for traces that is gone), too."""
    client, failed = make(), threading.Semaphore(0)
    client.on_connect_fail = lambda *_: failed.release()
    client.reconnect_delay_set(0.01, 0.02)
    connect(client, mosquitto)

    async def fails(workers: Workers) -> None:
        raise errors.InvalidOption("traces", "gone", "a folder")

    with monkeypatch.context() as patch:
        patch.setattr(Workers, "connect", fails)
        THREAD.call(client._ordering.session.engine._fail, REVOKED)
        for _ in range(2):
            assert failed.acquire(timeout=PATIENCE)
        with pytest.raises(errors.InvalidOption):
            make().connect("127.0.0.1", mosquitto.port)
    until(client.is_connected, "the connection")


def test_what_the_token_does_not_allow_is_refused_at_once(mosquitto: Mosquitto, make: Make) -> None:
    """By the code of a broker's access list, in whichever loop: nothing waits for a word that never comes."""
    topic, client = unique("t"), make()
    log = subscribed(client, mosquitto, topic)
    engine = client._ordering.session.engine
    engine._driver.permissions = Permissions(Access("client", ["mqtt:else/#"], ["mqtt:#"]))
    codes = [client.publish(topic, "x", qos).rc for qos in (0, 1)]
    assert codes == [mqtt.MQTT_ERR_ACL_DENIED] * 2
    engine._driver.permissions = Permissions()
    client.publish(topic, "allowed")
    until(lambda: log.messages != [], "the message")
    assert [each.inorder.sequence for each in log.messages] == [1]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (REVOKED, errors.Unauthorized),
        (errors.VersionMismatch((1, 2), (3, 4)), errors.VersionMismatch),
        (errors.WorkerUnreachable(["w:1"], "refused"), mqtt.WorkersUnreachable),
        (errors.Closed("closed meanwhile"), mqtt.NotConnected),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_connect_raises_is_a_connection_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, error: errors.InorderError, kind: type[errors.InorderError]
) -> None:
    """``except ConnectionRefusedError`` around ``connect()`` is how programs wait for a broker."""

    async def fails(workers: Workers) -> None:
        raise error

    monkeypatch.setattr(Workers, "connect", fails)
    with pytest.raises(ConnectionRefusedError) as caught:
        make().connect("127.0.0.1", 1)
    assert isinstance(caught.value, kind)
    assert caught.value.errno == errno.ECONNREFUSED
    assert str(error) in str(caught.value)
