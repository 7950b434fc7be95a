"""Bases of topics: what the first event of a begun topic depends on beside its own dependencies (R8 with R19, R22).

An event follows its publisher's earlier ones, also those in topics that nobody shares with its own. No timestamp names
them, but whoever has such a topic and subscribes to the event's afterwards must not be notified of its publisher's next
event before them. *Counter-example:* P publishes x on u, then y on t. A has u, and begins t behind y; P publishes z on
t, which names no u, because y would. Without the base A may see z, x.

Nothing is remembered for pairs of topics. What an event on t follows in another topic of its stage has a number up to
the last one there when t is begun: the reader waits for that. Nothing with such a number depends on a later event on t,
so nobody waits in a circle. Of topics on two stages this does not hold, for t's next event may be named above while the
subscription is still on its way there. So a topic remembers what its events follow elsewhere since the topic order
changed last; what they followed before then has a number up to the one that each topic had (R14).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from inorder.protocol.pairs import joined, triples
from inorder.protocol.wire import SharedBase
from inorder_worker.sequencer.rides import SubscriptionRide
from inorder_worker.sequencer.sequencing import Subscription
from inorder_worker.sequencer.state import StageState


def kept_by(ride: SubscriptionRide, known: Subscription | None) -> set[int]:
    """Return the topics whose clocks the client goes on with."""
    return known.active.intersection(ride.topics) if known is not None and ride.goes_on else set()


def add_reached(state: StageState, ride: SubscriptionRide, kept: Collection[int]) -> None:
    """Add to a subscription what a base may need of this stage: how far kept topics are, and what begun ones follow."""
    topics = state.topics
    ride.kept += joined(
        (topic, its.number, its.switched)
        for topic in sorted(kept)
        if (its := topics[topic]).stage == state.index and its.number
    )
    following = (topic for topic in ride.fresh if topics[topic].base) if kept else ()
    for topic in following:
        if entries := joined(each for each in topics[topic].base.items() if each[0] in kept):
            ride.bases[topic] = ride.bases.get(topic, []) + entries


def shared_bases(state: StageState, begun: Iterable[int], kept: list[int]) -> list[SharedBase]:
    """Return the bases of begun topics, those of one stage together; ``kept``: triples, see the ride."""
    by_stage, known = defaultdict[int, list[int]](list), state.topics
    for topic in begun if kept else ():
        by_stage[known[topic].stage].append(topic)
    return [SharedBase(topics, _numbers(state, stage, kept)) for stage, topics in sorted(by_stage.items())]


def _numbers(state: StageState, stage: int, kept: list[int]) -> list[int]:
    numbers = (
        (topic, reached if state.topics[topic].stage == stage else switched)
        for topic, reached, switched in triples(kept)
        if topic in state.topics  # else it has ended meanwhile, and the client has read all of it
    )
    return joined(each for each in numbers if each[1])
