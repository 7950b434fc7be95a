"""A publisher leads a client's publishes from the call to a confirmed number (R1, R16, R19). No I/O.

What is asked twice is answered with the same timestamp, so after a broken connection everything unanswered is simply
asked again; and after a change of the topic order it is planned anew, with the same counters (R14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from inorder.endpoint.homes import Homes
from inorder.endpoint.path import Path
from inorder.endpoint.publications import Publication, Publications, PublicationState
from inorder.endpoint.requests import Requests
from inorder.endpoint.settlements import Settlements
from inorder.endpoint.uses import Uses
from inorder.protocol.pairs import pairs, triples
from inorder.protocol.wire import CreateTimestamps, Moved, Settle, Settled, Timestamps, TopicInfo

_QUEUED, _REQUESTED, _STAMPED = PublicationState.QUEUED, PublicationState.REQUESTED, PublicationState.STAMPED


class Answers:
    """An answer has these results for the client: publications ``ready`` to hand over, ``forgotten``, ``abandoned`` and
    ``refused`` ones to fail."""

    __slots__ = ("abandoned", "forgotten", "ready", "refused")

    def __init__(self) -> None:
        self.ready: list[Publication] = []
        self.forgotten: list[Publication] = []
        self.abandoned: list[Publication] = []
        self.refused: list[Publication] = []


class Publisher:
    """The publisher takes one session's publications from the queue to the end, as stages and brokers answer.

    Attributes:
        publications: those that are not done yet.
    """

    def __init__(self) -> None:
        self.publications = Publications()
        self._homes = Homes()
        self._uses = Uses(self.publications)
        self._path = Path(self.publications, self._homes, self._uses)
        self._requests = Requests(self.publications, self._homes, self._path)
        self._settlements = Settlements()
        # By stage, the highest epoch of its answers: one of a lower epoch is a fenced owner's, and is ignored.
        self._epochs: dict[int, int] = {}

    def __repr__(self) -> str:
        publications = self.publications
        return f"<Publisher: {len(publications)} open, {len(publications.queue)} queued>"

    def describe(self) -> dict[str, Any]:
        """Return what the machine knows, for tests and messages about failures."""
        parts = (self.publications, self._homes, self._uses, self._path, self._requests, self._settlements)
        said: dict[str, Any] = {"epochs": dict(self._epochs)}
        for part in parts:
            said |= part.describe()
        return said

    @property
    def pending(self) -> int:
        """Publications not yet done."""
        return len(self.publications)

    # -- from the application ----------------------------------------------------------------------------------

    def publish(
        self, topic: tuple[str, str], content: Any, to_log: Callable[[], bytes | None] | None = None, size: int = 0
    ) -> Publication:
        """Queue a publish that was validated (R16: what would be refused must not consume a number)."""
        return self.publications.add(topic, content, to_log, size)

    def cancel(self, publication: Publication) -> None:
        """The caller gave up a publication. Unless it was handed over, its number becomes void; else nothing can be
        done."""
        publication.cancelled = True
        if publication.state is _QUEUED and not publication.is_asked:
            self.publications.finish(publication)

    # -- topics ------------------------------------------------------------------------------------------------

    def unnamed(self) -> list[tuple[str, str]]:
        """Return topics whose ids must be asked for; each once, until :meth:`connected`."""
        return self._homes.unnamed(each.topic for each in self.publications.queue if each.state is _QUEUED)

    def named(self, topics: Iterable[TopicInfo], order_epoch: int | None = None) -> None:
        """A worker named topics. What it said of an older topic order is asked once more."""
        self._homes.named(topics, order_epoch)

    def is_logged(self, topic: tuple[str, str]) -> bool:
        """Tell whether a topic is known to have an event log (R18)."""
        return self._homes.is_logged(topic)

    @property
    def is_waiting_for_names(self) -> bool:
        """The next publication cannot be requested before its topic is named."""
        queue = self.publications.queue
        return bool(queue) and queue[0].topic not in self._homes.topics

    # -- the topic order (R14) ---------------------------------------------------------------------------------

    def welcomed(self, order_epoch: int) -> None:
        """A worker told its order epoch at the hello; 0 where it has no stage, and does not know."""
        self._homes.welcomed(order_epoch)

    @property
    def asked_epoch(self) -> int:
        """The order epoch in which the oldest open request was made first."""
        oldest = next((each for each in self.publications if each.is_asked), None)
        return self._homes.order_epoch if oldest is None else oldest.asked_epoch

    def moved(self, frame: Moved) -> None:
        """Topics are on other stages now. If that is all that moved since the order we know, it is the one for all
        requests from now on; what is unanswered was not taken, or is answered once more, so it is planned anew."""
        homes = self._homes
        if frame.refusals:
            self._refused(frame)
        if frame.order_epoch < homes.order_epoch:
            return
        self._move(dict(pairs(frame.homes)))
        if frame.since <= homes.order_epoch < frame.order_epoch:
            homes.order_epoch = frame.order_epoch
            self._plan_anew()

    def forget(self, topics: list[int]) -> None:
        """Forget topics that have ended. What was requested of them since is refused."""
        self._homes.forget(set(topics))
        self._uses.forget(topics)

    def _move(self, stages: dict[int, int]) -> None:
        self._homes.move(stages)
        for publication in self.publications:
            info = publication.info
            if info is not None and info.id in stages:
                publication.info = replace(info, stage=stages[info.id])
        self._uses.move(stages)

    def _refused(self, frame: Moved) -> None:
        """A stage has refused requests, because the topics of some have ended, and knows of no number of theirs."""
        homes = self._homes
        homes.forget(set(frame.ended))
        homes.refusals = max(homes.refusals, frame.refusals)
        again: list[Publication] = []
        for each in self.publications:
            if each.state is _REQUESTED and self._requests.is_refused(each, frame):
                if each.number:  # only asked whether its number stands
                    self._requests.ask_home(each)
                else:
                    self._requests.take_back(each)
                    again.append(each)
        if again:
            self._path.take_back_last(again, frame.stage)
            self.publications.queue_again(again)
        self._uses.forget(frame.ended)

    def _plan_anew(self) -> None:
        """Take back all requests without an answer, as if they had never been made. The stages know the counters of
        those that got a number."""
        self._requests.clear()
        again: list[Publication] = []
        for each in self.publications:
            if each.state is _REQUESTED and each.number:  # only asked whether its number stands
                self._requests.ask_home(each)
            elif each.state is _REQUESTED:
                again.append(each)
        self._path.take_back(again)
        self.publications.queue_again(again)

    # -- requests (R1, R19) ------------------------------------------------------------------------------------

    def requests(self) -> list[CreateTimestamps]:
        """Return the frames to send now: what must be asked again first, then the queue, in publish order."""
        return self._requests.frames()

    def take_spoilt(self) -> list[tuple[Publication, Exception]]:
        """Return (and forget) publications whose content for the event log could not be made, to fail them."""
        return self._requests.take_spoilt()

    # -- answers -----------------------------------------------------------------------------------------------

    def answered(self, frame: Timestamps) -> Answers:
        """A stage answered requests."""
        answers = Answers()
        if self._is_of_fenced_owner(frame):
            return answers
        self._epochs[frame.stage] = frame.epoch
        tops = dict(pairs(frame.tops, strict=False)) if frame.tops else {}
        ticks = {each[0]: each[1:] for each in frame.ticks if each}
        for event in frame.events:
            publication = self._take(event.counter)
            if publication is None:
                continue
            publication.number, publication.deps = event.number, event.deps
            publication.in_payload = event.in_payload
            if tops:
                publication.top = tops.get(event.counter, -1)
            if ticks:
                publication.ticks = ticks.get(event.counter, ())
            if publication.use is not None:
                publication.use.number = event.number
            if publication.cancelled and not publication.handed:
                self._settlements.void(publication)
            else:
                publication.state = _STAMPED
                answers.ready.append(publication)
        for counter in frame.forgotten:
            self._give_up(counter, answers.forgotten)
        for counter, _, number in triples(frame.abandoned, strict=False):
            self._give_up(counter, answers.abandoned, number)
        for counter in frame.refused:
            self._give_up(counter, answers.refused)
        return answers

    def _is_of_fenced_owner(self, frame: Timestamps | Settled) -> bool:
        return frame.epoch < self._epochs.get(frame.stage, 0)

    def _take(self, counter: int) -> Publication | None:
        """Return the publication whose request is answered, or ``None`` if it is not waiting for an answer."""
        self._requests.landed(counter)
        publication = self.publications.open.get(counter)
        if publication is None or publication.state is not _REQUESTED:
            return None
        self._path.answered(publication)
        return publication

    def _give_up(self, counter: int, to: list[Publication], number: int = 0) -> None:
        publication = self._take(counter)
        if publication is not None:
            publication.number = number or publication.number
            self._path.given_up(publication)
            self.publications.finish(publication)
            to.append(publication)

    # -- outcomes at the ENS (R16) -----------------------------------------------------------------------------

    def accepted(self, publication: Publication) -> None:
        """The ENS accepted the event: its number is to be confirmed."""
        if publication.state is _STAMPED:
            self._settlements.confirm(publication)

    def refused(self, publication: Publication) -> None:
        """A hand-over certainly failed: the number is to become void. If an earlier one may have succeeded, the number
        is abandoned: a void must be true, subscribers skip it without report."""
        if publication.state is _STAMPED:
            settle = self._settlements.abandon if publication.doubtful else self._settlements.void
            settle(publication)

    def handed_over(self, space: str) -> list[Publication]:
        """Return the stamped publications of a space whose fate at the ENS is open, in publish order."""
        return [each for each in self.publications if each.state is _STAMPED and each.topic[0] == space]

    def ask_again(self, publications: Iterable[Publication]) -> None:
        """Ask whether the numbers of publications still stand, before these are handed over once more (R16). Their
        homes answer with the same timestamps, or that they were abandoned."""
        for publication in publications:
            publication.state = _REQUESTED
            publication.doubtful |= publication.handed
            self._requests.ask_home(publication)

    def settlements(self) -> list[Settle]:
        """Return the frames to send now that tell stages the fates of numbers."""
        return self._settlements.frames()

    def settled(self, frame: Settled) -> list[tuple[int, int]]:
        """A stage made settlements durable. Return ``(topic, number)`` of confirmations that came too late (R16)."""
        if self._is_of_fenced_owner(frame):
            return []
        for publication in self._settlements.answered(frame.request):
            self.publications.finish(publication)
        return list(pairs(frame.late, strict=False))

    # -- connections -------------------------------------------------------------------------------------------

    def lost(self, stage: int) -> None:
        """The connection to a stage is gone: what it knew of this session cannot be relied on any more (R19)."""
        self._path.lost(stage)

    def connected(self, stages: Iterable[int] | None = None) -> list[Settle]:
        """Ask again for everything that is unanswered at stages that are reached (again): by :meth:`requests`, and by
        the settlements returned here.

        Args:
            stages: those stages; all, if none are given.
        """
        if stages is None:
            entries = {each.entry for each in self.publications}
            stages = entries | self._requests.stages | self._settlements.stages
        reached = set(stages)
        self._homes.ask_again()
        self._requests.reached(reached)
        return self._settlements.unanswered(reached)
