"""redis-py's blocking ``PubSub`` with messages in the total order of the domain."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

from redis import client as library
from redis import exceptions

from inorder.client.configured import ClientConfiguration
from inorder.endpoint.notifications import Gap
from inorder.errors import UsageError
from inorder.redis import _library
from inorder.redis._errors import translated
from inorder.redis._message import Failed, Inorder, Item, Response, Via
from inorder.redis._readable import ReadableConnection
from inorder.redis._shared import (
    READ_BATCH,
    SUBSCRIBES,
    HealthCheck,
    OnGap,
    address_of,
    asking,
    configuration_of,
    decoded,
    encoded,
    is_resubscribing,
    log_gap,
    note_asked,
    note_ended,
    pong_of,
    remaining,
    resubscribing,
)
from inorder.redis._thread import ThreadSubscriber
from inorder.redis._waker import Waker

_NOTHING = object()
_Reader = library.PubSub  # also where ours is in its place (install)
_UNSUBSCRIBED = {kind for text in _Reader.UNSUBSCRIBE_MESSAGE_TYPES for kind in (text, text.encode())}


class PubSub(library.PubSub):
    """``redis.client.PubSub`` with messages in the total order of the domain, under one more key: ``inorder``.

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
        self._connection: Any = None
        self._readable: ReadableConnection | None = None
        self._own_waker: Waker | None = None
        self._process = os.getpid()
        self._inner: ThreadSubscriber | None = None
        self._items: deque[Item] = deque()
        self._reading = threading.RLock()
        self._using = (
            threading.RLock()
        )  # the connection: one thread writes, reads or connects it anew; never held for long
        self._health_check = HealthCheck()
        self._wire_encoder = connection_pool.get_encoder()
        is_ordered = self._configuration.is_ordering
        self._push_handler = push_handler_func if is_ordered else None
        handler = push_handler_func if self._push_handler is None else lambda response: response
        super().__init__(connection_pool, shard_hint, ignore_subscribe_messages, encoder, handler, **kwargs)
        # reads messages as the library does, and has no handlers
        self._reader = _Reader(connection_pool, encoder=self.encoder, push_handler_func=lambda response: None)

    if TYPE_CHECKING:

        def __enter__(self) -> Self: ...

    @property
    def connection(self) -> Any:
        """The library's connection while there is one; its socket can be read when a message is due."""
        return self._connection

    @connection.setter
    def connection(self, connection: Any) -> None:
        self._hide()
        self._connection = connection
        if connection is not None and self._configuration.is_ordering:
            self._readable = ReadableConnection(connection, self._waker, self._can_read)

    def _hide(self) -> None:
        readable, self._readable = self._readable, None
        if readable is not None:
            readable.end()

    @property
    def _waker(self) -> Waker:
        if self._own_waker is None:
            self._own_waker, self._process = Waker(), os.getpid()
        return self._own_waker

    def reset(self) -> None:
        """See :meth:`redis.client.PubSub.reset`."""
        if self._process != os.getpid():  # threads that are not here may hold them
            self._reading, self._using = threading.RLock(), threading.RLock()
        with self._using:
            inner, self._inner = self._inner, None
            self._hide()  # the pool may give the connection to others at once
            super().reset()
            self._items.clear()
            self._health_check.on_reception()
        if inner is not None:
            inner.end()
        waker, self._own_waker = self._own_waker, None
        if waker is not None and self._process == os.getpid():
            waker.close()

    def _check_process(self) -> None:
        """Raise an error in a forked child before it reads the parent's bytes."""
        if self._inner is not None and self._process != os.getpid():
            raise translated(UsageError("subscribed before fork(): a child process needs a PubSub of its own"))

    # -- subscribing -------------------------------------------------------------------------------------------

    def execute_command(self, *args: Any) -> Any:
        """See :meth:`redis.client.PubSub.execute_command`."""
        self._check_process()
        if args[0] in SUBSCRIBES and self._configuration.is_ordering:
            if self._inner is None:
                self._inner = ThreadSubscriber(self._configuration, address_of(self.connection_pool), self._waker)
            note_asked(self._wire_encoder, args)
        elif self._inner is not None:
            note_ended(self._wire_encoder, args, self._inner.subscriber)
        with self._using:
            return super().execute_command(*args)

    def _execute(self, conn: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        """See :meth:`redis.client.PubSub._execute`. What fails while it subscribes again is tried again as a whole, by
        whoever has connected, and not once more for each of the tries."""
        if self._configuration.is_ordering and is_resubscribing():
            return command(*args, **kwargs)
        return super()._execute(conn, command, *args, **kwargs)

    def clean_health_check_responses(self) -> None:
        """See :meth:`redis.client.PubSub.clean_health_check_responses`: a reader of ordered messages drops them."""
        if self._inner is None:
            super().clean_health_check_responses()

    def subscribe(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`redis.client.PubSub.subscribe`. Returns when all later publishes will be delivered."""
        refusals = self._refusals
        with asking() as asked:
            super().subscribe(*args, **kwargs)
        self._await_workers(asked, refusals)

    def psubscribe(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`redis.client.PubSub.psubscribe` and :meth:`subscribe`."""
        refusals = self._refusals
        with asking() as asked:
            super().psubscribe(*args, **kwargs)
        self._await_workers(asked, refusals)

    def on_connect(self, connection: Any) -> None:
        """See :meth:`redis.client.PubSub.on_connect`."""
        self._health_check.on_reception()
        if self._inner is not None:
            self._inner.subscriber.ens.connected_again()
        try:
            with resubscribing():
                super().on_connect(connection)
        except BaseException:
            connection.disconnect()  # else it would seem to be subscribed
            raise

    @property
    def _refusals(self) -> int:
        return 0 if self._inner is None else self._inner.subscriber.refusals

    def _await_workers(self, asked: set[Via], refusals: int) -> None:
        """Wait until the workers have answered, or a subscription was refused, with an error in its turn."""
        inner = self._inner
        deadline = time.monotonic() + self._configuration.subscribe_timeout
        try:
            while inner is not None and self._inner is inner and time.monotonic() < deadline:
                if inner.is_settled(asked) or inner.subscriber.refusals != refusals:
                    break
                if self._reading.acquire(timeout=0.02):  # else another thread reads, and sees the confirmation
                    try:
                        self._pass(deadline)
                    finally:
                        self._reading.release()
        finally:
            self._show()

    # -- reading -----------------------------------------------------------------------------------------------

    def parse_response(self, block: bool = True, timeout: float = 0) -> Any:
        """See :meth:`redis.client.PubSub.parse_response`; returns the response in its turn."""
        if not self._configuration.is_ordering:
            return super().parse_response(block=block, timeout=timeout)
        self._check_process()
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
                if item.is_final:
                    self._begin_anew()
                raise translated(item.error)
            elif item is _NOTHING:
                return None
            else:
                return self._pushed(decoded(self._wire_encoder, item))

    def _begin_anew(self) -> None:
        """Drop the subscriber that the workers refuse for good, so that the next use makes another. As after a lost
        connection, the next read subscribes again, with another one."""
        with self._using:
            inner, self._inner = self._inner, None
            self._items.clear()
            if self._connection is not None:
                self._connection.disconnect()
        if inner is not None:
            inner.end()

    def get_message(self, ignore_subscribe_messages: bool = False, timeout: float | None = 0.0) -> Any:
        """See :meth:`redis.client.PubSub.get_message`. Without a timeout it waits until there is a message."""
        if timeout is not None or not self._configuration.is_ordering:
            return super().get_message(ignore_subscribe_messages, timeout)  # type: ignore[arg-type]
        self.subscribed_event.wait()
        while (response := self.parse_response(block=True)) is None and self.subscribed:
            pass
        return self.handle_message(response, ignore_subscribe_messages)

    get_sharded_message = get_message

    def _pushed(self, response: Any) -> Any:
        """Call the application's handler of pushes where the library would (RESP 3)."""
        handler, connection = self._push_handler, self.connection
        if handler is None or not isinstance(response, list) or _library.protocol_of(connection) != 3:
            return pong_of(response)
        return handler(response)

    def _next(self, deadline: float | None) -> Any:
        """Return the next response, or ``_NOTHING`` when the time is over.

        Without a deadline, too, when there was something to read at once and nothing is due by it: who has waited for
        the connection before (kombu) must not be kept until the turn of a message that is held back."""
        with self._reading:
            try:
                is_over = not self._items and deadline is None and self._pass(0.0)
                while not self._items:
                    if is_over or self._inner is None or self._connection is None:
                        return _NOTHING
                    self._pass(deadline)
                    is_over = remaining(deadline) == 0
                return self._items.popleft()
            finally:
                self._show()

    def _can_read(self, timeout: float | None = 0) -> bool:
        """Tell for ``connection.can_read()`` whether :meth:`parse_response` has something."""
        readable = self._readable
        if self._inner is None and readable is not None:
            return readable.can_read(timeout)
        self._check_process()
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._reading.acquire(blocking=False):  # else another thread reads
            try:
                while not self._items and self._inner is not None and self._connection is not None:
                    self._pass(deadline)
                    if remaining(deadline) == 0:
                        break
            finally:
                self._show()
                self._reading.release()
        return bool(self._items)

    def _show(self) -> None:
        """Make the connection's socket readable while a response waits outside of it."""
        inner, waker = self._inner, self._own_waker
        if inner is None or waker is None or not self._reading.acquire(blocking=False):
            return  # another thread reads, and does so at its end
        try:
            if not self._items and waker.is_set and waker.clear() and inner.has_items:
                self._items.extend(inner.exchange([]))
            if self._items:
                waker.wake()
        finally:
            self._reading.release()

    def _pass(self, deadline: float | None) -> bool:
        """Read the available responses and exchange them; without any, wait once until something comes. Return whether
        there was something at once."""
        inner, connection = self._inner, self._connection
        if inner is None or connection is None:
            return False
        inner.subscriber.time.begin()
        try:
            return self._read_or_wait(inner, connection, deadline)
        finally:
            inner.subscriber.time.end()

    def _read_or_wait(self, inner: ThreadSubscriber, connection: Any, deadline: float | None) -> bool:
        responses: list[Any] = []
        was_there = False
        try:
            while len(responses) < READ_BATCH and (response := self._try_read(connection)) is not _NOTHING:
                if response is not None:
                    responses.append(response)
        finally:
            if self._waker.clear() or responses:
                was_there = True
                self._items.extend(inner.exchange(responses))
        if not was_there:
            timeout = self._health_check.wait(connection, time.monotonic(), remaining(deadline))
            if timeout != 0:
                self._waker.wait(_library.socket_of(connection), timeout)
        return was_there

    def _try_read(self, connection: Any) -> Any:
        with self._using:
            return _NOTHING if self._connection is None else self._execute(connection, self._read)

    def _read(self) -> Any:
        """Read one response as bytes, if there is one. The library connects again, and calls again, when it raises."""
        connection: Any = self.connection
        now = time.monotonic()
        try:
            if self._health_check.is_due(connection, now):
                self.check_health()
            ping = None if self._inner is None else self._inner.subscriber.ens.take_ping()
            if ping is not None:
                connection.send_command("PING", ping, check_health=False)
        except exceptions.ConnectionError:
            connection.disconnect()
            raise
        if self._readable is None or not self._readable.can_read(0):
            return _NOTHING
        limit = {"timeout": 0.0} if _library.CAN_LIMIT_READS else {}
        try:
            response = connection.read_response(
                disable_decoding=True, disconnect_on_error=False, push_request=True, **limit
            )
        except exceptions.ResponseError as error:
            return Failed(error)
        except exceptions.TimeoutError:
            return _NOTHING  # a part of a response, which the library keeps until the rest is there
        self._health_check.on_reception()
        if self.is_health_check_response(decoded_or_not(self._wire_encoder, response)):
            self.health_check_response_counter -= 1
            return None
        return response

    # -- handing out -------------------------------------------------------------------------------------------

    def handle_message(self, response: Any, ignore_subscribe_messages: bool = False) -> Any:
        """See :meth:`redis.client.PubSub.handle_message`; messages get the key ``inorder``."""
        inorder = response.inorder if isinstance(response, Response) else None
        if inorder is None:
            with self._using if _is_confirmation(response) else nullcontext():
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


def _is_confirmation(response: Any) -> bool:
    """Tell whether a response changes the library's subscriptions and calls no handler."""
    return isinstance(response, list) and bool(response) and response[0] in _UNSUBSCRIBED


def decoded_or_not(encoder: Any, response: Any) -> Any:
    """Return a response decoded, or unchanged if that fails: such a response answers no health check."""
    try:
        return decoded(encoder, response)
    except UnicodeError:
        return response
