"""Circles of events that wait for each other: the belt makes none (R2), so a stamp among them is forged or damaged.

Nothing is missing then that could be asked for (R17), and a strict reader would stand for ever. So once in a while what
waits is followed from number to number. Where that comes back to where it was, the stages are asked what all those
depend on that wait for others, as there is seldom one forged stamp alone; an event that names more than its stage has
told is notified of without an order.
"""

from __future__ import annotations

from math import inf
from typing import Any

from inorder.endpoint.gaps import MAX_ASKED
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.pairs import pairs, raise_to
from inorder.protocol.wire import NumberAnswer, Numbers


class Circles:
    """Finds circles among what waits, and the events that do not belong there."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._look_at = -inf
        self._suspects: dict[tuple[int, int], Sequenced] = {}

    def questions(self, now: float) -> dict[int, list[int]]:
        """Return the numbers to ask for now, by topic. It looks every ``loss_timeout``, at each waiting event once;
        where there is a circle, once more ``gap_timeout`` later."""
        turns, times = self._turns, self._turns.times
        if now < self._look_at or not turns.room.count:
            return {}
        self._look_at, self._suspects = now + times.loss_timeout, {}
        asked: dict[int, list[int]] = {}
        if self._is_circle():
            self._look_at = now + times.gap_timeout
            suspects = [each for each in turns.room.events() if _waits_for_others(each)]
            for entry in sorted(suspects, key=lambda each: each.arrived)[:MAX_ASKED]:
                self._suspects[entry.topic, entry.number] = entry
            for topic, number in sorted(self._suspects):
                asked.setdefault(topic, []).append(number)
        return asked

    def _is_circle(self) -> bool:
        """Tell whether what waits next in any topic leads into a circle. Whatever stands for good does: each event of
        it waits for another one of it, or some number is missing."""
        turns = self._turns
        begun: dict[int, int] = {}  # entries by the walk that has seen them
        for walk, reader in enumerate(turns.readers[topic] for topic in turns.agenda.behind):
            entry = turns.room.get(reader.topic, reader.clock + 1)
            while entry is not None and id(entry) not in begun:
                begun[id(entry)] = walk
                entry = self._waited_for(entry)
            if entry is not None and begun[id(entry)] == walk:
                return True
        return False

    def _waited_for(self, entry: Sequenced) -> Sequenced | None:
        reader = self._turns.readers.get(entry.waited_topic)
        if reader is None or reader.clock >= entry.waited_number:
            return None
        return self._turns.room.get(entry.waited_topic, entry.waited_number)

    def answered(self, reader: TopicReader, numbers: Numbers) -> None:
        """Notify without an order of events whose stamps a stage's answer contradicts. Such a stamp names a number that
        the stage's timestamp does not, or nobody knows the timestamp any more. Its number is missing from now on."""
        if not self._suspects:
            return
        answers = {each.number: each for each in numbers.answers}
        for place in [each for each in self._suspects if each[0] == reader.topic]:
            answer = answers.get(place[1])
            if answer is None and place[1] > numbers.expired_through:
                continue
            entry = self._suspects.pop(place)
            if not (entry.done or _is_told(entry, reader, answer)):
                self._turns.room.remove(entry)
                self._turns.unsequence(entry)

    def describe(self) -> dict[str, Any]:
        """Return which events are asked about."""
        return {"suspects": list(self._suspects)}


def _waits_for_others(entry: Sequenced) -> bool:
    """Tell whether an event waits for more than its turn in its own topic."""
    return (entry.waited_topic, entry.waited_number) != (entry.topic, entry.number - 1)


def _is_told(entry: Sequenced, reader: TopicReader, answer: NumberAnswer | None) -> bool:
    """Tell whether a worker has told all that an entry depends on."""
    told: dict[int, int] = {}
    if answer is not None:
        raise_to(told, answer.deps)
        raise_to(told, reader.base)
    return all(told.get(topic, 0) >= number for topic, number in pairs(entry.deps))
