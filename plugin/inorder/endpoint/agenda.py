"""The times at which something is to be done about missing numbers; the next one is found without a search.

A reader of thousands of topics may have missing numbers in all of them: heads tell of what it has not read yet (R17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from inorder.endpoint.barriers import CaughtUp, Sparing
from inorder.endpoint.outputs import OrderingTimes
from inorder.endpoint.reader import TopicReader
from inorder.protocol.deadlines import Deadlines


class BrokersAgenda:
    """The topics of one broker that wait for a proof of what was read (R24).

    Attributes:
        held: topics whose stage was to be asked, where too much was asked that may merely not be read yet; that of
            which something is missing for longest comes first (s).
        proofs: topics that wait for a barrier, with what is to be proven, by the broker's time.
    """

    def __init__(self, since: Callable[[int], float | None], proof_at: Callable[[int], float | None]) -> None:
        self.held = Deadlines[int, float](since)
        self.proofs = Deadlines[int, float](proof_at)


class Agenda:
    """The topics that wait for a question to their stage (R17), to their log (R18), or for a barrier (R24).

    All of it follows from the readers: whoever changes what one knows of missing numbers notes that here.

    Args:
        readers: all readers, by topic; a live view.
        times: timers.

    Attributes:
        behind: topics with a reader that has learned of a number above its clock, and perhaps some whose clock is
            there by now. Only these can be due.
    """

    def __init__(self, readers: Mapping[int, TopicReader], times: OrderingTimes) -> None:
        self._readers, self._times = readers, times
        self.behind: set[int] = set()
        self._questions = Deadlines[int, float](self._question_at)
        self._fetches = Deadlines[int, float](self._fetch_at)
        self._brokers: dict[CaughtUp, BrokersAgenda] = {}

    # -- what is noted -----------------------------------------------------------------------------------------

    def learned(self, topic: int) -> None:
        """Take note that a number is known that may be missing."""
        self.behind.add(topic)
        self._questions.note(topic)

    def note(self, reader: TopicReader) -> None:
        """Take note that anything may be due at another time than before; of a reader that has ended nothing is."""
        if self._readers.get(reader.topic) is reader:
            self._of(reader.missing.broker).held.forget(reader.topic)
            self._questions.note(reader.topic)
            self.note_fetch(reader)
            self.note_proof(reader)

    def note_fetch(self, reader: TopicReader) -> None:
        """Take note that a log may be asked at another time than before."""
        self._fetches.note(reader.topic)

    def note_proof(self, reader: TopicReader) -> None:
        """Take note that a barrier may be waited for earlier than before, or for another number."""
        self._of(reader.missing.broker).proofs.note(reader.topic)

    def forget(self, topic: int) -> None:
        """Forget a topic, which has no reader any more."""
        self.behind.discard(topic)
        for each in self._all():
            each.forget(topic)

    def clear(self) -> None:
        """Forget all topics."""
        self.behind.clear()
        for each in self._all():
            each.begin(())

    def _of(self, broker: CaughtUp) -> BrokersAgenda:
        found = self._brokers.get(broker)
        if found is None:
            found = self._brokers[broker] = BrokersAgenda(self._since, self._proof_at)
        return found

    def _all(self) -> Iterator[Deadlines[int, float]]:
        yield self._questions
        yield self._fetches
        for each in self._brokers.values():
            yield each.held
            yield each.proofs

    # -- questions to stages -----------------------------------------------------------------------------------

    @property
    def next_question(self) -> float | None:
        """The time (s) at which :meth:`overdue` tells more topics; held ones do not count."""
        return self._questions.next

    def held_until(self, sparing: Sparing) -> float | None:
        """Return until when topics are held because too much was asked (s), unless a barrier comes back; ``None``: no
        topic is."""
        held = [first[1] for each in self._brokers.values() if (first := each.held.first()) is not None]
        if not held:
            return None
        return sparing.until if all(self._readers[topic].missing.is_unread for topic in held) else 0.0

    def overdue(self, sparing: Sparing, now: float) -> Iterator[TopicReader]:
        """Yield the readers that are to ask their stage now, the one that misses something for longest first. Each
        asks, and is noted, before the next one is taken. Held are those that would ask for more than ``sparing`` allows
        of what may not be read yet."""
        for topic in self._questions.take(now):
            self._of(self._readers[topic].missing.broker).held.note(topic)
        while (reader := self._longest_missing(sparing.left(now) > 0)) is not None:
            yield reader

    def _longest_missing(self, has_room: bool) -> TopicReader | None:
        """Take a reader that may ask: where there is no room, one whose missing number would have been read."""
        found = list[tuple[float, int, Deadlines[int, float]]]()
        for each in self._brokers.values():
            first = each.held.first()
            if first is not None and (has_room or not self._readers[first[1]].missing.is_unread):
                found.append((*first, each.held))
        if not found:
            return None
        _, topic, held = min(found, key=lambda each: each[:2])
        held.forget(topic)
        return self._readers[topic]

    def _question_at(self, topic: int) -> float | None:
        reader = self._readers[topic]
        due = reader.missing.due(reader.clock, self._times.gap_timeout)
        if due is None:
            self.behind.discard(topic)
        return due

    def _since(self, topic: int) -> float | None:
        return None if self._question_at(topic) is None else self._readers[topic].missing.since

    # -- questions to logs -------------------------------------------------------------------------------------

    @property
    def next_fetch(self) -> float | None:
        """The time (s) at which a log is to be asked next."""
        return self._fetches.next

    def fetching(self, now: float) -> list[TopicReader]:
        """Return the readers that are to ask their log now. Each is to be noted again, by :meth:`note_fetch`."""
        return [self._readers[topic] for topic in self._fetches.take(now)]

    def _fetch_at(self, topic: int) -> float | None:
        reader = self._readers[topic]
        return reader.missing.fetch_due(reader.clock)

    # -- barriers ----------------------------------------------------------------------------------------------

    def unproven(self) -> Iterator[tuple[CaughtUp, float]]:
        """Yield the brokers that are waited for, each with the earliest time that is to be proven (its own, see
        :meth:`CaughtUp.at`)."""
        for broker, its in self._brokers.items():
            held, proof = its.held.first(), its.proofs.next
            times = [] if proof is None else [proof]
            if held is not None and (missing := self._readers[held[1]].missing).is_unread:
                times.append(missing.known_at)
            if times:
                yield broker, min(times)

    def proven(self, broker: CaughtUp) -> list[TopicReader]:
        """Return the readers that waited for what a barrier has proven. Each is to be noted again."""
        return [self._readers[topic] for topic in self._of(broker).proofs.take(broker.proven)]

    def waiting_for(self, broker: CaughtUp) -> list[TopicReader]:
        """Return the readers that wait for a broker's barrier."""
        return [self._readers[topic] for topic in self._of(broker).proofs.noted]

    def _proof_at(self, topic: int) -> float | None:
        return self._readers[topic].proof_due(self._times.loss_timeout)
