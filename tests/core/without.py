"""The core without one of its rules: what scenarios and the explorer must notice.

Each entry plants the bug that its rule prevents, for the time of one test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from inorder.endpoint import subscribing as client_side
from inorder.endpoint.beginnings import Beginnings
from inorder.endpoint.merging import Merge
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Output
from inorder.endpoint.path import Path
from inorder.endpoint.publications import Publication
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.ticks import Reached, Waiting
from inorder.endpoint.turns import Turns
from inorder.endpoint.uses import Uses
from inorder.endpoint.waiting import Sequenced, WaitingRoom
from inorder.protocol.pairs import joined, pairs
from inorder.protocol.wire import TopicInfo, TopicStart
from inorder_worker.sequencer import answers, reordering, resuming, stamping, subscribing, telling
from inorder_worker.sequencer.answers import Answers
from inorder_worker.sequencer.bits import bit_set
from inorder_worker.sequencer.event_log import EventLog
from inorder_worker.sequencer.filling import Filling, Reduction
from inorder_worker.sequencer.following import Following
from inorder_worker.sequencer.reader_changes import ReaderChanges
from inorder_worker.sequencer.reordering import Reordering
from inorder_worker.sequencer.rides import AnyRide, ExpireRide, LingerEndRide, StampRide, SwitchRide
from inorder_worker.sequencer.sequencing import Overlaps, Subscription
from inorder_worker.sequencer.stamping import Stamping
from inorder_worker.sequencer.state import Outbox, StageState
from inorder_worker.sequencer.subscribing import Subscribing
from inorder_worker.sequencer.ticks import Ticks, first_ticks

Patch = pytest.MonkeyPatch


def _nothing(*_: Any, **__: Any) -> None:
    return None


def one_timestamp(patch: Patch) -> None:
    """R1: a request that is asked again is numbered again."""
    whole = Stamping.create

    def create(self: Stamping, command: Any) -> None:
        session = self._state.sessions.get((command.client_id, command.incarnation))
        if session is not None:
            session.answers.clear()
        whole(self, command)

    patch.setattr(Stamping, "create", create)


def belt(patch: Patch) -> None:
    """R2: a timestamp jumps to the next stage with a topic of its sequencing group, as in the papers."""
    whole = Outbox.up

    def up(self: Outbox, ride: AnyRide) -> None:
        if not isinstance(ride, StampRide) or not ride.number:
            whole(self, ride)
            return
        state = self._state
        _, group = state.overlaps.group(ride.topic)
        self.send(max((stage for stage in range(state.index) if group & state.on_stage[stage]), default=ride.top), ride)

    patch.setattr(Outbox, "up", up)


def at_least(patch: Patch) -> None:
    """R4: an entry that is lower than the clock blocks, as the supplement's "equal" does."""
    whole = Turns.is_ready

    def is_ready(self: Turns, reader: TopicReader, entry: Sequenced, now: float) -> bool:
        waited = [(self.readers.get(topic), number) for topic, number in pairs(entry.deps)]
        is_low = all(each is None or each.clock <= number for each, number in waited)
        return is_low and whole(self, reader, entry, now)

    patch.setattr(Turns, "is_ready", is_ready)


def floor(patch: Patch) -> None:
    """R6: a start below what was already passed over is taken as it is."""
    patch.setattr(Beginnings, "_rise_to_floor", _nothing)


def announcement(patch: Patch) -> None:
    """R7: the stages above do not learn the clocks of the subscription's topics below."""
    patch.setattr(Subscribing, "_announce", _nothing)


def kept_clocks(patch: Patch) -> None:
    """R8: the whole returned clock is taken, as in the papers."""
    whole = Beginnings._begin

    def begin(self: Beginnings, start: TopicStart, shared: list[int], now: float) -> None:
        reader = self._turns.readers.get(start.topic.id)
        if reader is None:
            whole(self, start, shared, now)
        else:
            reader.clock = reader.start = max(start.start, reader.clock)

    patch.setattr(Beginnings, "_begin", begin)


def base(patch: Patch) -> None:
    """R8: the answer brings the start only."""
    patch.setattr(TopicReader, "add_base", _nothing)


