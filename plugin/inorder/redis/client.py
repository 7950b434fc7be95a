"""redis-py's blocking client, with the channels in total order."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from redis import client as library

from inorder.client.configured import ClientConfiguration
from inorder.redis import _library
from inorder.redis._publisher import StampedPayload, is_publish
from inorder.redis._pubsub import PubSub as PubSub
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
from inorder.redis._thread import ThreadPublisher


class _Publishers:
    """The publishers of connection pools: all users of a pool are one publisher (R19)."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the parent's publishers and lock in a forked child."""
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
                if found is not None:
                    found.end()
                found = ThreadPublisher(configuration, address_of(pool))
                self._by_pool[pool] = found
                weakref.finalize(pool, found.end)
            return found

    def end(self, pool: Any) -> None:
        """End the publisher of a closed pool; a pool that is used again gets a new one."""
        found = self._by_pool.pop(pool, None)
        if found is not None:
            found.end()


_PUBLISHERS = _Publishers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PUBLISHERS.forget)


class Redis(ConfiguredClient, library.Redis):
    """``redis.Redis`` whose ``publish`` and ``pubsub()`` keep the total order of the domain.

    Args:
        args, kwargs: the library's.
        inorder: which workers to use and how; by default what the environment (``INORDER_CLIENT__...``) and
            ``inorder.toml`` say. Without workers it behaves exactly as the library.

    Raises:
        InvalidOption: the environment or the file says something that is not allowed.
    """

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """See :meth:`redis.Redis.pipeline`; publishes of a pipeline are stamped together when it is executed."""
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
        if isinstance(args[-1], StampedPayload):
            args[-1].was_sent = True
        return super()._send_command_parse_response(conn, command_name, *args, **options)


class Pipeline(library.Pipeline, Redis):
    """``redis.client.Pipeline`` whose publishes are stamped when it is executed."""

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


StrictRedis = Redis
"""As the library has it."""


def from_url(url: str, **kwargs: Any) -> Redis:
    """See :func:`redis.from_url`."""
    return Redis.from_url(url, **kwargs)


if TYPE_CHECKING:  # of a name that is imported twice the first one is meant
    from redis.client import *  # type: ignore[assignment]  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        return getattr(library, name)
