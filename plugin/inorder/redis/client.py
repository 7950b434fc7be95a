"""redis-py's blocking client, with the channels in total order."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from redis import client as library
from redis import exceptions

from inorder.client.configured import ClientConfiguration
from inorder.core.notifications import Gap
from inorder.redis import _library
from inorder.redis._message import Failed, Inorder, Item, Response
from inorder.redis._publisher import Stamped, is_publish
from inorder.redis._shared import (
    READ_BATCH,
    STAMP_TIMEOUT,
    SUBSCRIBES,
    Configured,
    OnGap,
    Pulse,
    address_of,
    configuration_of,
    decoded,
    encoded,
    log_gap,
    pipeline_ended,
    pipeline_failed,
    pong_of,
    remaining,
    stamped,
    ticket_of,
    tickets_of,
    wanted_of,
)
from inorder.redis._thread import ThreadPublisher, ThreadSubscriber

_NOTHING = object()


class _Publishers:
    """The publisher of each connection pool: whatever shares the pool is one publisher (R19)."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """A forked child has none of its own yet, and nobody in it holds the lock."""
        self._lock = threading.RLock()
        self._by_pool: weakref.WeakKeyDictionary[Any, ThreadPublisher] = weakref.WeakKeyDictionary()

    def of(self, pool: Any, configuration: ClientConfiguration) -> ThreadPublisher:
        """Return the publisher of a pool, opened for its first publish. Raises WorkerUnreachable, Unauthorized."""
        found = self._by_pool.get(pool)
        if found is not None and found.is_alive:
            return found
        with self._lock:
            found = self._by_pool.get(pool)
            if found is None or not found.is_alive:
                found = ThreadPublisher(configuration, address_of(pool))
                self._by_pool[pool] = found
                weakref.finalize(pool, found.end)
            return found

    def end(self, pool: Any) -> None:
        """The pool is closed; it may be used again."""
        found = self._by_pool.pop(pool, None)
        if found is not None:
            found.end()


_PUBLISHERS = _Publishers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PUBLISHERS.forget)


class Redis(Configured, library.Redis):
    """``redis.Redis`` whose ``publish`` and ``pubsub()`` keep the one order of the domain.

    Args:
        args, kwargs: the library's.
        inorder: which workers to use and how; by default what the environment (``INORDER_CLIENT__...``) and
            ``inorder.toml`` say. Without workers it behaves exactly as the library.

    Raises:
        InvalidOption: the environment or the file says something that is not allowed.
    """

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """See :meth:`redis.Redis.pipeline`; what it publishes gets its timestamps when it is executed, all at once."""
        pipeline = Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline._configuration = self._configuration
        return pipeline

    def pubsub(self, **kwargs: Any) -> PubSub:
        """See :meth:`redis.Redis.pubsub`. ``on_gap``: called with each :class:`~inorder.Gap`."""
        return PubSub(self.connection_pool, inorder=self._configuration, **_library.dispatcher_of(self), **kwargs)

    def close(self) -> None:
        """See :meth:`redis.Redis.close`."""
        if getattr(self, "auto_close_connection_pool", False):
            _PUBLISHERS.end(self.connection_pool)
        super().close()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """See :meth:`redis.Redis.execute_command`; PUBLISH gets a timestamp first."""
        if self._is_ordered and is_publish(args):
            return self._publish(super().execute_command, args, options)
        return super().execute_command(*args, **options)

    def _publish(self, execute: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        ticket = ticket_of(self.get_encoder(), args[1], args[2])
        if ticket is None:
            return execute(*args, **options)
        inner = _PUBLISHERS.of(self.connection_pool, self._configuration)
        inner.stamp([ticket], STAMP_TIMEOUT)
        try:
            reply = execute(args[0], args[1], ticket.wire, **options)
        except BaseException as error:
            inner.publisher.failed(ticket, error)
            raise
        inner.publisher.accepted(ticket)
        return reply

    def _send_command_parse_response(self, conn: Any, command_name: Any, *args: Any, **options: Any) -> Any:
        if isinstance(args[-1], Stamped):
            args[-1].was_sent = True
        return super()._send_command_parse_response(conn, command_name, *args, **options)


class Pipeline(library.Pipeline, Redis):
    """``redis.client.Pipeline``; what it publishes is stamped when it is executed."""

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """See :meth:`redis.client.Pipeline.immediate_execute_command`."""
        if self._is_ordered and is_publish(args):
            return self._publish(super().immediate_execute_command, args, options)
        return super().immediate_execute_command(*args, **options)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """See :meth:`redis.client.Pipeline.execute`."""
        commands = self.command_stack
        tickets = tickets_of(self.get_encoder(), commands) if self._is_ordered else {}
        if not tickets:
            return super().execute(raise_on_error)
        inner = _PUBLISHERS.of(self.connection_pool, self._configuration)
        inner.stamp(list(tickets.values()), STAMP_TIMEOUT)
        self.command_stack = stamped(commands, tickets)
        try:
            replies = super().execute(raise_on_error=False)
        except BaseException as error:
            pipeline_failed(inner.publisher, tickets, error)
            raise
        pipeline_ended(inner.publisher, tickets, replies)
        if raise_on_error:
            self.raise_first_error(commands, replies)
        return replies


class PubSub(library.PubSub):
    """``redis.client.PubSub`` whose messages come in the one order of the domain, with one more key: ``inorder``.

    Args:
        inorder: see :class:`Redis`.
        on_gap: called with each :class:`~inorder.Gap` at its place in the order, on the thread that reads.
    """

    def __init__(
        self,
        connection_pool: Any,
        shard_hint: str | None = None,
        ignore_subscribe_messages: bool = False,
        encoder: Any = None,
        push_handler_func: Callable[[Any], Any] | None = None,
        *,
        inorder: ClientConfiguration | None = None,
        on_gap: OnGap | None = None,
        **kwargs: Any,
    ) -> None:
        self.on_gap = on_gap
        self._configuration = configuration_of(inorder)
        self._inner: ThreadSubscriber | None = None
        self._items: deque[Item] = deque()
        self._reading = threading.RLock()
        self._pulse = Pulse()
        self._is_resubscribing = False
        self._wire_encoder = connection_pool.get_encoder()
        is_ordered = self._configuration.is_ordering
        self._push_handler = push_handler_func if is_ordered else None
        handler = push_handler_func if self._push_handler is None else lambda response: response
        super().__init__(connection_pool, shard_hint, ignore_subscribe_messages, encoder, handler, **kwargs)
        # reads messages as the library does, and has no handlers
        self._reader = library.PubSub(connection_pool, encoder=self.encoder, push_handler_func=lambda response: None)

    def reset(self) -> None:
        """See :meth:`redis.client.PubSub.reset`."""
        super().reset()
        inner, self._inner = self._inner, None
        self._items.clear()
        self._pulse.heard()
        if inner is not None:
            inner.end()

    # -- subscribing -------------------------------------------------------------------------------------------

    def execute_command(self, *args: Any) -> Any:
        """See :meth:`redis.client.PubSub.execute_command`."""
        if self._inner is None and self._configuration.is_ordering and args[0] in SUBSCRIBES:
            self._inner = ThreadSubscriber(self._configuration, address_of(self.connection_pool))
        return super().execute_command(*args)

    def subscribe(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`redis.client.PubSub.subscribe`. Returns when the workers know, so that whatever is published from
        now on is delivered."""
        super().subscribe(*args, **kwargs)
        self._await_workers()

    def psubscribe(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`redis.client.PubSub.psubscribe` and :meth:`subscribe`."""
        super().psubscribe(*args, **kwargs)
        self._await_workers()

    def on_connect(self, connection: Any) -> None:
        """See :meth:`redis.client.PubSub.on_connect`."""
        self._pulse.heard()
        self._is_resubscribing = True
        try:
            super().on_connect(connection)
        finally:
            self._is_resubscribing = False

    def _await_workers(self) -> None:
        inner = self._inner
        if inner is None or self._is_resubscribing:
            return
        wanted = wanted_of(self._wire_encoder, self)
        deadline = time.monotonic() + self._configuration.subscribe_timeout
        while self._inner is inner and not inner.is_settled(wanted) and time.monotonic() < deadline:
            if self._reading.acquire(timeout=0.02):  # else another thread reads, and sees the confirmation
                try:
                    self._pass(deadline)
                finally:
                    self._reading.release()

    # -- reading -----------------------------------------------------------------------------------------------

    def parse_response(self, block: bool = True, timeout: float = 0) -> Any:
        """See :meth:`redis.client.PubSub.parse_response`: the response whose turn it is."""
        if not self._configuration.is_ordering:
            return super().parse_response(block=block, timeout=timeout)
        deadline = None if block else time.monotonic() + (timeout or 0)
        if self._inner is None or self.connection is None:
            with self._reading:
                response = super().parse_response(block=block, timeout=timeout)
                if self._inner is None or not isinstance(response, list):
                    return self._pushed(response)
                # another thread has subscribed meanwhile: it may be the confirmation
                self._items.extend(self._inner.exchange([encoded(self._wire_encoder, response)]))
        while True:
            item = self._next(deadline)
            if isinstance(item, Gap):
                log_gap(item)
                if self.on_gap is not None:
                    self.on_gap(item)
            elif isinstance(item, Failed):
                raise item.error
            elif item is _NOTHING:
                return None
            else:
                return self._pushed(decoded(self._wire_encoder, item))

    def _pushed(self, response: Any) -> Any:
        """Ask the application's handler of pushes, where the library would have: RESP 3 has them."""
        handler, connection = self._push_handler, self.connection
        if handler is None or not isinstance(response, list) or _library.protocol_of(connection) != 3:
            return pong_of(response)
        return handler(response)

    def _next(self, deadline: float | None) -> Any:
        """Return what comes next, ``_NOTHING`` when the time is over."""
        with self._reading:
            while not self._items:
                self._pass(deadline)
                if not self._items and (self._inner is None or remaining(deadline) == 0):
                    return _NOTHING
            return self._items.popleft()

    def _pass(self, deadline: float | None) -> None:
        """Read what there is and exchange it; if there is nothing wait until something comes, once."""
        inner, connection = self._inner, _connection_of(self)
        if inner is not None and connection is not None:
            inner.subscriber.time.begin()
            try:
                self._read_or_wait(inner, connection, deadline)
            finally:
                inner.subscriber.time.end()

    def _read_or_wait(self, inner: ThreadSubscriber, connection: Any, deadline: float | None) -> None:
        responses: list[Any] = []
        try:
            while len(responses) < READ_BATCH and (response := self._execute(connection, self._read)) is not _NOTHING:
                if response is not None:
                    responses.append(response)
        finally:
            if inner.bell.answer() or responses:
                self._items.extend(inner.exchange(responses))
                responses_came = True
            else:
                responses_came = False
        if not responses_came:
            timeout = self._pulse.wait(connection, time.monotonic(), remaining(deadline))
            if timeout != 0:
                inner.bell.wait(_library.socket_of(connection), timeout)

    def _read(self) -> Any:
        """Read one response as bytes, if there is one. The library connects again, and calls again, when it raises."""
        connection: Any = self.connection
        now = time.monotonic()
        try:
            if self._pulse.is_due(connection, now):
                self.check_health()
        except exceptions.ConnectionError:
            connection.disconnect()
            raise
        if not connection.can_read(timeout=0):
            return _NOTHING
        limit = {"timeout": 0.0} if _library.CAN_LIMIT_READS else {}
        try:
            response = connection.read_response(
                disable_decoding=True, disconnect_on_error=False, push_request=True, **limit
            )
        except exceptions.TimeoutError:
            return _NOTHING  # a part of a response, which the library keeps until the rest is there
        self._pulse.heard()
        if self.is_health_check_response(decoded_or_not(self._wire_encoder, response)):
            self.health_check_response_counter -= 1
            return None
        return response

    # -- handing out -------------------------------------------------------------------------------------------

    def handle_message(self, response: Any, ignore_subscribe_messages: bool = False) -> Any:
        """See :meth:`redis.client.PubSub.handle_message`; messages get the key ``inorder``."""
        inorder = response.inorder if isinstance(response, Response) else None
        if inorder is None:
            return super().handle_message(response, ignore_subscribe_messages)
        message: Any = self._reader.handle_message(response)
        self._add_order(message, inorder)
        handlers = self.channels if message["pattern"] is None else self.patterns
        handler = handlers.get(message["channel"] if message["pattern"] is None else message["pattern"])
        if handler is None:
            return message
        handler(message)
        return None

    def _add_order(self, message: dict[str, Any], inorder: Inorder) -> None:
        message["inorder"] = inorder


def decoded_or_not(encoder: Any, response: Any) -> Any:
    """Return a response decoded, as it is where that fails: it is no answer to a health check."""
    try:
        return decoded(encoder, response)
    except UnicodeError:
        return response


def _connection_of(pubsub: PubSub) -> Any:
    """Return the connection; the library's annotations know none."""
    return pubsub.connection


StrictRedis = Redis
"""As the library has it."""


def from_url(url: str, **kwargs: Any) -> Redis:
    """See :func:`redis.from_url`."""
    return Redis.from_url(url, **kwargs)


def __getattr__(name: str) -> Any:
    return getattr(library, name)
