"""Reasons why numbers are stuck, combined from the answers of all stages."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from typing import Final

from inorder.protocol.pairs import triples
from inorder.protocol.wire import ClientReport, NumberState, OpenNumbers, OpenNumbersFound, Wait
from inorder_worker.admin.states import StuckNumber

Place = tuple[int, int]
"""(topic id, number)"""
Waits = Mapping[Place, Sequence[tuple[str, Wait]]]
"""By the number that is waited for: clients, and what each says of it."""

_REASONS: Final = {
    NumberState.CONFIRMED: "confirmed, and has not arrived",
    NumberState.VOID: "void, and not skipped yet",
    NumberState.ABANDONED: "given up, and not skipped yet",
    NumberState.EXPIRED: "no longer known one by one",
    NumberState.UNKNOWN: "was never given",
}


def stuck_numbers(found: Mapping[int, Iterable[OpenNumbersFound]]) -> list[StuckNumber]:
    """Return the stuck numbers by topic and number.

    A timestamp that is not complete is on its way up the belt. Where a stage says that it holds it for another one, it
    waits for that one; where none does, for the next above its home that has not answered.

    Args:
        found: what each stage that has answered says.
    """
    parts = [(stage, part) for stage, its in found.items() for part in its]
    riding = {(topic, number): target for _, part in parts for topic, number, target in triples(part.riding)}
    stuck = []
    for home, part in parts:
        silent = [stage for stage in range(home) if stage not in found]
        for each in part.numbers:
            waits_for = None
            if not each.is_complete:
                waits_for = riding.get((each.topic, each.last), max(silent, default=max(home - 1, 0)))
            stuck.append(_stuck(each, waits_for))
    return sorted(stuck, key=lambda each: (each.topic, each.first))


def _stuck(each: OpenNumbers, waits_for: int | None) -> StuckNumber:
    if waits_for is not None:
        reason = f"timestamp waits for stage {waits_for}"
    elif each.away_ms:
        reason = "publisher away"
    else:
        reason = "publisher connected, not confirmed"
    if each.behind:
        reason += f"; {each.behind} newer numbers of its are open, too, and not listed"
    return StuckNumber(
        each.topic,
        each.first,
        each.last,
        each.state,
        reason,
        waits_for,
        each.client_id,
        each.away_ms,
        each.age_ms,
        each.logged,
    )


def waits_by_number(clients: Iterable[ClientReport], older_ms: int) -> Waits:
    """Return the numbers for which clients have waited for longer than that."""
    told = [(each.client_id, wait) for each in clients for wait in each.waits if wait.for_ms >= older_ms]
    place = lambda each: (each[1].topic, each[1].number)  # noqa: E731
    return {at: list(its) for at, its in groupby(sorted(told, key=place), key=place)}


def places_told(clients: Iterable[ClientReport], older_ms: int) -> list[Place]:
    """Return the numbers for which clients have waited for longer than ``older_ms``, the first one of each client, then
    the second ones, and so on. Only some are looked up: none of somebody's are left out for all of another's."""
    told = [[(each.topic, each.number) for each in client.waits if each.for_ms >= older_ms] for client in clients]
    turns = (each for turn in zip_longest(*told) for each in turn if each is not None)
    return list(dict.fromkeys(turns))


def with_waits(stuck: Sequence[StuckNumber], waits: Waits, states: Mapping[Place, NumberState]) -> list[StuckNumber]:
    """Return the stuck numbers with their waiting clients, and other numbers for which clients wait, without pending
    ones, which are stuck in due time.

    Args:
        states: what became of numbers; one that clients wait for and that is not there was not asked about.
    """
    left, places = dict(waits), sorted(waits)
    found = []
    for each in stuck:
        first, behind = bisect_left(places, (each.topic, each.first)), bisect_right(places, (each.topic, each.last))
        found.append(_with(each, [told for at in places[first:behind] for told in left.pop(at, ())]))
    for (topic, number), told in left.items():
        if (state := states.get((topic, number))) in _REASONS:
            reason = _REASONS[state] if number else "no worker has named the topic"
            age = max(wait.for_ms for _, wait in told)
            found.append(_with(StuckNumber(topic, number, number, state, reason, None, "", 0, age, False), told))
    return sorted(found, key=lambda each: (each.topic, each.first))


def _with(stuck: StuckNumber, told: Sequence[tuple[str, Wait]]) -> StuckNumber:
    if not told:
        return stuck
    _, longest = max(told, key=lambda each: each[1].for_ms)
    holds = longest.first_topic, longest.first_number
    return replace(stuck, waiting=tuple(sorted({client for client, _ in told})), holds=holds)
