"""Named places around each durable step, at which tests kill, fail or stop a worker.

The variable ``INORDER_FAILPOINTS`` arms them when the process starts: ``append.after=kill``, or several with commas.
``commit.before=error@3`` acts the third time only. Without the variable a place costs one look at an empty dictionary.
Never set it where numbers matter.

What happens at a place: ``kill``: the process is gone at once (SIGKILL). ``error``: the step fails as if the store had.
``stop``: all of the process stands still (SIGSTOP) until somebody sends SIGCONT.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

from inorder.errors import InvalidOption, StoreUnreachable
from inorder.logs import logger

VARIABLE: Final = "INORDER_FAILPOINTS"
POINTS: Final = frozenset(
    f"{step}.{when}"
    for step in ("append", "commit", "answers", "snapshot", "compaction", "claim", "rides")
    for when in ("before", "after")
)
ACTIONS: Final = ("kill", "error", "stop")

log = logger("inorder.worker")

_armed: dict[str, tuple[str, int]] = {}
"""Place -> what to do, and how often it is passed before."""


def reach(point: str) -> None:
    """Run the action that a test has armed at this place. Raises StoreUnreachable if an error was asked for."""
    if _armed:
        _act(point)


def arm(text: str) -> None:
    """Arm the places in a text, and disarm all others. Raises InvalidOption."""
    _armed.clear()
    for item in filter(None, text.split(",")):
        point, _, order = item.strip().partition("=")
        action, _, count = order.partition("@")
        if point not in POINTS or action not in ACTIONS or not (count or "1").isdecimal():
            allowed = f"POINT=ACTION[@N]: {', '.join(sorted(POINTS))}; {', '.join(ACTIONS)}"
            raise InvalidOption(VARIABLE, item, allowed)
        _armed[point] = (action, int(count or 1))


def _act(point: str) -> None:
    action, count = _armed.get(point, ("", 0))
    if not action:
        return
    if count > 1:
        _armed[point] = (action, count - 1)
        return
    del _armed[point]
    if action == "error":
        log.warning("event=failpoint point=%s", point)
        raise StoreUnreachable("(failpoint)", f"{point} failed as {VARIABLE} asked for")
    # To this thread: the whole process ends or stops, and this thread not one step later.
    signal.pthread_kill(threading.get_ident(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)


arm(os.environ.get(VARIABLE, ""))
