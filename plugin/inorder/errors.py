"""Every error that leaves inorder, sorted by the side at fault.

One root, four branches: the caller's (:class:`UsageError`), the other side's (:class:`PeerError`), the
connection's (:class:`LinkError`) and the store's (:class:`StoreError`). No exception of paho-mqtt, redis-py or
SQLAlchemy leaves the folder that calls it; each border has one table that maps them. Facts are attributes, so a
caller never parses a message.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from typing import ClassVar, Final, Self


class InorderError(Exception):
    """Root of all errors raised by inorder."""


# -- the caller's ----------------------------------------------------------------------------------------------


class UsageError(InorderError):
    """The call was wrong; nothing was changed. The message names what was wrong and what is allowed."""


class InvalidTopic(UsageError, ValueError):
    """The topic cannot be published to.

    Attributes:
        topic: what was given, unchanged.
        reason: what is wrong with it.
    """

    def __init__(self, topic: object, reason: str) -> None:
        self.topic, self.reason = topic, reason
        super().__init__(f"invalid topic {shown(topic)}: {reason}")


class InvalidFilter(UsageError, ValueError):
    """The subscription filter is malformed, or its events cannot be ordered.

    Attributes:
        filter: what was given, unchanged.
        reason: what is wrong with it.
    """

    def __init__(self, filter: object, reason: str) -> None:
        self.filter, self.reason = filter, reason
        super().__init__(f"invalid filter {shown(filter)}: {reason}")


class InvalidPayload(UsageError, TypeError):
    """The payload has a type that the broker's own client library refuses."""

    def __init__(self, payload: object, allowed: str) -> None:
        self.type_name, self.allowed = type(payload).__name__, allowed
        super().__init__(f"invalid payload of type {self.type_name}: allowed are {allowed}")


class PayloadTooLarge(UsageError, ValueError):
    """The payload is over a limit. Attributes: ``size`` and ``limit``, in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"payload of {size} bytes is over the limit of {limit} bytes")


class InvalidOption(UsageError, ValueError):
    """A setting, URL or argument has a value that is not allowed.

    Attributes:
        option: its name.
        value: what was given.
        allowed: what would have been allowed, in words.
    """

    def __init__(self, option: str, value: object, allowed: str) -> None:
        self.option, self.value, self.allowed = option, value, allowed
        super().__init__(f"invalid {option} {shown(value)}: allowed is {allowed}")


class InvalidSetting(InvalidOption):
    """A setting is unknown or has a value that is not allowed. Attribute ``origin``: where it was found."""

    def __init__(self, option: str, value: object, allowed: str, origin: str, problem: str = "invalid") -> None:
        self.origin = origin
        super().__init__(option, value, allowed)
        shown = "" if value is None else f" {value!r}"
        self.args = (f"{problem} {option}{shown} ({origin}): allowed is {allowed}",)


class Closed(UsageError, RuntimeError):
    """The client is closed (or not yet open)."""


class StreamInUse(UsageError, RuntimeError):
    """``events()`` is already being iterated; a client has one delivery stream."""


class QueueFull(UsageError):
    """More publishes were called than ``max_pending`` allows while none could leave.

    Attribute ``limit``: the number allowed.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"{limit} publishes are pending already; await some of them first, or raise max_pending")


class MissingExtra(InorderError, ImportError):
    """An optional part is not installed. Attribute ``extra``: the name to install."""

    def __init__(self, what: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} needs an optional part: pip install 'inorder[{extra}]'")


# -- the other side's ------------------------------------------------------------------------------------------


class PeerError(InorderError):
    """The other side answered with a refusal, or not by the protocol."""


class ProtocolError(PeerError):
    """The peer sent something that the protocol does not allow."""


class VersionMismatch(PeerError):
    """Client and worker have no protocol version in common.

    Attributes: ``ours`` and ``theirs``, each ``(lowest, highest)``.
    """

    def __init__(self, ours: tuple[int, int], theirs: tuple[int, int]) -> None:
        self.ours, self.theirs = ours, theirs
        super().__init__(
            f"no common protocol version: this side speaks {ours[0]} to {ours[1]}, the other {theirs[0]} to {theirs[1]}"
        )


class Unauthorized(PeerError):
    """The token or the broker's credentials were refused. The message never holds the secret.

    Attribute ``peer``: who refused, ``"broker"`` or ``"worker"``.
    """

    def __init__(self, message: str, peer: str = "broker") -> None:
        self.peer = peer
        super().__init__(message)


