"""redis-py's asyncio client, with the channels in total order. Everything runs on the application's event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from redis import exceptions
from redis.asyncio import client as library

from inorder.client.configured import ClientConfiguration
from inorder.core.notifications import Gap
from inorder.errors import InorderError
from inorder.redis import _library
from inorder.redis._errors import translated, unanswered
from inorder.redis._message import Failed, Inorder, Response
from inorder.redis._publisher import Publisher, Stamped, Ticket, is_publish
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
from inorder.redis._subscriber import Subscriber

_NOTHING = object()
_LONG = 86_400.0
"""A read is begun anew after this, s."""


class _Publishers:
    """The publisher of each connection pool: whatever shares the pool is one publisher (R19)."""

    def __init__(self) -> None:
        self._by_pool: weakref.WeakKeyDictionary[Any, tuple[object, asyncio.Task[Publisher]]] = (
            weakref.WeakKeyDictionary()
        )

    async def of(self, pool: Any, configuration: ClientConfiguration) -> Publisher:
        """Return the publisher of a pool, opened for its first publish. Raises WorkerUnreachable, Unauthorized."""
        loop = asyncio.get_running_loop()
        found = self._by_pool.get(pool)
        if found is None or found[0] is not loop or (found[1].done() and _has_failed(found[1])):
            opening = loop.create_task(self._open(pool, configuration), name="inorder.redis: publisher")
            found = self._by_pool[pool] = loop, opening
        try:
            return await asyncio.shield(found[1])
        except InorderError as error:
            raise translated(error) from None

    @staticmethod
    async def _open(pool: Any, configuration: ClientConfiguration) -> Publisher:
        publisher = Publisher(configuration, address_of(pool))
        await publisher.open()
        return publisher

    async def close(self, pool: Any) -> None:
        """The pool is closed; it may be used again."""
        found = self._by_pool.pop(pool, None)
        if found is not None and found[0] is asyncio.get_running_loop():
            with suppress(InorderError):
                publisher = await found[1]
                await publisher.close()


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


_PUBLISHERS = _Publishers()


async def _stamp(publisher: Publisher, tickets: list[Ticket]) -> None:
    """Wait until all have a timestamp. Raises what the first one without failed with; then none is published."""
    done = asyncio.Event()
    is_whole = False
    publisher.stamp(tickets, done.set)
    try:
        try:
            async with asyncio.timeout(STAMP_TIMEOUT):
                await done.wait()
        except TimeoutError:
            raise unanswered(STAMP_TIMEOUT) from None
        error = next((each.error for each in tickets if each.error is not None), None)
        if error is not None:
            raise translated(error) if isinstance(error, InorderError) else error
        is_whole = True
    finally:
        if not is_whole:
            for each in tickets:
                publisher.give_up(each)


class Redis(Configured, library.Redis):  # type: ignore[misc]  # ours hands further keywords on
    """``redis.asyncio.Redis`` whose ``publish`` and ``pubsub()`` keep the one order of the domain.

    Args:
        args, kwargs: the library's.
        inorder: see :class:`inorder.redis.Redis`.

    Raises:
        InvalidOption: the environment or the file says something that is not allowed.
    """

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """See :meth:`redis.asyncio.Redis.pipeline`; what it publishes is stamped when it is executed, all at once."""
        pipeline = Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipeline._configuration = self._configuration
        return pipeline

    def pubsub(self, **kwargs: Any) -> PubSub:
        """See :meth:`redis.asyncio.Redis.pubsub`. ``on_gap``: called, or awaited, with each :class:`~inorder.Gap`."""
        return PubSub(self.connection_pool, inorder=self._configuration, **_library.dispatcher_of(self), **kwargs)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """See :meth:`redis.asyncio.Redis.aclose`."""
        if close_connection_pool or (close_connection_pool is None and self.auto_close_connection_pool):
            await _PUBLISHERS.close(self.connection_pool)
        await super().aclose(close_connection_pool)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """See :meth:`redis.asyncio.Redis.execute_command`; PUBLISH gets a timestamp first."""
        if self._is_ordered and is_publish(args):
            return await self._publish(super().execute_command, args, options)
        return await super().execute_command(*args, **options)

    async def _publish(
        self, execute: Callable[..., Awaitable[Any]], args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        ticket = ticket_of(self.get_encoder(), args[1], args[2])
        if ticket is None:
            return await execute(*args, **options)
        publisher = await _PUBLISHERS.of(self.connection_pool, self._configuration)
        await _stamp(publisher, [ticket])
        try:
            reply = await execute(args[0], args[1], ticket.wire, **options)
        except BaseException as error:
            publisher.failed(ticket, error)
            raise
        publisher.accepted(ticket)
        return reply

    async def _send_command_parse_response(self, conn: Any, command_name: Any, *args: Any, **options: Any) -> Any:
        if isinstance(args[-1], Stamped):
            args[-1].was_sent = True
        return await super()._send_command_parse_response(conn, command_name, *args, **options)


class Pipeline(library.Pipeline, Redis):  # type: ignore[misc]  # the library's own Pipeline differs from its Redis
    """``redis.asyncio.client.Pipeline``; what it publishes is stamped when it is executed."""

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """See :meth:`redis.asyncio.client.Pipeline.immediate_execute_command`."""
        if self._is_ordered and is_publish(args):
            return await self._publish(super().immediate_execute_command, args, options)
        return await super().immediate_execute_command(*args, **options)

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """See :meth:`redis.asyncio.client.Pipeline.execute`."""
        commands: Any = self.command_stack
        tickets = tickets_of(self.get_encoder(), commands) if self._is_ordered else {}
        if not tickets:
            return await super().execute(raise_on_error)
        publisher = await _PUBLISHERS.of(self.connection_pool, self._configuration)
        await _stamp(publisher, list(tickets.values()))
        self.command_stack = stamped(commands, tickets)
        try:
            replies = await super().execute(raise_on_error=False)
        except BaseException as error:
            pipeline_failed(publisher, tickets, error)
            raise
        pipeline_ended(publisher, tickets, replies)
        if raise_on_error:
            self.raise_first_error(commands, replies)
        return replies


class _Bell:
    """Wakes the tasks that wait for a subscriber."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        """Wake all that wait now."""
        waiters, self._waiters = self._waiters, set()
        for each in waiters:
            if not each.done():
                each.set_result(None)

    def waiter(self) -> asyncio.Future[None]:
        """Return what is done with the next ring."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(future)
        return future

    def leave(self, waiter: asyncio.Future[None]) -> None:
        """Nobody waits for it any more."""
        self._waiters.discard(waiter)


