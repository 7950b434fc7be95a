"""The distribution of stages: all living workers share them evenly, and as few as possible move.

Every worker computes this by itself from what it reads in the store. Where two read different things and disagree, the
store decides: a claim is a conditional update.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inorder_worker.store.journal import Member


def shares(holders: Mapping[int, str], members: Iterable[Member]) -> dict[int, str]:
    """Return the owner that each stage should have.

    A stage belongs to those that are pinned to it; if there is none, to those that are pinned to nothing; where there
    is none either it stays where it is. Owners keep what they have, as long as nobody has two more than somebody else
    who may have it.

    Args:
        holders: every stage with its present owner, empty where it has none.
        members: the workers that live.
    """
    living = sorted(members, key=lambda each: each.owner)
    may_have = {stage: _candidates(stage, living) for stage in holders}
    load = {each.owner: 0 for each in living}
    placed: dict[int, str] = {}
    for stage, owner in sorted(holders.items()):
        if owner in may_have[stage]:
            placed[stage] = owner
            load[owner] += 1
    for stage in sorted(holders):
        if stage not in placed and may_have[stage]:
            placed[stage] = min(may_have[stage], key=lambda owner: (load[owner], owner))
            load[placed[stage]] += 1
    while move := _uneven(placed, may_have, load):
        stage, to = move
        load[placed[stage]] -= 1
        load[to] += 1
        placed[stage] = to
    return placed


def _candidates(stage: int, living: list[Member]) -> list[str]:
    pinned = [each.owner for each in living if stage in each.pins]
    return pinned or [each.owner for each in living if not each.pins]


def _uneven(
    placed: Mapping[int, str], may_have: Mapping[int, list[str]], load: Mapping[str, int]
) -> tuple[int, str] | None:
    """Return a stage that should move, and its new owner: from the worker with most stages to the one with fewest."""
    for stage in sorted(placed, key=lambda stage: (-load[placed[stage]], -stage)):
        to = min(may_have[stage], key=lambda owner: (load[owner], owner))
        if load[placed[stage]] - load[to] > 1:
            return stage, to
    return None
