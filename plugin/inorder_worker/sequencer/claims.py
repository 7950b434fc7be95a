"""Clients' claims about numbers, checked by a stage's own knowledge: R19's ``after``, so that nobody waits for a number
that nobody has published.

A dependency is safe where its number was given before the event that names it got its own: then no circle can come of
it, and nobody waits for a number that does not exist. Of its own topics a stage knows all numbers. Of a topic further
down it knows those up to the last that came by, or was announced, and those that a ride from below named: everything
that they follow came by ahead of that ride. Of a topic further up it knows nothing: there the number is proved on the
way up, by the stage that gave it, and counts for nobody before.

*Counter-examples, strict readers of both topics:* y on b names a: 10^9, which is never given. Or it names a: n + 1, and
the next event on a, which gets that number, names y: each waits for the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from inorder.protocol.pairs import pairs
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import Session


def may_follow(state: StageState, session: Session, after: list[int]) -> bool:
    """Tell whether an event that enters here may follow these numbers, as far as this stage can know it. A client that
    need not prove what it says is believed of topics further down."""
    for topic, number in pairs(after):
        if state.is_forgotten(topic):
            continue
        manager = state.topics.get(topic)
        if manager is None:
            return False
        is_given = number <= manager.number
        if manager.stage == state.index and not is_given:
            return False
        if manager.stage > state.index and session.proves and not is_given and number > session.vouched.get(topic, 0):
            return False
    return True


def may_pass(state: StageState, session: Session, after: list[int]) -> bool:
    """Tell whether the claims of a request that came up may pass, by this stage's topics. Stages below have checked
    their own: the client may claim these here, too, from now on."""
    is_given = True
    for topic, number in pairs(after):
        manager = state.topics.get(topic)
        if manager is None:
            is_given = is_given and state.is_forgotten(topic)
        elif manager.stage == state.index:
            is_given = is_given and number <= manager.number
        elif manager.stage > state.index and session.proves and session.vouched.get(topic, 0) < number:
            session.vouched[topic] = number
    return is_given


def given(state: StageState, deps: list[int]) -> Iterator[tuple[int, int, bool]]:
    """Yield the entries of a passing timestamp, and whether each is of this stage's topics, without numbers that this
    stage has not given."""
    for topic, number in pairs(deps):
        manager = state.topics[topic]
        is_here = manager.stage == state.index
        if not is_here or number <= manager.number:
            yield topic, number, is_here
