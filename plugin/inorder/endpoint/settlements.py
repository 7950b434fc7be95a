"""Settlements tell stages the fates of a client's numbers (R16). No I/O."""

from __future__ import annotations

from typing import Any

from inorder.endpoint.publications import Publication, PublicationState
from inorder.protocol.wire import MAX_LISTED, Settle

_SETTLING = PublicationState.SETTLING
_ByOutcome = tuple[list[Publication], list[Publication], list[Publication]]


class Settlements:
    """The list holds the fates of numbers, until the stages that gave them know."""

    def __init__(self) -> None:
        # Settling, and in no frame yet: each publication stands in one of these.
        self._confirmed: list[Publication] = []
        self._void: list[Publication] = []
        self._abandoned: list[Publication] = []
        # Frames without an answer, by request, and whom each is about; of a stage there is one at most.
        self._sent: dict[int, tuple[Settle, list[Publication]]] = {}
        self._next_request = 1

    def describe(self) -> dict[str, Any]:
        """Return all that is to be told, for tests and messages about failures."""
        return {
            "confirmed": [each.counter for each in self._confirmed],
            "void": [each.counter for each in self._void],
            "abandoned": [each.counter for each in self._abandoned],
            "settling": {
                request: (frame, [each.counter for each in publications])
                for request, (frame, publications) in self._sent.items()
            },
            "next_settle": self._next_request,
        }

    @property
    def stages(self) -> set[int]:
        """The stages whose answers are awaited."""
        return {frame.stage for frame, _ in self._sent.values()}

    def confirm(self, publication: Publication) -> None:
        """Tell the stage that the ENS accepted an event."""
        publication.state = _SETTLING
        self._confirmed.append(publication)

    def void(self, publication: Publication) -> None:
        """Tell the stage that an event was certainly not handed over: its number is skipped without report."""
        publication.state = _SETTLING
        self._void.append(publication)

    def abandon(self, publication: Publication) -> None:
        """Tell the stage that nobody will know whether the ENS got an event: its number is skipped, and reported."""
        publication.state = _SETTLING
        self._abandoned.append(publication)

    def frames(self) -> list[Settle]:
        """Return the frames to send now, with as much as one may list. The next one for a stage leaves when this one is
        answered (a stage that is down must not keep others from being told)."""
        groups = (self._confirmed, self._void, self._abandoned)
        if not any(groups):
            return []
        busy, kept = self.stages, _by_outcome()
        by_stage: dict[int, _ByOutcome] = {}
        for at, group in enumerate(groups):
            for publication in group:
                assert publication.info is not None
                stage, its = publication.info.stage, kept[at]
                if stage not in busy:
                    its = by_stage.setdefault(stage, _by_outcome())[at]
                (its if len(its) < MAX_LISTED else kept[at]).append(publication)
        self._confirmed, self._void, self._abandoned = kept
        frames = []
        for stage, (confirmed, void, abandoned) in by_stage.items():
            frame = Settle(stage, self._next_request, _runs(confirmed), _runs(void), _runs(abandoned))
            self._sent[frame.request] = frame, [*confirmed, *void, *abandoned]
            self._next_request += 1
            frames.append(frame)
        return frames

    def unanswered(self, stages: set[int]) -> list[Settle]:
        """Return the frames that these stages have not answered, to be sent once more."""
        return [frame for frame, _ in self._sent.values() if frame.stage in stages]

    def answered(self, request: int) -> list[Publication]:
        """Return the publications of a frame that a stage made durable."""
        _, publications = self._sent.pop(request, (None, []))
        return publications


def _by_outcome() -> _ByOutcome:
    return [], [], []


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
