"""Comparison of a run's subscribers in pairs."""

from __future__ import annotations

from inorder_analytics.parts import ComparedPair, witness
from inorder_analytics.plain.recorded import Recorded
from inorder_analytics.plain.streams import compare
from inorder_analytics.results import Pairs
from inorder_analytics.sampling import pairs_of


def compared(run: Recorded, max_pairs: int, seed: int) -> tuple[Pairs, list[ComparedPair]]:
    """Return the chosen pairs of a run's subscribers, compared."""
    total, used = pairs_of(run.run, run.raw.keys() | run.delivered.keys(), max_pairs, seed)
    return Pairs(total=total, used=len(used), limit=max_pairs, seed=seed), [_pair(run, a, b) for a, b in used]


def _pair(run: Recorded, a: str, b: str) -> ComparedPair:
    stream = run.delivered.get(a, [])
    raw, delivered = compare(run.raw.get(a, []), run.raw.get(b, [])), compare(stream, run.delivered.get(b, []))
    events = {place: (run.label(stream[place][:2]), stream[place][2]) for place in delivered.witnesses}
    return ComparedPair(a=a, b=b, raw=raw, delivered=delivered, witness=witness(events, delivered))
