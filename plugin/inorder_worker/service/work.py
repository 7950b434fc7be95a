"""What passes through a stage host: requests in, answers out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from inorder.errors import StoreError
from inorder.protocol.wire import Frame
from inorder_worker.store.journal import Holder

Session = tuple[str, int]
"""(client id, incarnation)"""


class Source(Protocol):
    """Who asked for work: a connection."""

    @property
    def name(self) -> str:
        """Whose requests these are: a client's id, or the name of a worker."""

    @property
    def owner(self) -> str:
        """The owner of the client, whose clients share turns; empty for a client with turns of its own."""

    @property
    def is_current(self) -> bool:
        """False once the connection is closed or another one took its place: its work is dropped."""

    def settled(self, count: int, size: int) -> None:
        """So many of its requests, of so many bytes in all, have been answered or dropped."""


class HostSink(Protocol):
    """Where the host reports. Synchronous; never raises."""

    def answer(self, session: Session, frames: list[Frame]) -> None:
        """Send these to a session, if it is connected. Called once for each session and commit."""

    def made_durable(self, stage: int, origin: int, number: int) -> None:
        """Rides of another worker's stage ``origin`` up to this number are durable at ``stage``."""

    def map_read(self, rows: list[Holder], workers: list[str] | None) -> None:
        """This is where all stages are now, and the addresses of the workers that live (if they are known)."""

    def stages_changed(self) -> None:
        """The stages here are not those of before."""

    def store_failed(self, error: Exception) -> None:
        """All sessions are void; no work is taken until ``store_recovered``. Fenced: the store is fine, others have
        taken stages over."""

    def store_recovered(self) -> None:
        """Work is taken again."""

    def pressed(self, is_pressed: bool) -> None:
        """Too much waits for commits: stop (or go on) reading from everybody of whom something waits."""


class RideSink(Protocol):
    """Who takes rides to other workers. Synchronous; never raises."""

    def rides_ready(self, target: int) -> None:
        """Rides for this stage of another worker are durable: see ``RideRelay.outgoing``."""

    def stages_changed(self) -> None:
        """The stages here are not those of before, or of another epoch."""


@dataclass(slots=True)
class Work:
    """One request.

    Attributes:
        source: who asked; ``None``: this worker itself.
        size: its cost in bytes.
        run: calls ``CommitLoop.step`` and ``CommitLoop.reply``.
        entry: the stage here from which it may send rides up; ``None`` for what never does.
        elsewhere: called instead if the stage has gone to another worker meanwhile.
        of, of_owner: where there is no source: among whose requests it keeps its place, and whose turns it takes.
    """

    source: Source | None
    size: int
    run: Callable[[], None]
    entry: int | None = None
    elsewhere: Callable[[], None] = lambda: None
    of: str = ""
    of_owner: str = ""

    @property
    def name(self) -> str:
        """With whose requests it is run in order; all others have their turns between these."""
        return self.of if self.source is None else self.source.name

    @property
    def owner(self) -> str:
        """The owner of the client, see ``Source.owner``."""
        return self.of_owner if self.source is None else self.source.owner


class StageBroken(StoreError):
    """A stage raised on a command. The command was not journaled; the stage is read again from the store."""


class StageElsewhere(Exception):
    """What was asked for is for a stage of another worker (now)."""
