"""The resume of durable subscriptions: R18, the effects of their changes at the stages.

They stay while their client is away. The saved clock is kept by the bottom stage, like the subscription itself: a
client may come back on another machine with nothing but its name. It is a prefix of what the application was notified
of, so it is a consistent cut. Where a log has not everything behind it the topic begins at the log's first number, and
where there is no log behind everything.

So what comes behind the saved clock may rely on numbers that are gone, or on topics that a former process has left
(R22). The client does not go by that: it merges by its ticks (R23) what had a number before the change passed, and
begins everything else behind it. What events follow on other stages (R19) ticks do not tell; what the numbers below a
log have followed there is in the log's base, and for a topic of which nothing was notified yet in the base of its
beginning (R8).
"""

from __future__ import annotations

from collections.abc import Iterable

from inorder.protocol.pairs import flat, joined, pairs
from inorder.protocol.wire import TopicStart
from inorder_worker.sequencer.bases import shared_bases
from inorder_worker.sequencer.commands import ChangeSubscription
from inorder_worker.sequencer.rides import Resumed, SubscribedRide
from inorder_worker.sequencer.sequencing import Subscription
from inorder_worker.sequencer.state import Base, DurableClock, StageState
from inorder_worker.sequencer.topic_manager import TopicManager


def saved_for(state: StageState, command: ChangeSubscription, topics: Iterable[int]) -> tuple[list[int], bool]:
    """Return the saved clock from which a durable subscription resumes with a change (flat; empty: from none), and
    ``False`` if its process only asks for the same change again."""
    known = state.overlaps.get(command.client_id)
    if not command.durable or not command.filters:
        return [], True
    state.clocks.setdefault(command.client_id, DurableClock())
    if known is None or not known.durable:
        return [], True
    is_same = known.incarnation == command.incarnation
    if is_same and command.version > known.version and not command.anew:
        return [], True
    return saved_clock(state, command.client_id, topics), command.anew or not is_same


def saved_clock(state: StageState, client_id: str, topics: Iterable[int]) -> list[int]:
    """Return the saved clock of a client in these topics, flat."""
    clock = state.clocks.get(client_id)
    if clock is None:
        return []
    return joined((topic, clock.numbers[topic]) for topic in sorted(topics) if topic in clock.numbers)


def resume(manager: TopicManager, saved: int, known: Subscription | None, *, is_new: bool) -> Resumed:
    """Return where a topic of this stage goes on for a durable subscription that has everything up to ``saved``. That
    is there, if nothing is behind, or the log has the rest, or the client was subscribed all the time and only asks
    again; else where the log begins, or behind everything."""
    reached = manager.number
    repeats = reached if known is None else known.given.get(manager.id, reached)
    saved = min(saved, reached)
    start, base = saved, list[int]()
    if is_new and saved < reached and not 0 < manager.log_first <= saved + 1:
        if not manager.log_first or manager.log_base is None:
            return Resumed(manager.id, reached, None, repeats, reached)
        start, base = manager.log_first - 1, flat(manager.log_base)
    return Resumed(manager.id, start, base, repeats, reached)


def keep_clock(state: StageState, ride: SubscribedRide) -> None:
    """At the bottom stage: a subscription is complete. If it is durable its clock begins where it does; topics that it
    has already keep theirs."""
    known = state.overlaps.get(ride.client_id)
    if known is None or (known.incarnation, known.version) != (ride.incarnation, ride.version):
        return
    if not known.durable or not known.filters:
        state.clocks.pop(ride.client_id, None)
        return
    clock = state.clocks.setdefault(ride.client_id, DurableClock())
    wanted = known.active
    clock.numbers = {topic: number for topic, number in clock.numbers.items() if topic in wanted}
    for gone in {topic for each in clock.bases for topic in each.topics if topic not in wanted}:
        clock.has_begun(gone)
    for found in ride.resumed:
        if clock.numbers.get(found.topic, 0) > found.reached:
            clock.numbers[found.topic] = found.reached
    new = {topic: start for topic, start in pairs(ride.starts) if topic in wanted and topic not in clock.numbers}
    clock.numbers |= new
    clock.bases += [Base(set(each.topics), each.numbers) for each in shared_bases(state, new, ride.kept)]
    clock.bases += [Base({topic}, ride.bases[topic]) for topic in new if topic in ride.bases]


def begun_by(ride: SubscribedRide) -> list[int]:
    """Return the topics of a complete subscription that begin behind all that its client goes on with. It
    resumes others behind all that is old."""
    resumed = {each.topic for each in ride.resumed}
    return [topic for topic in ride.fresh if topic not in resumed]


def saved_ticks(state: StageState, ride: SubscribedRide) -> list[int]:
    """Return the order epoch and the ticks of what a client was done with (R23), if its subscription is durable."""
    clock = state.clocks.get(ride.client_id)
    return [] if clock is None else clock.reached


def note_given(state: StageState, client_id: str, incarnation: int) -> None:
    """A durable subscriber's session ends here: what is numbered from now on it cannot have been notified of."""
    known = state.overlaps.get(client_id)
    if known is not None and known.durable and known.incarnation == incarnation:
        topics, here = state.topics, state.index
        known.given = {topic: topics[topic].number for topic in known.active if topics[topic].stage == here}


def topics_created(state: StageState, known: Subscription, topics: Iterable[int]) -> None:
    """Topics were created under a filter of a durable subscription: they begin with their first numbers (R13)."""
    clock = state.clocks.get(known.client_id)
    if clock is not None and known.durable:
        clock.numbers.update(dict.fromkeys(topics, 0))


def start_of(state: StageState, ride: SubscribedRide, start: TopicStart, found: Resumed | None) -> TopicStart:
    """Return what a client is told of a topic: where it begins, or resumes."""
    clock = state.clocks.get(ride.client_id)
    if found is None or clock is None:
        return start
    # a clock that is ahead of its topic is of another store, whose numbers are others
    saved = min(clock.numbers.get(found.topic, found.start), found.reached)
    base = start.base if found.base is None else found.base
    if found.start == saved:
        base = clock.base_of(found.topic)
    return TopicStart(start.topic, found.start, base, saved, found.repeats, found.reached)
