"""From ``publish()`` to the broker's acceptance: one call is one future."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from math import inf, nan

from inorder.client import clock
from inorder.client.ens_link import EnsLink
from inorder.client.observing import Observer
from inorder.client.recording import Recording
from inorder.endpoint.notifications import Receipt
from inorder.endpoint.publisher import Publication, PublicationState, Publisher
from inorder.errors import Abandoned, Forgotten, InorderError, PayloadTooLarge, QueueFull, Refused, TooManyUnconfirmed
from inorder.logs import logger
from inorder.ports import Outgoing
from inorder.protocol.stamp import FifoStamp, TotalStamp, encode_stamp
from inorder.protocol.wire import (
    MAX_FRAME_BYTES,
    CreateTimestamps,
    Frame,
    Logged,
    Settled,
    Timestamps,
    TopicInfo,
    encode_logged,
)

_log = logger("inorder.client")


LOG_ALLOWANCE = 64 * 1024
"""Bytes that a request has beside what it brings for an event log, at most."""


class Publish(asyncio.Future[Receipt]):
    """One publish: resolves to its receipt when the broker has accepted the event. Cancelling it takes the event
    back if it was not handed over yet (its number becomes void, R16)."""

    def __init__(self, link: EnsLink, message: Outgoing, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.link, self.message = link, message
        self.publication: Publication | None = None
        self.is_fifo = False
        self.was_handed = self.is_doubtful = False  # without total order, as a publication's "handed" and "doubtful"
        self.published_at = self.stamped_at = loop.time()
        self.accepted_at = nan
        self.counter = 0  # of a fifo stream
        self.is_recorded = False
        self.asked_at = inf  # when its request left, by the clock that goes on while the machine sleeps
        self.is_asked_twice = False
        self.on_cancel: Callable[[Publish], None] | None = None

    def cancel(self, msg: object = None) -> bool:
        """See :meth:`asyncio.Future.cancel`."""
        cancelled = super().cancel(msg)
        if cancelled and self.on_cancel is not None:
            self.on_cancel(self)
        return cancelled


class Publishing:
    """All publishes of a client.

    Args:
        send: sends a frame to the workers, or drops it while there is no connection.
        domain: returns the domain id once a worker told it.
        names: returns a topic by id, where known.
        limit: publishes that may be unfinished.

    Attributes:
        grace: how long the workers keep the numbers of a publisher that is gone, s (R16).
        max_logged_bytes: payloads up to this size can be stored in event logs (R18).
        late_confirms: numbers that were abandoned before they were confirmed.
        accepted: numbered events that brokers have accepted.
        observer: told of each of them.
        recording: told of each publish that ended.
    """

    def __init__(
        self,
        send: Callable[[Frame], None],
        domain: Callable[[], int],
        names: Callable[[list[int]], tuple[tuple[str, int], ...]],
        limit: int,
    ) -> None:
        self.machine = Publisher()
        self._send, self._domain, self._names, self._limit = send, domain, names, limit
        # not the session's incarnation: all readers see it, and who knows that one could speak for the session
        self._stream = secrets.randbits(64) - 2**63
        self._fifo: dict[tuple[str, str], int] = {}
        self._plain: dict[str, deque[Publish]] = {}
        self._open: set[Publish] = set()
        self._slow: list[Publication] = []  # accepted so late that they may have been abandoned before
        self.grace = 10.0
        self.max_logged_bytes = MAX_FRAME_BYTES - LOG_ALLOWANCE
        self.settle_wanted: Callable[[], None] = lambda: None
        self.late_confirms = 0
        self.accepted = 0
        self.observer: Observer | None = None
        self.recording: Recording | None = None

    def check_log(self, space: str, message: Outgoing) -> None:
        """Raise PayloadTooLarge for what the event log of its topic could not take (R18)."""
        size = len(message.payload)
        if size > self.max_logged_bytes and self.machine.is_logged((space, message.topic)):
            raise PayloadTooLarge(size, self.max_logged_bytes)

    @property
    def pending(self) -> int:
        """Publishes that are not accepted, and numbers the workers do not know the fate of yet."""
        return max(len(self._open), self.machine.pending)

    def check_room(self, more: int = 0) -> None:
        """Raise QueueFull at the limit; ``more`` are on their way here."""
        if len(self._open) + more >= self._limit:
            raise QueueFull(self._limit)

    # -- the three orders --------------------------------------------------------------------------------------

    def total(self, publish: Publish) -> None:
        """Queue a publish that gets a timestamp."""
        self._open.add(publish)
        message = publish.message
        size = len(message.payload) + sum(len(name) + len(value) for name, value in message.properties)
        to_log = partial(_to_log, message) if size <= self.max_logged_bytes else None
        publish.publication = self.machine.publish((publish.link.space, message.topic), publish, to_log, size)
        publish.on_cancel = self._cancelled

    def plain(self, publish: Publish, *, fifo: bool) -> None:
        """Hand over a publish without a timestamp; ``fifo`` numbers it per topic."""
        publish.is_fifo = fifo
        publish.on_cancel = self._plain_cancelled
        self._open.add(publish)
        self._plain.setdefault(publish.link.space, deque()).append(publish)
        self._hand_over_plain(publish)

    def _hand_over_plain(self, publish: Publish) -> None:
        message, link = publish.message, publish.link
        if not link.is_restored:
            return
        if publish.is_fifo and message.stamp is None:  # numbered only now: one that is cancelled before leaves no hole
            key = link.space, message.topic
            counter = self._fifo[key] = self._fifo.get(key, 0) + 1
            message.stamp = encode_stamp(FifoStamp(self._stream, counter))
            publish.counter = counter
            # who reads properties is known for total order only: the payload form is read by all of ours
            message.in_payload = not link.ens.capabilities.properties
        publish.was_handed, publish.is_doubtful = True, publish.was_handed
        link.hand_over(message, partial(self._plain_outcome, publish))

    def _plain_cancelled(self, publish: Publish) -> None:
        self._open.discard(publish)
        if not publish.was_handed:
            self._leave_plain(publish)
            self._record(publish, None, None)

    def _leave_plain(self, publish: Publish) -> None:
        waiting = self._plain[publish.link.space]
        if waiting and waiting[0] is publish:
            waiting.popleft()
        elif publish in waiting:
            waiting.remove(publish)

    def _plain_outcome(self, publish: Publish, error: Exception | None) -> None:
        self._leave_plain(publish)
        if error is None and self.recording is not None:
            publish.accepted_at = self.recording.clock()
        self._finish(publish, None, error or Receipt(publish.link.space, publish.message.topic, None))

    def _finish(self, publish: Publish, publication: Publication | None, outcome: Receipt | Exception) -> None:
        if self.recording is not None:
            self.recording.publish_ended(publish, publication, outcome)
        self._open.discard(publish)
        publish.on_cancel = publish.publication = None
        if not publish.done():
            if isinstance(outcome, Receipt):
                publish.set_result(outcome)
            else:
                publish.set_exception(outcome)

    def _record(self, publish: Publish, publication: Publication | None, outcome: Receipt | Exception | None) -> None:
        """A publish ended; ``None``: its caller cancelled it before it was handed over."""
        if self.recording is not None:
            self.recording.publish_ended(publish, publication, outcome)

    def _cancelled(self, publish: Publish) -> None:
        self._open.discard(publish)
        publication, publish.publication = publish.publication, None
        if publication is not None:
            self._take_back(publication)
            if not publication.handed:  # else the broker's word tells what became of it
                self._record(publish, publication, None)

    def _take_back(self, publication: Publication) -> None:
        """Nobody wants it any more: unless it was handed over, its number becomes void."""
        self.machine.cancel(publication)
        if not publication.handed:
            self.machine.refused(publication)
        self.settle_wanted()

    def requests(self) -> list[CreateTimestamps]:
        """Return the requests that leave now."""
        frames = self.machine.requests()
        for publication, cause in self.machine.take_spoilt():
            error = Refused(f"the event log cannot take what was published: {cause}")
            self._finish(publication.content, publication, error)
        now = clock.waking_or_sleeping() if frames else 0.0
        for frame in frames:
            for event in frame.events:
                self.machine.publication(event.counter).content.asked_at = now
        return frames

    # -- answers of the workers --------------------------------------------------------------------------------

    def answered(self, frame: Timestamps) -> None:
        """Timestamps arrived: hand the events over, in order."""
        answers = self.machine.answered(frame)
        self.machine.ask_again(self._to_be_asked_again(answers.ready))
        for publication in answers.ready:
            if publication.state is PublicationState.STAMPED:
                self._hand_over(publication)
        for publication in answers.forgotten:
            self._finish(
                publication.content, publication, Forgotten(publication.topic[1], may_be_delivered=publication.handed)
            )
        for publication in answers.refused:
            limit = self.machine.max_open
            self._finish(publication.content, publication, TooManyUnconfirmed(publication.topic[1], limit))
        for publication in answers.abandoned:
            self._finish(publication.content, publication, Abandoned(publication.topic[1], publication.number))
        self.settle_wanted()  # what was cancelled meanwhile

    def _to_be_asked_again(self, ready: list[Publication]) -> list[Publication]:
        """R16: an answer that took half the grace (this process stood still, or the network did) may be about numbers
        that were abandoned since. They are asked about once more; once, for a worker may just be that slow."""
        before = clock.waking_or_sleeping() - self.grace / 2
        late = [
            each for each in ready
            if each.content.asked_at < before and not (each.handed or each.content.is_asked_twice)
        ]  # fmt: skip
        for each in late:
            each.content.is_asked_twice = True
        return late

    def _hand_over(self, publication: Publication) -> None:
        publish: Publish = publication.content
        if publish.done() and not publication.handed:
            self.machine.refused(publication)
            self.settle_wanted()
            return
        message = publish.message
        publish.stamped_at = publish.get_loop().time()
        message.stamp = encode_stamp(
            TotalStamp(self._domain(), publication.topic_id, publication.number, publication.deps)
        )
        message.in_payload = publication.in_payload
        # without a connection it stays stamped; the reconnection asks for it again
        publication.handed |= publish.link.hand_over(message, partial(self._outcome, publication))

    def _outcome(self, publication: Publication, error: Exception | None) -> None:
        publish: Publish = publication.content
        if not self.machine.owns(publication):
            return  # of a former domain: nobody is to be told (and the caller was)
        if error is not None:
            self.machine.refused(publication)
            self._finish(publish, publication, error)
        else:
            self.machine.accepted(publication)
            self.accepted += 1
            if self.recording is not None:
                publish.accepted_at = self.recording.clock()
            if self.observer is not None:
                self.observer.accepted(
                    publication.topic_id, publication.number, publish.published_at, publish.stamped_at
                )
            if clock.waking_or_sleeping() - publish.asked_at > self.grace / 2:
                self._slow.append(publication)  # the answer to its confirmation tells whether it was abandoned
            else:
                self._finish(publish, publication, self._receipt(publication))
        self.settle_wanted()

    def _receipt(self, publication: Publication) -> Receipt:
        space, topic = publication.topic
        return Receipt(space, topic, publication.number, self._names(publication.deps))

    def settled(self, frame: Settled) -> None:
        """Numbers are settled; a confirmation that came too late is an abandoned number (R16)."""
        late = self.machine.settled(frame)
        for topic, number in late:
            self.late_confirms += 1
            names = self._names([topic, number])
            _log.error("event=late_confirmation topic=%s number=%d", names[0][0] if names else topic, number)
        slow, self._slow = self._slow, []
        for each in slow:
            if each.state is not PublicationState.DONE:
                self._slow.append(each)
            elif (each.topic_id, each.number) in late:
                self._finish(each.content, each, Abandoned(each.topic[1], each.number))
            else:
                self._finish(each.content, each, self._receipt(each))
        self.settle_wanted()  # what was accepted while these were on their way

    # -- connections -------------------------------------------------------------------------------------------

    def named(self, topics: Iterable[TopicInfo], order_epoch: int) -> None:
        """Workers named topics."""
        self.machine.named(topics, order_epoch)

    def stages_reached(self, stages: set[int]) -> None:
        """Ask everything unanswered of these stages again."""
        for frame in self.machine.connected(stages):
            self._send(frame)

    def other_domain(self) -> None:
        """The workers serve another domain, whose numbers are others. What was never asked for gets its number there;
        all else that is open fails: it may have a number of the former domain, and must not get a second one."""
        former, self.machine = self.machine, Publisher()
        self.machine.max_open = former.max_open
        self._slow.clear()
        for publication in former.unfinished():
            publish: Publish = publication.content
            if publish.publication is not publication:
                # accepted or cancelled: the caller knows, and the workers need not
                self._record(publish, publication, Forgotten(publication.topic[1], may_be_delivered=True))
            elif publication.is_asked:
                self._finish(publish, publication, Forgotten(publication.topic[1], may_be_delivered=publication.handed))
            else:
                publish.publication = self.machine.publish(
                    publication.topic, publish, publication.to_log, publication.size
                )

    def ens_restored(self, link: EnsLink) -> None:
        """A broker is back: what it may not have got is handed over again; stamped events only after their numbers
        were found to stand (R16)."""
        self.machine.ask_again(self.machine.handed_over(link.space))
        for publish in list(self._plain.get(link.space, ())):
            if publish.done():
                self._leave_plain(publish)
            else:
                self._hand_over_plain(publish)

    def give_up(self, error: InorderError) -> None:
        """The client closes. What was not handed over becomes void; what was, and is not accepted, may have been
        delivered, so its number is left to be abandoned (R16)."""
        if self._open:
            _log.warning("event=publishes_given_up count=%d reason=%s", len(self._open), error)
        for publish in list(self._open):
            publication = publish.publication
            if self.recording is not None:
                self.recording.publish_given_up(publish, publication)
            if publication is not None:
                self._take_back(publication)
            self._finish(publish, publication, error)
            publish.exception()  # said above, once for all: not again for each that nobody awaits
        if self.recording is not None:
            self._record_handed(self.recording)

    def _record_handed(self, recording: Recording) -> None:
        """Nobody will know what became of publishes that were cancelled when the broker had been given them."""
        for publication in self.machine.unfinished():
            recording.publish_given_up(publication.content, publication)
        for waiting in self._plain.values():
            for publish in waiting:
                recording.publish_given_up(publish, None)


def _to_log(message: Outgoing) -> bytes:
    return encode_logged(Logged(message.payload, message.qos, list(message.properties)))
