"""What timestamps cost, which topics are popular, and what topic order that suggests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from inorder_analytics.plain.percentiles import percent
from inorder_analytics.plain.recorded import Recorded
from inorder_analytics.reading import Row
from inorder_analytics.results import StageOverhead, TopicOrder, TopicPopularity
from inorder_worker.sequencer.popularity import swaps

ALPHA, BETA = 0.1, 0.2
"""Of R15."""


def entries_of(row: Row) -> int | None:
    """Return how many entries a publish's timestamp had, its own number included."""
    if row.entries is not None:
        return int(row.entries)
    return None if row.dependencies is None else 1 + len(row.dependencies) // 2


def stages_of(row: Row) -> int | None:
    """Return how many stages a publish's timestamp visited."""
    if row.entry_stage is None or row.top_stage is None:
        return None
    return int(row.entry_stage - row.top_stage + 1)


def message_overhead(run: Recorded) -> Iterator[StageOverhead]:
    """Return what each stage handled, from the top."""
    own: Counter[int] = Counter()
    foreign: Counter[int] = Counter()
    for row in run.accepted.values():
        home = row.stage
        if home is None:
            continue
        own[home] += 1
        if stages_of(row) is not None:
            foreign.update(each for each in range(row.top_stage, row.entry_stage + 1) if each != home)
    for stage in sorted(own.keys() | foreign.keys()):
        share = percent(foreign[stage], own[stage] + foreign[stage])
        yield StageOverhead(run=run.run, stage=stage, own=own[stage], foreign=foreign[stage], percent=share)


def popularity(run: Recorded) -> list[TopicPopularity]:
    """Return how much of the run each topic is, the most popular first (ties by name)."""
    counts = Counter(run.label(event[:2]) for event in run.events)
    return [
        TopicPopularity(run=run.run, topic=topic, events=count, per_1000=1000 * count / len(run.events))
        for topic, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]


def topic_order(run: Recorded) -> TopicOrder:
    """Return what the run's popularity suggests. A topic's home is where its event that was published last had it."""
    ids: dict[str, int] = {}
    for event in run.events:
        label = run.label(event[:2])
        ids[label] = min(event[1], ids.get(label, event[1]))
    names = sorted(ids, key=lambda label: (ids[label], label))
    ranks = {label: rank for rank, label in enumerate(names)}
    counts = Counter(ranks[run.label(event[:2])] for event in run.events)
    latest: dict[int, tuple[int, int, int]] = {}
    for event, row in run.accepted.items():
        if row.stage is not None:
            rank = ranks[run.label(event[:2])]
            found = row.published_at or 0, event[2], row.stage
            latest[rank] = max(found, latest.get(rank, found))
    if not latest:
        return TopicOrder(run=run.run)
    stages: list[list[int]] = [[] for _ in range(max(stage for _, _, stage in latest.values()) + 1)]
    for rank in sorted(latest):
        stages[latest[rank][2]].append(rank)
    ranked = iter(sorted(latest, key=lambda rank: (-counts[rank], rank)))
    return TopicOrder(
        run=run.run,
        suggested=[[names[next(ranked)] for _ in stage] for stage in stages],
        swaps=[(names[one], names[two]) for one, two in swaps(stages, counts, (), ALPHA, BETA)],
    )
