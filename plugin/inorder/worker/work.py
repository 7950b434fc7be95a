"""What passes through a stage host: requests in, answers out, and what collects between two commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from inorder.core.commands import Reply, Send
from inorder.core.wire import Frame
from inorder.errors import StoreError

Session = tuple[str, int]
"""(client id, incarnation)"""


class Source(Protocol):
    """Who asked for work: a connection."""

    @property
    def is_current(self) -> bool:
        """False once the connection is closed or another one took its place: its work is dropped."""

    def settled(self, count: int, size: int) -> None:
        """So many of its requests, of so many bytes in all, have been answered or dropped."""


class HostSink(Protocol):
    """Where the host reports. Synchronous; never raises."""

    def answer(self, session: Session, frames: list[Frame]) -> None:
        """Send these to a session, if it is connected. Called once for each session and commit."""

    def store_failed(self, error: Exception) -> None:
        """All sessions are void; no work is taken until ``store_recovered``."""

    def store_recovered(self) -> None:
        """Work is taken again."""

    def pressed(self, is_pressed: bool) -> None:
        """Too much waits for commits: stop (or go on) reading from everybody."""


@dataclass(slots=True)
class Work:
    """One request. ``run`` calls ``StageHost.step`` and ``StageHost.reply``; ``size`` is its cost in bytes."""

    source: Source | None
    size: int
    run: Callable[[], None]


class StageBroken(StoreError):
    """A stage raised on a command. The command was not journaled; the stage is read again from the store."""


@dataclass(slots=True)
class Open:
    """What collects for the next commit. ``delivered``: (stage, origin) -> last ride taken from that stage."""

    replies: list[Reply] = field(default_factory=list)
    sends: list[tuple[int, Send]] = field(default_factory=list)
    delivered: dict[tuple[int, int], int] = field(default_factory=dict)
    settled: dict[int, tuple[Source, int, int]] = field(default_factory=dict)
    commands: int = 0
    size: int = 0

    @property
    def is_empty(self) -> bool:
        """Nothing to commit and nothing to release."""
        return not (self.commands or self.replies or self.settled)
