"""Checks before a worker is asked: for a bad frame it would close the connection, which all questions share."""

from __future__ import annotations

from math import inf

from inorder.errors import InvalidOption, InvalidTopic
from inorder.protocol.names import MAX_NAME_BYTES, MAX_SPACE_BYTES
from inorder.protocol.wire import MAX_NUMBER
from inorder_worker.admin.states import Automatic


def check_numbers(option: str, *values: int, least: int = 1) -> None:
    """Raise InvalidOption for a value that is not from ``least`` to ``MAX_NUMBER``."""
    for value in values:
        if not least <= value <= MAX_NUMBER:
            raise InvalidOption(option, value, f"a number from {least} to {MAX_NUMBER}")


def check_range(first: int, last: int) -> None:
    """Raise InvalidOption for a malformed range of numbers."""
    check_numbers("first", first)
    if not first <= last <= MAX_NUMBER:
        raise InvalidOption("last", last, f"a number from {first} (the first) on")


def check_name(space: str, name: str) -> None:
    """Raise InvalidTopic for a space or name that no worker takes."""
    for part, text, limit in (("space", space, MAX_SPACE_BYTES), ("name", name, MAX_NAME_BYTES)):
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise InvalidTopic(f"{space}:{name}", f"the {part} has characters that UTF-8 does not know") from None
        if not 0 < size <= limit:
            raise InvalidTopic(f"{space}:{name}", f"the {part} has {size} bytes; allowed are 1 to {limit}")


def check_automatic(automatic: Automatic) -> None:
    """Raise InvalidOption for settings by which topics cannot change places by themselves (R15)."""
    if not 0 <= automatic.window_s <= MOST_SECONDS:
        allowed = f"a number of seconds from 0 (0: never) to {MOST_SECONDS:g}"
        raise InvalidOption("window_s", automatic.window_s, allowed)
    if not 0 < automatic.alpha < inf:
        raise InvalidOption("alpha", automatic.alpha, "a number over 0")
    if not 0 <= automatic.beta < 1:
        raise InvalidOption("beta", automatic.beta, "a number from 0 to below 1")


MOST_SECONDS = 366 * 86_400.0