class Forbidden(PeerError):
    """The token does not allow this. Nothing was changed, and nothing else is affected.

    Attributes:
        action: ``publish``, ``subscribe`` or ``read``, or what the worker was asked for.
        topic: ``space:name`` (or filter) that it was about, empty where it was about none.
        allowed: ``space:filter`` of what the token allows instead.
    """

    def __init__(self, message: str, action: str = "", topic: str = "", allowed: Iterable[str] = ()) -> None:
        self.action, self.topic, self.allowed = action, topic, tuple(allowed)
        super().__init__(message)


class TooManyUnconfirmed(PeerError):
    """The token allows no more open numbers in a session, or in all of its name; this event got no number and was not
    published.

    Attributes: ``topic``, ``limit`` and ``is_shared``: the limit is that of all clients whose tokens have this name.
    """

    def __init__(self, topic: str, limit: int, *, is_shared: bool = False) -> None:
        self.topic, self.limit, self.is_shared = topic, limit, is_shared
        whose = "all clients with tokens of this name may have" if is_shared else "the token allows"
        super().__init__(
            f"no number for topic {topic!r}: {whose} {limit} unconfirmed ones at a time, and earlier ones are "
            "neither confirmed nor given up yet; wait for these, and publish again"
        )


class Refused(PeerError):
    """The broker, or a stage, refused one request (its reason is the message). Nothing was handed over."""


class ChangeUnderWay(Refused):
    """The topic order is changing already (R14); try again when that is done."""


class StaleOrder(Refused):
    """The topic order has changed since the change was planned (R14). Attribute ``order_epoch``: of the present one."""

    def __init__(self, message: str, order_epoch: int) -> None:
        self.order_epoch = order_epoch
        super().__init__(message)


class UnknownTopic(Refused):
    """The workers know no topic with this id. Attribute ``topic``: the id."""

    def __init__(self, topic: int) -> None:
        self.topic = topic
        super().__init__(f"there is no topic with the id {topic}")


class Abandoned(PeerError):
    """The event's number was given up (R16) before the event was confirmed; it may or may not have been delivered.

    Attributes: ``topic`` and ``number``.
    """

    def __init__(self, topic: str, number: int) -> None:
        self.topic, self.number = topic, number
        super().__init__(f"number {number} of topic {topic!r} was abandoned before the event was confirmed")


class NotLogged(PeerError):
    """The topic has no event log, so there is nothing to replay (R18). Attribute ``topic``."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} has no event log; an operator turns one on with: inorder log on")


class NotInLog(PeerError):
    """The topic's event log does not have these numbers (any more) (R18), as it is bounded, or began behind them.

    Attributes: ``topic``; ``first`` and ``last`` of what is missing.
    """

    def __init__(self, topic: str, first: int, last: int) -> None:
        self.topic, self.first, self.last = topic, first, last
        super().__init__(f"the event log of topic {topic!r} does not have numbers {first} to {last}")


class Forgotten(PeerError):
    """The workers have forgotten the publisher's session, which was away for longer than ``session_timeout`` (R1, R12),
    from all of them or from one on its request's way. The event gets no number any more; publish it again if it is
    still wanted.

    Attributes: ``topic``; ``may_be_delivered``: the broker was given it before, under a number that was given up.
    """

    def __init__(self, topic: str, *, may_be_delivered: bool) -> None:
        self.topic, self.may_be_delivered = topic, may_be_delivered
        fate = "it may or may not have been delivered" if may_be_delivered else "it was not published"
        super().__init__(
            f"the workers have forgotten a request for topic {topic!r}: this client was away from them, or from one "
            f"that its request had to pass, for longer than their session_timeout; {fate}"
        )


class Replaced(PeerError):
    """Another process opened a session with the same client id, so this one was closed."""


# -- the connection's ------------------------------------------------------------------------------------------


ENDED: Final = "it ended the connection before its welcome: it is starting or stopping, wants TLS, or is no worker"
"""Why a worker is not reached that lets us connect, and says nothing."""


class LinkError(InorderError):
    """A connection could not be made, or broke."""


class BrokerUnreachable(LinkError):
    """The broker did not answer. Attribute ``address``: host and port, never with credentials."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(f"broker {address} is unreachable: {reason}")


