"""Barriers: whether a connection has read all that the broker had for it (R24).

MQTT answers a PINGREQ in its turn, so a PINGRESP comes behind all publishes that were sent before. Of QoS 1 and 2 the
broker sends no more than a window without acknowledgements; what it queues beyond comes later. So the barrier is a ping
during which none of these came, and before which all of them were acknowledged: then the broker had none left. Where
something always comes a message of the client's own tells it, which stands behind them in the broker's queue; without
one, nobody is kept waiting for more than a minute.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from paho.mqtt import client as paho
from paho.mqtt.client import PINGREQ
from paho.mqtt.enums import MQTTErrorCode

from inorder.ports import Outgoing
from inorder_adapters.mqtt.outbox import Outbox
from inorder_adapters.mqtt.subscribing import Subscribing

if TYPE_CHECKING:
    from paho.mqtt.client import Client
else:
    Client = object

PAUSE: Final = 0.02
"""Seconds before the next ping where something came during one; doubled each time, up to ``MAX_PAUSE``."""
MAX_PAUSE: Final = 0.32
BUSY_PINGS: Final = 5
"""Pings during which something came, after which a message of the client's own is sent."""
MAX_BUSY: Final = 60.0
"""Seconds for which something comes during every ping, after which all counts as read that was there before."""

OWN: Final = -1
"""Stands for a token: of messages to ourselves, of whose fate nobody is told."""

Answered = Callable[[bool], None]
"""Called when a ping was answered; ``True``: a message of QoS 1 or 2 was not acknowledged by then."""


class Barriers:
    """The barriers on one connection, on its event loop.

    Args:
        ping: has a PINGREQ sent, and its argument called on the event loop when that was answered.
        echo: publishes a message to this very client, and returns when it has come; ``None``: there is no topic for it.

    Attributes:
        queued: how many messages of QoS 1 and 2 have come.
    """

    def __init__(
        self, ping: Callable[[Answered], None], echo: Callable[[], asyncio.Future[None]] | None = None
    ) -> None:
        self._ping, self._echo = ping, echo
        self.queued = 0
        self._waiting: set[asyncio.Future[bool]] = set()

    async def passed(self) -> None:
        """Wait until the connection has read all messages that the broker has now. Raises the error of :meth:`end`."""
        now, pause, pings, echo = asyncio.get_running_loop().time, PAUSE, 0, None
        deadline = now() + MAX_BUSY
        while not await self._is_passed() and now() < deadline:
            pings += 1
            if pings == BUSY_PINGS and self._echo is not None:
                echo = self._echo()
            if echo is None:
                await asyncio.sleep(pause)
            elif await _has_come(echo, pause):
                return
            pause = min(2 * pause, MAX_PAUSE)

    async def _is_passed(self) -> bool:
        before = self.queued
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.add(answer)
        answer.add_done_callback(self._waiting.discard)
        self._ping(lambda is_open: None if answer.done() else answer.set_result(is_open))
        is_open = await answer
        return not is_open and self.queued == before

    def end(self, error: Exception) -> None:
        """Fail all waiting barriers with an error: the connection is gone."""
        for answer in list(self._waiting):
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # marks it as seen: its waiter may be gone


async def _has_come(echo: asyncio.Future[None], seconds: float) -> bool:
    """Wait a while for a message of our own and return whether it has come."""
    if echo.done() and echo.exception() is not None:  # the broker does not take it
        await asyncio.sleep(seconds)
        return False
    return echo in (await asyncio.wait([echo], timeout=seconds))[0] and echo.exception() is None


class Echo:
    """Messages of a client to itself: each comes behind all that the broker has queued for the client by then.

    Args:
        topic: where they go.
        subscribing, outbox: of the connection; ``schedule``: has its new publishes sent.
    """

    def __init__(self, topic: str, subscribing: Subscribing, outbox: Outbox, schedule: Callable[[], None]) -> None:
        self.topic = topic
        self._subscribing, self._outbox, self._schedule = subscribing, outbox, schedule
        self._word = b""
        self._coming: asyncio.Future[None] | None = None

    def send(self) -> asyncio.Future[None]:
        """Publish one with the highest subscribed QoS, and return a future that ends when it has come."""
        qos, self._word = self._subscribing.qos, secrets.token_hex(8).encode()
        self._subscribing.ask(self.topic, qos)  # once more, if need be: the publish comes behind it
        self._coming = asyncio.get_running_loop().create_future()
        self._outbox.put(Outgoing(self.topic, self._word, qos=qos), OWN)
        self._schedule()
        return self._coming

    def came(self, word: bytes) -> None:
        """A message on the topic has come."""
        if word == self._word and self._coming is not None and not self._coming.done():
            self._coming.set_result(None)

    def refused(self, error: Exception) -> None:
        """The broker does not take it."""
        if self._coming is not None and not self._coming.done():
            self._coming.set_exception(error)
            self._coming.exception()  # marks it as seen


class Pings(Client):
    """A paho client that sends pings of ours among its keepalive's own.

    paho sends no ping while another is unanswered, and takes a broker for silent that answers it late. But an answer
    comes behind all that the broker has to send first: where that is much, or is read slowly, the broker would hear
    nothing meanwhile, and end the connection. So whatever comes counts as an answer.
    """

    if not TYPE_CHECKING:  # it takes what paho's takes

        def __init__(self, *args, **kwargs):
            self._pings = deque[Answered | None]()
            super().__init__(*args, **kwargs)

    _pings: deque[Answered | None]

    @property
    def is_acknowledged(self) -> bool:
        """Tell whether all received messages of QoS 1 and 2 are acknowledged."""
        return not self._in_messages

    def on_reception(self) -> None:
        """Note that the broker has sent something, perhaps past paho."""
        with self._msgtime_mutex:
            self._last_bytes_received = paho.time_func()
            self._ping_t = 0.0

    def _sock_recv(self, bufsize: int) -> bytes:
        data = super()._sock_recv(bufsize)
        if data and self._ping_t:
            self.on_reception()
        return data

    def ping(self, answered: Answered) -> None:
        """Send a PINGREQ."""
        was_open = not self.is_acknowledged
        self._pings.append(lambda is_open: answered(was_open or is_open))
        self._send_simple_command(PINGREQ)  # paho's own method would close the connection if the answer came late

    def _send_pingreq(self) -> MQTTErrorCode:
        self._pings.append(None)
        return super()._send_pingreq()

    def _handle_pingresp(self) -> MQTTErrorCode:
        code = super()._handle_pingresp()
        answered = self._pings.popleft() if self._pings else None
        if answered is not None:
            answered(not self.is_acknowledged)
        return code
