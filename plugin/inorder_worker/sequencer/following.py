"""An event follows its publisher's earlier ones: a stage adds these to the timestamp (R19)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from inorder.protocol.pairs import firsts, name_once, pairs
from inorder_worker.sequencer.bits import members
from inorder_worker.sequencer.claims import given
from inorder_worker.sequencer.filling import MEMBER_STEPS
from inorder_worker.sequencer.reader_classes import Group, ReaderClass
from inorder_worker.sequencer.rides import StampRide
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.telling import passed_at
from inorder_worker.sequencer.topic_manager import Session, TopicManager

_NEVER = (0, 0)
_LATER = (1 << 62, 0)
_ALL = -1
"""The set of all topics."""


class Following:
    """The part of stamping that keeps publisher order."""

    def __init__(self, state: StageState) -> None:
        self._state = state

    def add(
        self,
        session: Session,
        manager: TopicManager,
        counter: int,
        its: ReaderClass,
        group: Group,
        after: list[int],
        deps: list[int],
    ) -> int:
        """Add the publisher's last events in other topics, since the one before this event in its topic. They are those
        given with the request, and the session's own here. One on a member of the group is implied by the group's own
        entry, if it came behind all subscriptions (see ``_concerned``). One on a topic that shares no subscription
        concerns no reader of this event, but it may concern one who begins the topic later and has the other one (R8):
        what was given of other stages is kept for the base (see ``bases``). Return the highest stage that the timestamp
        must visit for it: what its client must prove does not count before (``claims``)."""
        used, topics, here = session.used, self._state.topics, self._state.index
        before = session.used_before(self._state.begun)
        since, top = used.pop(manager.id, _NEVER)[0], here
        if after:
            named = dict(pairs(deps))
            for other, number in pairs(after):
                if self._concerned(other, group, since < before) and named.get(other, 0) < number:
                    named[other] = number
                    if session.proves and (stage := topics[other].stage) < here:
                        deps += (other, number)
                        top = min(top, stage)
                    else:
                        self._depend(manager, group, other, number, deps)
        if used and (since < before or group.neighbours):
            self._add_own(session, manager, its, group, since, counter, deps)
        used[manager.id] = (counter, manager.number)
        if after:  # what a client gives of another stage may be ahead of what is known here
            name_once(deps)
        return top

    def _concerned(self, other: int, group: Group, is_first: bool) -> bool:
        """Tell whether an event names its publisher's earlier one on another topic. It names neighbours, and members of
        the group whose last events came before a subscription: a later entry, which covers them, may have come before
        that, too, when the two were no group. ``is_first``: it is the publisher's first one in its topic since then.
        *Counter-example:* A alone has all topics; p publishes x on v, q publishes y on c; B subscribes to all; p
        publishes z on t. z is told to wait for y, which stands for x for all that both have; A may see y, z, x."""
        state = self._state
        if not state.overlaps.anyone >> other & 1:
            return False
        if group.outside >> other & 1:
            return True
        return is_first and self._is_before(state.topics[other])

    def _add_own(
        self,
        session: Session,
        manager: TopicManager,
        its: ReaderClass,
        group: Group,
        since: int,
        counter: int,
        deps: list[int],
    ) -> None:
        """Add the session's own last events since its counter ``since``, the latest first.

        Those are the ones on neighbours; of its first event in the topic since a subscription also the ones on members
        before that. An event is left out if a later one covers it (R22): all readers of both topics wait for the later
        one. Where all readers of this topic do, the rest is covered but for the later one's strangers, and is looked
        for among these, if they are few.
        """
        state, used, named = self._state, session.used, dict(pairs(deps))
        covers, left = list[tuple[int, int]](), _ALL
        walk = self._used_since(used, since, counter, group.neighbours)
        if since < session.before:
            walk = merge(walk, self._used_before(session, since, group), reverse=True)
        while (found := next(walk, None)) is not None:
            when, other, number = found
            if not left >> other & 1 or named.get(other, 0) >= number:
                continue
            read = state.overlaps.classes.of(other).active
            both = its.active & read
            if any(not both & ~active and not strangers >> other & 1 for active, strangers in covers):
                continue
            if other in named:  # an earlier one is owed (R10)
                deps[2 * firsts(deps).index(other) + 1] = number
            else:
                deps += (other, number)
            strangers = state.growths.begun_behind(other, _passed_at(state.topics[other], number))
            covers.append((read, strangers))
            if its.active & ~read:
                continue
            if not (left := left & strangers):
                return
            if left.bit_count() * MEMBER_STEPS < len(used):
                walk = self._few_used(session, left & (group.neighbours | ~group.outside), since, when, group)

    def _few_used(
        self, session: Session, topics: int, since: int, until: int, group: Group
    ) -> Iterator[tuple[int, int, int]]:
        """Yield what an event may name of a few topics (a bit set), the latest first."""
        for each in _used_of(session.used, topics, since, until):
            when, other, _ = each
            if group.neighbours >> other & 1 or (when <= session.before and self._concerned(other, group, True)):
                yield each

    def _is_before(self, its: TopicManager) -> bool:
        """Tell whether the last event of a topic may have come before the last subscription, as far as covers go."""
        return its.tick <= self._state.begun or not its.has_passed or its.stage < self._state.index

    def _used_before(self, session: Session, since: int, group: Group) -> Iterator[tuple[int, int, int]]:
        """Yield the counters, topics and numbers of a session's last events on members that it used up to the last
        subscription, the latest first. Topics with later events are let go of at the end, so this does not become
        dearer with all that comes behind a subscription."""
        used, before, its = session.used, session.before, ~group.outside
        earlier = session.earlier
        if earlier is None:
            earlier = session.earlier = [topic for topic, (when, _) in used.items() if when <= before]
        if its.bit_count() * MEMBER_STEPS < len(earlier):
            yield from self._few_used(session, its, since, before + 1, group)
            return
        while earlier and not self._is_unused(session, earlier[-1]):
            earlier.pop()
        for topic in reversed(earlier):
            when, number = used.get(topic, _LATER)
            if when <= since:
                break
            if number and when <= before and its >> topic & 1 and self._concerned(topic, group, True):
                yield when, topic, number

    def _is_unused(self, session: Session, topic: int) -> bool:
        """Tell whether the session has used a topic up to the last subscription, and nobody has since."""
        return session.used.get(topic, _LATER)[0] <= session.before and self._is_before(self._state.topics[topic])

    @staticmethod
    def _used_since(
        used: dict[int, tuple[int, int]], since: int, counter: int, neighbours: int
    ) -> Iterator[tuple[int, int, int]]:
        """Yield the counters, topics and numbers of a session's last events since then on a group's neighbours, the
        latest first: the shorter of the two walks."""
        if neighbours.bit_count() * MEMBER_STEPS < min(len(used), counter - since):
            yield from _used_of(used, neighbours, since, counter)
            return
        for other, (when, number) in reversed(used.items()):
            if when <= since:
                break
            if number and neighbours >> other & 1:
                yield when, other, number

    def _depend(self, manager: TopicManager, group: Group, other: int, number: int, deps: list[int]) -> None:
        if self._state.topics[other].stage != manager.stage and manager.base.get(other, 0) < number:
            manager.base[other] = number
        if group.co_subscribed >> other & 1:
            deps += (other, number)

    # -- above the topic's own stage ---------------------------------------------------------------------------

    def proved(self, manager: TopicManager, deps: list[int]) -> list[int]:
        """Return the entries without wrong claims of the event's client about this stage's topics. True ones count from
        here on, also for whoever begins the topic later (R8): such a subscription comes by behind them."""
        proved: list[int] = []
        for other, number, is_here in given(self._state, deps):
            if is_here and manager.base.get(other, 0) < number:
                manager.base[other] = number
            proved += (other, number)
        return proved

    def add_from_above(self, manager: TopicManager, group: Group, ride: StampRide, deps: list[int]) -> bool:
        """Add the publisher's earlier events that were on their way to this stage, ahead of this one, when this one was
        numbered further down. Return whether this stage knows them: it may have dropped their session since."""
        session = self._state.sessions.get((ride.client_id, ride.incarnation))
        if session is None or not session.remembers(ride.required, self._state.index):
            return False
        given = dict(zip(firsts(deps), range(1, len(deps), 2), strict=True))
        for other, (when, number) in reversed(session.used.items()):
            if when <= ride.since:
                break
            if not (number and when < ride.counter and self._concerned(other, group, True)):
                continue
            if (at := given.get(other)) is None:
                self._depend(manager, group, other, number, deps)
            else:  # the request carried an earlier one, whose number its client knew
                manager.base[other] = deps[at] = max(number, deps[at])
        return True


def _used_of(used: dict[int, tuple[int, int]], topics: int, since: int, until: int) -> list[tuple[int, int, int]]:
    """Return the counters, topics and numbers of a session's last events on some topics (a bit set), as far as they
    came behind the counter ``since`` and before ``until``, the latest first."""
    found = [
        (when, other, number)
        for other in members(topics)
        if since < (when := (its := used.get(other, _NEVER))[0]) < until and (number := its[1])
    ]
    found.sort(reverse=True)
    return found


def _passed_at(manager: TopicManager, number: int) -> int:
    """Return the tick of a number; where it is not the last one, that is not known any more, and may be any."""
    return (passed_at(manager) or 0) if manager.number == number else 0
