"""Code that the blocking classes share with their asyncio twins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

from redis import exceptions

from inorder.client.configured import ClientConfiguration, configured
from inorder.endpoint.notifications import Gap
from inorder.logs import logger
from inorder.protocol.filters import text_problem
from inorder.redis._message import MESSAGE, PATTERN_MESSAGE, Response, Via, text_of
from inorder.redis._publisher import Publisher, Ticket, is_publish
from inorder.redis._subscriber import Subscriber

_log = logger("inorder.redis")

OnGap = Callable[[Gap], Any]

STAMP_TIMEOUT = 30.0
"""How long a publish waits for its timestamp, s: longer than a take-over lasts."""
READ_BATCH = 128
"""Responses that are read ahead of the application at most."""
SUBSCRIBES = frozenset({"SUBSCRIBE", "PSUBSCRIBE"})
UNSUBSCRIBES = {"UNSUBSCRIBE": MESSAGE, "PUNSUBSCRIBE": PATTERN_MESSAGE}
_NOBODY: set[Via] = set()


class ConfiguredClient:
    """A redis-py client's inorder configuration, shared by its objects. Comes before the library's class."""

    _configuration: ClientConfiguration

    def __init__(self, *args: Any, inorder: ClientConfiguration | None = None, **kwargs: Any) -> None:
        self._configuration = configuration_of(inorder)
        super().__init__(*args, **kwargs)

    @classmethod
    def from_url(cls, url: str, *, inorder: ClientConfiguration | None = None, **kwargs: Any) -> Self:
        """See :meth:`redis.Redis.from_url`."""
        return cls._configured(super().from_url(url, **kwargs), inorder)  # type: ignore[misc]  # the library's

    @classmethod
    def from_pool(cls, connection_pool: Any, *, inorder: ClientConfiguration | None = None) -> Self:
        """See :meth:`redis.Redis.from_pool`."""
        return cls._configured(super().from_pool(connection_pool), inorder)  # type: ignore[misc]  # the library's

    @classmethod
    def _configured(cls, client: Any, inorder: ClientConfiguration | None) -> Self:
        assert isinstance(client, cls)
        if inorder is not None:
            client._configuration = inorder
        return client

    @property
    def _is_ordered(self) -> bool:
        return self._configuration.is_ordering

    def client(self) -> Self:
        """See :meth:`redis.Redis.client`."""
        return self._configured(super().client(), self._configuration)  # type: ignore[misc]  # the library's


def configuration_of(given: ClientConfiguration | None) -> ClientConfiguration:
    """Return the given configuration, or that of environment and ``inorder.toml``. Raises InvalidOption."""
    return configured() if given is None else given


def address_of(pool: Any) -> str:
    """Return the address that a pool connects to, for logs."""
    kwargs = pool.connection_kwargs
    return str(kwargs.get("path") or f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}")


def ticket_of(encoder: Any, channel: Any, message: Any) -> Ticket | None:
    """Return a ticket for a publish, or ``None`` for a channel that topic managers cannot know. Raises DataError, as
    the library does, for what it cannot encode."""
    name = text_of(bytes(encoder.encode(channel)))
    payload = bytes(encoder.encode(message))
    return None if text_problem(name, nul_allowed=True) is not None else Ticket(name or "", payload)


_ASKED: ContextVar[set[Via] | None] = ContextVar("what a call subscribes to", default=None)


@contextmanager
def asking() -> Iterator[set[Via]]:
    """Collect the subscriptions that the library is asked for in this block, without those after a reconnection."""
    asked = set[Via]()
    before = _ASKED.get()
    token = _ASKED.set(asked if before is not _NOBODY else before)
    try:
        yield asked
    finally:
        _ASKED.reset(token)


@contextmanager
def resubscribing() -> Iterator[None]:
    """Mark a block in which nobody waits for subscriptions."""
    token = _ASKED.set(_NOBODY)
    try:
        yield
    finally:
        _ASKED.reset(token)


def is_resubscribing() -> bool:
    """Tell whether this is called in a block of :func:`resubscribing`."""
    return _ASKED.get() is _NOBODY


def note_asked(encoder: Any, args: tuple[Any, ...]) -> None:
    """Note a command by which the library subscribes."""
    asked = _ASKED.get()
    if asked is not None and asked is not _NOBODY:
        kind = MESSAGE if args[0] == "SUBSCRIBE" else PATTERN_MESSAGE
        asked.update((kind, bytes(encoder.encode(each))) for each in args[1:])


def note_ended(encoder: Any, args: tuple[Any, ...], subscriber: Subscriber | None) -> None:
    """Note a command by which the library may unsubscribe; without names it ends all of one kind."""
    kind = UNSUBSCRIBES.get(args[0])
    if kind is not None and subscriber is not None:
        subscriber.ends(kind, [bytes(encoder.encode(each)) for each in args[1:]])


def decoded(encoder: Any, response: Any) -> Any:
    """Decode a response of bytes as the library's parser would. Raises UnicodeDecodeError."""
    if not isinstance(response, list):
        return encoder.decode(response) if isinstance(response, bytes) else response
    text = Response(encoder.decode(each) if isinstance(each, bytes) else each for each in response)
    text.inorder = response.inorder if isinstance(response, Response) else None
    return text


