"""The state that goes along with topics that move to another stage (R14)."""

from __future__ import annotations

import msgspec


class MovedTopic(msgspec.Struct, array_like=True):
    """The old home hands this state of a topic to the new home, beside number and records. ``marks``: where blocks of
    numbers to be forgotten end, the next one at ``mark_at``; ``log_first``, ``log_base``: see the topic manager;
    ``counts``: its confirmed, void, abandoned and late numbers; ``unused``: nothing any more."""

    id: int
    head: int
    expired: int
    unused: dict[int, int]
    marks: list[int]
    mark_at: int
    log_first: int = 0
    log_base: dict[int, int] | None = None
    counts: tuple[int, int, int, int] = (0, 0, 0, 0)


class MovedSession(msgspec.Struct, array_like=True):
    """The state of a session that concerns moving topics.

    Attributes:
        low, connected, timeout, is_opened, floor, owner, max_owned: of the session where it comes from, see there.
        answers: flat triples ``counter, topic, number``.
        used: flat triples ``topic, counter, number``.
        open: flat pairs ``topic, number``, oldest first.
    """

    client_id: str
    incarnation: int
    low: int
    connected: bool
    timeout: int
    is_opened: bool
    answers: list[int] = []
    used: list[int] = []
    open: list[int] = []
    floor: int = 0
    owner: str = ""
    max_owned: int = 0
