"""Circles of events that wait for each other: the belt makes none (R2), so a stamp among them is forged or damaged.

Nothing is missing then that could be asked for (R17), and a strict reader would stand for ever. So once in a while what
waits is followed from number to number; where that comes back to where it was, the stages are asked what these numbers
depend on, and an event that waits for more than its stage has told is notified of without an order.
"""

from __future__ import annotations

from math import inf
from typing import Any

from inorder.endpoint.reader import TopicReader
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.wire import NumberAnswer, Numbers

MAX_SUSPECTS = 1_000
"""Events that are asked about at a time."""


class Circles:
    """Finds circles among what waits, and the events that do not belong there."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._looked_at = -inf
        self._suspects: dict[tuple[int, int], Sequenced] = {}

    def questions(self, now: float) -> dict[int, list[int]]:
        """Return the numbers to ask for now, by topic. It looks every ``loss_timeout``, at each waiting event once."""
        turns = self._turns
        if self._looked_at + turns.times.loss_timeout > now or not turns.room.count:
            return {}
        self._looked_at = now
        self._suspects = {}
        seen: set[int] = set()
        for reader in turns.watched():
            first = turns.room.get(reader.topic, reader.clock + 1)
            if first is not None and first.arrived + turns.times.loss_timeout <= now:
                self._suspect(self._circle_behind(first, seen))
        asked: dict[int, list[int]] = {}
        for topic, number in sorted(self._suspects):
            asked.setdefault(topic, []).append(number)
        return asked

    def _circle_behind(self, entry: Sequenced, seen: set[int]) -> list[Sequenced]:
        """Return the circle that an entry leads to, an empty list where it leads to a number that is missing, or to
        what was seen before."""
        path: list[Sequenced] = []
        places: dict[int, int] = {}
        following: Sequenced | None = entry
        while following is not None and id(following) not in seen:
            seen.add(id(following))
            places[id(following)] = len(path)
            path.append(following)
            following = self._waited_for(following)
        begin = None if following is None else places.get(id(following))
        return [] if begin is None else path[begin:]

    def _waited_for(self, entry: Sequenced) -> Sequenced | None:
        reader = self._turns.readers.get(entry.waited_topic)
        if reader is None or reader.clock >= entry.waited_number:
            return None
        return self._turns.room.get(entry.waited_topic, entry.waited_number)

    def _suspect(self, circle: list[Sequenced]) -> None:
        for entry in circle:
            waits_in_turn = (entry.waited_topic, entry.waited_number) == (entry.topic, entry.number - 1)
            if not (entry.is_hole or waits_in_turn) and len(self._suspects) < MAX_SUSPECTS:
                self._suspects[entry.topic, entry.number] = entry

    def answered(self, reader: TopicReader, numbers: Numbers) -> None:
        """A stage answered: notify without an order of what waits for a number that its own timestamp does not name, or
        whose timestamp nobody knows any more. Their numbers are missing from now on."""
        if not self._suspects:
            return
        topic = reader.topic
        answers = {each.number: each for each in numbers.answers}
        for place in [each for each in self._suspects if each[0] == topic]:
            number = place[1]
            answer = answers.get(number)
            if answer is None and number > numbers.expired_through:
                continue
            entry = self._suspects.pop(place)
            if not entry.done and not _is_told(entry, reader, answer):
                self._turns.room.remove(entry)
                self._turns.unsequence(entry)

    def describe(self) -> dict[str, Any]:
        """Return which events are asked about."""
        return {"suspects": list(self._suspects)}


def _is_told(entry: Sequenced, reader: TopicReader, answer: NumberAnswer | None) -> bool:
    """Tell whether a worker has said that the entry waits for what it waits for."""
    told = [] if answer is None else [*answer.deps, *reader.base]
    parts = iter(told)
    return any(
        topic == entry.waited_topic and number >= entry.waited_number
        for topic, number in zip(parts, parts, strict=True)
    )
