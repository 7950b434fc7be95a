"""A stage fills a timestamp with the numbers that its topic's sequencing group has reached (R1, R21, R22)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from inorder.protocol.pairs import name_once, pairs
from inorder_worker.sequencer.bits import members
from inorder_worker.sequencer.reader_changes import ReaderChanges
from inorder_worker.sequencer.reader_classes import ABOVE, BELOW, HERE, Group, ReaderClass, ReaderClasses
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.telling import passed_at
from inorder_worker.sequencer.topic_manager import TopicManager

MEMBER_STEPS = 4
"""A member of a bit set costs as much to look at as so many of the classes that rose last."""


OWED_AT_ONCE = 16
"""Classes of topics of which it is noted, when a linger ends, what their timestamps owe."""


class Cover(NamedTuple):
    """An entry of a timestamp stands for the earlier events that its event waits for at all who read the timestamp's
    topic and theirs (R22).

    Attributes:
        readers, active: of the entry's class.
        strangers: topics whose earlier events it does not stand for, as a bit set: somebody who has these began the
            entry's topic behind its event.
        told: of an event that did not pass here the stage that it passed, and that stage's tick: it stands only for
            what is told to have passed there before it (see ``telling``).
    """

    readers: int
    active: int
    strangers: int
    told: tuple[int, ...] = ()


_Waiting = tuple[int, ReaderClass, Iterator[TopicManager], TopicManager]


class Reduction:
    """A reduction takes entries for one timestamp, the latest first, and leaves out what an entry before covers.

    Args:
        manager, its: the topic and its class; ``None`` for all topics of the class that had no timestamp yet.
        growths: what clients began (R22, rule 2).
        deps: the timestamp's entries (flat), to add to.
    """

    __slots__ = ("_active", "_covers", "_growths", "_manager", "_readers", "_since", "deps")

    def __init__(self, manager: TopicManager | None, its: ReaderClass, growths: ReaderChanges, deps: list[int]) -> None:
        self._manager, self._growths = manager, growths
        self._since = 0 if manager is None else manager.filled
        self._readers, self._active = its.readers, its.active
        self._covers: list[Cover] = []
        self.deps = deps

    def walk(self, classes: ReaderClasses, far: int) -> None:
        """Take what has risen since the previous timestamp in the classes of the topic's group; ``far``: on this side,
        and beyond, their homes are too far up."""
        waiting: list[_Waiting] = []
        for its in classes.latest_first():
            if its.tick <= self._since:
                break
            if its.side >= far or (its.readers & self._readers).bit_count() < 2:
                continue
            while waiting and -waiting[0][0] > its.tick:
                if self._go_on(waiting):
                    return
            risen = iter(its.risen)
            other = next(risen)  # of all that is left it rose last
            is_done = None if other is self._manager else self.take(its, other)
            if is_done:
                return
            if is_done is None:
                self._wait(waiting, its, risen)
        while waiting:
            if self._go_on(waiting):
                return

    def _wait(self, waiting: list[_Waiting], its: ReaderClass, risen: Iterator[TopicManager]) -> None:
        """The next topic of a class waits for its turn."""
        for other in risen:
            if other.tick <= self._since:
                return
            if other is not self._manager:
                heappush(waiting, (-other.tick, its, risen, other))
                return

    def _go_on(self, waiting: list[_Waiting]) -> bool:
        """Take the topic that rose last of the waiting ones; return whether nothing else is to be taken."""
        _, its, risen, other = heappop(waiting)
        is_done = self.take(its, other)
        if is_done is None:
            self._wait(waiting, its, risen)
        return bool(is_done)

    def take(self, its: ReaderClass, other: TopicManager) -> bool | None:
        """Add an entry for a topic of a class, unless an earlier one covers it. What comes next has risen before it.
        Return ``True`` if all of that is covered, ``False`` if all of it in this class is."""
        both, active = self._readers & its.readers, self._active & its.active
        topic = other.id
        for readers, reads, strangers, told in self._covers:
            if told and (other.has_passed or not _is_before(other.told, told)):
                continue
            is_read = not (active & ~reads or both & ~readers)
            if is_read and not strangers >> topic & 1 and (readers & its.readers).bit_count() > 1:
                return None if strangers or told else False
        self.deps += (topic, other.number)
        if (since := passed_at(other)) is None:
            return None
        growths, told = self._growths, () if other.has_passed else other.told[:2]
        strangers = growths.begun_behind(topic, since) if growths.latest >= since else 0
        if not strangers and not told and not (self._active & ~its.active or self._readers & ~its.readers):
            return True
        if its.readers & (its.readers - 1):  # with one reader it has no group, and covers nothing
            self._covers.append(Cover(its.readers, its.active, strangers, told))
        return None if strangers or told else False


def owed_by(state: StageState, kept: int) -> tuple[int, list[tuple[int, list[int]]]]:
    """Return the entries that kept topics owe when a client leaves others, by classes of topics (bit sets).

    These are just what a timestamp would name now, before that is so, though nothing is published. Whoever waits for
    them has waited for all that the group has. They are the same for the topics of a class (R22), so each list comes
    with the topics that it is for; the first part are topics of further classes, beyond what one step may look at.

    What rises later in the others concerns nobody who left them, so no more than this is to be carried (R10).
    """
    owed: list[tuple[int, list[int]]] = []
    classes = state.overlaps.classes
    for its in sorted(classes.with_any(kept), key=lambda each: each.topics & -each.topics):
        if len(owed) == OWED_AT_ONCE:
            break
        topics = its.topics & kept
        kept &= ~topics
        if its.side < ABOVE and its.readers & (its.readers - 1):  # else no event comes here, or it has no group
            reduction = Reduction(None, its, state.growths, [])
            reduction.walk(classes, ABOVE if its.side == HERE else BELOW)
            owed.append((topics, reduction.deps))
    return kept, owed


def _is_before(told: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Tell whether an event is told to have passed another one's stage before that."""
    return bool(told) and told[0] == other[0] and told[1] < other[1]


