"""redis-py's asyncio ``PubSub`` with messages in the total order of the domain."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from redis import exceptions
from redis.asyncio import client as library

from inorder.client.configured import ClientConfiguration
from inorder.endpoint.notifications import Gap
from inorder.errors import InorderError
from inorder.redis import _library
from inorder.redis._errors import translated
from inorder.redis._message import Failed, Inorder, Response, Via
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
from inorder.redis._subscriber import Subscriber

_NOTHING = object()
_Reader = library.PubSub  # also where ours is in its place (install)
_LONG = 86_400.0
"""A read is begun anew after this, s."""


class _TaskWaker:
    """A wakeup for the tasks that wait for a subscriber."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Wake all tasks that wait now."""
        waiters, self._waiters = self._waiters, set()
        for each in waiters:
            if not each.done():
                each.set_result(None)

    def waiter(self) -> asyncio.Future[None]:
        """Return a future that the next ring ends."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(future)
        return future

    def leave(self, waiter: asyncio.Future[None]) -> None:
        """Forget a future for which nobody waits any more."""
        self._waiters.discard(waiter)


class PubSub(library.PubSub):
    """``redis.asyncio.client.PubSub`` with messages in the total order of the domain, under one more key: ``inorder``.

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
        self._waker = _TaskWaker()
        self._reading = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._health_check = HealthCheck()
        self._wire_encoder = connection_pool.get_encoder()
        is_ordered = self._configuration.is_ordering
        self._push_handler = push_handler_func if is_ordered else None
        handler = push_handler_func if self._push_handler is None else _as_it_is
        super().__init__(connection_pool, shard_hint, ignore_subscribe_messages, encoder, handler, **kwargs)
        # reads messages as the library does, and has no handlers
        self._reader = _Reader(connection_pool, encoder=self.encoder, push_handler_func=_as_it_is)

    connection: Any  # to type checkers the library's is always None

    if TYPE_CHECKING:

        async def __aenter__(self) -> Self: ...

    async def aclose(self) -> None:
        """See :meth:`redis.asyncio.client.PubSub.aclose`."""
        await super().aclose()
        inner, self._inner = self._inner, None
        self._health_check.on_reception()
        self._waker.wake()
        if inner is not None:
            await inner.close()

    # -- subscribing -------------------------------------------------------------------------------------------

    async def execute_command(self, *args: Any) -> Any:
        """See :meth:`redis.asyncio.client.PubSub.execute_command`."""
        if args[0] in SUBSCRIBES and self._configuration.is_ordering:
            if self._inner is None:
                await self._open()
            note_asked(self._wire_encoder, args)
        else:
            note_ended(self._wire_encoder, args, self._inner)
        return await super().execute_command(*args)

    async def _execute(self, conn: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        """See :meth:`redis.asyncio.client.PubSub._execute`. What fails while it subscribes again is tried again as a
        whole, by whoever has connected, and not once more for each of the tries."""
        if self._configuration.is_ordering and is_resubscribing():
            return await command(*args, **kwargs)
        return await super()._execute(conn, command, *args, **kwargs)

    async def _open(self) -> None:
        async with self._opening:
            if self._inner is None:
                inner = Subscriber(self._configuration, address_of(self.connection_pool), self._waker.wake)
                try:
                    await inner.open()
                except InorderError as error:
                    raise translated(error) from None
                self._inner = inner

    async def subscribe(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`redis.asyncio.client.PubSub.subscribe`. Returns when the workers know, so that whatever is
        published from now on is delivered."""
        refusals = self._refusals
        with asking() as asked:
            await super().subscribe(*args, **kwargs)
        await self._await_workers(asked, refusals)

    async def psubscribe(self, *args: Any, **kwargs: Any) -> None:
        """See :meth:`redis.asyncio.client.PubSub.psubscribe` and :meth:`subscribe`."""
        refusals = self._refusals
        with asking() as asked:
            await super().psubscribe(*args, **kwargs)
        await self._await_workers(asked, refusals)

    async def on_connect(self, connection: Any) -> None:
        """See :meth:`redis.asyncio.client.PubSub.on_connect`."""
        self._health_check.on_reception()
        if self._inner is not None:
            self._inner.ens.connected_again()
        try:
            with resubscribing():
                await super().on_connect(connection)
        except BaseException:
            await connection.disconnect(nowait=True)  # else it would seem to be subscribed
            raise

    @property
    def _refusals(self) -> int:
        return 0 if self._inner is None else self._inner.refusals

    async def _await_workers(self, asked: set[Via], refusals: int) -> None:
        """Wait until the workers have answered, or a subscription was refused, with an error in its turn."""
        inner = self._inner
        deadline = time.monotonic() + self._configuration.subscribe_timeout
        while inner is not None and self._inner is inner and time.monotonic() < deadline:
            if asked <= inner.settled or inner.refusals != refusals:
                break
            if self._reading.locked():  # another task reads, and sees the confirmation
                await self._ring_or(remaining(deadline))
            else:
                async with self._reading:
                    await self._pass(deadline)

    async def _ring_or(self, timeout: float | None) -> None:
        waiter = self._waker.waiter()
        try:
            await asyncio.wait([waiter], timeout=0.02 if timeout is None else min(timeout, 0.02))
        finally:
            self._waker.leave(waiter)

    # -- reading -----------------------------------------------------------------------------------------------

    async def parse_response(self, block: bool = True, timeout: float | None = 0) -> Any:
        """See :meth:`redis.asyncio.client.PubSub.parse_response`; returns the response in its turn."""
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
                if item.is_final:
                    await self._begin_anew()
                raise translated(item.error)
            elif item is _NOTHING:
                return None
            else:
                return await self._pushed(decoded(self._wire_encoder, item))

    async def _begin_anew(self) -> None:
        """Drop the subscriber that the workers refuse for good, so that the next use makes another. As after a lost
        connection, the next read subscribes again, with another one."""
        inner, self._inner = self._inner, None
        connection = self.connection
        if connection is not None:
            await connection.disconnect(nowait=True)
        if inner is not None:
            await inner.close()

    async def _pushed(self, response: Any) -> Any:
        """Call the application's handler of pushes where the library would (RESP 3)."""
        handler, connection = self._push_handler, self.connection
        if handler is None or not isinstance(response, list) or _library.protocol_of(connection) != 3:
            return pong_of(response)
        changed = handler(response)
        return await changed if inspect.isawaitable(changed) else changed

    async def _next(self, deadline: float | None) -> Any:
        """Return the next response, or ``_NOTHING`` when the time is over."""
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
        """Read the available responses; without any, wait once until something comes."""
        inner, connection = self._inner, self.connection
        if inner is not None and connection is not None:
            inner.time.begin()
            try:
                await self._read_or_wait(inner, connection, deadline)
            finally:
                inner.time.end()

    async def _read_or_wait(self, inner: Subscriber, connection: Any, deadline: float | None) -> None:
        if await self._read_all(inner):
            return
        timeout = self._health_check.wait(connection, asyncio.get_running_loop().time(), remaining(deadline))
        if timeout == 0 or inner.items:
            return
        waiter: asyncio.Future[Any] = self._waker.waiter()
        reading: asyncio.Future[Any] = asyncio.ensure_future(self._read(inner, _LONG))
        try:
            await asyncio.wait([reading, waiter], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waker.leave(waiter)
            if not reading.done():
                reading.cancel()  # what was read in part stays in the library's buffer
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([reading])
        if not reading.cancelled():
            reading.result()

    async def _read_all(self, inner: Subscriber) -> bool:
        """Read the responses that are here already; return whether there were any."""
        count = 0
        while count < READ_BATCH and await self._read(inner, 0):
            count += 1
        return count > 0

    async def _read(self, inner: Subscriber, timeout: float) -> bool:
        """Read one response as bytes and feed it; return whether there was one."""
        connection: Any = self.connection
        if connection is None:
            return False

        async def read() -> Any:
            try:
                if self._health_check.is_due(connection, asyncio.get_running_loop().time()):
                    await self.check_health()
            except exceptions.ConnectionError:
                await connection.disconnect(nowait=True)
                raise
            if not connection.is_connected:
                await connection.connect()
            ping = inner.ens.take_ping()
            if ping is not None:
                await connection.send_command("PING", ping, check_health=False)
            try:
                return await connection.read_response(
                    disable_decoding=True, timeout=timeout, disconnect_on_error=False, push_request=True
                )
            except exceptions.ResponseError as error:
                return Failed(error)

        response = await self._execute(connection, read)
        if response is None:
            return False
        self._health_check.on_reception()
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
