"""Errors of the workers, as those of the library."""

from __future__ import annotations

from redis import exceptions

from inorder import errors
from inorder.redis._errors import TimedOut, translated


def test_errors_are_of_both_kinds_and_can_be_shown() -> None:
    timed_out = translated(errors.TimedOut("it", 3.0))
    assert isinstance(timed_out, errors.TimedOut)
    assert isinstance(timed_out, exceptions.TimeoutError)
    assert str(timed_out) == "it was not answered within 3 s"
    unreachable = translated(errors.WorkerUnreachable(["here:1"], "refused"))
    assert isinstance(unreachable, errors.WorkerUnreachable)
    assert isinstance(unreachable, exceptions.ConnectionError)
    for each in (timed_out, unreachable, TimedOut("it", 1.0)):
        assert type(each).__name__ in repr(each)