class WorkerUnreachable(LinkError):
    """No worker answered. Attributes: ``addresses``, those that were tried; ``is_there``: something is at one of them,
    and did not let us in, so there is no need to start a worker."""

    def __init__(self, addresses: list[str], reason: str, *, is_there: bool = False) -> None:
        self.addresses, self.reason, self.is_there = addresses, reason, is_there
        super().__init__(f"no worker is reachable at {', '.join(addresses)}: {reason}")

    @classmethod
    def after(cls, address: str, error: Exception) -> Self:
        """Return the error for a connection that failed, or ended before a worker's welcome. The system's errors are
        in its own words, which are shorter than asyncio's; TLS errors keep theirs, as their numbers are none of the
        system."""
        match error:
            case ssl.SSLCertVerificationError():
                return cls([address], f"its TLS certificate is not trusted: {error.verify_message}", is_there=True)
            case ConnectionRefusedError() | TimeoutError():
                pass
            case ConnectionError() | EOFError() | ssl.SSLEOFError():
                return cls([address], ENDED, is_there=True)
            case PeerError() | ssl.SSLError():
                return cls([address], str(error), is_there=True)
        number = error.errno or 0 if isinstance(error, OSError) else 0
        return cls([address], os.strerror(number) if number > 0 else str(error) or type(error).__name__)


class TimedOut(LinkError, TimeoutError):
    """An answer did not come in time. Attributes: ``what`` and ``seconds``."""

    def __init__(self, what: str, seconds: float) -> None:
        self.what, self.seconds = what, seconds
        super().__init__(f"{what} was not answered within {seconds:g} s")


class OutcomeUnknown(LinkError):
    """A worker died, or was cut off, during a change: the change was made whole or not at all. Look at what there is
    now.

    Attributes: ``what`` was to be changed, in words, and the ``reason``.
    """

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(f"whether {what} is not known: {reason}")


class PortInUse(LinkError):
    """A listening address is taken. Attributes: ``address``, and ``option``, the setting that has its port."""

    def __init__(self, address: str, option: str = "port") -> None:
        self.address, self.option = address, option
        super().__init__(f"{address} is in use by another process; choose another port or stop that process")


# -- the store's -----------------------------------------------------------------------------------------------


_RESTORE: Final = "put a backup back (inorder restore), into a new file or an empty database"


class StoreError(InorderError):
    """The SQL store failed. Attribute ``url``: the store's URL with its password masked."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"store {url}: {reason}")


class StoreUnreachable(StoreError):
    """The store cannot be opened or did not answer."""


class StoreFull(StoreUnreachable):
    """The store has no room left, and takes nothing new before it has."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, f"no room left ({reason}); what is kept already is safe")


class StoreReadOnly(StoreError):
    """The store cannot be written."""


class StoreRefused(StoreError):
    """The database answers, and refuses a statement: a table, column or trigger is not as inorder made it. To ask again
    does not help before somebody has changed the store."""

    HINT: ClassVar = f"were its tables changed by hand? undo that, or {_RESTORE}"


class StoreVersionMismatch(StoreError):
    """The store's schema, or a row in it, is of a newer release than this one knows."""


class StoreCorrupt(StoreError):
    """The database, the journal's hash chain, or its numbering is broken."""

    HINT: ClassVar = f"if this is the right store, {_RESTORE}"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.args = (f"{self}; {self.HINT}",)


class StoreInUse(StoreError):
    """A worker lives on the store, or the store holds numbers already; it is left unchanged."""


class StoreMoved(StoreError):
    """A file of an SQLite store, or SQLite's file beside it, was moved, removed, replaced or written over while this
    process had the store open: later writes would be lost, so there are none."""


class StoreReplaced(StoreError):
    """The store was restored, or is another one, since this process opened it: this process's knowledge of it is void.

    Attributes: ``before`` and ``domain``, its domain id then and now.
    """

    def __init__(self, url: str, before: int, domain: int) -> None:
        self.before, self.domain = before, domain
        what = f"it was restored, or is another one: its domain is {domain}, it was {before} when this worker started"
        super().__init__(url, f"{what}; start the worker again")


class StoreOutdated(StoreError):
    """The store is an older copy of the workers' store: later numbers would be given again, to other events. Nothing is
    numbered until it has got a domain id of its own."""

    def __init__(self, url: str, reason: str) -> None:
        hint = "stop all its workers, run `inorder renew` on it, and start them again"
        super().__init__(url, f"it is an older copy of itself: {reason}; {hint}")


class BackupError(StoreError):
    """A backup file cannot be used (it is no backup, damaged, or of a newer release), or cannot be made."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(str(path), reason)
        self.args = (f"backup {path}: {reason}",)


class Fenced(StoreError):
    """Another worker took the stage over: its epoch is higher than ours (a paused old owner may not write)."""


def shown(value: object) -> str:
    """Return a value's repr for an error message; a long one is shortened in the middle."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:60]}...{text[-40:]} ({len(text)} characters)"
