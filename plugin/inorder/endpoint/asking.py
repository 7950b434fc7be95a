"""The endpoint's questions to the workers, about missing numbers (R17, R18) and unknown topics (R13)."""

from __future__ import annotations

from inorder.endpoint.effects import Outbox
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.subscriber import Subscriber
from inorder.protocol.wire import AskNumbers, NameTopics, ReadLog

NAMES_ASKED = 100
"""Topics whose names are asked for at once: as long as they may be, they fit into one answer."""


class Asking:
    """The questions of one endpoint. The ordering module knows which are due; of names, which were asked for."""

    def __init__(self, ordering: OrderingModule, subscriber: Subscriber, outbox: Outbox) -> None:
        self._ordering, self._subscriber, self._outbox = ordering, subscriber, outbox
        self._naming: dict[int, list[int]] = {}

    @property
    def naming(self) -> set[int]:
        """Ids of topics whose names were asked for on this connection, and are not told yet."""
        return {each for ids in self._naming.values() for each in ids}

    def forget_names(self) -> None:
        """The bottom stage is reached again: what was asked for on the connection before is not answered any more."""
        asked, self._naming = self._naming, {}
        for ids in asked.values():
            self._ordering.names_unanswered(ids)

    def asked_for(self, request: int) -> list[int] | None:
        """Return the topic ids of a question that is answered; ``None``: the answer belongs to another question."""
        return self._naming.get(request)

    def answered(self, request: int) -> None:
        """The answer to a question is taken. Names that are still needed, whatever it told, are asked for again."""
        self._ordering.names_unanswered(self._naming.pop(request))

    def ask(self, now: float, *, hold: bool) -> None:
        """Ask what is due. ``hold``: nothing is fetched from event logs."""
        outbox, known = self._outbox, self._subscriber.known
        for question in self._ordering.questions(now):
            info = known(question.topic)
            if info is not None:
                outbox.send(AskNumbers(outbox.next_request(), info.stage, question.topic, question.ranges))
        for fetch in self._ordering.fetches(now, hold=hold):
            info = known(fetch.topic)
            if info is not None:
                outbox.send(ReadLog(outbox.next_request(), info.stage, fetch.topic, fetch.ranges))
        unnamed = self._ordering.unnamed()
        self._ordering.names_asked(unnamed)
        for at in range(0, len(unnamed), NAMES_ASKED):
            request, ids = outbox.next_request(), unnamed[at : at + NAMES_ASKED]
            self._naming[request] = ids
            outbox.send(NameTopics(request, ids))