def begun_behind(patch: Patch) -> None:
    """R8, R19: a topic begins wherever its publishers' earlier events in other topics are."""
    for module in (resuming, answers):
        patch.setattr(module, "shared_bases", lambda *_: [])


def parted(patch: Patch) -> None:
    """R8, R14, R19: topics that part forget what their events followed on the stage where they were together."""
    whole = Reordering._begin_groups_anew

    def begin_groups_anew(self: Reordering) -> None:
        whole(self)
        for manager in self._state.topics.values():
            manager.switched = 0

    patch.setattr(Reordering, "_begin_groups_anew", begin_groups_anew)


def hold(patch: Patch) -> None:
    """R9: a dependency on a topic that is being subscribed does not count."""

    def is_ready(self: Turns, reader: TopicReader, entry: Sequenced, now: float) -> bool:
        holds, self.unbegun.holds = self.unbegun.holds, False
        try:
            return whole(self, reader, entry, now)
        finally:
            self.unbegun.holds = holds

    whole = Turns.is_ready
    patch.setattr(Turns, "is_ready", is_ready)


def linger(patch: Patch) -> None:
    """R10: a topic that is dropped stops counting at once."""
    patch.setattr(Subscription, "mask", lambda self: bit_set(self.active))


def drain(patch: Patch) -> None:
    """R22: whatever is left is let go of at once."""
    patch.setattr(client_side, "needs_drain", lambda kept: False)


def carried_once(patch: Patch) -> None:
    """R10: what leaves a group is not carried once more."""
    patch.setattr(Filling, "parted_from", lambda *_: (0, 0))


def version(patch: Patch) -> None:
    """R10, R11: the end of a linger counts for whatever linger there is."""
    whole = Subscribing.linger_ended

    def linger_ended(self: Subscribing, ride: LingerEndRide) -> None:
        subscription = self._state.overlaps.get(ride.client_id)
        if subscription is not None:
            subscription.lingering = dict.fromkeys(subscription.lingering, (ride.incarnation, ride.version))
        whole(self, ride)

    patch.setattr(Subscribing, "linger_ended", linger_ended)


def lease(patch: Patch) -> None:
    """R12: a client that the stages do not answer goes on notifying."""
    patch.setattr(OrderingModule, "lapse", _nothing)


def expired_linger(patch: Patch) -> None:
    """R10, R12: what has expired counts no more."""
    whole = Subscribing.expired

    def expired(self: Subscribing, ride: ExpireRide) -> None:
        whole(self, ride)
        overlaps, left = self._state.overlaps, self._state.overlaps.get(ride.client_id)
        if left is None or left.incarnation:
            return
        left.lingering.clear()
        overlaps.put(left)

    patch.setattr(Subscribing, "expired", expired)


def filters(patch: Patch) -> None:
    """R13: a new topic is not added to the subscriptions whose filters cover it."""
    patch.setattr(Overlaps, "with_wildcards", lambda self: [])


def heads_of_new_topics(patch: Patch) -> None:
    """R17, R13: heads of topics that nobody has named yet are ignored."""
    whole = OrderingModule.heads

    def heads(self: OrderingModule, numbers: list[int], now: float) -> None:
        whole(self, joined(each for each in pairs(numbers) if each[0] in self.clock), now)

    patch.setattr(OrderingModule, "heads", heads)


def hand_over(patch: Patch) -> None:
    """R14: a stage keeps the numbers that it knows of topics of other stages."""
    whole = Reordering._take_numbers

    def take_numbers(self: Reordering, parts: list[SwitchRide]) -> None:
        topics, here = self._state.topics, self._state.index
        for part in parts:
            part.numbers = joined(pair for pair in pairs(part.numbers) if topics[pair[0]].stage == here)
        whole(self, parts)

    patch.setattr(Reordering, "_take_numbers", take_numbers)


def pins(patch: Patch) -> None:
    """R15: a pin keeps nothing in its place."""
    patch.setattr(Reordering, "pin", _nothing)


def void_dependencies(patch: Patch) -> None:
    """R17: a hole is skipped at once."""
    whole = Turns.put_hole
    patch.setattr(
        Turns, "put_hole", lambda self, reader, number, deps, reason, now: whole(self, reader, number, [], reason, now)
    )


