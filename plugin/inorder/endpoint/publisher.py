"""The publisher's side: from a validated publish to a confirmed number (R1, R16, R19). No I/O.

A publication is *queued* until a request for its timestamp may leave, *requested* until the stage answers,
*stamped* while the ENS has it, *settling* until the stage knows what became of it, then *done*. What is asked twice
is answered with the same timestamp, so after a broken connection everything unanswered is simply asked again; and
after a change of the topic order it is planned anew, with the same counters (R14).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from enum import Enum, auto
from itertools import islice, takewhile
from math import inf
from typing import Any

from msgspec.structs import replace

from inorder.protocol.wire import CreateTimestamps, Moved, NewEvent, Settle, Settled, Timestamps, TopicInfo

MAX_BATCH = 512
"""Requests in one frame."""
MAX_BATCH_BYTES = 512 * 1024
"""Bytes of contents for event logs (R18), and of what requests carry (R19), in one frame, unless a single one has
more."""
BYTES_CARRIED = 5
"""What a number that a request carries takes, unless it is above four thousand million."""
LOOKED_AHEAD = 64
"""Publications in the queue whose topics' stages are looked at before one is asked for."""
MAX_FRAMES = 2
"""Frames of requests in flight to one stage: one is being committed, the next collects there."""


class PublicationState(Enum):
    """Where a publication stands."""

    QUEUED = auto()
    REQUESTED = auto()
    STAMPED = auto()
    SETTLING = auto()
    DONE = auto()


_QUEUED, _REQUESTED, _STAMPED = PublicationState.QUEUED, PublicationState.REQUESTED, PublicationState.STAMPED
_SETTLING, _DONE = PublicationState.SETTLING, PublicationState.DONE


_NOWHERE = -1
"""As a stage: no stage remembers that use, so the request itself has to carry it."""


class _LastUse:
    """A session's last event in one topic (R19); the number is 0 until it is known.

    Attributes:
        since: what came behind that counter is not followed through this event by later ones in its topic.
        first: the event with this counter, and those in the topic from it up to this one, were unanswered when this one
            was asked for; ``known``: the number of the one before them, 0 for none.
        stage: which stage adds it to what follows it; ``home``: its topic's. ``is_deep``: a stage above that one, which
            was told of it, may have forgotten so, and believes it only of who comes by its home.
    """

    __slots__ = ("counter", "first", "home", "is_deep", "known", "number", "since", "stage")

    def __init__(self, counter: int, stage: int, before: _LastUse | None) -> None:
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
        number, deps, in_payload: its timestamp, once stamped; ``top``: the highest stage that it visited, where that
            is above the topic's own.
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
        self.use: _LastUse | None = None
        self.before: _LastUse | None = None
        self.is_asked = self.is_asked_twice = False
        self.asked_at = inf
        self.asked_epoch = 0
        self.number = 0
        self.deps: list[int] = []
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


class Answers:
    """What an answer means for the client: publications ``ready`` to hand over, ``forgotten``, ``abandoned`` and
    ``refused`` ones to fail."""

    __slots__ = ("abandoned", "forgotten", "ready", "refused")

    def __init__(self) -> None:
        self.ready: list[Publication] = []
        self.forgotten: list[Publication] = []
        self.abandoned: list[Publication] = []
        self.refused: list[Publication] = []


class _Flight:
    """A frame of requests on its way to a stage: how many of them are unanswered."""

    __slots__ = ("open", "stage")

    def __init__(self, stage: int, count: int) -> None:
        self.stage, self.open = stage, count


