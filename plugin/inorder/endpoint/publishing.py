"""A client's publishes with total order: from the timestamp to what its broker and the workers say (R1, R16, R19)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from inorder.endpoint.arrivals import Arrivals
from inorder.endpoint.effects import (
    Clock,
    Failed,
    HandOver,
    LateConfirmation,
    Outbox,
    Published,
    Requeued,
)
from inorder.endpoint.notifications import Receipt
from inorder.endpoint.publications import Publication, PublicationState
from inorder.endpoint.publisher import Publisher
from inorder.errors import Abandoned, Forgotten, Refused, TooManyUnconfirmed
from inorder.protocol.stamp import PlainStamp, TotalStamp, encode_stamp
from inorder.protocol.wire import CreateTimestamps, Settled, Timestamps, Welcome

_STAMPED, _SETTLING = PublicationState.STAMPED, PublicationState.SETTLING
_DONE = PublicationState.DONE


class Publishing:
    """The publishes of a client, with their outcomes.

    Args:
        arrivals: knows the domain, and names of topics.
        settle_delay: how long confirmations may wait for others to go with, s.

    Attributes:
        publisher: the requests for timestamps.
        grace: how long the workers keep the numbers of a publisher that is gone, s (R16).
        settle_at: when what became of numbers is told, by the clock's uptime; ``None`` while nothing is to be told.
        late_confirms: numbers that were abandoned before they were confirmed.
        accepted: numbered events that brokers have accepted.
    """

    def __init__(self, outbox: Outbox, clock: Clock, arrivals: Arrivals, settle_delay: float) -> None:
        self.publisher = Publisher()
        self._outbox, self._clock, self._arrivals, self._settle_delay = outbox, clock, arrivals, settle_delay
        self._slow: list[Publication] = []  # accepted so late that they may have been abandoned before
        self.grace = 10.0
        self.settle_at: float | None = None
        self.late_confirms = self.accepted = 0

    def welcomed(self, welcome: Welcome) -> None:
        """A worker took this client in."""
        publisher = self.publisher
        self.grace = welcome.publisher_grace_ms / 1000
        publisher.welcomed(welcome.order_epoch)
        publisher.publications.max_open = welcome.access.max_unconfirmed

    # -- from the application ----------------------------------------------------------------------------------

    def publish(
        self, topic: tuple[str, str], content: Any, to_log: Callable[[], bytes | None] | None, size: int
    ) -> Publication:
        """Queue a publish that was checked."""
        self._outbox.wants_flush = True
        return self.publisher.publish(topic, content, to_log, size)

    def cancel(self, publication: Publication) -> None:
        """Cancel a publication; unless it was handed over, its number becomes void."""
        self.publisher.cancel(publication)
        if not publication.handed:
            self.publisher.refused(publication)
        self.settle_soon()

    def settle_soon(self) -> None:
        """Tell the stages what became of numbers, a little later."""
        if self.settle_at is None:
            self.settle_at = self._clock.uptime() + self._settle_delay
            self._outbox.wants_timer = True

    # -- the workers -------------------------------------------------------------------------------------------

    def requests(self) -> list[CreateTimestamps]:
        """Return the requests that leave now."""
        publisher = self.publisher
        frames, publications = publisher.requests(), publisher.publications.open
        for publication, cause in publisher.take_spoilt():
            error = Refused(f"the event log cannot take what was published: {cause}")
            self._outbox.effects.append(Failed(publication, error))
        now = self._clock.uptime() if frames else 0.0
        for frame in frames:
            for event in frame.events:
                publications[event.counter].asked_at = now
        return frames

    def answered(self, frame: Timestamps) -> None:
        """Timestamps arrived: hand the events over, in order."""
        answers, effects = self.publisher.answered(frame), self._outbox.effects
        self.publisher.ask_again(self._to_be_asked_again(answers.ready))
        domain = self._arrivals.domain
        for each in answers.ready:
            if each.state is _STAMPED:
                parts = domain, each.topic_id, each.number, each.deps
                stamp = encode_stamp(TotalStamp(*parts, each.ticks) if each.ticks else PlainStamp(*parts))
                effects.append(HandOver(each, stamp))
        for each in answers.forgotten:
            effects.append(Failed(each, Forgotten(each.topic[1], may_be_delivered=each.handed)))
        limit, owned = frame.owned or self.publisher.publications.max_open, frame.owned > 0
        effects += [Failed(each, TooManyUnconfirmed(each.topic[1], limit, is_shared=owned)) for each in answers.refused]
        effects += [Failed(each, Abandoned(each.topic[1], each.number)) for each in answers.abandoned]
        self.settle_soon()  # what was cancelled meanwhile

    def _to_be_asked_again(self, ready: Iterable[Publication]) -> list[Publication]:
        """R16: an answer that took half the grace (this process stood still, or the network did) may be about numbers
        that were abandoned since. They are asked about once more; once, for a worker may just be that slow."""
        before = self._clock.uptime() - self.grace / 2
        late = [each for each in ready if each.asked_at < before and not (each.handed or each.is_asked_twice)]
        for each in late:
            each.is_asked_twice = True
        return late

    def settled(self, frame: Settled) -> None:
        """Numbers are settled; a confirmation that came too late is an abandoned number (R16)."""
        late, effects = self.publisher.settled(frame), self._outbox.effects
        for topic, number in late:
            self.late_confirms += 1
            names = self._arrivals.named([topic, number])
            effects.append(LateConfirmation(topic, names[0][0] if names else str(topic), number))
        slow, self._slow = self._slow, []
        for each in slow:
            if each.state is not _DONE:
                self._slow.append(each)
            elif (each.topic_id, each.number) in late:
                effects.append(Failed(each, Abandoned(each.topic[1], each.number)))
            else:
                effects.append(Published(each, self._receipt(each)))
        self.settle_soon()  # what was accepted while these were on their way

    # -- the brokers -------------------------------------------------------------------------------------------

    def accepted_by_broker(self, publication: Publication) -> None:
        """The broker accepted an event."""
        if publication not in self.publisher.publications:
            return  # of a former domain: nobody is to be told (and the caller was)
        self.publisher.accepted(publication)
        self.accepted += 1
        if self._clock.uptime() - publication.asked_at > self.grace / 2:
            self._slow.append(publication)  # the answer to its confirmation tells whether it was abandoned
        else:
            self._outbox.effects.append(Published(publication, self._receipt(publication)))
        self.settle_soon()

    def refused_by_broker(self, publication: Publication, error: Exception) -> None:
        """The broker was certainly not given an event."""
        if publication in self.publisher.publications:
            self.publisher.refused(publication)
            self._outbox.effects.append(Failed(publication, error))
            self.settle_soon()

    def restored(self, space: str) -> None:
        """A broker is back: what it may not have got is handed over again, after its number was found to stand
        (R16)."""
        self.publisher.ask_again(self.publisher.handed_over(space))

    def _receipt(self, publication: Publication) -> Receipt:
        space, topic = publication.topic
        return Receipt(space, topic, publication.number, self._arrivals.named(publication.deps))

    # -- the domain --------------------------------------------------------------------------------------------

    def leave_domain(self) -> None:
        """The workers serve another domain, whose numbers are others. What was never asked for gets its number there;
        all else that is open fails: it may have a number of the former domain, and must not get a second one."""
        former, self.publisher = self.publisher, Publisher()
        self.publisher.publications.max_open = former.publications.max_open
        slow, self._slow = self._slow, []
        for each in former.publications:
            is_wanted = not each.cancelled and (each.state is not _SETTLING or each in slow)
            if is_wanted and not each.is_asked:
                again = self.publisher.publish(each.topic, each.content, each.to_log, each.size)
                self._outbox.effects.append(Requeued(again))
            else:
                error = Forgotten(each.topic[1], may_be_delivered=each.handed or not is_wanted)
                self._outbox.effects.append(Failed(each, error))