def publisher_order(patch: Patch) -> None:
    """R19: an event does not depend on its publisher's others."""
    patch.setattr(Following, "add", lambda self, *_: 2**31)


def path(patch: Patch) -> None:
    """R19: every request goes to its topic's stage at once."""
    whole = Path.enter

    def enter(self: Path, publication: Publication, info: TopicInfo) -> bool:
        self._unanswered.clear()
        self._previous_home = 0
        return whole(self, publication, info)

    patch.setattr(Path, "enter", enter)


def added_above(patch: Patch) -> None:
    """R19: a timestamp passes the stages where its publisher's unanswered events are created, and these add nothing."""
    patch.setattr(Following, "add_from_above", lambda *_: True)


def passed_above(patch: Patch) -> None:
    """R19: a timestamp is complete below the stages where its publisher's unanswered events are created."""
    whole = Uses.follow

    def follow(self: Uses, publication: Publication, info: TopicInfo, is_doubted: bool) -> None:
        whole(self, publication, info, is_doubted)
        publication.required = joined(pair for pair in pairs(publication.required) if pair[0] >= info.stage)

    patch.setattr(Uses, "follow", follow)


def lost_connections(patch: Patch) -> None:
    """R19: a client leaves it to a stage to remember what it published over a connection that is gone."""
    patch.setattr(Path, "lost", _nothing)


def ticks(patch: Patch) -> None:
    """R23: a reader that takes events out of turn goes by its clocks alone."""
    patch.setattr(Reached, "is_behind", lambda self, its: True)


def order_epoch(patch: Patch) -> None:
    """R23: ticks are compared whatever topic order they are of."""
    _other_first_ticks(patch, lambda its, height: (1, *its[1:]))


def announced_ticks(patch: Patch) -> None:
    """R23: a timestamp has no ticks of the stages below."""
    _other_first_ticks(patch, lambda its, height: (*its[:2], *(0,) * height, *its[2 + height :]))


def groups(patch: Patch) -> None:
    """R23: events whose topics nobody shares count as well."""
    _other_first_ticks(patch, lambda its, height: (its[0], its[1] | 1, *its[2:]))


def _other_first_ticks(patch: Patch, other: Callable[[Ticks, int], Ticks]) -> None:
    whole = first_ticks

    def first(state: StageState, *, is_grouped: bool) -> Ticks:
        return other(whole(state, is_grouped=is_grouped), state.count - 1 - state.index)

    patch.setattr(stamping, "first_ticks", first)


def ticks_above(patch: Patch) -> None:
    """R23: a timestamp has no ticks of the stages that it passes above its topic's own."""
    patch.setattr(stamping, "passed", lambda state, its: its)


def events_alone(patch: Patch) -> None:
    """R23: an event without a group is in order, whatever was notified of before."""
    whole = Reached.is_behind
    patch.setattr(Reached, "is_behind", lambda self, its: whole(self, its) or (bool(its) and not its[1] & 1))


def before_by_ticks(patch: Patch) -> None:
    """R6, R23: of the events that wait, an event that is forced lets those go first that it names, and no others."""
    patch.setattr(WaitingRoom, "before", _nothing)


def gained(patch: Patch) -> None:
    """R21: who begins a topic, and has others, changes nothing for the next timestamp."""
    whole = Subscribing._begin

    def begin(self: Subscribing, known: Subscription, begun: set[int], kept: set[int]) -> None:
        topics = [self._state.topics[topic] for topic in begun]
        filled = [each.filled for each in topics]
        whole(self, known, begun, kept)
        for each, since in zip(topics, filled, strict=True):
            each.filled = since

    patch.setattr(Subscribing, "_begin", begin)


def fresh(patch: Patch) -> None:
    """R22, rule 2: an event stands for earlier ones also for those who began its topic behind it."""
    patch.setattr(ReaderChanges, "begun_behind", lambda *_: 0)


