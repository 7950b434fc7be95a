"""Figures of the last minutes for charts and rates, in the memory of one replica.

Stages and clients count since their own start. What is shown are sums of these counts and how fast they rise; a count
that falls (its process began anew) adds nothing for that step, so no rate is negative.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

SPAN_SECONDS: Final = 600.0
MAX_SAMPLES: Final = 1200

Counts = Mapping[str, int | None]
"""By name; ``None`` where nobody reports it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one moment.

    Attributes:
        at_ms: when, ms since 1970.
        rates: by name, per second since the look before; ``None`` where it is not known.
        values: by name, what is no count: a latency, say.
    """

    at_ms: int
    rates: dict[str, float | None]
    values: dict[str, float | None]


class Series:
    """The samples of the last ``SPAN_SECONDS``."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=MAX_SAMPLES)
        self._last: tuple[float, dict[str, dict[str, int]]] | None = None

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def add(
        self, at_ms: int, now: float, counts: Mapping[str, Counts], values: Mapping[str, float | None]
    ) -> Sample | None:
        """Add a sample.

        Args:
            at_ms: when, by the wall clock.
            now: when, by a clock that only goes forward (s).
            counts: by source (a stage, a client), its counts.

        Returns:
            the sample; ``None`` for the first look, which has nothing to compare with.
        """
        known = {
            source: {name: count for name, count in each.items() if count is not None}
            for source, each in counts.items()
        }
        last, self._last = self._last, (now, known)
        if last is None or now <= last[0]:
            return None
        names = dict.fromkeys(name for each in counts.values() for name in each)
        sample = Sample(at_ms, {name: _rate(name, last, now, known) for name in names}, dict(values))
        self._samples.append(sample)
        while self._samples and self._samples[0].at_ms < at_ms - SPAN_SECONDS * 1000:
            self._samples.popleft()
        return sample

    def rates(self, seconds: float) -> dict[str, float | None]:
        """Return the mean rates of the last seconds; ``None`` without samples."""
        if not self._samples:
            return {}
        newest = self._samples[-1].at_ms
        recent = [each for each in self._samples if each.at_ms > newest - seconds * 1000]
        found: dict[str, float | None] = {}
        for name in recent[-1].rates:
            known = [rate for each in recent if (rate := each.rates.get(name)) is not None]
            found[name] = sum(known) / len(known) if known else None
        return found


def _rate(
    name: str, last: tuple[float, dict[str, dict[str, int]]], now: float, known: dict[str, dict[str, int]]
) -> float | None:
    """Return the rate of a rising count: the sum over sources present before, too."""
    before_at, before = last
    risen = None
    for source, each in known.items():
        if name in each:
            step = max(0, each[name] - before[source][name]) if name in before.get(source, {}) else 0
            risen = step if risen is None else risen + step
    return None if risen is None else risen / (now - before_at)
