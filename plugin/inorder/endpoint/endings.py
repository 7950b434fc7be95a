"""A client reads ending topics to their last numbers, tells the bottom stage, and forgets the topics at its word
(R13)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from inorder.endpoint.arrivals import Arrivals
from inorder.endpoint.effects import Clock, Outbox
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.publisher import Publisher
from inorder.endpoint.subscriber import Subscriber
from inorder.protocol.pairs import joined, pairs
from inorder.protocol.wire import Heads, SaveClock

LOOKED_AT = 64
"""Topics whose end is not read yet, looked at with each flush."""


class Endings:
    """A client's topics that end.

    Args:
        subscriber, ordering, arrivals, outbox: the endpoint's.
    """

    def __init__(
        self, subscriber: Subscriber, ordering: OrderingModule, arrivals: Arrivals, outbox: Outbox, clock: Clock
    ) -> None:
        self._subscriber, self._ordering, self._arrivals = subscriber, ordering, arrivals
        self._outbox, self._clock = outbox, clock
        # The last numbers of topics that end, until it is told that all readers have read them.
        self._last: dict[int, int] = {}
        # Those of them that are not read so far, or whose stage has not been told so over this connection.
        self._untold: deque[int] = deque()

    @property
    def last(self) -> dict[int, int]:
        """The last numbers of topics that end."""
        return dict(self._last)

    def told(self, frame: Heads, publisher: Publisher) -> None:
        """A stage told of heads, and of topics that end, or have ended."""
        now = self._clock.now()
        self._ordering.heads(frame.heads, now)
        if frame.ends:
            self._ordering.heads(joined(each for each in pairs(frame.ends, strict=False) if each[1]), now)
            for topic, number in pairs(frame.ends, strict=False):
                if topic not in self._last:
                    self._untold.append(topic)
                self._last[topic] = number
        if frame.ended:
            self._forget(frame.ended)
            publisher.forget(frame.ended)

    def reached(self) -> None:
        """The bottom stage is reached (again): what was said before may be lost. Where the subscription began anew it
        tells again what ends."""
        self._last = {topic: number for topic, number in self._last.items() if self._subscriber.known(topic)}
        self._untold = deque(self._last)
        if left := sorted(self._ordering.left):  # the word that one of them has ended may be lost, and is told again
            self._outbox.send(SaveClock(self._outbox.next_request(), joined((topic, 0) for topic in left)))

    def tell(self) -> None:
        """Tell the bottom stage which topics are read to their ends."""
        if not self._untold or self._outbox.bottom not in self._outbox.reached:
            return
        read: list[tuple[int, int]] = []
        for _ in range(min(LOOKED_AT, len(self._untold))):
            topic = self._untold.popleft()
            number = self._last.get(topic)
            if number is not None and self._ordering.has_read(topic, number):
                read.append((topic, number))
            elif number is not None:
                self._untold.append(topic)
        if read:
            self._outbox.send(SaveClock(self._outbox.next_request(), joined(read)))
            self._outbox.wants_flush = self._outbox.wants_flush or bool(self._untold)

    def _forget(self, topics: Iterable[int]) -> None:
        ended = list(topics)
        for topic in ended:
            self._last.pop(topic, None)
        self._arrivals.deliver(self._ordering.ended(ended, self._clock.now()))
        self._subscriber.ended(ended)
        self._arrivals.forget(ended)
