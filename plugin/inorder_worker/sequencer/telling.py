"""Stages tell each other the numbers of topics' last events, and where these passed (R7, R14, R22).

A stage above learns a number from a subscription, and every stage may learn one from a change of the topic order,
though its event never passed there. Of two such events it cannot know by itself which one waits for the other. But each
has passed some stage, and of two that passed the same one the later waits for the earlier, whatever the topic order
became since. So the place goes along with the number: the stage, its tick, and how often clients have begun topics
behind the event. All stages see the same subscriptions in the same order, so that is the same count for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import TopicManager

PARTS = 4
"""Of what is told of one place: topic, stage, tick, and how often clients have begun topics behind the event."""


def places(state: StageState, topics: Iterable[TopicManager]) -> list[int]:
    """Return where the last events of topics passed, as far as this stage knows (flat)."""
    found: list[int] = []
    here, behind = state.index, state.growths.count_since
    for manager in topics:
        if manager.has_passed:
            found += (manager.id, here, manager.tick, behind(manager.tick))
        elif manager.told:
            stage, tick, since = manager.told
            found += (manager.id, stage, tick, behind(since))
    return found


def hear(state: StageState, numbers: Iterable[tuple[int, int]], told: list[int]) -> None:
    """Raise the numbers of topics whose last events have not passed here; ``told``: their places. Those of one stage
    rise in the order in which they passed it, those of no known place before all others."""
    where = {topic: (stage, tick, behind) for topic, stage, tick, behind in _quadruples(told)}
    for place, topic, number in sorted((where.get(topic, ()), topic, number) for topic, number in numbers):
        manager = state.topics[topic]
        state.raise_number(manager, number, has_passed=False)
        manager.told = ()
        if place:
            stage, tick, behind = place
            since = state.growths.begin_of(behind)
            if since is not None:
                manager.told = stage, tick, min(since, manager.tick)


def passed_at(manager: TopicManager) -> int | None:
    """Return the tick here from which on clients have begun a topic behind its last event; ``None`` if nobody told."""
    if manager.has_passed:
        return manager.tick
    return manager.told[2] if manager.told else None


def _quadruples(flat: list[int]) -> Iterator[tuple[int, int, int, int]]:
    parts = iter(flat)
    return zip(parts, parts, parts, parts, strict=True)
