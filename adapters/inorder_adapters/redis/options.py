"""Options of a Redis connection: ``redis://user:password@host:port/0?protocol=3``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from inorder.errors import InvalidOption
from inorder.masking import masked_url
from inorder_adapters.url_options import Address, Options, read_options, split_url, tls_context

_Seconds = Annotated[float, Meta(gt=0, description="seconds, more than 0")]
_Flag = Annotated[bool, Meta(description="true or false")]
_File = Annotated[str, Meta(min_length=1, description="a file's path")]


class RedisOptions(Options, frozen=True, kw_only=True):
    """The options of one connection. Sharded pub/sub is not supported: its channels are another name space.

    Attributes:
        protocol: of RESP, 2 or 3.
        db: accepted as part of the URL; channels do not belong to a database.
        health_check_interval: a server that is silent for this long is pinged, and taken for gone if it is silent
            for as long again.
        connect_timeout: for name, TCP, TLS and log-in together.
        ack_timeout: for the server's answer to a subscribe or an unsubscribe.
        close_timeout: how long :meth:`RedisEns.close` lets what was published leave.
        tls: encrypt; ``rediss://`` sets it.
        tls_ca, tls_cert, tls_key: PEM files; without ``tls_ca`` the system's authorities are trusted.
        tls_insecure: do not check the server's certificate.
        username, password: also in the URL, percent-encoded.
        space: the space of the channels.
    """

    protocol: Annotated[int, Meta(ge=2, le=3, description="2 or 3")] = 2
    db: Annotated[int, Meta(ge=0, description="a whole number, 0 or more")] = 0
    health_check_interval: _Seconds = 10.0
    connect_timeout: _Seconds = 10.0
    ack_timeout: _Seconds = 10.0
    close_timeout: Annotated[float, Meta(ge=0, description="seconds, 0 or more")] = 0.5
    tls: _Flag = False
    tls_ca: _File | None = None
    tls_cert: _File | None = None
    tls_key: _File | None = None
    tls_insecure: _Flag = False
    username: Annotated[str, Meta(description="text")] | None = None
    password: Annotated[str, Meta(description="text")] | None = None
    space: Annotated[str, Meta(min_length=1, description="a name")] = "redis"


class Target(NamedTuple):
    """A server's address with the options of the connection."""

    address: Address
    options: RedisOptions


def parse(url: str, options: Mapping[str, Any]) -> Target:
    """Return the target that a URL and options name. Raises InvalidOption."""
    parts, address = split_url(url, {"redis": 6379, "rediss": 6379})
    db = parts.path.strip("/")
    if db and not db.isdecimal():
        raise InvalidOption("url", masked_url(url), f"{parts.scheme}://host:port/database-number")
    parsed = read_options(RedisOptions, parts, options, tls=parts.scheme == "rediss", db=int(db or 0))
    if parsed.tls:
        # redis-py reads the files only when it connects; an unreadable one is a mistake of the caller, so say it now.
        tls_context(ca=parsed.tls_ca, cert=parsed.tls_cert, key=parsed.tls_key, insecure=parsed.tls_insecure)
    return Target(address, parsed)
