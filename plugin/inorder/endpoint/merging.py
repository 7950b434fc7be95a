"""A durable subscriber that resumes merges old events by their ticks: R18 with R22 and R23.

An event leaves out what another one implies that was stamped before it (R22), and where a subscription is resumed that
one may be gone: its topic has no log, or a trimmed one, or a former process has left it. So it is not enough that the
*old* numbers, those that topics had when the subscription came back, wait for what they name. The ticks of their
timestamps say which of two comes first (R23): the first of the next events of all topics goes, once all of these are
here. Everything *new* comes behind all that is old, as the subscription passed each stage between the two.

Numbers without an event are passed over as ever (R17): no event relies on them here. Events without ticks are from
before a stage made these; they come first, by what they name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from inorder.endpoint.reader import TopicReader
from inorder.endpoint.ticks import Waiting
from inorder.endpoint.unbegun import Unbegun
from inorder.endpoint.waiting import Sequenced, WaitingRoom
from inorder.endpoint.waits import WAITS_TOLD, Reason
from inorder.protocol.pairs import pairs


class Merge:
    """The old numbers of a resumed subscription.

    Args:
        readers, room, unbegun: of the ordering module.
        give: lets an event have its turn, and returns the events that wake by this.

    Attributes:
        held: new events whose turn has come but for what is old.
    """

    __slots__ = (
        "_by_ticks",
        "_ends",
        "_give",
        "_heads",
        "_readers",
        "_room",
        "_unbegun",
        "_unknown",
        "_without",
        "held",
    )

    def __init__(
        self,
        readers: Mapping[int, TopicReader],
        room: WaitingRoom,
        unbegun: Unbegun,
        give: Callable[[TopicReader, Sequenced], Iterable[Sequenced]],
    ) -> None:
        self._readers, self._room, self._unbegun, self._give = readers, room, unbegun, give
        # The last old number of each topic whose clock is not there yet. Each is among the unknown, or has a head, or
        # has only holes left.
        self._ends: dict[int, int] = {}
        self._unknown: set[int] = set()
        # The next old event of each topic, by its ticks; or among those without.
        self._heads: dict[int, Sequenced] = {}
        self._by_ticks = Waiting()
        self._without: dict[int, Sequenced] = {}
        self.held: list[Sequenced] = []

    def begin(self, ends: Mapping[int, int]) -> None:
        """Numbers of these topics up to the given ones are old."""
        for topic, end in ends.items():
            if self._readers[topic].clock < end:
                self._ends[topic] = end
                self._look(topic)

    def holds(self, entry: Sequenced) -> bool:
        """Tell whether an entry whose turn has come otherwise has to wait for old events."""
        if entry.is_hole or not self._ends:
            return False
        if entry.number > self._ends.get(entry.topic, 0):
            self.held.append(entry)
        return True

    @property
    def is_over(self) -> bool:
        """All old numbers are read, and no new event waits for them."""
        return not self._ends and not self.held

    def needs(self, entry: Sequenced) -> bool:
        """Tell whether no old event goes before this one is here."""
        return entry.topic in self._unknown and self._next(entry.topic)[0] == entry.number

    def moved(self, topic: int) -> None:
        """The clock of a topic has risen, or something of it has begun or ceased to wait."""
        if topic not in self._ends:
            return
        if topic in self._readers:
            self._look(topic)
        else:  # it is read no more
            del self._ends[topic]
            self._forget(topic)

    def _forget(self, topic: int) -> None:
        self._unknown.discard(topic)
        self._heads.pop(topic, None)
        self._without.pop(topic, None)

    def _next(self, topic: int) -> tuple[int, Sequenced | None]:
        """Return the number behind the clock and the holes there, and what waits under it."""
        waiting, number = self._room.topic(topic), self._readers[topic].clock + 1
        while (entry := waiting.get(number)) is not None and entry.is_hole:
            number += 1
        return number, entry

    def _look(self, topic: int) -> None:
        """Find out which event of a topic is next."""
        number, entry = self._next(topic)
        if entry is not None and entry is self._heads.get(topic):
            return
        self._forget(topic)
        if number > self._ends[topic]:
            if self._readers[topic].clock >= self._ends[topic]:
                del self._ends[topic]
        elif entry is None:
            self._unknown.add(topic)
        else:
            self._heads[topic] = entry
            if entry.ticks:
                self._by_ticks.put(entry)
                self._by_ticks.tidy(2 * len(self._ends))
            else:
                self._without[topic] = entry

    def missing(self) -> Iterator[Reason]:
        """Yield missing old numbers, as many as are told, each with all waiting events."""
        if waiting := [each for each in (*self._heads.values(), *self.held) if not each.done]:
            for topic in islice(self._unknown, WAITS_TOLD):
                yield topic, self._next(topic)[0], waiting

    # -- the next event ----------------------------------------------------------------------------------------

    def go_on(self, awake: deque[Sequenced], *, is_open: bool) -> bool:
        """Let old events go as far as they may, none unless ``is_open``, and collect the entries that wake by this.
        Return whether there are any."""
        while is_open and not awake and (entry := self.next()) is not None:
            awake += self._give(self._readers[entry.topic], entry)
        if not self._ends:
            awake += self.held
            self.held = []
        return bool(awake)

    def next(self) -> Sequenced | None:
        """Return the next old event, ``None`` where some event or number is missing for that."""
        if self._unknown or not self._heads:
            return None
        entry: Sequenced | None = next(iter(self._heads.values()))
        for _ in range(4 * len(self._ends)):
            if entry is None:
                return None
            if (before := self._before(entry)) is not None:
                entry = before
            elif (topic := self._blocker(entry)) is None:
                return None if entry.is_hole else entry
            else:
                entry = self._of(topic)
        # ticks or dependencies that go in a circle: a stamp is forged, and what names nothing that lacks may go
        return next((each for each in self._heads.values() if self._blocker(each) is None), None)

    def _before(self, entry: Sequenced) -> Sequenced | None:
        """Return the next event of another topic that comes before this one."""
        if entry.is_hole or not entry.ticks:
            return None
        before: Sequenced | None = next(iter(self._without.values()), None)
        return before or self._by_ticks.before(entry.ticks, announced=True)

    def _blocker(self, entry: Sequenced) -> int | None:
        """Return a topic whose clock has to rise before this entry goes."""
        for topic, number in pairs(entry.deps):
            other = self._readers.get(topic)
            if self._unbegun.is_held(topic) if other is None else other.clock < number:
                return topic
        return entry.topic if self._readers[entry.topic].clock < entry.number - 1 else None

    def _of(self, topic: int) -> Sequenced | None:
        """Return what waits for its turn in a topic: a hole, or its next old event."""
        reader = self._readers.get(topic)
        entry = None if reader is None else self._room.get(topic, reader.clock + 1)
        return entry if entry is not None and entry.is_hole else self._heads.get(topic)

    def describe(self) -> dict[str, Any]:
        """Return the old numbers, and the new events that wait."""
        return {"ends": dict(self._ends), "held": [each for each in self.held if not each.done]}
