"""Topics by their readers: the classes that a stage walks to fill in a timestamp (R21, R22).

Topics that just the same subscriptions have are alike to a timestamp: who waits for a later event in one of them has
waited for the earlier ones in the others. So a stage does not look at topics one by one, but at classes of them, the
one with the latest event first. There is one class for all topics that two readers of ``#`` have, however many these
are; and a reader that comes or goes changes classes as a whole.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter

from inorder_worker.sequencer.bits import members
from inorder_worker.sequencer.risen import Risen
from inorder_worker.sequencer.topic_manager import TopicManager

HERE, BELOW, ABOVE = 0, 1, 2
"""Where the home of a class's topics is, seen from this stage."""


class Group:
    """The sequencing group of a class's topics as a stage needs it; bit sets, because it may hold every topic there is.
    They may contain the topic itself.

    Attributes:
        fills: topics to fill here: members on this stage and, at the topic's home, on those below.
        above: members on stages above; filled on the way up.
        co_subscribed: topics that share at least one subscription with it (a publisher-order dependency on any other
            topic concerns no one, R19).
        top: the highest stage with a member; the timestamp is complete there.
        outside: all topics but the members.
        neighbours: those of them that are co-subscribed.
        has_ticks: timestamps have ticks (R23), because a reader that takes events out of turn has the topics, or a
            durable one, which may come back without the events in between (R18).
        plain: topics some reader of which can read stamps in the payload only.
    """

    __slots__ = ("above", "co_subscribed", "fills", "has_ticks", "neighbours", "outside", "plain", "top")

    def __init__(self, fills: int, above: int, co_subscribed: int, top: int) -> None:
        self.fills, self.above, self.co_subscribed, self.top = fills, above, co_subscribed, top
        self.outside = ~(fills | above)
        self.neighbours = co_subscribed & self.outside
        self.has_ticks = False
        self.plain = 0


class ReaderClass:
    """The topics with the same readers, and their home on the same side of this stage.

    Attributes:
        readers: the places of the subscriptions that have them, active or lingering (a bit set).
        active: the places of those that are active.
        side: where their home is.
        topics: all of them, as a bit set.
        risen: those with a number, by its last rise here.
        tick: of the last rise among them.
        group: their sequencing group, ``None`` until a timestamp needs it.
    """

    __slots__ = ("active", "group", "readers", "risen", "side", "tick", "topics")

    def __init__(self, readers: int, active: int, side: int) -> None:
        self.readers, self.active, self.side = readers, active, side
        self.topics = self.tick = 0
        self.risen = Risen()
        self.group: Group | None = None

    def __repr__(self) -> str:
        return f"<ReaderClass of {self.topics.bit_count()} topics, {self.readers.bit_count()} readers>"


