"""What work costs, counted in steps that are the same on every machine: lines, calls, and how long the lists and texts
are that one call looks through.

What C does inside one call is seen only there; ``ended`` is for the rest.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

PATIENCE: Final = 60
"""Seconds after which work that does not end fails."""
_LOOKS_THROUGH: Final = frozenset(("count", "index", "remove", "insert", "replace"))
_EXPRESSIONS: Final = frozenset(("search", "sub", "subn", "findall", "finditer", "split"))
"""Of regular expressions: they look at texts that are not told; the longest one at hand counts."""
ROOM: Final = 2.5
"""A work that is twice as large may be so much dearer."""


class TooDear(AssertionError):
    """More steps than were allowed."""


class Steps:
    """Counts the steps of one thread while it is inside.

    Args:
        at_most: more raise TooDear there and then.
        of: parts of the names of files; what is in others does not count. None: all of it counts.
    """

    def __init__(self, at_most: int = 50_000_000, of: tuple[str, ...] = ()) -> None:
        self.count, self._at_most, self._of = 0, at_most, of
        self._counts: dict[Any, bool] = {}

    def __enter__(self) -> Steps:
        self._before = sys.gettrace(), sys.getprofile()
        sys.setprofile(self._profile)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        trace, profile = self._before
        sys.settrace(trace)
        sys.setprofile(profile)

    def _trace(self, frame: Any, event: str, arg: Any) -> Any:
        if not self._is_counted(frame):
            return None
        self._add(1)
        return self._trace

    def _profile(self, frame: Any, event: str, arg: Any) -> None:
        if event != "c_call" or not self._is_counted(frame):
            return
        owner: Any = getattr(arg, "__self__", None)
        size = 1
        if arg.__name__ in _LOOKS_THROUGH and isinstance(owner, list | str | bytes | bytearray):
            size += len(owner)
        elif arg.__name__ in _EXPRESSIONS and isinstance(owner, re.Pattern):
            size += max((len(each) for each in frame.f_locals.values() if isinstance(each, str | bytes)), default=0)
        self._add(size)

    def _is_counted(self, frame: Any) -> bool:
        code = frame.f_code
        found = self._counts.get(code)
        if found is None:
            found = self._counts[code] = not self._of or any(part in code.co_filename for part in self._of)
        return found

    def _add(self, count: int) -> None:
        self.count += count
        if self.count > self._at_most:
            raise TooDear(f"more than {self._at_most} steps")


def steps(work: Callable[[], object], at_most: int = 50_000_000) -> int:
    """Return how many steps work takes."""
    with Steps(at_most) as found:
        work()
    return found.count


@contextmanager
def ended() -> Iterator[None]:
    """Fail what does not end: for work inside one call of C (regular expressions look for signals)."""

    def over(*_: object) -> None:
        raise TooDear(f"not done in {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
