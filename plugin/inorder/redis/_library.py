"""The names used by inorder beyond redis-py's documented surface, and a check that the installed release has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import redis
import redis.asyncio
import redis.client
from redis.asyncio import client as asyncio_client
from redis.asyncio import connection as asyncio_connection
from redis.connection import AbstractConnection

OVERRIDDEN = (
    (redis.client.Redis, "execute_command _send_command_parse_response pipeline pubsub client close"),
    (redis.client.Pipeline, "execute immediate_execute_command raise_first_error"),
    (
        redis.client.PubSub,
        "execute_command parse_response handle_message subscribe psubscribe on_connect reset check_health"
        " is_health_check_response _execute get_message clean_health_check_responses",
    ),
    (AbstractConnection, "can_read read_response disconnect"),
    (asyncio_client.Redis, "execute_command _send_command_parse_response pipeline pubsub client aclose"),
    (asyncio_client.Pipeline, "execute immediate_execute_command raise_first_error"),
    (
        asyncio_client.PubSub,
        "execute_command parse_response handle_message subscribe psubscribe on_connect aclose check_health _execute",
    ),
    (asyncio_connection.AbstractConnection, "read_response connect disconnect"),
)
"""Methods that are overridden or called; besides these, attributes of connections: ``_sock`` (of a caching one
``_conn``), ``next_health_check`` and ``health_check_interval``."""


def check() -> None:
    """Raise ImportError if the installed release lacks a required name."""
    missing = [
        f"{owner.__module__}.{owner.__name__}.{name}"
        for owner, names in OVERRIDDEN
        for name in names.split()
        if not hasattr(owner, name)
    ]
    if missing:
        raise ImportError(f"inorder.redis does not work with redis-py {redis.__version__}: it has no {missing[0]}")


check()

_READ = inspect.signature(AbstractConnection.read_response).parameters
CAN_LIMIT_READS = "timeout" in _READ
"""A blocking connection takes the time that one read may last (redis-py 8); before, ``socket_timeout`` rules."""


def socket_of(connection: Any) -> Any:
    """Return the socket of a blocking connection, or ``None`` without one."""
    sock = getattr(connection, "_sock", None)
    return sock if sock is not None else getattr(getattr(connection, "_conn", None), "_sock", None)


def call_when_connected(connection: Any, method: Callable[[Any], None]) -> None:
    """Register a method, by weak reference, for connects (the name is public from redis-py 5.1 on)."""
    register = getattr(connection, "register_connect_callback", None) or connection._register_connect_callback
    register(method)


def replace_socket(connection: Any, sock: Any) -> None:
    """Give a connected blocking connection another socket; its parser goes on with the bytes read before."""
    holder = connection if getattr(connection, "_sock", None) is not None else connection._conn
    holder._sock = sock


def protocol_of(connection: Any) -> int:
    """Return the version of RESP that a connection speaks."""
    protocol = getattr(connection, "protocol", None)
    if protocol is None:
        protocol = getattr(getattr(connection, "_conn", None), "protocol", 2)
    return int(protocol or 2)


def dispatcher_of(client: Any) -> dict[str, Any]:
    """Return the keyword that a client's ``pubsub()`` passes on in addition to the user's (redis-py 6 and later)."""
    dispatcher = getattr(client, "_event_dispatcher", None)
    return {} if dispatcher is None else {"event_dispatcher": dispatcher}
