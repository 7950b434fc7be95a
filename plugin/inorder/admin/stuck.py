"""Why numbers are stuck: what each stage says of its own, put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from inorder.admin.states import StuckNumber
from inorder.core.wire import OpenNumbers, OpenNumbersFound


def stuck_numbers(found: Mapping[int, Iterable[OpenNumbersFound]]) -> list[StuckNumber]:
    """Return the numbers that are stuck, by topic and number.

    A timestamp that is not complete is on its way up the belt. Where a stage says that it holds it for another one, it
    waits for that one; where none does, for the next above its home that has not answered.

    Args:
        found: what each stage that has answered says.
    """
    parts = [(stage, part) for stage, its in found.items() for part in its]
    riding = {
        (topic, number): target
        for _, part in parts
        for topic, number, target in zip(part.riding[::3], part.riding[1::3], part.riding[2::3], strict=True)
    }
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
