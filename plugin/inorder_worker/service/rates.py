"""Recent rates of numbers by topic, for operators.

Nothing is counted where numbers are given. A look every two seconds costs what the topics cost that got numbers since
the last one, so ten thousand idle topics cost nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from inorder_worker.sequencer.stage import Stage

LOOK_SECONDS: Final = 2.0
LOOKS: Final = 5
"""Rates are over so many looks: ten seconds."""


@dataclass(slots=True)
class _Watched:
    """A stage as it was at the last look.

    Attributes:
        stage, order_epoch, tick, numbers: as they were.
        looked: when that was, s.
        spans: between the last looks: how long (s), and what each topic got.
    """

    stage: Stage
    order_epoch: int
    tick: int
    numbers: dict[int, int]
    looked: float
    spans: deque[tuple[float, dict[int, int]]] = field(default_factory=lambda: deque(maxlen=LOOKS))


class TopicRates:
    """One for each worker.

    Args:
        stages: returns the stages here.
        monotonic: returns the time, s.
    """

    def __init__(
        self, stages: Callable[[], Mapping[int, Stage]], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._stages, self._monotonic = stages, monotonic
        self._watched: dict[int, _Watched] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Count what was given since the last look. A stage that came, was recovered or is in another topic order is
        only taken note of: the numbers that came with it were not given here."""
        now, stages = self._monotonic(), self._stages()
        self._watched = {index: each for index, each in self._watched.items() if index in stages}
        for index, stage in stages.items():
            watched = self._watched.get(index)
            if watched is None or watched.stage is not stage:
                tick, _ = stage.inspection.risen_since(2**63)
                self._watched[index] = _Watched(stage, stage.order_epoch, tick, stage.inspection.numbers(), now)
            elif watched.order_epoch != stage.order_epoch:
                watched.order_epoch, watched.looked = stage.order_epoch, now
                watched.tick, _ = stage.inspection.risen_since(2**63)
                watched.numbers = stage.inspection.numbers()
            else:
                self._count(watched, now)

    @staticmethod
    def _count(watched: _Watched, now: float) -> None:
        watched.tick, risen = watched.stage.inspection.risen_since(watched.tick)
        counts: dict[int, int] = {}
        for topic, number in risen:
            counts[topic] = number - watched.numbers.get(topic, 0)
            watched.numbers[topic] = number
        watched.spans.append((now - watched.looked, counts))
        watched.looked = now

    def of(self, stage: int, topics: Iterable[int]) -> dict[int, float]:
        """Return numbers per second of these topics of a stage, over about the last ten seconds; nothing for those
        without."""
        spans = self._watched[stage].spans if stage in self._watched else ()
        counts = {topic: sum(its.get(topic, 0) for _, its in spans) for topic in topics}
        seconds = sum(span for span, _ in spans)
        return {topic: count / seconds for topic, count in counts.items() if count}
