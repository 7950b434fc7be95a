"""The results of the demo as figures, as JSON and as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inorder_cli.demo import measure
from inorder_cli.demo.plan import BrokerKind, SiteJob, SiteResult


@dataclass(frozen=True, slots=True)
class Half:
    """The figures of one half: the two subscribers' sequences, and their differences.

    Attributes:
        disagreement: of the two sequences.
        missing: events that a subscriber never saw, over both.
        gaps: numbers that inorder reported as missing, over both.
        repeated: notifications of an event that the same subscriber had seen before, over both.
        late: notifications out of order and tagged so, over both.
        unordered: notifications that carried no number although they should, over both.
        p50_ms, p99_ms: from the publish call to the notification.
        events_per_second: of all publishers, from the common start to the last notification.
        problems: what went wrong, in words.
    """

    disagreement: measure.Disagreement
    missing: int
    gaps: int
    repeated: int
    late: int
    unordered: int
    p50_ms: float | None
    p99_ms: float | None
    events_per_second: float
    problems: tuple[str, ...]


def half(jobs: Sequence[SiteJob], results: Sequence[SiteResult]) -> Half:
    """Compute one half's figures."""
    sequences = [result.sequence for result in results]
    latencies = [latency for result in results for latency in result.latencies_ms]
    seconds = max(result.seconds for result in results)
    verdicts = [result.verdicts for result in results]
    return Half(
        disagreement=measure.compare(sequences[0], sequences[1]),
        missing=sum(measure.missing(sequence, range(jobs[0].total)) for sequence in sequences),
        gaps=sum(result.gaps for result in results),
        repeated=sum(measure.repeated(sequence) for sequence in sequences),
        late=sum(seen.get("late", 0) for seen in verdicts),
        unordered=sum(seen.get("unsequenced", 0) for seen in verdicts),
        p50_ms=measure.percentile(latencies, 0.5),
        p99_ms=measure.percentile(latencies, 0.99),
        events_per_second=jobs[0].total / seconds if seconds else 0.0,
        problems=tuple(problem for result in results for problem in result.problems),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of both halves."""

    broker: BrokerKind
    events: int
    rate: float
    without: Half
    ordered: Half

    @property
    def is_good(self) -> bool:
        """Tell whether the two subscribers agreed with inorder, and every missing event was reported."""
        seen = self.ordered
        silent = seen.missing - seen.gaps > 0
        return not (seen.disagreement.pairs or silent or seen.repeated or seen.unordered)

    def as_dict(self) -> dict[str, Any]:
        """Return the output of ``--json``."""
        without, ordered = self.without, self.ordered
        return {
            "events": self.events,
            "subscribers": 2,
            "inversions_without": without.disagreement.adjacent,
            "inversions_with": ordered.disagreement.adjacent,
            "inverted_pairs_without": without.disagreement.pairs,
            "inverted_pairs_with": ordered.disagreement.pairs,
            "late": ordered.late,
            "duplicates": ordered.repeated,
            "gaps": ordered.gaps,
            "p50_ms_without": _rounded(without.p50_ms),
            "p50_ms_with": _rounded(ordered.p50_ms),
            "broker": str(self.broker),
            "p99_ms_without": _rounded(without.p99_ms),
            "p99_ms_with": _rounded(ordered.p99_ms),
            "missing_without": without.missing,
            "missing_with": ordered.missing,
            "unsequenced": ordered.unordered,
            "rate": self.rate,
            "events_per_second_without": round(without.events_per_second),
            "events_per_second_with": round(ordered.events_per_second),
            "problems": [*without.problems, *ordered.problems],
        }

    def sentence(self) -> str:
        """Describe the result in one sentence."""
        before, after = self.without.disagreement, self.ordered.disagreement
        seen = f"Of {max(before.common - 1, 0):,} pairs of neighbouring events the two subscribers saw "
        seen += f"{before.adjacent:,} ({before.adjacent_share:.0%}) in opposite order without inorder, and "
        seen += "none with it" if not after.pairs else f"{after.adjacent:,} (all distances: {after.pairs:,}) with it"
        return f"{seen}{self._losses()}."

    def _losses(self) -> str:
        parts = [
            f"{count:,} notifications {what}"
            for count, what in (
                (self.without.missing, "went missing without inorder"),
                (self.ordered.missing, f"went missing with it ({self.ordered.gaps:,} reported as gaps)"),
                (self.ordered.repeated, "were repeated with it"),
                (self.ordered.late, "came late with it"),
                (self.ordered.unordered, "came without a number"),
            )
            if count
        ]
        return f"; {', '.join(parts)}" if parts else ""


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
