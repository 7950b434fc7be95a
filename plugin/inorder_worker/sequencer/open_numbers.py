"""The numbers of each owner that are open: given, and neither confirmed nor given up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from inorder.protocol.wire import MAX_NUMBER
from inorder_worker.sequencer.topic_manager import Session


@dataclass(slots=True)
class OpenNumbers:
    """Counts by owner what all its sessions have open together at a stage, made from the sessions.

    Whoever changes ``Session.open`` calls ``add`` with what its length has grown, or ``end``.

    Attributes:
        by_owner: no owner that has none.
    """

    by_owner: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, sessions: Iterable[Session]) -> OpenNumbers:
        """Count what sessions have open."""
        counts = cls()
        for session in sessions:
            counts.add(session.owner, len(session.open))
        return counts

    def add(self, owner: str, more: int) -> None:
        """A session of this owner has so many numbers more that are open; below 0: fewer."""
        if total := self.by_owner.get(owner, 0) + more:
            self.by_owner[owner] = total
        else:
            self.by_owner.pop(owner, None)

    def end(self, session: Session | None, place: tuple[int, int]) -> None:
        """Take a number, as ``(topic, number)``, out of a session's open ones; no error if none has the number open."""
        if session is not None and place in session.open:
            del session.open[place]
            self.add(session.owner, -1)

    def belongs(self, session: Session, owner: str, most: int) -> None:
        """A session comes to an owner with its open numbers. ``most``: how many the owner may have; 0: any."""
        if owner != session.owner:
            self.add(session.owner, -len(session.open))
            self.add(owner, len(session.open))
        session.owner, session.max_owned = owner, most

    def bound(self, session: Session, its: int) -> tuple[int, int]:
        """Return how many numbers a session may have open, and its owner's bound where that is the lower one, else 0.
        ``its``: the session's own bound, 0: none. Each open number may keep the strict subscribers of a topic waiting,
        and takes memory for as long as ``confirm_timeout``."""
        most = MAX_NUMBER
        if session.max_owned:
            most = len(session.open) + session.max_owned - self.by_owner.get(session.owner, 0)
        return (its, 0) if 0 < its <= most else (most, session.max_owned)
