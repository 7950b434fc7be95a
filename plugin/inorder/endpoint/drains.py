"""Topics that were left, and are read on in silence as far as other events may rely on them: R22 (a).

An event that was stamped before an unsubscription may leave an entry out because an event of the topic that is left
covers it. So a strict reader reads that topic on, up to the number it had when the change passed its stage, and then
lets it go; the broker delivers it as long, and it cannot be subscribed to again before. Readers that take events out of
turn (R6) wait for nobody, and let go at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inorder.endpoint.routing import Subscription
from inorder.protocol.covering import filter_set
from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import SpaceFilter, TopicInfo

SpaceAndFilter = tuple[str, Filter]


def needs_drain(kept: Sequence[SpaceFilter]) -> bool:
    """Tell whether the events of a subscription may rely on a topic that is left: one of a topic does so for an entry
    of another one, so with a single topic none does."""
    return len(kept) > 1 or any(each.filter.kind is not FilterKind.EXACT for each in kept)


class Drain:
    """The topics that one change has left.

    Attributes:
        filters: brokers still deliver their topics.
        topics: they are read on.
        names: of these, and of those that were read on.
        is_told: the stages have told how far.
    """

    __slots__ = ("filters", "is_told", "names", "topics")

    def __init__(self, filters: Sequence[SpaceAndFilter]) -> None:
        self.filters, self.is_told = filters, False
        self.topics: set[int] = set()
        self.names: list[tuple[str, str]] = []

    @property
    def is_over(self) -> bool:
        """All topics are let go."""
        return self.is_told and not self.topics


class Drains:
    """The drains of a client that are not over, the oldest first."""

    def __init__(self) -> None:
        self._open: list[Drain] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def is_asked(self) -> bool:
        """The stages have not told yet how far the topics left last are to be read."""
        return bool(self._open) and not self._open[-1].is_told

    def begin(self, filters: Sequence[SpaceAndFilter], topics: Iterable[TopicInfo]) -> None:
        """A change leaves these topics; brokers are to deliver those of ``filters`` until all are let go."""
        self._open.append(Drain(filters))
        self.add(topics)

    def add(self, topics: Iterable[TopicInfo]) -> None:
        """The change left these topics as well."""
        drain = self._open[-1]
        for info in topics:
            drain.topics.add(info.id)
            drain.names.append((info.space, info.name))

    def told(self) -> None:
        """The stages have told how far all topics are to be read."""
        for drain in self._open:
            drain.is_told = True

    def ended(self, topic: int) -> None:
        """A topic is let go."""
        for drain in self._open:
            drain.topics.discard(topic)

    def keep(self, filter: SpaceAndFilter) -> bool:
        """Tell whether brokers are to deliver the topics of a filter that was removed."""
        return any(filter in drain.filters for drain in self._open)

    def hold_up(self, adds: Sequence[Subscription]) -> bool:
        """Tell whether a change would take what is still read on."""
        if not (adds and self._open):
            return False
        taken = filter_set(SpaceFilter(each.space, each.filter) for each in adds if each.ordering == "total")
        return any(
            any((each.space, each.filter) in drain.filters for each in adds)
            or any(taken.covers(*name) for name in drain.names)
            for drain in self._open
        )

    @property
    def has_over(self) -> bool:
        """All topics that some change has left are let go."""
        return any(drain.is_over for drain in self._open)

    def take_over(self) -> list[SpaceAndFilter]:
        """Return the filters of drains that are over, and forget these."""
        over = [drain for drain in self._open if drain.is_over]
        if over:
            self._open = [drain for drain in self._open if not drain.is_over]
        return [filter for drain in over for filter in drain.filters]

    def give_up(self) -> list[SpaceAndFilter]:
        """Return all filters, and forget all drains."""
        filters = [filter for drain in self._open for filter in drain.filters]
        self._open.clear()
        return filters
