"""Violations of rules, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inorder_analytics.checks.history import EventId, Notified, Place


@dataclass(frozen=True, slots=True)
class Witness:
    """An event or number that shows a violation; unknown fields are ``None``."""

    event: EventId | None
    place: Place | None


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule in a run.

    Attributes:
        rule: its number in the design (``"R17"``), or ``"TNO"``.
        witnesses: the event or the two events that show it, in the order the sentence names them.
        subscribers: who saw it, by client id.
        sentence: what happened, without the rule.
    """

    rule: str
    witnesses: tuple[Witness, ...]
    subscribers: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        return f"{self.rule} {self.sentence}"

    def to_json(self) -> dict[str, Any]:
        """Return the violation in plain JSON types."""
        return {
            "rule": self.rule,
            "events": [
                {
                    "event": None if each.event is None else list(each.event),
                    "place": None if each.place is None else list(each.place),
                }
                for each in self.witnesses
            ],
            "subscribers": list(self.subscribers),
            "sentence": self.sentence,
        }


def witness(seen: Notified) -> Witness:
    """Return a notification as a witness."""
    return Witness(seen.event, seen.place)
