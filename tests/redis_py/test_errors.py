"""Errors of the workers, as those of the library."""

from __future__ import annotations

import pytest
from redis import exceptions

from inorder import errors
from inorder.redis._errors import translated


@pytest.mark.parametrize(
    ("error", "also", "text"),
    [
        (errors.TimedOut("it", 3.0), exceptions.TimeoutError, "it was not answered within 3 s"),
        (errors.TimedOut("it", 3.0), exceptions.ConnectionError, "it was not answered within 3 s"),
        (errors.WorkerUnreachable(["here:1"], "refused"), exceptions.ConnectionError, "no worker is reachable at here"),
        (errors.Unauthorized("revoked", peer="worker"), exceptions.AuthenticationError, "revoked"),
        (errors.Replaced("by another"), exceptions.ConnectionError, "by another"),
        (errors.Closed("closed"), exceptions.ConnectionError, "closed"),
        (errors.Forbidden("no"), exceptions.NoPermissionError, "no"),
        (errors.Abandoned("a", 3), exceptions.ResponseError, "number 3 of topic"),
        (errors.PayloadTooLarge(2, 1), exceptions.DataError, "payload of 2 bytes"),
        (errors.QueueFull(3), exceptions.RedisError, "3"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else getattr(value, "__name__", ""),
)
def test_errors_are_of_both_kinds_and_can_be_shown(
    error: errors.InorderError, also: type[Exception], text: str
) -> None:
    both = translated(error)
    assert isinstance(both, type(error))
    assert isinstance(both, also)
    assert text in str(both)
    assert type(error).__name__ in repr(both)
    assert vars(error).keys() <= vars(both).keys()
    assert translated(both) is both
