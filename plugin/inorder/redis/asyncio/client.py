"""redis-py's asyncio client, with the channels in total order. Everything runs on the application's event loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.asyncio import client as library

from inorder.client.configured import ClientConfiguration
from inorder.errors import InorderError
from inorder.redis import _library
from inorder.redis._errors import translated, unanswered
from inorder.redis._publisher import Publisher, StampedPayload, Ticket, is_publish
from inorder.redis._shared import (
    STAMP_TIMEOUT,
    ConfiguredClient,
    address_of,
    pipeline_ended,
    pipeline_failed,
    stamped,
    ticket_of,
    tickets_of,
)
from inorder.redis.asyncio._pubsub import PubSub as PubSub


class _Publishers:
    """The publishers of connection pools: all users of a pool are one publisher (R19)."""

    def __init__(self) -> None:
        self._by_pool: weakref.WeakKeyDictionary[Any, tuple[object, asyncio.Task[Publisher]]] = (
            weakref.WeakKeyDictionary()
        )

    async def of(self, pool: Any, configuration: ClientConfiguration) -> Publisher:
        """Return the publisher of a pool, opened for its first publish. Raises WorkerUnreachable, Unauthorized."""
        loop = asyncio.get_running_loop()
        found = self._by_pool.get(pool)
        if found is not None and found[0] is loop and _is_over(found[1]):
            del self._by_pool[pool]  # at once: others may ask meanwhile
            await self._close(found[1])
            found = self._by_pool.get(pool)
        if found is None or found[0] is not loop:
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
        """Close the publisher of a closed pool; a pool that is used again gets a new one."""
        found = self._by_pool.pop(pool, None)
        if found is not None and found[0] is asyncio.get_running_loop():
            await self._close(found[1])

    @staticmethod
    async def _close(opening: asyncio.Task[Publisher]) -> None:
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            with suppress(InorderError):
                await opening.result().close()


def _is_over(opened: asyncio.Task[Publisher]) -> bool:
    """Tell whether a publisher could not be opened or was refused since."""
    return opened.done() and (opened.cancelled() or opened.exception() is not None or opened.result().is_closed)


_PUBLISHERS = _Publishers()


async def _stamp(publisher: Publisher, tickets: list[Ticket]) -> None:
    """Wait until all tickets have a timestamp. Raises the first error of a ticket; then none is published."""
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


class Redis(ConfiguredClient, library.Redis):  # type: ignore[misc]  # ours hands further keywords on
    """``redis.asyncio.Redis`` whose ``publish`` and ``pubsub()`` keep the total order of the domain.

    Args:
        args, kwargs: the library's.
        inorder: see :class:`inorder.redis.Redis`.

    Raises:
        InvalidOption: the environment or the file says something that is not allowed.
    """

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """See :meth:`redis.asyncio.Redis.pipeline`; its publishes are stamped together at execution."""
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
        if isinstance(args[-1], StampedPayload):
            args[-1].was_sent = True
        return await super()._send_command_parse_response(conn, command_name, *args, **options)


class Pipeline(library.Pipeline, Redis):  # type: ignore[misc]  # the library's own Pipeline differs from its Redis
    """``redis.asyncio.client.Pipeline`` whose publishes are stamped when it is executed."""

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


StrictRedis = Redis
"""As the library has it."""


def from_url(url: str, **kwargs: Any) -> Redis:
    """See :func:`redis.asyncio.from_url`."""
    return Redis.from_url(url, **kwargs)


if TYPE_CHECKING:  # of a name that is imported twice the first one is meant
    from redis.asyncio.client import *  # type: ignore[assignment]  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        return getattr(library, name)
