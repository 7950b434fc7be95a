"""A message of an MQTT client to itself, as the barrier of a connection on which something always comes (R24)."""

from __future__ import annotations

from typing import Any

import pytest

from inorder.errors import Refused
from inorder.ports import Outgoing
from inorder_adapters.mqtt import barriers
from inorder_adapters.mqtt.barriers import BUSY_PINGS, OWN, Answered, Barriers, Echo


class Sent:
    """The part of a connection that sends."""

    qos = 2

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.messages: list[Outgoing] = []

    def ask(self, text: str, qos: int) -> None:
        self.asked.append((text, qos))

    def put(self, message: Outgoing, token: int) -> None:
        assert token == OWN
        self.messages.append(message)


def echo_to(sent: Any) -> Echo:
    return Echo("own", sent, sent, lambda: None)


async def test_it_is_subscribed_to_first_and_known_by_its_word() -> None:
    sent = Sent()
    echo = echo_to(sent)
    coming = echo.send()
    assert sent.asked == [("own", 2)]
    (message,) = sent.messages
    echo.came(b"of another process")
    assert not coming.done()
    echo.came(message.payload)
    echo.came(message.payload)
    assert coming.result() is None


async def test_one_that_the_broker_refuses_says_nothing_of_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barriers, "PAUSE", 0.0)
    sent, pings = Sent(), 0
    echo = echo_to(sent)

    def ping(answered: Answered) -> None:
        nonlocal pings
        pings += 1
        if pings == BUSY_PINGS + 1:
            echo.refused(Refused("not this topic"))
        answered(pings < BUSY_PINGS + 4)

    await Barriers(ping, echo.send).passed()
    assert len(sent.messages) == 1
    assert pings == BUSY_PINGS + 4