class Filling:
    """The part of stamping that fills in what has risen in a group."""

    def __init__(self, state: StageState) -> None:
        self._state = state

    def fill(self, manager: TopicManager, its: ReaderClass, group: Group, number: int, deps: list[int]) -> int:
        """Add an entry for each risen member of the group on this stage and, at the topic's home, below; then the topic
        rises to its event's number. The topic's previous timestamp implies what has not risen since (R21), and a later
        entry may cover another one (R22). What has left the group since then is filled in once more (R10): return all
        of that, on stages above, too (a bit set)."""
        state, since = self._state, manager.tick if manager.has_passed else manager.filled
        has_parted = state.partings.latest >= since
        parted, bare = self.parted_from(manager, group, since, deps) if has_parted else (0, 0)
        if bare or (group.fills and not self._fill_latest(manager, its, deps)):
            self._fill_risen(manager, its, group, bare, deps)
        if has_parted:
            name_once(deps)  # what is owed may be named already
        if number > manager.number:
            state.raise_number(manager, number)
        manager.filled = state.tick
        return parted

    def _fill_latest(self, manager: TopicManager, its: ReaderClass, deps: list[int]) -> bool:
        """Add an entry for the last event of all, if it covers all others, and return whether that is done, or nothing
        has risen since the topic's previous timestamp. That is the ordinary case, and found without a walk."""
        classes = self._state.overlaps.classes
        latest = classes.latest if its.side == HERE else classes.latest_here
        if latest is None or (other := latest.risen.last) is None:
            return False
        if other.tick <= manager.filled:
            return True
        if latest is not its and (its.readers & ~latest.readers or its.active & ~latest.active):
            return False
        # what passed here is not of a stage above
        if other is manager or not other.has_passed or other.tick <= self._state.growths.latest:
            return False
        deps += (other.id, other.number)
        return True

    def parted_from(self, manager: TopicManager, group: Group, since: int, deps: list[int]) -> tuple[int, int]:
        """Return the topics that have left the group since the topic's event of this tick (R10), as a bit set. Whoever
        left them had both; one who still has both must not see them the other way round. Add what the topic owes for
        that (see :func:`owed_by`), and return also what is to be looked at for want of it.

        It is owed for topics that are members again, too: entries that cover these may be of events that were stamped
        when they were none. *Counter-example:* A and L have v, c and t, and L has x on v. L leaves v and c, and takes
        them again when its linger is over; meanwhile z on c names nothing. y on t names z; A may see z, y, x."""
        topics, others = self._state.topics, ~(1 << manager.id)
        concerned = group.co_subscribed & others
        left, bare, owed = self._state.partings.parted_from(manager.id, since)
        for each in owed:
            for other, number in pairs(each):
                if concerned >> other & 1 and topics[other].tick > manager.filled:
                    deps += (other, number)
        return left & others & group.neighbours, bare & concerned

    def _fill_risen(self, manager: TopicManager, its: ReaderClass, group: Group, parted: int, deps: list[int]) -> None:
        """Walk what has risen, the latest first, by classes or by topics: the shorter of the two walks."""
        state, since, classes = self._state, manager.filled, self._state.overlaps.classes
        reduction = Reduction(manager, its, state.growths, deps)
        if parted:
            parted &= sum(state.on_stage[state.index :]) if its.side == HERE else state.on_stage[state.index]
        steps = state.tick - since
        if parted or (steps > MEMBER_STEPS and group.fills.bit_count() * MEMBER_STEPS < min(steps, len(classes))):
            is_done = False
            for other in self._risen(group.fills | parted, since):
                if parted >> other.id & 1:  # whatever is taken may be of an event that was stamped in another group
                    deps += (other.id, other.number)
                elif other is not manager and not is_done:
                    is_done = bool(reduction.take(classes.of(other.id), other))
        else:
            reduction.walk(classes, ABOVE if its.side == HERE else BELOW)

    def _risen(self, others: int, since: int) -> list[TopicManager]:
        """Return those of some topics that have risen since then, the latest first."""
        topics = self._state.topics
        risen = [its for each in members(others) if (its := topics[each]).tick > since and its.number]
        risen.sort(key=lambda its: its.tick, reverse=True)
        return risen
