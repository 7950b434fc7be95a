"""Errors of inorder that applications of redis-py already expect: as connection errors and timeouts of the library."""

from __future__ import annotations

from redis import exceptions

from inorder import errors
from inorder.client.configured import UNREACHABLE_HINT


class WorkerUnreachable(errors.WorkerUnreachable, exceptions.ConnectionError):
    """No worker could be reached: to the application, the same as a server that cannot be reached."""


class TimedOut(errors.TimedOut, exceptions.TimeoutError):
    """The workers did not answer in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(what, seconds)
        exceptions.TimeoutError.__init__(self, *self.args)  # an OSError in between does not pass it on


def translated(error: errors.InorderError) -> errors.InorderError:
    """Return an error that is also the library's where the library has one of that sort."""
    if isinstance(error, errors.WorkerUnreachable):
        return WorkerUnreachable(error.addresses, f"{error.reason}; {UNREACHABLE_HINT}")
    if isinstance(error, errors.TimedOut):
        return TimedOut(error.what, error.seconds)
    return error


def unanswered(seconds: float) -> TimedOut:
    """Return the error for a publish whose timestamp has not come; it was not published."""
    return TimedOut("the timestamp of the publish (nothing was published)", seconds)
