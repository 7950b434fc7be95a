"""Bases of topics: the events before a topic's start, by publisher, that count as its dependencies (R8 with R19).

An event follows its publisher's earlier ones, also those in topics that nobody shares with its own. No timestamp names
them, but whoever has such a topic and subscribes to the event's afterwards must not be notified of its publisher's next
event before them. *Counter-example:* P publishes x on u, then y on t. A has u, and begins t behind y; P publishes z on
t, which names no u, because y would. Without the base A may see z, x.

Each topic could remember the numbers its events follow, but of a publisher of n topics these are n * n. What a stage
has anyway is enough: of each session the last number in each topic, in the order of use. What a publisher has used
since its last event in a topic its next one there names by itself; what it used before that is the base, made when
somebody begins the topic. A session that is dropped leaves its numbers behind for a while, because its client may come
back. Of topics on two stages no session has both: a topic remembers what its events follow elsewhere, and as well what
they followed on its own stage when the topics part (R14).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from inorder.protocol.pairs import raise_all
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import Session

Used = Mapping[int, tuple[int, int]]
"""See the session."""


def begin_behind(state: StageState, begun: Collection[int], kept: Collection[int]) -> None:
    """Raise the bases of the topics ``begun`` by a subscriber to the earlier events in topics whose clocks it keeps."""
    if not begun or not kept:
        return
    begun, kept = frozenset(begun), frozenset(kept)
    topics = state.topics
    for used in _all_used(state):
        if used.keys().isdisjoint(begun) or used.keys().isdisjoint(kept):
            continue
        earlier: list[tuple[int, int]] = []
        for topic, (_, number) in used.items():
            if number and topic in kept:
                earlier.append((topic, number))
            elif number and topic in begun:
                raise_all(topics[topic].base, earlier)


def remember_parted(state: StageState, homes: Mapping[int, int]) -> None:
    """Put into the bases, before topics go to these stages, the earlier events in topics that go to another stage.
    Each stage's part stays and counts there: every subscription passes every stage."""
    leaving = {topic for topic, stage in homes.items() if state.topics[topic].stage == state.index != stage}
    for session in state.sessions.values():
        _part(state, session.used, homes, leaving)


def _part(state: StageState, used: Used, homes: Mapping[int, int], leaving: set[int]) -> None:
    if used.keys().isdisjoint(leaving):
        return
    earlier: list[tuple[int, int]] = []
    for topic, (_, number) in used.items():
        if number:
            home = homes[topic]
            raise_all(state.topics[topic].base, [each for each in earlier if homes[each[0]] != home])
            earlier.append((topic, number))


def leave_behind(state: StageState, session: Session) -> None:
    """A session is dropped. What it used before counts as long as an event may wait at a live subscriber (R10)."""
    if len(session.used) > 1:
        state.left_behind.append((state.now + state.settings.linger_ms, session.used))


def forget_left(state: StageState) -> None:
    """Forget what was left behind long enough ago."""
    left = state.left_behind
    if left and left[0][0] <= state.now:
        del left[: next((at for at, (until, _) in enumerate(left) if until > state.now), len(left))]


def _all_used(state: StageState) -> list[Used]:
    return [*(each.used for each in state.sessions.values()), *(used for _, used in state.left_behind)]