class Publisher:
    """All publications of one session that are not done yet.

    Attributes:
        max_open: numbers that the workers allow it to have open; what is beyond waits in the queue. 0: no bound.
    """

    def __init__(self) -> None:
        self.max_open = 0
        self._asked_for = 0  # publications that have, or may get, a number
        self._next_counter = 1
        self._queue: deque[Publication] = deque()
        self._resend: dict[int, dict[int, Publication]] = {}  # by entry stage
        self._open: dict[int, Publication] = {}
        self._topics: dict[tuple[str, str], TopicInfo] = {}
        self._asked: set[tuple[str, str]] = set()
        self._order_epoch = 1
        self._flights: dict[int, int] = {}  # by entry stage
        self._flying: dict[int, _Flight] = {}
        # R19: unanswered requests all entered at one stage; the highest of their homes
        self._unanswered: set[int] = set()
        self._entry = 0
        self._ceiling = 0
        self._previous_home = 0
        self._lowest_home = 0  # of all topics that have been named
        # R19: what unanswered requests rely on; those of them that may be forgotten, so that others wait behind them
        self._relied: dict[int, int] = {}
        self._doubted: set[int] = set()
        self._is_stale = self._is_deep = False
        self._used: dict[int, _LastUse] = {}
        self._stages_used: set[int] = set()
        self._epochs: dict[int, int] = {}
        self._confirmed: list[Publication] = []
        self._void: list[Publication] = []
        self._abandoned: list[Publication] = []
        self._spoilt: list[tuple[Publication, Exception]] = []
        self._settling: dict[int, tuple[Settle, list[Publication]]] = {}
        self._next_settle = 1

    def __repr__(self) -> str:
        return f"<Publisher: {len(self._open)} open, {len(self._queue)} queued>"

    @property
    def pending(self) -> int:
        """Publications not yet done."""
        return len(self._open)

    def publication(self, counter: int) -> Publication:
        """Return one that is not done yet."""
        return self._open[counter]

    # -- from the application ----------------------------------------------------------------------------------

    def publish(
        self, topic: tuple[str, str], content: Any, to_log: Callable[[], bytes | None] | None = None, size: int = 0
    ) -> Publication:
        """Queue a publish that was validated (R16: what would be refused must not consume a number)."""
        publication = Publication(self._next_counter, topic, content, to_log, size)
        self._next_counter += 1
        self._queue.append(publication)
        self._open[publication.counter] = publication
        return publication

    def owns(self, publication: Publication) -> bool:
        """Tell whether this is a publication of this session that is not done."""
        return self._open.get(publication.counter) is publication

    def unfinished(self) -> list[Publication]:
        """Return all publications that are not done, in publish order."""
        return list(self._open.values())

    def cancel(self, publication: Publication) -> None:
        """The caller gave up. Not handed over yet, its number becomes void; handed over, nothing can be done."""
        publication.cancelled = True
        if publication.state is _QUEUED and not publication.is_asked:
            self._finish(publication)

    # -- topics ------------------------------------------------------------------------------------------------

    def unnamed(self) -> list[tuple[str, str]]:
        """Return topics whose ids must be asked for; each once, until :meth:`connected`."""
        wanted = {each.topic: None for each in self._queue if each.state is _QUEUED}
        asked = [each for each in wanted if each not in self._topics and each not in self._asked]
        self._asked.update(asked)
        return asked

    def named(self, topics: Iterable[TopicInfo], order_epoch: int | None = None) -> None:
        """A worker named topics. What it said of an older topic order is asked once more."""
        is_old = order_epoch is not None and order_epoch < self._order_epoch
        for info in topics:
            self._asked.discard((info.space, info.name))
            self._lowest_home = max(info.stage, self._lowest_home)
            known = self._topics.get((info.space, info.name))
            if not is_old:
                self._topics[info.space, info.name] = info
            elif known is not None:  # whether it is logged does not depend on the order
                self._topics[info.space, info.name] = replace(known, logged=info.logged)

    @property
    def is_waiting_for_names(self) -> bool:
        """The next publication cannot be requested before its topic is named."""
        return bool(self._queue) and self._queue[0].topic not in self._topics

    # -- the topic order (R14) ---------------------------------------------------------------------------------

    def welcomed(self, order_epoch: int) -> None:
        """A worker told its order epoch at the hello (0: it has no stage, and does not know); it counts for a client
        that knows no topic's stage yet."""
        if order_epoch and not self._topics:
            self._order_epoch = order_epoch

    @property
    def asked_epoch(self) -> int:
        """The order epoch in which the oldest open request was made first."""
        oldest = next((each for each in self._open.values() if each.is_asked), None)
        return self._order_epoch if oldest is None else oldest.asked_epoch

    def moved(self, frame: Moved) -> None:
        """Topics are on other stages now. If that is all that moved since the order we know, it is the one for all
        requests from now on; what is unanswered was not taken, or is answered once more, so it is planned anew."""
        if frame.order_epoch < self._order_epoch:
            return
        self._move(dict(zip(frame.homes[::2], frame.homes[1::2], strict=True)))
        if frame.since <= self._order_epoch < frame.order_epoch:
            self._order_epoch = frame.order_epoch
            self._plan_anew()

    def _move(self, homes: dict[int, int]) -> None:
        self._lowest_home = max(self._lowest_home, *homes.values(), 0)
        for name, info in self._topics.items():
            if info.id in homes:
                self._topics[name] = replace(info, stage=homes[info.id])
        for publication in self._open.values():
            info_of_it = publication.info
            if info_of_it is not None and info_of_it.id in homes:
                publication.info = replace(info_of_it, stage=homes[info_of_it.id])
        for topic, use in self._uses():
            use.home = homes.get(topic, use.home)
            if use.stage != _NOWHERE:
                use.stage = use.home
        self._stages_used = {use.stage for use in self._used.values()}

    def _uses(self) -> list[tuple[int, _LastUse]]:
        """Return the last use of each topic, and those that are it again if a later request is planned anew."""
        behind = [(each.topic_id, each.before) for each in self._open.values() if each.before is not None]
        return [*self._used.items(), *behind]

    def _plan_anew(self) -> None:
        """Take back all requests without an answer, as if they had never been made; the stages know the counters of
        those that got a number. Everything older is complete, so nothing waits for its way up (R19)."""
        self._flights.clear()
        self._flying.clear()
        self._resend.clear()
        self._unanswered.clear()
        self._previous_home = 0
        again: list[Publication] = []
        for each in self._open.values():
            if each.state is _REQUESTED and each.number:  # only asked whether its number stands
                self._ask_home(each)
            elif each.state is _REQUESTED:
                again.append(each)
        self._take_back(again)
        for each in again:
            each.state = _QUEUED
        self._queue.extendleft(reversed(again))
        self._stages_used = {use.stage for use in self._used.values()}

    def _take_back(self, publications: list[Publication]) -> None:
        """The last uses of topics are again what they were before these, which are the last ones requested (R19)."""
        for each in reversed(publications):
            if each.use is not None and self._used.get(each.topic_id) is each.use:
                del self._used[each.topic_id]
                if each.before is not None:
                    self._used[each.topic_id] = each.before
            each.use, each.before = None, None
        self._used = dict(sorted(self._used.items(), key=lambda pair: pair[1].counter))

    # -- sessions (R1, R12) ------------------------------------------------------------------------------------

    def lost(self, stage: int) -> None:
        """The connection to a stage is gone. Before there is another one the stage may drop the session; so what is
        requested from now on does not rely on its knowing what this client published there last (R19). What it
        says of that would come too late: its word may be lost with the next connection, and the session is new then.

        What is unanswered is asked again of a session that may be new, and may be forgotten: it carries what it can,
        relies on that stage's knowing the rest, and the next request waits until it is answered.
        """
        self._carry(use for _, use in self._uses() if use.stage == stage)
        for _, use in self._uses():
            if use.home > stage:
                use.is_deep = self._is_deep = True
        if any(self._passes(self._open[counter], stage) for counter in self._unanswered):
            self._doubted |= self._unanswered
            self._is_stale = True

    def _follow_anew(self) -> None:
        """Collect once more what unanswered requests follow, for when they are asked again."""
        self._is_stale, self._relied = False, {}
        asked = [each for each in self._open.values() if each.counter in self._unanswered]
        self._take_back(asked)
        later, self._used = OrderedDict(self._used), {}  # of requests that are answered, though earlier ones are not
        for each in asked:
            while later and next(iter(later.values())).counter < each.counter:
                self._used.update([later.popitem(last=False)])
            if each.topic_id in later:  # it was numbered before what came behind it there
                each.after, each.required, each.through = [], [], -1
            elif each.info is not None:
                self._follow(each, each.info)
        self._used.update(later)

    @staticmethod
    def _passes(publication: Publication, stage: int) -> bool:
        if (info := publication.info) is None:
            return False
        top = info.stage if publication.through < 0 else publication.through
        return top <= stage <= publication.entry

    def _carry(self, uses: Iterable[_LastUse]) -> None:
        """Requests carry these themselves from now on; no stage has to know them (R19)."""
        for use in uses:
            use.stage = _NOWHERE
            self._stages_used.add(_NOWHERE)

    # -- requests (R1, R19) ------------------------------------------------------------------------------------

    def requests(self) -> list[CreateTimestamps]:
        """Return the frames to send now: what must be asked again first, then the queue, in publish order. A stage
        that does not answer keeps no other one's requests back, but for R19."""
        frames: list[CreateTimestamps] = []
        if self._is_stale:
            self._follow_anew()
        for entry in list(self._resend):
            while batch := self._collect_again(entry):
                frames.append(self._frame(batch))
        while batch := self._collect():
            frames.append(self._frame(batch))
        return frames

    def _frame(self, batch: list[Publication]) -> CreateTimestamps:
        entry = batch[0].entry
        flight = _Flight(entry, len(batch))
        self._flights[entry] = self._flights.get(entry, 0) + 1
        for each in batch:
            self._landed(each.counter)
            self._flying[each.counter] = flight
        events = [NewEvent(one.counter, one.topic_id, one.after, self._content(one), one.required) for one in batch]
        return CreateTimestamps(entry, next(iter(self._open)), events, self._order_epoch)

    def is_logged(self, topic: tuple[str, str]) -> bool:
        """Tell whether a topic is known to have an event log (R18)."""
        info = self._topics.get(topic)
        return info is not None and info.logged

    def _bytes_to_log(self, publication: Publication) -> int:
        return publication.size if self.is_logged(publication.topic) else 0

    def _content(self, publication: Publication) -> bytes | None:
        """R18: what a topic's log keeps goes along with the request, so that it is stored with the number. One that is
        only asked about again is stored already."""
        if publication.number or publication.to_log is None or not self.is_logged(publication.topic):
            return None
        if publication.through >= 0:  # a stage above may find that it must never be published
            return None
        try:
            return publication.to_log()
        except Exception as error:  # whatever it is, it is about this one alone: its number becomes void
            publication.to_log, publication.cancelled = None, True
            self._spoilt.append((publication, error))
            return None

    def take_spoilt(self) -> list[tuple[Publication, Exception]]:
        """Return (and forget) publications whose content for the event log could not be made, to fail them."""
        spoilt, self._spoilt = self._spoilt, []
        return spoilt

    def _collect_again(self, entry: int) -> list[Publication]:
        batch: list[Publication] = []
        resend = self._resend.get(entry, {})
        room = MAX_BATCH_BYTES
        while resend and len(batch) < MAX_BATCH and self._flights.get(entry, 0) < MAX_FRAMES:
            counter, publication = next(iter(resend.items()))
            size = self._bytes_to_log(publication) + BYTES_CARRIED * len(publication.after)
            if batch and size > room:
                break
            # else an answer to an earlier request came meanwhile; its home may be asked since then, another stage (R16)
            if publication.state is _REQUESTED and publication.entry == entry:
                room -= size
                batch.append(publication)
            del resend[counter]
        if not resend:
            self._resend.pop(entry, None)
        return batch

    def _collect(self) -> list[Publication]:
        batch: list[Publication] = []
        queue, room = self._queue, MAX_BATCH_BYTES
        while queue and len(batch) < MAX_BATCH:
            if queue[0].state is _DONE:
                queue.popleft()
            elif room < 0 or (batch and self._bytes_to_log(queue[0]) > room):
                break
            elif self._may_enter(queue[0], batch) and self._admit(queue[0]):
                publication = queue.popleft()
                room -= self._bytes_to_log(publication) + BYTES_CARRIED * len(publication.after)
                batch.append(publication)
            else:
                break
        return batch

    def _may_enter(self, publication: Publication, batch: list[Publication]) -> bool:
        """The stage it would enter has room for another frame, and nothing to be asked again before."""
        if batch:
            return True
        info = self._topics.get(publication.topic)
        if info is None:
            return False
        entry = self._entry if self._unanswered else self._entry_alone(info)
        return entry not in self._resend and self._flights.get(entry, 0) < MAX_FRAMES

    def _entry_alone(self, info: TopicInfo) -> int:
        """R19, path: where a request enters while none is unanswered: no higher than where the one before it was
        created, nor than the topics of what a stage may have forgotten; and no higher than the topics of those that are
        queued behind it, so that they need not wait."""
        entry = max(info.stage, self._previous_home, self._lowest_followed(info))
        if entry >= self._lowest_home:
            return entry
        for each in islice(self._queue, LOOKED_AHEAD):
            its = self._topics.get(each.topic)
            if its is None or its.logged:
                break
            entry = max(entry, its.stage)
        return entry

    def _lowest_followed(self, info: TopicInfo) -> int:
        """Return the lowest stage of what a request of this topic follows, and stages above may have forgotten; 0 where
        there is none."""
        if not self._is_deep:
            return 0
        last = self._used.get(info.id)
        since = 0 if last is None else last.since
        behind = takewhile(lambda use: use.counter > since, reversed(self._used.values()))
        return max((use.home for use in behind if use.is_deep), default=0)

    def _may_follow_into(self, info: TopicInfo, publication: Publication) -> bool:
        """R19, path: a request follows unanswered ones into their entry stage, unless it must enter below that. If some
        of them are created above its topic's own stage, its timestamp rides on behind them up to there, and what it
        follows is added there: the numbers are not known before. An event log would serve it even if a stage cannot do
        that any more (R18)."""
        if info.stage > self._ceiling and (info.stage > self._entry or self.is_logged(publication.topic)):
            return False
        return self._lowest_followed(info) <= self._entry

    def _admit(self, publication: Publication) -> bool:
        """Make the request of a publication, if it may leave now."""
        info = self._topics.get(publication.topic)
        if info is None or (self.max_open and self._asked_for >= self.max_open and not publication.is_asked):
            return False
        if self._doubted and publication.counter not in self._doubted:
            return False
        home = info.stage
        if not self._unanswered:
            self._entry = self._entry_alone(info)
            self._relied, self._ceiling = {}, home
        elif not self._may_follow_into(info, publication):
            return False
        if home < self._ceiling:
            self._ceiling = home
        self._previous_home = home
        self._unanswered.add(publication.counter)
        publication.info, publication.entry, publication.state = info, self._entry, _REQUESTED
        if not publication.is_asked:
            publication.is_asked, publication.asked_epoch = True, self._order_epoch
            self._asked_for += 1
        self._follow(publication, info)
        return True

    def _follow(self, publication: Publication, info: TopicInfo) -> None:
        """R19, dependencies: the last events in other topics since the previous one in this topic; those of stages
        that the request passes are added there, and so are unanswered ones above its topic's stage. All that relies on
        these stages: they may have dropped this session before the request gets there, if it is long on its way. If one
        that is unanswered is forgotten for that, what it follows is named by none; so whatever comes behind it relies
        on the same."""
        last = publication.before = self._used.pop(info.id, None)
        since = 0 if last is None else last.since
        after: list[int] = []
        required: dict[int, int] = {}
        publication.after, publication.through = after, -1
        entry = publication.entry
        passed = range(info.stage, entry + 1)
        is_doubted = bool(self._doubted) and publication.counter in self._doubted
        if info.stage < entry or is_doubted or not all(stage in passed for stage in self._stages_used):
            for topic, use in reversed(self._used.items()):
                if use.counter <= since:
                    break
                if _NOWHERE < use.stage < info.stage and not use.number:
                    after += (topic, use.known) if use.known else ()
                    required[use.stage] = min(use.first, required.get(use.stage, use.first))
                elif use.stage not in passed:
                    after += (topic, use.number) if use.number else ()
                elif use.stage < entry or (is_doubted and not use.number):
                    required[use.stage] = use.counter
        publication.use = self._used[info.id] = _LastUse(publication.counter, info.stage, last)
        self._stages_used.add(info.stage)
        relied = self._relied
        for stage, counter in required.items():
            relied[stage] = min(counter, relied.get(stage, counter))
        publication.required = [part for pair in relied.items() for part in pair] if relied else []
        if relied:
            highest = min(relied)
            publication.through = highest if highest < info.stage else -1

    # -- answers -----------------------------------------------------------------------------------------------

    def answered(self, frame: Timestamps) -> Answers:
        """A stage answered. An answer of an epoch below one already seen is ignored (a fenced owner's)."""
        answers = Answers()
        if frame.epoch < self._epochs.get(frame.stage, 0):
            return answers
        self._epochs[frame.stage] = frame.epoch
        tops = dict(zip(frame.tops[::2], frame.tops[1::2], strict=False)) if frame.tops else {}
        for event in frame.events:
            publication = self._take(event.counter)
            if publication is None:
                continue
            publication.number, publication.deps = event.number, event.deps
            publication.in_payload = event.in_payload
            if tops:
                publication.top = tops.get(event.counter, -1)
            if publication.use is not None:
                publication.use.number = event.number
            if publication.cancelled and not publication.handed:
                self._settle(publication, self._void)
            else:
                publication.state = _STAMPED
                answers.ready.append(publication)
        for counter in frame.forgotten:
            self._give_up(counter, answers.forgotten)
        for at in range(0, len(frame.abandoned) - 2, 3):
            self._give_up(frame.abandoned[at], answers.abandoned, frame.abandoned[at + 2])
        for counter in frame.refused:
            self._give_up(counter, answers.refused)
        return answers

    def _take(self, counter: int) -> Publication | None:
        """Return the publication whose request is answered, or ``None`` if it is not waiting for an answer."""
        self._landed(counter)
        publication = self._open.get(counter)
        if publication is None or publication.state is not _REQUESTED:
            return None
        self._unanswered.discard(counter)
        if counter in self._doubted:
            self._doubted.remove(counter)
            self._carry([publication.use] if publication.use is not None else [])
        return publication

    def _landed(self, counter: int) -> None:
        """The request is not in flight any more: answered, perhaps not for the first time, or sent once more."""
        flight = self._flying.pop(counter, None)
        if flight is not None:
            flight.open -= 1
            if not flight.open:
                self._flights[flight.stage] -= 1

    def _give_up(self, counter: int, to: list[Publication], number: int = 0) -> None:
        publication = self._take(counter)
        if publication is not None:
            publication.number = number or publication.number
            if publication.number and publication.use is not None:
                publication.use.number = publication.number  # who has it must not have what follows before it (R19)
                if publication.through >= 0:
                    self._carry_behind(publication)
            elif not publication.number:
                self._withdraw(publication)
            self._finish(publication)
            to.append(publication)

    def _withdraw(self, publication: Publication) -> None:
        """It never gets a number, so what follows it in publish order follows the one before it in its topic (R19).
        Stages that it rode through take it for the last one there; so requests carry what is later than that one. What
        is unanswered has no number to be carried yet, and the next request waits for it."""
        use, before = publication.use, publication.before
        for each in self._open.values() if use is not None else ():
            if each.before is use:
                each.before = before
        if use is not None and self._used.get(publication.topic_id) is use:
            del self._used[publication.topic_id]
            if before is not None:
                self._used[publication.topic_id] = before
                self._used = dict(sorted(self._used.items(), key=lambda pair: pair[1].counter))
        self._carry_behind(publication)

    def _carry_behind(self, publication: Publication) -> None:
        """R19: what the event follows may be named by none, so whatever follows it in its topic follows that, too."""
        before, use = publication.before, publication.use
        since = 0 if before is None else before.since
        if use is not None:
            use.since = since
        self._carry(each for _, each in self._uses() if each.counter > since)
        self._doubted |= self._unanswered

    def _finish(self, publication: Publication) -> None:
        publication.state = _DONE
        if self._open.pop(publication.counter, None) is not None and publication.is_asked:
            self._asked_for -= 1

    # -- outcomes at the ENS (R16) -----------------------------------------------------------------------------

    def accepted(self, publication: Publication) -> None:
        """The ENS accepted the event: its number is to be confirmed."""
        if publication.state is _STAMPED:
            self._settle(publication, self._confirmed)

    def refused(self, publication: Publication) -> None:
        """This hand-over certainly failed: the number is to become void. If an earlier one may have succeeded, it
        is abandoned: a void must be true, subscribers skip it without report."""
        if publication.state is _STAMPED:
            self._settle(publication, self._abandoned if publication.doubtful else self._void)

    def _settle(self, publication: Publication, how: list[Publication]) -> None:
        publication.state = _SETTLING
        how.append(publication)

    def handed_over(self, space: str) -> list[Publication]:
        """Return the stamped publications of a space whose fate at the ENS is open, in publish order."""
        return [each for each in self._open.values() if each.state is _STAMPED and each.topic[0] == space]

    def ask_again(self, publications: Iterable[Publication]) -> None:
        """Before they are handed over once more, ask whether their numbers still stand (R16): their home answers
        with the same timestamps, or that they were abandoned."""
        for publication in publications:
            publication.state = _REQUESTED
            publication.doubtful |= publication.handed
            self._ask_home(publication)

    def _ask_home(self, publication: Publication) -> None:
        """A topic's home knows all its numbers, also those of a time elsewhere (R14)."""
        if publication.info is not None:
            publication.entry = publication.info.stage
        self._resend.setdefault(publication.entry, {})[publication.counter] = publication

    def settlements(self) -> list[Settle]:
        """Return the frames that tell stages what became of numbers; the next ones for a stage leave when it has
        answered these (a stage that is down must not keep others from being told)."""
        settled = (self._confirmed, self._void, self._abandoned)
        if not any(settled):
            return []
        busy = {frame.stage for frame, _ in self._settling.values()}
        by_stage: dict[int, tuple[list[Publication], ...]] = {}
        for at, group in enumerate(settled):
            for publication in group:
                assert publication.info is not None
                if publication.info.stage not in busy:
                    by_stage.setdefault(publication.info.stage, ([], [], []))[at].append(publication)
        self._confirmed, self._void, self._abandoned = (_those_of(each, busy) for each in settled)
        frames = []
        for stage, groups in by_stage.items():
            frame = Settle(stage, self._next_settle, *map(_runs, groups))
            self._settling[frame.request] = frame, [each for group in groups for each in group]
            self._next_settle += 1
            frames.append(frame)
        return frames

    def settled(self, frame: Settled) -> list[tuple[int, int]]:
        """A stage made them durable. Return ``(topic, number)`` of confirmations that came too late (R16)."""
        if frame.epoch < self._epochs.get(frame.stage, 0):
            return []
        _, publications = self._settling.pop(frame.request, (None, []))
        for publication in publications:
            self._finish(publication)
        return [(frame.late[at], frame.late[at + 1]) for at in range(0, len(frame.late) - 1, 2)]

    # -- connection --------------------------------------------------------------------------------------------

    def connected(self, stages: Iterable[int] | None = None) -> list[Settle]:
        """These stages (all, if none are given) are reached (again): everything unanswered there is asked again, by
        :meth:`requests` and by the settlements returned here."""
        if stages is None:
            reached = {each.entry for each in self._open.values()} | self._flights.keys()
            reached |= {frame.stage for frame, _ in self._settling.values()}
        else:
            reached = set(stages)
        self._asked.clear()
        self._flying = {at: flight for at, flight in self._flying.items() if flight.stage not in reached}
        for stage in reached:
            self._flights.pop(stage, None)
            self._resend.pop(stage, None)
        for each in self._open.values():
            if each.state is _REQUESTED and each.entry in reached:
                self._resend.setdefault(each.entry, {})[each.counter] = each
        return [frame for frame, _ in self._settling.values() if frame.stage in reached]


def _those_of(publications: list[Publication], stages: set[int]) -> list[Publication]:
    return [each for each in publications if each.info is not None and each.info.stage in stages] if stages else []


def _runs(publications: list[Publication]) -> list[int]:
    """Return numbers as flat triples ``topic, first, last``."""
    numbers: dict[int, list[int]] = {}
    for each in publications:
        numbers.setdefault(each.topic_id, []).append(each.number)
    triples: list[int] = []
    for topic, its in numbers.items():
        its.sort()
        first = last = its[0]
        for number in its[1:]:
            if number != last + 1:
                triples += (topic, first, last)
                first = number
            last = number
        triples += (topic, first, last)
    return triples