def real(patch: Patch) -> None:
    """R22, rule 2: an event that is only told of stands for earlier ones as if it had passed here."""
    whole = telling.hear

    def hear(state: StageState, numbers: Iterable[tuple[int, int]], told: list[int]) -> None:
        heard = list(numbers)
        whole(state, heard, told)
        for topic, _ in heard:
            state.topics[topic].has_passed = True

    for module in (reordering, subscribing):
        patch.setattr(module, "hear", hear)


def begun_elsewhere(patch: Patch) -> None:
    """R22, rule 2: nobody has begun a topic behind its event before this stage was told of that."""
    patch.setattr(ReaderChanges, "begin_of", lambda self, _: self.latest + 1)


def readers(patch: Patch) -> None:
    """R22, rule 4: an event stands for earlier ones also for those who do not read it."""
    whole = Reduction.__init__

    def init(self: Reduction, *args: Any, **how: Any) -> None:
        whole(self, *args, **how)
        self._readers = self._active = 0

    patch.setattr(Reduction, "__init__", init)


def answered_alike(patch: Patch) -> None:
    """R11, R22: who asks for a change again begins behind what was numbered meanwhile."""
    patch.setattr(Answers, "_remember", _nothing)


def former(patch: Patch) -> None:
    """R12, R22: an incarnation that was replaced reads nothing more at once."""
    patch.setattr(Subscribing, "_replace", _nothing)


def lingering_reads(patch: Patch) -> None:
    """R22, rule 4: whoever has left a topic is taken for a reader of it while it lingers."""
    patch.setattr(Subscription, "read", Subscription.mask)


def barriers(patch: Patch) -> None:
    """R24: what is missing for ``loss_timeout`` is lost, whatever the broker still has for the client."""
    whole, begun = OrderingModule.tick, OrderingModule.barriers

    def tick(self: OrderingModule, now: float) -> list[Output]:
        outputs = whole(self, now)
        for space in begun(self, now):
            outputs += self.caught_up(space, now)
        return outputs

    patch.setattr(OrderingModule, "tick", tick)
    patch.setattr(OrderingModule, "barriers", lambda *_: [])


RULES: dict[str, Callable[[Patch], None]] = {
    each.__name__: each
    for each in (
        one_timestamp,
        belt,
        at_least,
        floor,
        announcement,
        kept_clocks,
        base,
        begun_behind,
        drain,
        parted,
        hold,
        linger,
        carried_once,
        version,
        lease,
        expired_linger,
        filters,
        heads_of_new_topics,
        hand_over,
        pins,
        void_dependencies,
        publisher_order,
        path,
        added_above,
        passed_above,
        lost_connections,
        ticks,
        order_epoch,
        announced_ticks,
        groups,
        ticks_above,
        events_alone,
        before_by_ticks,
        gained,
        fresh,
        real,
        begun_elsewhere,
        readers,
        answered_alike,
        former,
        lingering_reads,
        barriers,
    )
}


def merge(patch: Patch) -> None:
    """R18, R22: what a durable subscriber resumes with goes by what it names alone."""
    patch.setattr(Beginnings, "_merge", _nothing)


def next_of_all(patch: Patch) -> None:
    """R18, R23: an event of a log goes before it is known what is next in other topics."""
    whole = Merge.next

    def next_event(self: Merge) -> Sequenced | None:
        unknown, self._unknown = self._unknown, set()
        found = whole(self)
        self._unknown = unknown
        return found

    patch.setattr(Merge, "next", next_event)


def old_first(patch: Patch) -> None:
    """R18, R22: what is new does not wait for what is old, but for what it names."""

    def holds(self: Merge, entry: Sequenced) -> bool:
        return not entry.is_hole and entry.number <= self._ends.get(entry.topic, 0)

    patch.setattr(Merge, "holds", holds)


def followed_by_what_is_gone(patch: Patch) -> None:
    """R18, R19: a log that was trimmed has forgotten what its numbers followed on other stages."""
    patch.setattr(EventLog, "_is_needed", lambda *_: False)


def announced_to_a_merge(patch: Patch) -> None:
    """R18, R23: what a durable subscriber resumes with is merged by the events' own ticks alone."""
    whole = Waiting.before
    patch.setattr(Waiting, "before", lambda self, ticks, **_: whole(self, ticks))
