"""Subscribers of one run, two by two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from inorder_analytics.plain.percentiles import percent
from inorder_analytics.plain.recorded import Event, Recorded
from inorder_analytics.plain.streams import Common, compare
from inorder_analytics.results import WORST_PAIRS, Displacement, EventName, PairFigures, Pairs, Witness
from inorder_analytics.sampling import pairs_of


@dataclass(slots=True)
class Pair:
    """Two subscribers of a run, compared. ``a`` sorts before ``b``."""

    run: Recorded
    a: str
    b: str
    raw: Common[Event]
    delivered: Common[Event]


def compared(run: Recorded, max_pairs: int, seed: int) -> tuple[Pairs, list[Pair]]:
    """Return which pairs of a run's subscribers are compared, and what became of it."""
    total, used = pairs_of(run.run, run.raw.keys() | run.delivered.keys(), max_pairs, seed)
    pairs = [
        Pair(
            run,
            a,
            b,
            compare(run.raw.get(a, []), run.raw.get(b, [])),
            compare(run.delivered.get(a, []), run.delivered.get(b, [])),
        )
        for a, b in used
    ]
    return Pairs(total=total, used=len(used), limit=max_pairs, seed=seed), pairs


def order_figures(streams: Sequence[Common[Any]], which: str) -> dict[str, Any]:
    """Return what pairs of streams say of the order (raw or delivered), by names of a summary."""
    used = [each for each in streams if each.length]
    events = sum(each.length for each in used)
    degrees = [each.ordering_degree for each in used if each.ordering_degree is not None]
    descents, neighbours = sum(each.descents for each in used), sum(each.length - 1 for each in used)
    displaced = sum(each.displaced for each in used)
    both, either = (sum(getattr(each, f"triples_{name}") for each in used) for name in ("both", "either"))
    detection = "sequence_detection_raw_percent" if which == "raw" else "sequence_detection_percent"
    return {
        f"ordering_degree_{which}": 1 - sum(each.displaced / each.length for each in used) / events if events else None,
        f"ordering_degree_{which}_min": min(degrees, default=None),
        f"tno_violations_{which}": sum(each.inversions for each in used),
        f"conflict_rate_{which}": descents / neighbours if neighbours else None,
        f"displacement_{which}": Displacement(
            mean=displaced / events if events else None, max=max((each.furthest for each in used), default=None)
        ),
        detection: percent(both, either),
    }


def worst_pairs(pairs: Iterable[Pair], most: int | None = WORST_PAIRS) -> list[PairFigures]:
    """Return the pairs with the lowest ordering degree (``None``: all), the lowest first."""
    figures = [
        PairFigures(
            run=pair.run.run,
            a=pair.a,
            b=pair.b,
            length=pair.delivered.length,
            length_raw=pair.raw.length,
            ordering_degree_raw=pair.raw.ordering_degree,
            ordering_degree_delivered=pair.delivered.ordering_degree,
            tno_violations_raw=pair.raw.inversions,
            tno_violations_delivered=pair.delivered.inversions,
            witness=_witness(pair),
        )
        for pair in pairs
    ]
    return sorted(figures, key=_rank)[:most]


def _rank(pair: PairFigures) -> tuple[float, float, str, str, str]:
    """The worst first; those without a common stream last."""
    degrees = pair.ordering_degree_delivered, pair.ordering_degree_raw
    delivered, raw = (2.0 if degree is None else degree for degree in degrees)
    return delivered, raw, pair.run, pair.a, pair.b


def _witness(pair: Pair) -> Witness | None:
    if pair.delivered.first_descent is None:
        return None
    first, second = (
        EventName(topic=pair.run.label(event[:2]), number=event[2]) for event in pair.delivered.first_descent
    )
    return Witness(first=first, second=second)
