"""Leads: how far the events of each topic have brought a reader that takes events out of turn, and whether their ticks
are true (R23).

Ticks are not signed. One forged stamp with high ticks would make all later events late, of all topics and for good. So
where an event is late, the stages are asked once in a while what ticks they gave to those that were notified of before
it and are *ahead* of it. A stage that has given others to such a number, or has not given the number, shows that the
stamp was forged: then the reader goes back to where all other events have brought it, and the ticks of that topic's
events count no more, until the stage has said of one of them that they are true.

*Without that*, a tag reader of a and b: somebody puts an event on a, with the next number and the tick 2^60; from then
on each event on b is late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from inorder.endpoint.ticks import Reached, Ticks
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.wire import NumberAnswer, Numbers, NumberState

MAX_DOUBTED = 2
"""Events that are asked about at a time: those that are furthest ahead."""
KEPT = 64
"""Topics beyond twice those that are read whose leads are kept apart."""


class _Lead:
    """A topic's lead is how far its events have brought the reader: the last one that counted, and all together.

    Attributes:
        is_true: the stage has given the last one these ticks. is_unknown: it said that it has not given the number; an
            owner that does not know yet that it is not the owner any more may say so once.
        is_trusted: nobody has forged ticks of the topic since the stage said so last.
    """

    __slots__ = ("is_true", "is_trusted", "is_unknown", "number", "reached", "ticks")

    def __init__(self) -> None:
        self.number, self.ticks = 0, Ticks()
        self.is_true, self.is_trusted, self.is_unknown = False, True, False
        self.reached = Reached()

    def note(self, number: int, ticks: Ticks) -> None:
        """The topic has a later event."""
        self.number, self.ticks, self.is_true, self.is_unknown = number, ticks, False, False


class Leads:
    """The leads of all topics, and the point that they make together.

    Args:
        readers: the topics that are read.
        gap_timeout: s between two questions.

    Attributes:
        reached: how far the reader has got in the one order.
        forged: stamps that were found to be forged, and have not been told: topic and number.
    """

    def __init__(self, readers: Mapping[int, object], gap_timeout: float) -> None:
        self.reached = Reached()
        self.forged: list[tuple[int, int]] = []
        self._readers, self._gap_timeout = readers, gap_timeout
        self._base = Reached()  # of what is not kept by topic
        self._by_topic: dict[int, _Lead] = {}
        self._late: Ticks = ()  # of an event that was late, and that nobody has asked about yet
        self._doubted: dict[tuple[int, int], Ticks] = {}  # what the stages were asked about, and have not told
        self._ask_at = 0.0

    def resume(self, saved: list[int]) -> None:
        """A former process has reached this point."""
        self.reached.resume(saved)
        self._base.resume(saved)

    def point(self, done: Reached) -> Reached:
        """Return the point that the application was done with, as far as this reader takes it for true. (To reach
        further makes events late, and none in order that should not be.)"""
        point = Reached()
        for each in (self._base, done):
            point.resume(each.saved())
        if point.is_beyond(self.reached):
            point = Reached()
            point.resume(self.reached.saved())
        return point

    def forget(self) -> None:
        """All numbers and ticks are others from now on."""
        self.reached, self._base = Reached(), Reached()
        self._by_topic, self._doubted, self._late = {}, {}, ()

    def take(self, entry: Sequenced) -> bool:
        """Tell whether an event is in order; if so, go on to it."""
        topic, ticks = entry.topic, entry.ticks
        lead = self._by_topic.get(topic)
        if lead is not None and not lead.is_trusted:
            lead.note(entry.number, ticks)
            self._late = self._late or ticks
            return False
        if not self.reached.take(ticks):
            self._late = ticks or self._late
            return False
        if ticks and ticks[1] & 1:
            if lead is None:
                self._join()
                lead = self._by_topic[topic] = _Lead()
            lead.note(entry.number, ticks)
            lead.reached.rise(ticks[0], ticks[2:])
        return True

    def _join(self) -> None:
        """Keep only the leads of topics that are read apart, where there are many others."""
        if len(self._by_topic) > 2 * len(self._readers) + KEPT:
            for topic in self._by_topic.keys() - self._readers.keys():
                lead = self._by_topic.pop(topic)
                if lead.is_trusted:
                    self._base.resume(lead.reached.saved())

    # -- are they true? ----------------------------------------------------------------------------------------

    @property
    def due(self) -> float | None:
        """Return when the stages are to be asked (s), or ``None``."""
        return self._ask_at if self._late or self._doubted else None

    def questions(self, now: float) -> dict[int, list[int]]:
        """Return the numbers to ask for now, by topic."""
        if now < self._ask_at or self.due is None:
            return {}
        self._ask_at = now + self._gap_timeout
        ahead = sorted(self._ahead(), key=lambda each: each[0], reverse=True)[:MAX_DOUBTED]
        self._doubted = {(topic, lead.number): lead.ticks for _, topic, lead in ahead}
        self._late = ()
        return {topic: [number] for topic, number in self._doubted}

    def _ahead(self) -> Iterator[tuple[tuple[int, int], int, _Lead]]:
        """Yield the leads that may be forged, each with how far ahead it is."""
        for topic, lead in self._by_topic.items():
            if topic not in self._readers or not lead.ticks or lead.is_true:
                continue
            is_asked = self._doubted.get((topic, lead.number)) == lead.ticks
            if is_asked or not lead.is_trusted or (self._late and not lead.reached.is_behind(self._late)):
                yield (lead.ticks[0], max(lead.ticks[2:])), topic, lead

    def answered(self, numbers: Numbers) -> None:
        """A stage answered: go back behind what was forged."""
        if not self._doubted:
            return
        answers = {each.number: each for each in numbers.answers}
        for place in [each for each in self._doubted if each[0] == numbers.topic]:
            answer, lead = answers.get(place[1]), self._by_topic.get(place[0])
            if answer is None and place[1] > numbers.expired_through:
                continue
            is_same = lead is not None and (lead.number, lead.ticks) == (place[1], self._doubted[place])
            if lead is not None and is_same and _is_unknown(answer) and not lead.is_unknown:
                lead.is_unknown = True  # asked again
                continue
            del self._doubted[place]
            if lead is not None and is_same:
                self._judge(place, lead, answer)

    def _judge(self, place: tuple[int, int], lead: _Lead, answer: NumberAnswer | None) -> None:
        """Take what a stage says of a lead. Of a timestamp that is not complete it does not tell ticks yet, and one of
        an older release never does."""
        given = Ticks() if answer is None else tuple(answer.ticks)
        if given == lead.ticks:
            lead.is_true = lead.is_trusted = True
            lead.reached.rise(given[0], given[2:])
            self.reached.rise(given[0], given[2:])
        elif given or _is_unknown(answer):
            lead.ticks = ()
            if lead.is_trusted:
                self.forged.append(place)
                lead.is_trusted, lead.reached = False, Reached()
                if given:
                    lead.reached.rise(given[0], given[2:])
                self._go_back()
        elif answer is None or answer.state is not NumberState.PENDING:
            lead.is_true = True  # as far as anybody can tell

    def _go_back(self) -> None:
        """Go back to where the base and all leads are."""
        reached = Reached()
        for each in (self._base, *(lead.reached for lead in self._by_topic.values())):
            reached.resume(each.saved())
        self.reached = reached

    def describe(self) -> dict[str, Any]:
        """Return which topics are not believed, and what is asked about."""
        distrusted = [topic for topic, lead in self._by_topic.items() if not lead.is_trusted]
        return {"distrusted": distrusted, "doubted": list(self._doubted), "late": self._late}


def _is_unknown(answer: NumberAnswer | None) -> bool:
    return answer is not None and answer.state is NumberState.UNKNOWN
