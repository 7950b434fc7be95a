"""Counts of a stage's work, for operators; nothing is decided by them."""

from __future__ import annotations

import msgspec


class Tally(msgspec.Struct):
    """Counts of one stage; no part of its state, so a snapshot does not hold it.

    Attributes:
        numbers: created here.
        confirmed, void, abandoned: what became of them (R16).
        late: confirmed after they had been abandoned.
    """

    numbers: int = 0
    confirmed: int = 0
    void: int = 0
    abandoned: int = 0
    late: int = 0


class StageFigures(msgspec.Struct, frozen=True):
    """The present sizes of a stage's state.

    Attributes:
        topics: whose home it is; ``retired``: those of them of which just the last number is kept.
        sessions: whose clients are connected.
        subscriptions: of all clients, as far as this stage knows.
        pending: numbers neither confirmed nor given up.
        waiting: rides for other stages that are not durable there, by stage.
    """

    topics: int
    retired: int
    sessions: int
    subscriptions: int
    pending: int
    waiting: dict[int, int]


class TopicFigures(msgspec.Struct, frozen=True):
    """One topic at its home: its last ``number``, the highest confirmed one (``head``), and how many numbers are
    ``remembered`` one by one."""

    space: str
    name: str
    stage: int
    number: int
    head: int
    remembered: int
