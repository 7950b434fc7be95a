"""Bounded waiting: when a limit is reached, the event that waits longest is let go before its turn (R6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.suspicion import Suspicion
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.pairs import pairs


class Limits:
    """The limits of a subscriber, and how events are let go.

    Args:
        bound: the limits; ``None`` in strict mode, which has none.
    """

    def __init__(self, turns: Turns, suspicion: Suspicion, bound: Bounded | None) -> None:
        self._turns, self._suspicion, self._bound = turns, suspicion, bound

    @property
    def due(self) -> float | None:
        """Return when the next event may go by time alone (s), or ``None``."""
        bound = self._bound
        if bound is None or bound.max_wait is None or (oldest := self._turns.room.oldest()) is None:
            return None
        return oldest.arrived + bound.max_wait

    def enforce(self, now: float) -> None:
        """Let events go until all limits are kept."""
        bound, room = self._bound, self._turns.room
        while bound is not None and (oldest := room.oldest()) is not None:
            over = (
                (bound.buffer is not None and room.count > bound.buffer)
                or (bound.buffer_bytes is not None and room.size > bound.buffer_bytes)
                or (bound.max_wait is not None and oldest.arrived + bound.max_wait <= now)
            )
            if not over:
                return
            self._turns.counts.forced += 1
            self._force(oldest, now)

    def _force(self, entry: Sequenced, now: float) -> None:
        """First its waiting predecessors by timestamp, then itself; in order, the clock takes the whole timestamp."""
        path = [(entry, self._waiting_before(entry, now))]
        on_path = {id(entry)}
        while path:
            current, rest = path[-1]
            before = None if current.done else next(rest, None)
            if before is not None and id(before) not in on_path:
                path.append((before, self._waiting_before(before, now)))
                on_path.add(id(before))
                continue
            path.pop()
            if not current.done:
                self._let_go(current, now)

    def _waiting_before(self, entry: Sequenced, now: float) -> Iterator[Sequenced]:
        """Yield the waiting predecessors of an entry, by dependencies and ticks (R23), each when its own predecessor
        has left. Nothing begins to wait meanwhile, so the timestamp is looked through once. An entry that is doubted
        leaves instead."""
        room = self._turns.room
        if not entry.is_hole and self._suspicion.claims(entry):
            self._suspicion.doubt(entry, now)
            return
        while (lowest := room.lowest(entry.topic)) is not None and lowest.number < entry.number:
            yield lowest
        for topic, number in pairs(entry.deps):
            while (lowest := room.lowest(topic)) is not None and lowest.number <= number:
                yield lowest
        while (earlier := room.before(entry)) is not None:
            yield earlier

    def _let_go(self, entry: Sequenced, now: float) -> None:
        turns = self._turns
        reader = turns.readers[entry.topic]
        if entry.number <= reader.clock:
            turns.overtaken(reader, entry)
            return
        awake: list[Sequenced] = []
        for topic, number in pairs(entry.deps) if entry.is_hole or turns.leads.reached.is_behind(entry.ticks) else ():
            if (other := turns.readers.get(topic)) is not None:
                awake += turns.jump(other, number, now)
            elif turns.unbegun.is_held(topic):
                turns.unbegun.raise_floor(topic, number)
        awake += turns.jump(reader, entry.number - 1, now)
        turns.room.remove(entry)
        turns.notify(reader, entry)
        awake += turns.room.wake(entry.topic, entry.number)
        turns.run(deque(awake), now)
