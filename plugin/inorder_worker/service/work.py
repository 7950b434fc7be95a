"""The requests to a stage host, and its answers."""

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
    """A connection that asks for work."""

    @property
    def name(self) -> str:
        """The owner of the requests: a client's id, or the name of a worker."""

    @property
    def owner(self) -> str:
        """The owner of the client, whose clients share turns; empty for a client with turns of its own."""

    @property
    def is_current(self) -> bool:
        """False once the connection is closed or another one took its place: its work is dropped."""

    def settled(self, count: int, size: int) -> None:
        """Note that so many requests, of so many bytes in all, were answered or dropped."""


class ClientSink(Protocol):
    """The receiver of what leaves for clients; its methods are synchronous and never raise."""

    def answer(self, session: Session, frames: list[Frame]) -> None:
        """Send these to a session, if it is connected. Called once for each session and commit."""

    def stages_changed(self) -> None:
        """The stages here are not those of before."""


class HostSink(Protocol):
    """The receiver of a host's reports; its methods are synchronous and never raise."""

    def made_durable(self, stage: int, origin: int, number: int) -> None:
        """Rides of another worker's stage ``origin`` up to this number are durable at ``stage``."""

    def map_read(self, rows: list[Holder], workers: list[str] | None) -> None:
        """Take the places of all stages, and the addresses of the living workers (if they are known)."""

    def store_failed(self, error: Exception) -> None:
        """All sessions are void; no work is taken until ``store_recovered``. Fenced: the store is fine, others have
        taken stages over."""

    def store_recovered(self) -> None:
        """Work is taken again."""

    def pressed(self, is_pressed: bool) -> None:
        """Too much waits for commits: stop (or go on) reading from everybody of whom something waits."""


class RideSink(Protocol):
    """The receiver of rides to other workers; its methods are synchronous and never raise."""

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
        count: of its source's requests it ends so many: none, if it is a part of one and others follow.
    """

    source: Source | None
    size: int
    run: Callable[[], None]
    entry: int | None = None
    elsewhere: Callable[[], None] = lambda: None
    of: str = ""
    of_owner: str = ""
    count: int = 1

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
    """The requested stage is another worker's (now)."""
