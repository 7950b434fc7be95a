"""Errors of inorder that are also redis-py's errors, as its applications expect."""

from __future__ import annotations

from typing import Any

from redis import exceptions

from inorder import errors
from inorder.client.configured import advised

_ALSO: tuple[tuple[Any, tuple[type[Exception], ...]], ...] = (
    # to the application, workers that cannot be reached are what a server that cannot be reached is
    (errors.TimedOut, (exceptions.ConnectionError, exceptions.TimeoutError)),
    (errors.LinkError | errors.Replaced | errors.Closed, (exceptions.ConnectionError,)),
    (errors.Unauthorized | errors.VersionMismatch, (exceptions.AuthenticationError,)),
    (errors.Forbidden, (exceptions.NoPermissionError,)),
    (errors.InvalidTopic | errors.InvalidPayload | errors.PayloadTooLarge, (exceptions.DataError,)),
    (errors.PeerError, (exceptions.ResponseError,)),
    (errors.InorderError, (exceptions.RedisError,)),
)
"""What an error also is: that of the first line that it is of."""


_CLASSES: dict[type[errors.InorderError], Any] = {}


def _class_of(kind: type[errors.InorderError]) -> Any:
    if kind not in _CLASSES:
        bases = next(bases for ours, bases in _ALSO if issubclass(kind, ours))
        _CLASSES[kind] = type(kind.__name__, (kind, *bases), {"__doc__": kind.__doc__, "__module__": kind.__module__})
    return _CLASSES[kind]


def translated(error: Exception) -> Exception:
    """Return an error as one of the library's, too; others stay as they are."""
    if not isinstance(error, errors.InorderError) or isinstance(error, exceptions.RedisError):
        return error
    if type(error) is errors.WorkerUnreachable:
        error = errors.WorkerUnreachable(error.addresses, advised(error), is_there=error.is_there)
    both = _class_of(type(error))
    also: Any = both.__new__(both, *error.args)
    exceptions.RedisError.__init__(also, *error.args)
    also.__dict__.update(error.__dict__)
    assert isinstance(also, Exception)
    return also


def unanswered(seconds: float) -> Exception:
    """Return the error for a publish without a timestamp, which was not published."""
    return translated(errors.TimedOut("the timestamp of the publish (nothing was published)", seconds))