class PubSub(library.PubSub):
    """``redis.asyncio.client.PubSub`` whose messages come in the one order of the domain, with one more key:
    ``inorder``.

    Args:
        inorder: see :class:`inorder.redis.Redis`.
        on_gap: called, or awaited, with each :class:`~inorder.Gap` at its place in the order.
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
        self._inner: Subscriber | None = None
        self._bell = _Bell()
        self._reading = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._pulse = Pulse()
        self._is_resubscribing = False
        self._wire_encoder = connection_pool.get_encoder()
        is_ordered = self._configuration.is_ordering
        self._push_handler = push_handler_func if is_ordered else None
        handler = push_handler_func if self._push_handler is None else _as_it_is
        super().__init__(connection_pool, shard_hint, ignore_subscribe_messages, encoder, handler, **kwargs)
        # reads messages as the library does, and has no handlers
        self._reader = library.PubSub(connection_pool, encoder=self.encoder, push_handler_func=_as_it_is)

    async def aclose(self) -> None:
        """See :meth:`redis.asyncio.client.PubSub.aclose`."""
        await super().aclose()
        inner, self._inner = self._inner, None
        self._pulse.heard()
        self._bell.ring()
        if inner is not None:
            await inner.close()

    # -- subscribing -------------------------------------------------------------------------------------------

    async def execute_command(self, *args: Any) -> Any:
        """See :meth:`redis.asyncio.client.PubSub.execute_command`."""
        if self._inner is None and self._configuration.is_ordering and args[0] in SUBSCRIBES:
            await self._open()
        return await super().execute_command(*args)

    async def _open(self) -> None:
        async with self._opening:
            if self._inner is None:
                inner = Subscriber(self._configuration, address_of(self.connection_pool), self._bell.ring)
                try:
                    await inner.open()
                except InorderError as error:
                    raise translated(error) from None
                self._inner = inner

    async def subscribe(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`redis.asyncio.client.PubSub.subscribe`. Returns when the workers know, so that whatever is
        published from now on is delivered."""
        await super().subscribe(*args, **kwargs)
        await self._await_workers()

    async def psubscribe(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`redis.asyncio.client.PubSub.psubscribe` and :meth:`subscribe`."""
        await super().psubscribe(*args, **kwargs)
        await self._await_workers()

    async def on_connect(self, connection: Any) -> None:
        """See :meth:`redis.asyncio.client.PubSub.on_connect`."""
        self._pulse.heard()
        self._is_resubscribing = True
        try:
            await super().on_connect(connection)
        finally:
            self._is_resubscribing = False

    async def _await_workers(self) -> None:
        inner = self._inner
        if inner is None or self._is_resubscribing:
            return
        wanted = wanted_of(self._wire_encoder, self)
        deadline = time.monotonic() + self._configuration.subscribe_timeout
        while self._inner is inner and not wanted <= inner.settled and time.monotonic() < deadline:
            if self._reading.locked():  # another task reads, and sees the confirmation
                await self._ring_or(remaining(deadline))
            else:
                async with self._reading:
                    await self._pass(deadline)

    async def _ring_or(self, timeout: float | None) -> None:
        waiter = self._bell.waiter()
        try:
            await asyncio.wait([waiter], timeout=0.02 if timeout is None else min(timeout, 0.02))
        finally:
            self._bell.leave(waiter)

    # -- reading -----------------------------------------------------------------------------------------------

    async def parse_response(self, block: bool = True, timeout: float | None = 0) -> Any:
        """See :meth:`redis.asyncio.client.PubSub.parse_response`: the response whose turn it is."""
        if not self._configuration.is_ordering:
            return await super().parse_response(block=block, timeout=timeout or 0)
        deadline = None if block else time.monotonic() + (timeout or 0)
        if self._inner is None or self.connection is None:
            async with self._reading:
                response = await super().parse_response(block=block, timeout=timeout or 0)
                inner: Any = self._inner
                if inner is None or not isinstance(response, list):
                    return await self._pushed(response)
                # another task has subscribed meanwhile: it may be the confirmation
                inner.feed([encoded(self._wire_encoder, response)])
        while True:
            item = await self._next(deadline)
            if isinstance(item, Gap):
                log_gap(item)
                if self.on_gap is not None and inspect.isawaitable(told := self.on_gap(item)):
                    await told
            elif isinstance(item, Failed):
                raise item.error
            elif item is _NOTHING:
                return None
            else:
                return await self._pushed(decoded(self._wire_encoder, item))

    async def _pushed(self, response: Any) -> Any:
        """Ask the application's handler of pushes, where the library would have: RESP 3 has them."""
        handler, connection = self._push_handler, self.connection
        if handler is None or not isinstance(response, list) or _library.protocol_of(connection) != 3:
            return pong_of(response)
        changed = handler(response)
        return await changed if inspect.isawaitable(changed) else changed

    async def _next(self, deadline: float | None) -> Any:
        """Return what comes next, ``_NOTHING`` when the time is over."""
        async with self._reading:
            while True:
                inner = self._inner
                if inner is None:
                    return _NOTHING
                if inner.items:
                    return inner.items.popleft()
                await self._pass(deadline)
                if not inner.items and remaining(deadline) == 0:
                    return _NOTHING

    async def _pass(self, deadline: float | None) -> None:
        """Read what there is; if there is nothing wait until something comes, once."""
        inner, connection = self._inner, _connection_of(self)
        if inner is not None and connection is not None:
            inner.time.begin()
            try:
                await self._read_or_wait(inner, connection, deadline)
            finally:
                inner.time.end()

    async def _read_or_wait(self, inner: Subscriber, connection: Any, deadline: float | None) -> None:
        if await self._read_all(inner):
            return
        timeout = self._pulse.wait(connection, asyncio.get_running_loop().time(), remaining(deadline))
        if timeout == 0 or inner.items:
            return
        waiter: asyncio.Future[Any] = self._bell.waiter()
        reading: asyncio.Future[Any] = asyncio.ensure_future(self._read(inner, _LONG))
        try:
            await asyncio.wait([reading, waiter], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._bell.leave(waiter)
            if not reading.done():
                reading.cancel()  # what was read in part stays in the library's buffer
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([reading])
        if not reading.cancelled():
            reading.result()

    async def _read_all(self, inner: Subscriber) -> bool:
        """Read what is here already; return whether there was anything."""
        count = 0
        while count < READ_BATCH and await self._read(inner, 0):
            count += 1
        return count > 0

    async def _read(self, inner: Subscriber, timeout: float) -> bool:
        """Read one response, as bytes, and feed it; return whether there was one."""
        connection: Any = self.connection
        if connection is None:
            return False

        async def read() -> Any:
            try:
                if self._pulse.is_due(connection, asyncio.get_running_loop().time()):
                    await self.check_health()
            except exceptions.ConnectionError:
                await connection.disconnect(nowait=True)
                raise
            if not connection.is_connected:
                await connection.connect()
            return await connection.read_response(
                disable_decoding=True, timeout=timeout, disconnect_on_error=False, push_request=True
            )

        response = await self._execute(connection, read)
        if response is None:
            return False
        self._pulse.heard()
        if connection.health_check_interval and self._is_pulse(response):
            return True
        inner.feed([response])
        return True

    def _is_pulse(self, response: Any) -> bool:
        expected = self.HEALTH_CHECK_MESSAGE.encode()
        return bool(response == expected or response == [b"pong", expected])

    # -- handing out -------------------------------------------------------------------------------------------

    async def handle_message(self, response: Any, ignore_subscribe_messages: bool = False) -> Any:
        """See :meth:`redis.asyncio.client.PubSub.handle_message`; messages get the key ``inorder``."""
        inorder = response.inorder if isinstance(response, Response) else None
        if inorder is None:
            return await super().handle_message(response, ignore_subscribe_messages)
        message: Any = await self._reader.handle_message(response)
        self._add_order(message, inorder)
        handlers = self.channels if message["pattern"] is None else self.patterns
        handler = handlers.get(message["channel"] if message["pattern"] is None else message["pattern"])
        if handler is None:
            return message
        if inspect.isawaitable(handled := handler(message)):
            await handled
        return None

    def _add_order(self, message: dict[str, Any], inorder: Inorder) -> None:
        message["inorder"] = inorder


async def _as_it_is(response: Any) -> Any:
    return response


def _connection_of(pubsub: PubSub) -> Any:
    """Return the connection; the library's annotations know none."""
    return pubsub.connection


StrictRedis = Redis
"""As the library has it."""


def from_url(url: str, **kwargs: Any) -> Redis:
    """See :func:`redis.asyncio.from_url`."""
    return Redis.from_url(url, **kwargs)


def __getattr__(name: str) -> Any:
    return getattr(library, name)