def encoded(encoder: Any, response: list[Any]) -> list[Any]:
    """Return a response of the library's own parser in bytes again."""
    return [encoder.encode(each) if isinstance(each, str) else each for each in response]


def pong_of(response: Any) -> Any:
    """Return the answer to a ping in the form of a push; under RESP 3 it may be a mere text."""
    if isinstance(response, str):
        return Response(["pong", "" if response == "PONG" else response])
    return response


def log_gap(gap: Gap) -> None:
    """Log a warning about messages that will not come."""
    _log.warning("event=gap channel=%s first=%d last=%d reason=%s", gap.topic, gap.first, gap.last, gap.reason)


class HealthCheck:
    """The health check of a subscribed connection: the library asks, and accepts silence as an answer."""

    def __init__(self) -> None:
        self._asked = 0.0
        self._is_overdue = False

    def on_reception(self) -> None:
        """Note that something was read."""
        self._asked, self._is_overdue = 0.0, False

    def is_due(self, connection: Any, now: float) -> bool:
        """Tell whether to ask now (``now``: by the clock of ``next_health_check``), before a look at the socket. Raises
        ConnectionError where the server has not answered for two intervals: not before a look after them, as the answer
        may have come while nobody looked."""
        interval = connection.health_check_interval
        if not interval:
            return False
        if not self._asked:
            if now <= connection.next_health_check:
                return False
            self._asked = now
            return True
        if now - self._asked > 2 * interval:
            if not self._is_overdue:
                self._is_overdue = True
                return False
            self.on_reception()
            raise exceptions.ConnectionError("the server has not answered the health check for two intervals")
        return False

    def wait(self, connection: Any, now: float, timeout: float | None) -> float | None:
        """Return the longest time to wait for the socket, if the caller would wait for ``timeout`` seconds."""
        interval = connection.health_check_interval
        if not interval:
            return timeout
        due: float = self._asked + 2 * interval if self._asked else connection.next_health_check
        pause = max(0.01, due - now + 0.001)
        return pause if timeout is None else min(timeout, pause)


def remaining(deadline: float | None) -> float | None:
    """Return the seconds until a time of the monotonic clock, at least 0; ``None`` for no end."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def tickets_of(encoder: Any, commands: list[Any]) -> dict[int, Ticket]:
    """Return tickets for the publishes among a pipeline's commands, by position. Raises DataError."""
    found = {at: ticket_of(encoder, args[1], args[2]) for at, (args, _) in enumerate(commands) if is_publish(args)}
    return {at: ticket for at, ticket in found.items() if ticket is not None}


def stamped(commands: list[Any], tickets: dict[int, Ticket]) -> list[Any]:
    """Return the commands of a pipeline with the stamps in them."""
    changed = list(commands)
    for at, ticket in tickets.items():
        args, options = commands[at]
        changed[at] = ((args[0], args[1], ticket.wire), options)
    return changed


def pipeline_ended(publisher: Publisher, tickets: dict[int, Ticket], replies: list[Any]) -> None:
    """Report each publish of an executed pipeline by its reply."""
    for at, ticket in tickets.items():
        if isinstance(replies[at], Exception):
            publisher.refused(ticket)
        else:
            publisher.accepted(ticket)


def pipeline_failed(publisher: Publisher, tickets: dict[int, Ticket], error: BaseException) -> None:
    """Report the publishes of a pipeline that raised: an unexecuted transaction has published nothing."""
    is_void = isinstance(error, exceptions.WatchError) and str(error).startswith("Watched variable changed")
    for ticket in tickets.values():
        if ticket.wire is not None:
            ticket.wire.was_sent = not is_void
        publisher.failed(ticket, error)
