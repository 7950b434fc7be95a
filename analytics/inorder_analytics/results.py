"""The result of an analysis as data, for `inorder analyze`, the store, pages and reports.

Names of papers in the docstrings: *TR* is "Dynamic Message Ordering for Topic-Based Publish/Subscribe Systems" (metrics
in section 6.1, popularity in section 5), *content-based* is "Total Order in Content-Based Publish/Subscribe Systems"
(section V). ``None`` (null in JSON) always means that the traces do not say; it never stands for zero.

An **event** is (run, domain, topic id, number), counted when the broker accepted it or it arrived at any subscriber;
what was published with the order fifo or none has no such number and is no event here. A **topic** is written as its
space and name with a colon between. The **raw stream** of a subscriber is what the broker gave it: the first
arrival of each event, whatever became of it, except what came from an event log. The **delivered stream** is what its
application was notified of in order. The **common stream** of two subscribers of one run holds the events that both
have.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from inorder.errors import UsageError

VERSION: Final = 1
"""Of this format; it rises when the meaning of a key changes."""

MAX_ITEMS: Final = 500
"""What a list may hold in a bounded result."""

MAX_BYTES: Final = 1 << 20
"""What a bounded result may take as JSON."""

WORST_PAIRS: Final = 50
"""How many pairs of subscribers a result names."""


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles by nearest rank, in milliseconds: the smallest value with at least this share no greater."""

    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


class Displacement(msgspec.Struct, frozen=True, kw_only=True):
    """The displacement of events of common streams in places: |rank at the one - rank at the other|."""

    mean: float | None = None
    max: int | None = None


class ClockError(msgspec.Struct, frozen=True, kw_only=True):
    """The error bound of latencies (ms): the publisher's plus the subscriber's clock error at the event's time."""

    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """The compared pairs of subscribers: all of a run, or a sample of ``limit`` pairs that ``seed`` determines.

    Attributes:
        total: pairs that there are, summed over runs.
        used: pairs that were compared.
        limit: the most that are compared in one run.
    """

    total: int = 0
    used: int = 0
    limit: int = 0
    seed: int = 0


class Damaged(msgspec.Struct, frozen=True, kw_only=True):
    """A skipped file, and why."""

    file: str
    reason: str


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """The input files of one run, with the damaged ones; ``bytes`` is their size on disk."""

    read: int = 0
    bytes: int = 0
    damaged: list[Damaged] = msgspec.field(default_factory=list)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run, or of all runs together.

    Attributes:
        events: events that the broker accepted or that arrived anywhere.
        subscribers: clients that subscribed to something or were notified of something.
        publishers: clients that published something, whatever became of it.
        topics: topics of the events.
        ordering_degree_raw, ordering_degree_delivered: of a pair of subscribers, the sum of (S - D) / S^2 over their
            common stream of length S, where D is how far an event is displaced, which is 1 - mean(D) / S
            (content-based, section V); the mean over pairs, weighted by S. 1 is the same order everywhere.
        ordering_degree_raw_min, ordering_degree_delivered_min: of the pair with the least.
        tno_violations_raw, tno_violations_delivered: pairs of events that two subscribers have in opposite orders (TR,
            property 1), summed over pairs of subscribers. Delivered it must be 0.
        conflict_rate_raw, conflict_rate_delivered: neighbours in the stream of the subscriber that sorts first that the
            other has the other way round, per neighbours, over all pairs (content-based, section V).
        displacement_raw, displacement_delivered: the mean over all events of all common streams, and the greatest.
        late_percent: notifications that carry the out-of-order tag, of those in order or late (TR, section 6.1).
        notified_1s_percent: events that every interested subscriber was notified of, in order or late, within a second
            of the publish call, of the accepted events in which somebody was interested (TR, section 6.1).
        sequence_detection_raw_percent, sequence_detection_percent: of the sequences of three events that follow each
            other in one common stream of a pair, those that do so in both, over all pairs; raw and delivered (TR,
            section 6.2).
        latency_ms: end to end, from the publish call to the notification of the last interested subscriber that was
            notified (TR, section 6.1), corrected by the clocks' offsets.
        timestamp_ms: from the publish call to the timestamp.
        ens_ms: from the timestamp to the arrival at that last subscriber.
        waiting_ms: from that arrival to its notification.
        clock_error_ms: the bound of the error of ``latency_ms``, where both clocks are known.
        negative_latencies: events with any of the four below zero after the correction; they are kept as they are.
        uncorrected: events with a latency for which one of the two clocks is not known (its offset is taken as 0).
        bytes_per_event: mean bytes of the timestamp as it travelled, over accepted events (TR, section 6.1).
        bytes_per_event_24: the same at the papers' 24 bytes an entry.
        entries_per_event: mean entries of the timestamp, its own number included.
        stages_per_event: mean number of stages that the timestamp visited.
        gaps: by reason, the numbers that subscribers were told to be missing, summed over subscribers.
        dropped_rows: rows that clients could not record. Where this is not 0, all other figures are of a part only.
    """

    events: int = 0
    subscribers: int = 0
    publishers: int = 0
    topics: int = 0
    ordering_degree_raw: float | None = None
    ordering_degree_delivered: float | None = None
    ordering_degree_raw_min: float | None = None
    ordering_degree_delivered_min: float | None = None
    tno_violations_raw: int = 0
    tno_violations_delivered: int = 0
    conflict_rate_raw: float | None = None
    conflict_rate_delivered: float | None = None
    displacement_raw: Displacement = msgspec.field(default_factory=Displacement)
    displacement_delivered: Displacement = msgspec.field(default_factory=Displacement)
    late_percent: float | None = None
    notified_1s_percent: float | None = None
    sequence_detection_raw_percent: float | None = None
    sequence_detection_percent: float | None = None
    latency_ms: Percentiles = msgspec.field(default_factory=Percentiles)
    timestamp_ms: Percentiles = msgspec.field(default_factory=Percentiles)
    ens_ms: Percentiles = msgspec.field(default_factory=Percentiles)
    waiting_ms: Percentiles = msgspec.field(default_factory=Percentiles)
    clock_error_ms: ClockError = msgspec.field(default_factory=ClockError)
    negative_latencies: int = 0
    uncorrected: int = 0
    bytes_per_event: float | None = None
    bytes_per_event_24: float | None = None
    entries_per_event: float | None = None
    stages_per_event: float | None = None
    gaps: dict[str, int] = msgspec.field(default_factory=dict)
    dropped_rows: int = 0


class RunFigures(Summary, frozen=True, kw_only=True):
    """The figures of one run: its whole summary, and its compared pairs."""

    run: str
    pairs: Pairs


class TopicFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one topic of one run."""

    run: str
    topic: str
    events: int = 0
    late_percent: float | None = None
    notified_1s_percent: float | None = None
    latency_ms: Percentiles = msgspec.field(default_factory=Percentiles)


class SubscriberFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one subscriber of one run.

    Attributes:
        client: its client id; all its incarnations together.
        events: events that it was notified of, in order or late.
        notified_1s_percent: of the accepted events that it was interested in.
        latency_ms: from the publish call to its own notification.
    """

    run: str
    client: str
    events: int = 0
    late_percent: float | None = None
    notified_1s_percent: float | None = None
    latency_ms: Percentiles = msgspec.field(default_factory=Percentiles)


class WindowFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted events of one run with their publish calls in one window of time, ``start`` included.

    Windows are aligned to 1970-01-01T00:00:00Z; the publisher's own clock counts.
    """

    run: str
    start: datetime
    events: int = 0
    late_percent: float | None = None
    notified_1s_percent: float | None = None
    latency_ms: Percentiles = msgspec.field(default_factory=Percentiles)


class EventName(msgspec.Struct, frozen=True, kw_only=True):
    """An event's name for people."""

    topic: str
    number: int


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """Two events that follow each other at subscriber ``a`` of a pair, and stand in the opposite order at ``b``."""

    first: EventName
    second: EventName


class PairFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of two subscribers of one run; ``a`` sorts before ``b``.

    Attributes:
        length, length_raw: of their common delivered stream, and of the raw one.
        witness: the first violation in the delivered stream of ``a``, where there is one.
    """

    run: str
    a: str
    b: str
    length: int = 0
    length_raw: int = 0
    ordering_degree_raw: float | None = None
    ordering_degree_delivered: float | None = None
    tno_violations_raw: int = 0
    tno_violations_delivered: int = 0
    witness: Witness | None = None


class StageOverhead(msgspec.Struct, frozen=True, kw_only=True):
    """The message overhead of a stage (TR, section 6.1): its messages for the topics of others. With one topic per
    stage this is the paper's figure for a topic manager.

    Attributes:
        own: accepted events whose topic is at home on this stage.
        foreign: accepted events whose timestamps passed this stage and are at home on another.
        percent: 100 * foreign / (own + foreign).
    """

    run: str
    stage: int
    own: int = 0
    foreign: int = 0
    percent: float | None = None


class TopicPopularity(msgspec.Struct, frozen=True, kw_only=True):
    """One topic's share of a run's events (R15): ``per_1000`` is the papers' x."""

    run: str
    topic: str
    events: int
    per_1000: float


class TopicOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The topic order that a run's popularity suggests (R15; TR, section 5). Null where no home stage is known.

    Attributes:
        suggested: the topics of each stage from the top, by falling number of events (ties by topic id), in stages of
            the present sizes. Only topics whose home stage the traces tell.
        swaps: what R15 proposes from the present order, alpha 0.1 and beta 0.2: pairs of a higher and a lower topic.
    """

    run: str
    suggested: list[list[str]] | None = None
    swaps: list[tuple[str, str]] | None = None


class Result(Summary, frozen=True, kw_only=True):
    """The whole result of an analysis. Lists are sorted by their first fields, except ``worst_pairs`` (the lowest
    delivered ordering degree first, then the lowest raw one) and ``popularity`` (by run, the most popular topic first).

    Attributes:
        version: of this format.
        path: what was analysed.
        made_at: when, in UTC.
        rows: rows of traces that were read.
        window_s: the length of a time window, in seconds.
        cut: only in a bounded copy: for each list that was cut, how many items it had.
    """

    path: str
    made_at: datetime
    version: int = VERSION
    rows: int = 0
    window_s: float = 60.0
    files: Files = msgspec.field(default_factory=Files)
    pairs: Pairs = msgspec.field(default_factory=Pairs)
    by_run: list[RunFigures] = msgspec.field(default_factory=list)
    by_topic: list[TopicFigures] = msgspec.field(default_factory=list)
    by_subscriber: list[SubscriberFigures] = msgspec.field(default_factory=list)
    by_window: list[WindowFigures] = msgspec.field(default_factory=list)
    worst_pairs: list[PairFigures] = msgspec.field(default_factory=list)
    message_overhead: list[StageOverhead] = msgspec.field(default_factory=list)
    popularity: list[TopicPopularity] = msgspec.field(default_factory=list)
    topic_order: list[TopicOrder] = msgspec.field(default_factory=list)
    cut: dict[str, int] = msgspec.field(default_factory=dict)

    def bounded(self, items: int = MAX_ITEMS, size: int = MAX_BYTES) -> Result:
        """Return a copy for the store, with every list cut to ``items``, and further to ``size`` bytes in all.

        The summary is never cut. Of topics and subscribers those with the most events stay, of windows and runs the
        latest, of everything else the first.
        """
        while True:
            copy = _cut(self, items)
            if items == 0 or len(encode(copy)) <= size:
                return copy
            items //= 2


def encode(result: Result) -> bytes:
    """Return a result as JSON."""
    return msgspec.json.encode(result)


def decode(data: bytes | str, source: object = "this") -> Result:
    """Read a result from JSON; ``source`` names it in the error. Raises UsageError when it is none.

    Numbers may be texts, as the control plane hands out those that browsers would round.
    """
    try:
        result = msgspec.json.decode(data, type=Result, strict=False)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UsageError(f"{source} is not the result of an analysis: {error}") from None
    if result.version > VERSION:
        raise UsageError(f"{source} is a result of version {result.version}; this release reads up to {VERSION}")
    return result


def to_plain(result: Result) -> dict[str, Any]:
    """Return a result as dicts, lists, numbers and text, with times in ISO 8601."""
    plain: dict[str, Any] = msgspec.json.decode(encode(result))
    return plain


_LISTS: Final = ("by_run", "by_topic", "by_subscriber", "by_window", "worst_pairs", "message_overhead", "popularity")


def _cut(result: Result, items: int) -> Result:
    whole: dict[str, Sequence[Any]] = {name: getattr(result, name) for name in (*_LISTS, "topic_order")}
    kept = {name: _kept(name, values, items) for name, values in whole.items()}
    cut = {name: len(values) for name, values in whole.items() if len(kept[name]) < len(values)}
    damaged = result.files.damaged
    if len(damaged) > items:
        cut["files.damaged"] = len(damaged)
    files = msgspec.structs.replace(result.files, damaged=damaged[:items])
    return msgspec.structs.replace(result, **kept, files=files, cut={**result.cut, **cut})


def _kept(name: str, values: Sequence[Any], items: int) -> list[Any]:
    if len(values) <= items:
        return list(values)
    if name in ("by_topic", "by_subscriber"):
        busiest = sorted(range(len(values)), key=lambda at: (-values[at].events, at))[:items]
        return [values[at] for at in sorted(busiest)]
    if name == "by_window":
        latest = sorted(range(len(values)), key=lambda at: (values[at].start, at))[len(values) - items :]
        return [values[at] for at in sorted(latest)]
    if name == "topic_order":
        return [each for each in values[:items] if len(each.suggested or ()) <= items]
    return list(values[len(values) - items :] if name == "by_run" else values[:items])