class ReaderClasses:
    """All topics of a stage in classes.

    Attributes:
        of: returns the class of a topic.
        latest: the class with the last event; ``None`` where topics have moved since. ``latest_here``: of this stage's.
    """

    def __init__(self) -> None:
        self._of: dict[int, ReaderClass] = {}
        self.of = self._of.__getitem__
        self._known: dict[tuple[int, int, int], ReaderClass] = {}
        # By tick; an entry counts while it is its class's last rise. There are twice as many as classes at most.
        self._risen: list[tuple[int, ReaderClass]] = []
        self.latest: ReaderClass | None = None
        self.latest_here: ReaderClass | None = None

    def __len__(self) -> int:
        return len(self._known)

    def latest_first(self) -> Iterator[ReaderClass]:
        """Yield the classes with a number, the one with the latest event first."""
        last = -1
        for tick, its in reversed(self._risen):
            if tick == its.tick != last:
                last = tick
                yield its

    def add(self, manager: TopicManager, side: int) -> None:
        """Take a topic that nobody reads yet; numbers that topics have already are taken in the order of their rise."""
        its = self._class(0, 0, side)
        its.topics |= 1 << manager.id
        self._of[manager.id] = its
        if manager.number:
            self.rose(manager)

    def rose(self, manager: TopicManager) -> None:
        """A number of this topic is the most recent one now."""
        risen, its = self._risen, self._of[manager.id]
        its.risen.rose(manager)
        its.tick = tick = manager.tick
        if self.latest is its:
            risen[-1] = tick, its
        else:
            self.latest = its
            if its.side == HERE:
                self.latest_here = its
            risen.append((tick, its))
            if len(risen) > 2 * len(self._known):
                self._risen = [(each.tick, each) for each in reversed(list(self.latest_first()))]

    def toggle(self, places: int, had: int, read: int, mask: int) -> None:
        """Subscriptions at these places get, or lose, the topics ``had``; they become active readers of the topics
        ``read``, or cease to be. ``mask`` are all topics that they have now."""
        changes = (had & read, places, places), (had & ~read, places, 0), (read & ~had, 0, places)
        # all of it is found before anything moves: topics that come to a class do not change a second time
        moves = [
            (its, part, (its.readers ^ reader, its.active ^ reads, its.side))
            for topics, reader, reads in changes
            for its in self.with_any(topics)
            if (part := its.topics & topics)
        ]
        for each in moves:
            self._move(*each)
        for its in self.with_any(mask):
            its.group = None

    def forget(self, topics: Iterable[int]) -> None:
        """Forget topics that have ended; no group has them any more."""
        for topic in topics:
            its = self._of.pop(topic)
            its.topics &= ~(1 << topic)
            its.risen.let_go([topic])
            self._rank(its)
            self.latest = self.latest_here = None
            if not its.topics:
                del self._known[its.readers, its.active, its.side]
        for its in self._known.values():
            its.group = None

    def place(self, here: int, below: int) -> None:
        """The homes of topics have changed: these are here, those below, all others above."""
        sides = (HERE, here), (BELOW, below), (ABOVE, ~(here | below))
        moves = [
            (its, part, (its.readers, its.active, side))
            for its in self._known.values()
            for side, topics in sides
            if side != its.side and (part := its.topics & topics)
        ]
        for each in moves:
            self._move(*each)
        self.latest = self.latest_here = None  # a class may have moved as a whole
        for its in self._known.values():
            its.group = None

    # -- moves between classes ---------------------------------------------------------------------------------

    def _class(self, *key: int) -> ReaderClass:
        readers, active, side = key
        if (its := self._known.get((readers, active, side))) is None:
            its = self._known[readers, active, side] = ReaderClass(readers, active, side)
        return its

    def with_any(self, topics: int) -> Collection[ReaderClass]:
        """Return the classes with any of these topics: the shorter of the two walks."""
        if topics.bit_count() < len(self._known):
            return dict.fromkeys(map(self.of, members(topics)))
        return [each for each in self._known.values() if each.topics & topics]

    def _move(self, its: ReaderClass, part: int, key: tuple[int, int, int]) -> None:
        """Move some topics of a class to another one. Where all of them become a new one, the class does."""
        other = self._known.get(key)
        if part == its.topics and other is None:
            del self._known[its.readers, its.active, its.side]
            self._known[key] = its
            its.readers, its.active, its.side = key
            its.group = None
            return
        self.latest = self.latest_here = None
        other, topics = self._class(*key), list(members(part))
        if part == its.topics:
            del self._known[its.readers, its.active, its.side]
            moving, other.risen = sorted((its.risen, other.risen), key=len)  # the few come to the many
            its.risen = Risen()
            other.risen.take(moving)
        else:
            other.risen.take(its.risen.let_go(topics))
        its.topics ^= part
        other.topics |= part
        other.group = None
        self._of.update(dict.fromkeys(topics, other))
        self._rank(its)
        self._rank(other)

    def _rank(self, its: ReaderClass) -> None:
        """Find the place of a class whose topics are others now, by the last rise among them."""
        last = its.risen.last
        tick = last.tick if last is not None else 0
        if tick and tick != its.tick:
            insort(self._risen, (tick, its), key=itemgetter(0))
        its.tick = tick
