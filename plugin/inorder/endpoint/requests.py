"""Requests are the frames in which a client asks for timestamps, and asks again (R1). No I/O.

What is asked twice is answered with the same timestamp, so after a broken connection everything unanswered is simply
asked again.
"""

from __future__ import annotations

from typing import Any

from inorder.endpoint.homes import Homes
from inorder.endpoint.path import Path
from inorder.endpoint.publications import Publication, Publications, PublicationState
from inorder.protocol.wire import CreateTimestamps, Moved, NewEvent
from inorder.protocol.wire.parts import MAX_EVENTS

MAX_BATCH = MAX_EVENTS
"""Requests in one frame."""
MAX_BATCH_BYTES = 512 * 1024
"""Bytes of contents for event logs (R18), and of what requests carry (R19), in one frame, unless a single one has
more."""
BYTES_CARRIED = 5
"""What a number that a request carries takes, unless it is above four thousand million."""
MAX_FRAMES = 2
"""Frames of requests in flight to one stage: one is being committed, the next collects there."""
_REQUESTED, _DONE = PublicationState.REQUESTED, PublicationState.DONE


class _Flight:
    """A frame of requests is on its way to a stage. ``open``: the unanswered ones; ``refusals``: the count it told."""

    __slots__ = ("open", "refusals", "stage")

    def __init__(self, stage: int, count: int, refusals: int) -> None:
        self.stage, self.open, self.refusals = stage, count, refusals


