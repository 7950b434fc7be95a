"""Publications are a client's publishes with total order, until the workers have settled them (R1, R16). No I/O.

A publication is *queued* until a request for its timestamp may leave, *requested* until the stage answers,
*stamped* while the ENS has it, *settling* until the stage knows what became of it, then *done*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from math import inf
from typing import Any

from inorder.protocol.wire import TopicInfo


class PublicationState(Enum):
    """A publication goes through these states."""

    QUEUED = auto()
    REQUESTED = auto()
    STAMPED = auto()
    SETTLING = auto()
    DONE = auto()


_QUEUED, _DONE = PublicationState.QUEUED, PublicationState.DONE  # reading a member of an enumeration takes a call


class LastUse:
    """A session's last event in one topic (R19); the number is 0 until it is known.

    Attributes:
        since: what came behind that counter is not followed through this event by later ones in its topic.
        first: the event with this counter, and those in the topic from it up to this one, were unanswered when this one
            was asked for; ``known``: the number of the one before them, 0 for none.
        stage: which stage adds it to what follows it; ``home``: its topic's. ``is_deep``: a stage above that one, which
            was told of it, may have forgotten so, and believes it only of who comes by its home.
    """

    __slots__ = ("counter", "first", "home", "is_deep", "known", "number", "since", "stage")

    def __init__(self, counter: int, stage: int, before: LastUse | None) -> None:
        self.counter = self.since = self.first = counter
        self.stage, self.home, self.number, self.is_deep = stage, stage, 0, False
        if before is None or before.number:
            self.known = 0 if before is None else before.number
        else:
            self.first, self.known = before.first, before.known


class Publication:
    """One publish with total order.

    Attributes:
        counter: the event id within the session.
        topic: (space, name).
        content: the client's own; opaque here.
        to_log: returns what an event log keeps of it (R18), or ``None`` where that is too large; ``size``: its bytes.
        info: the topic's id and stage, once a worker named it.
        number, deps, ticks, in_payload: its timestamp, once stamped; ``top``: the highest stage that it visited, where
            that is above the topic's own.
        cancelled: the caller gave up; a number that was not handed over becomes void.
        handed: the ENS was given it at least once, so it may have been delivered.
        doubtful: the fate of such an earlier hand-over is unknown, so its number can never become void.
        entry: the stage its request enters.
        after: publisher-order dependencies that travel with the request (R19, flat); ``required``: what stages on its
            way must know to add theirs; ``through``: the highest of them, where that is above its topic's own, else -1.
        use, before: this publication and the one before it in its topic, as R19 counts them.
        is_asked: a stage may have numbered it; asked first in the order epoch ``asked_epoch``.
        asked_at: when its request left last (s), for its owner; ``is_asked_twice``: it was asked about again since the
            answer took so long (R16).
    """

    __slots__ = (
        "after",
        "asked_at",
        "asked_epoch",
        "before",
        "cancelled",
        "content",
        "counter",
        "deps",
        "doubtful",
        "entry",
        "handed",
        "in_payload",
        "info",
        "is_asked",
        "is_asked_twice",
        "number",
        "required",
        "size",
        "state",
        "through",
        "ticks",
        "to_log",
        "top",
        "topic",
        "use",
    )

    def __init__(
        self, counter: int, topic: tuple[str, str], content: Any, to_log: Callable[[], bytes | None] | None, size: int
    ) -> None:
        self.counter = counter
        self.topic = topic
        self.content = content
        self.to_log, self.size = to_log, size
        self.info: TopicInfo | None = None
        self.use: LastUse | None = None
        self.before: LastUse | None = None
        self.is_asked = self.is_asked_twice = False
        self.asked_at = inf
        self.asked_epoch = 0
        self.number = 0
        self.deps: list[int] = []
        self.ticks: tuple[int, ...] = ()
        self.in_payload = False
        self.top = -1
        self.cancelled = False
        self.handed = False
        self.doubtful = False
        self.entry = 0
        self.after: list[int] = []
        self.required: list[int] = []
        self.through = -1
        self.state = _QUEUED

    def __repr__(self) -> str:
        return f"<Publication {self.counter} to {self.topic}: {self.state.name.lower()}>"

    @property
    def topic_id(self) -> int:
        """The topic's id; a worker has named it."""
        assert self.info is not None
        return self.info.id


class Publications:
    """The collection holds the publications of one session that are not done.

    Attributes:
        max_open: numbers that the workers allow the session to have open; what is beyond waits in the queue. 0: no
            bound.
    """

    def __init__(self) -> None:
        self.max_open = 0
        # All of them, by counter, in publish order.
        self.open: dict[int, Publication] = {}
        # Those that are queued, in publish order, and perhaps some that were cancelled there and are done.
        self.queue: deque[Publication] = deque()
        # How many of `open` have, or may get, a number: those with `is_asked`.
        self._asked_for = 0
        # Above every counter that was ever given.
        self._next_counter = 1

    def __iter__(self) -> Iterator[Publication]:
        """Yield them in publish order."""
        return iter(self.open.values())

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, publication: object) -> bool:
        """Tell whether this is a publication of this session that is not done."""
        return isinstance(publication, Publication) and self.open.get(publication.counter) is publication

    def describe(self) -> dict[str, Any]:
        """Return all that is held, for tests and messages about failures."""
        return {
            "max_open": self.max_open,
            "open": dict(self.open),
            "queue": [each.counter for each in self.queue],
            "asked_for": self._asked_for,
            "next_counter": self._next_counter,
        }

    def add(
        self, topic: tuple[str, str], content: Any, to_log: Callable[[], bytes | None] | None, size: int
    ) -> Publication:
        """Queue a new publication, behind all others."""
        publication = Publication(self._next_counter, topic, content, to_log, size)
        self._next_counter += 1
        self.queue.append(publication)
        self.open[publication.counter] = publication
        return publication

    def may_ask(self, publication: Publication) -> bool:
        """Tell whether the workers allow one more number, where a publication has not been asked for."""
        return publication.is_asked or not self.max_open or self._asked_for < self.max_open

    def ask(self, publication: Publication, order_epoch: int) -> None:
        """Note that a publication is asked for; the order epoch of the first time counts."""
        if not publication.is_asked:
            publication.is_asked, publication.asked_epoch = True, order_epoch
            self._asked_for += 1

    def queue_again(self, publications: list[Publication]) -> None:
        """Put requests, in publish order, back in front of the queue, as if they had never been made."""
        for each in publications:
            each.state = _QUEUED
        self.queue.extendleft(reversed(publications))

    def finish(self, publication: Publication) -> None:
        """Let go of a publication: it is done."""
        publication.state = _DONE
        if self.open.pop(publication.counter, None) is not None and publication.is_asked:
            self._asked_for -= 1
