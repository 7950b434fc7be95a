"""Publishes of a client, from ``publish()`` to the broker's acceptance: each call is one future."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from math import nan

from inorder.client.ens_link import EnsLink
from inorder.client.observing import Observer
from inorder.client.recording import Recording
from inorder.endpoint.effects import Failed, HandOver, Published, Requeued
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.notifications import Receipt
from inorder.endpoint.publications import Publication, PublicationState
from inorder.errors import InorderError, PayloadTooLarge, QueueFull
from inorder.logs import logger
from inorder.ports import Outgoing
from inorder.protocol.wire import MAX_FRAME_BYTES, Logged, encode_logged

_log = logger("inorder.client")


LOG_ALLOWANCE = 64 * 1024
"""Bytes that a request has beside what it brings for an event log, at most."""


class Publish(asyncio.Future[Receipt]):
    """A future of one publish, whose result is the receipt after the broker's acceptance. Cancelling it takes the event
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
        self.on_cancel: Callable[[Publish], None] | None = None

    def cancel(self, msg: object = None) -> bool:
        """See :meth:`asyncio.Future.cancel`."""
        cancelled = super().cancel(msg)
        if cancelled and self.on_cancel is not None:
            self.on_cancel(self)
        return cancelled


class Publishing:
    """All publishes of a client: each is a future, and those in total order are also publications of the endpoint.

    Args:
        endpoint: decides about the order.
        perform: carries out what the endpoint wants done.
        limit: publishes that may be unfinished.

    Attributes:
        max_logged_bytes: payloads up to this size can be stored in event logs (R18).
        observer: told of each numbered event that a broker has accepted.
        recording: told of each publish that ended.
    """

    def __init__(self, endpoint: Endpoint, perform: Callable[[], None], limit: int) -> None:
        self._endpoint, self._perform, self._limit = endpoint, perform, limit
        self._plain: dict[str, deque[Publish]] = {}
        self._open: set[Publish] = set()
        self.max_logged_bytes = MAX_FRAME_BYTES - LOG_ALLOWANCE
        self.observer: Observer | None = None
        self.recording: Recording | None = None

    def check_log(self, space: str, message: Outgoing) -> None:
        """Raise PayloadTooLarge for a publish that its topic's event log could not take (R18)."""
        size = len(message.payload)
        is_logged = self._endpoint.publishing.publisher.is_logged
        if size > self.max_logged_bytes and is_logged((space, message.topic)):
            raise PayloadTooLarge(size, self.max_logged_bytes)

    @property
    def pending(self) -> int:
        """The number of publishes not accepted, and of numbers whose fate the workers do not know yet."""
        return max(len(self._open), self._endpoint.publishing.publisher.pending)

    def check_room(self, more: int = 0) -> None:
        """Raise QueueFull at the limit; ``more`` publishes are on their way here."""
        if len(self._open) + more >= self._limit:
            raise QueueFull(self._limit)

    # -- with total order --------------------------------------------------------------------------------------

    def total(self, publish: Publish) -> None:
        """Queue a publish that gets a timestamp."""
        self._open.add(publish)
        message = publish.message
        size = len(message.payload) + sum(len(name) + len(value) for name, value in message.properties)
        to_log = partial(_to_log, message) if size <= self.max_logged_bytes else None
        publish.publication = self._endpoint.publish((publish.link.space, message.topic), publish, to_log, size)
        publish.on_cancel = self._cancelled

    def _cancelled(self, publish: Publish) -> None:
        self._open.discard(publish)
        publication, publish.publication = publish.publication, None
        if publication is not None:
            self._endpoint.cancel(publication)
            if not publication.handed:  # else the broker's word tells what became of it
                self._record(publish, publication, None)
            self._perform()

    def hand_over(self, effect: HandOver) -> None:
        """See :class:`~inorder.endpoint.effects.HandOver`."""
        publication = effect.publication
        if publication.state is not PublicationState.STAMPED:
            return
        publish: Publish = publication.content
        message = publish.message
        publish.stamped_at = publish.get_loop().time()
        message.stamp, message.in_payload = effect.stamp, publication.in_payload
        # without a connection it stays stamped; the reconnection asks for it again
        publication.handed |= publish.link.hand_over(message, partial(self._outcome, publication))

    def _outcome(self, publication: Publication, error: Exception | None) -> None:
        if publication not in self._endpoint.publishing.publisher.publications:
            return  # of a former domain: nobody is to be told (and the caller was)
        publish: Publish = publication.content
        if error is not None:
            self._endpoint.refused(publication, error)
        else:
            if self.recording is not None:
                publish.accepted_at = self.recording.clock()
            if self.observer is not None:
                number = publication.number
                self.observer.accepted(publication.topic_id, number, publish.published_at, publish.stamped_at)
            self._endpoint.accepted(publication)
        self._perform()

    def published(self, effect: Published) -> None:
        """See :class:`~inorder.endpoint.effects.Published`."""
        self._finish(effect.publication.content, effect.publication, effect.receipt)

    def failed(self, effect: Failed) -> None:
        """See :class:`~inorder.endpoint.effects.Failed`."""
        self._finish(effect.publication.content, effect.publication, effect.error)

    @staticmethod
    def requeued(effect: Requeued) -> None:
        """See :class:`~inorder.endpoint.effects.Requeued`."""
        effect.publication.content.publication = effect.publication

    # -- without -----------------------------------------------------------------------------------------------

    def plain(self, publish: Publish, *, fifo: bool) -> None:
        """Hand over a publish without a timestamp; ``fifo`` numbers these per topic."""
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
            message.stamp, publish.counter = self._endpoint.fifo_stamp(link.space, message.topic)
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

    def restored(self, link: EnsLink) -> None:
        """Hand over again, to a broker that is back, all messages without a known outcome."""
        for publish in list(self._plain.get(link.space, ())):
            if publish.done():
                self._leave_plain(publish)
            else:
                self._hand_over_plain(publish)

    # -- the end -----------------------------------------------------------------------------------------------

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

    def _record(self, publish: Publish, publication: Publication | None, outcome: None) -> None:
        """Record a publish that its caller cancelled before it was handed over."""
        if self.recording is not None:
            self.recording.publish_ended(publish, publication, outcome)

    def give_up(self, error: InorderError) -> None:
        """Fail the open publishes, as the client closes. What was not handed over becomes void; what was, and is not
        accepted, may have been delivered, so its number is left to be abandoned (R16)."""
        if self._open:
            _log.warning("event=publishes_given_up count=%d reason=%s", len(self._open), error)
        for publish in list(self._open):
            publication = publish.publication
            if self.recording is not None:
                self.recording.publish_given_up(publish, publication)
            if publication is not None:
                self._endpoint.cancel(publication)
            self._finish(publish, publication, error)
            publish.exception()  # said above, once for all: not again for each that nobody awaits
        if self.recording is not None:
            self._record_handed(self.recording)

    def _record_handed(self, recording: Recording) -> None:
        """Record cancelled publishes that the broker had been given, whose outcome nobody will know."""
        for publication in self._endpoint.publishing.publisher.publications:
            recording.publish_given_up(publication.content, publication)
        for waiting in self._plain.values():
            for publish in waiting:
                recording.publish_given_up(publish, None)


def _to_log(message: Outgoing) -> bytes:
    return encode_logged(Logged(message.payload, message.qos, list(message.properties)))