class Requests:
    """The requests of one session leave in frames of a bounded size, a bounded number of which is in flight.

    Args:
        publications: those in the queue are asked for.
        homes: tell which topics have an event log, and the order epoch of new requests.
        path: where new requests enter.
    """

    def __init__(self, publications: Publications, homes: Homes, path: Path) -> None:
        self._publications, self._homes, self._path = publications, homes, path
        # What must be asked again, by entry stage and counter; nothing new enters at such a stage before.
        self._again: dict[int, dict[int, Publication]] = {}
        # How many frames with unanswered requests are on their way, by entry stage; MAX_FRAMES at most.
        self._flights: dict[int, int] = {}
        # Of each counter that is on its way, the last frame that it left in.
        self._flying: dict[int, _Flight] = {}
        # Publications without what an event log should have kept of them, and why.
        self._spoilt: list[tuple[Publication, Exception]] = []

    def describe(self) -> dict[str, Any]:
        """Return the requests on their way, or to be asked again, for tests and messages about failures."""
        return {
            "again": {entry: list(each) for entry, each in self._again.items()},
            "flights": dict(self._flights),
            "flying": {counter: (each.stage, each.open) for counter, each in self._flying.items()},
            "spoilt": [each.counter for each, _ in self._spoilt],
        }

    @property
    def stages(self) -> set[int]:
        """The stages that frames were on their way to, since they were reached last."""
        return set(self._flights)

    def frames(self) -> list[CreateTimestamps]:
        """Return the frames to send now: what must be asked again first, then the queue, in publish order. A stage
        that does not answer keeps no other one's requests back, but for R19."""
        frames: list[CreateTimestamps] = []
        self._path.refresh()
        for entry in list(self._again):
            while batch := self._collect_again(entry):
                frames.append(self._frame(batch))
        while batch := self._collect():
            frames.append(self._frame(batch))
        return frames

    def take_spoilt(self) -> list[tuple[Publication, Exception]]:
        """Return (and forget) publications whose content for the event log could not be made, to fail them."""
        spoilt, self._spoilt = self._spoilt, []
        return spoilt

    # -- batches -----------------------------------------------------------------------------------------------

    def _collect_again(self, entry: int) -> list[Publication]:
        batch: list[Publication] = []
        again = self._again.get(entry, {})
        room = MAX_BATCH_BYTES
        while again and len(batch) < MAX_BATCH and self._flights.get(entry, 0) < MAX_FRAMES:
            counter, publication = next(iter(again.items()))
            size = self._bytes_to_log(publication) + BYTES_CARRIED * len(publication.after)
            if batch and size > room:
                break
            # else an answer to an earlier request came meanwhile; its home may be asked since then, another stage (R16)
            if publication.state is _REQUESTED and publication.entry == entry:
                room -= size
                self.landed(counter)
                batch.append(publication)
            del again[counter]
        if not again:
            self._again.pop(entry, None)
        return batch

    def _collect(self) -> list[Publication]:
        batch: list[Publication] = []
        queue, room = self._publications.queue, MAX_BATCH_BYTES
        while queue and len(batch) < MAX_BATCH:
            publication = queue[0]
            if publication.state is _DONE:
                queue.popleft()
                continue
            size = self._bytes_to_log(publication)
            if room < 0 or (batch and size > room) or not self._admit(publication, not batch):
                break
            queue.popleft()
            room -= size + BYTES_CARRIED * len(publication.after)
            batch.append(publication)
        return batch

    def _admit(self, publication: Publication, is_first: bool) -> bool:
        """Make the request of a publication, if it may leave now; the first one of a frame needs room for that."""
        info = self._homes.topics.get(publication.topic)
        if info is None or (is_first and not self._has_room(self._path.next_entry(info))):
            return False
        if not (self._publications.may_ask(publication) and self._path.enter(publication, info)):
            return False
        self._publications.ask(publication, self._homes.order_epoch)
        return True

    def _has_room(self, entry: int) -> bool:
        """Tell whether a stage has room for another frame, and nothing is to be asked again there before."""
        return entry not in self._again and self._flights.get(entry, 0) < MAX_FRAMES

    # -- frames ------------------------------------------------------------------------------------------------

    def _frame(self, batch: list[Publication]) -> CreateTimestamps:
        entry = batch[0].entry
        homes = self._homes
        flight = _Flight(entry, len(batch), homes.refusals)
        self._flights[entry] = self._flights.get(entry, 0) + 1
        for each in batch:
            self._flying[each.counter] = flight
        events = [NewEvent(one.counter, one.topic_id, one.after, self._content(one), one.required) for one in batch]
        return CreateTimestamps(entry, next(iter(self._publications.open)), events, homes.order_epoch, homes.refusals)

    def _bytes_to_log(self, publication: Publication) -> int:
        return publication.size if self._homes.is_logged(publication.topic) else 0

    def _content(self, publication: Publication) -> bytes | None:
        """Return the content that a topic's log keeps: it goes along with the request, to be stored with the number
        (R18). One that is only asked about again is stored already."""
        if publication.number or publication.to_log is None or not self._homes.is_logged(publication.topic):
            return None
        if publication.through >= 0:  # a stage above may find that it must never be published
            return None
        try:
            return publication.to_log()
        except Exception as error:  # whatever it is, it is about this one alone: its number becomes void
            publication.to_log, publication.cancelled = None, True
            self._spoilt.append((publication, error))
            return None

    # -- answers and connections -------------------------------------------------------------------------------

    def landed(self, counter: int) -> None:
        """A request is not in flight any more: answered, perhaps not for the first time, or sent once more."""
        flight = self._flying.pop(counter, None)
        if flight is not None:
            flight.open -= 1
            if not flight.open:
                self._flights[flight.stage] -= 1

    def is_refused(self, publication: Publication, frame: Moved) -> bool:
        """Tell whether a request was on its way when a stage refused what came to it (see there)."""
        flight = self._flying.get(publication.counter)
        is_there = flight is not None and flight.stage == frame.stage and flight.refusals < frame.refusals
        return is_there and publication.counter >= frame.first

    def take_back(self, publication: Publication) -> None:
        """A request is to be planned anew."""
        self.landed(publication.counter)
        self._again.get(publication.entry, {}).pop(publication.counter, None)

    def ask_home(self, publication: Publication) -> None:
        """Ask for a number at its topic's home, which knows all its numbers, also those of a time elsewhere (R14)."""
        if publication.info is not None:
            publication.entry = publication.info.stage
        self._again.setdefault(publication.entry, {})[publication.counter] = publication

    def reached(self, stages: set[int]) -> None:
        """Ask again for everything that is unanswered at stages, for they are reached (again)."""
        self._flying = {at: flight for at, flight in self._flying.items() if flight.stage not in stages}
        for stage in stages:
            self._flights.pop(stage, None)
            self._again.pop(stage, None)
        for each in self._publications:
            if each.state is _REQUESTED and each.entry in stages:
                self._again.setdefault(each.entry, {})[each.counter] = each

    def clear(self) -> None:
        """Forget all frames: whatever they asked for is asked for in another way."""
        self._flights.clear()
        self._flying.clear()
        self._again.clear()
