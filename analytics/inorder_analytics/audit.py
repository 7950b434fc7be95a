"""The audit of traces: whether the promises were kept. Traces through the checks of the protocol, in one process.

What cannot be judged is said, too: rows may be missing, and some of what the checks know of no client can see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec

from inorder.errors import InvalidOption
from inorder_analytics.checks import History, SubscriberHistory, Violation, violations
from inorder_analytics.checks.completeness import check_completeness, check_gaps, check_publishes
from inorder_analytics.checks.numbers import check_unique_numbers
from inorder_analytics.checks.order import check_dependencies, check_publisher_order, check_topic_order
from inorder_analytics.checks.total_order import Sequence, check_total_order, sequence_of
from inorder_analytics.checks.verdicts import check_repetition, check_resumes, check_verdicts
from inorder_analytics.histories import Histories, Incarnation, JudgedRun
from inorder_analytics.parts import ComparedPair, order_figures, worst_first
from inorder_analytics.plain.measuring import MAX_PAIRS
from inorder_analytics.plain.pairs import compared
from inorder_analytics.plain.recorded import Recorded, recorded_runs
from inorder_analytics.reading import Row, Traces, rows
from inorder_analytics.results import Damaged, Pairs
from inorder_analytics.sampling import pairs_of

Verdict = Literal["ok", "violations", "unknown"]
LINGER_S: Final = 60.0
"""The workers' default."""
NEVER_JUDGED: Final = (
    "whether everything had arrived at the end: a client may have stopped earlier",
    "events that nobody published: a publisher need not record",
    "the order of fifo events: notifications do not say which publisher's they are",
    "what is late, or in order, without a lease: lapses are not recorded",
)
_OF_EACH_LIFE = (check_verdicts, check_topic_order, check_repetition, check_dependencies, check_gaps)


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A question that the audit could not decide, and why."""

    what: str
    why: str


@dataclass(slots=True)
class RunAudit:
    """The audit of one run.

    Attributes:
        names: how incarnations are called in violations, with their sessions.
        gaps: numbers that subscribers were told to be missing, by reason.
        repeated: arrivals that were dropped as repetitions, or as older than the subscription.
    """

    run: str
    events: int
    notifications: int
    late: int
    repeated: int
    dropped_rows: int
    gaps: dict[str, int]
    pairs: Pairs
    compared: list[ComparedPair]
    violations: list[Violation]
    not_judged: list[NotJudged]
    history: History
    incarnations: dict[str, Incarnation]


@dataclass(slots=True)
class Audit:
    """The audit of all traces under a path.

    Attributes:
        copies: rows that are there more than once, as after a compaction that left the originals beside it.
    """

    path: str
    read: int = 0
    bytes: int = 0
    rows: int = 0
    copies: int = 0
    damaged: list[Damaged] = field(default_factory=list)
    runs: list[RunAudit] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The verdict: ``violations`` if a rule is broken; ``unknown`` without any notification to judge; else ``ok``,
        as far as the traces show."""
        if any(each.violations for each in self.runs):
            return "violations"
        return "ok" if any(each.notifications for each in self.runs) else "unknown"

    @property
    def is_ok(self) -> bool:
        """Tell whether something was judged and no rule is broken, as far as the traces show."""
        return self.verdict == "ok"


def audit(
    traces: Traces, *, run: str | None = None, linger: float = LINGER_S, max_pairs: int = MAX_PAIRS, seed: int = 0
) -> Audit:
    """Judge traces.

    Args:
        run: only this one.
        linger: of the workers that were used, s: order across an unsubscription longer ago is not promised (R20).
        max_pairs: the most pairs of subscribers that are compared in one run.
        seed: of the sample, where there are more.

    Raises:
        InvalidOption: there is no such run.
    """
    found = Audit(traces.path)
    recorded = recorded_runs(row for row in _rows(traces, found) if run is None or row.run == run)
    if run is not None and run not in recorded:
        raise InvalidOption("--run", run, "a run that has rows (inorder traces stats lists them)")
    found.damaged = traces.damaged
    found.runs = [
        _audited(each, linger, max_pairs, seed, is_damaged=bool(traces.damaged)) for each in recorded.values()
    ]
    return found


def _rows(traces: Traces, found: Audit) -> Iterator[Row]:
    """Yield every row once."""
    for file, table in traces.tables():
        found.read += 1
        found.bytes += file.bytes
        found.rows += table.num_rows
        yield from rows(table)
    found.copies = traces.copies
    found.rows += found.copies


def _audited(run: Recorded, linger: float, max_pairs: int, seed: int, *, is_damaged: bool) -> RunAudit:
    judged = Histories(run, linger, is_damaged=is_damaged).made()
    pairs, each = compared(run, max_pairs, seed)
    broken, unsure = _total_order(judged, run.run, linger, max_pairs, seed)
    gaps: dict[str, int] = {}
    for row in run.gaps:
        if row.number is not None:
            last = row.number if row.last_number is None else row.last_number
            gaps[row.detail or ""] = gaps.get(row.detail or "", 0) + last - row.number + 1
    return RunAudit(
        run=run.run,
        events=len(run.events),
        notifications=len(run.notifications),
        late=sum(row.verdict == "late" for row in run.notifications),
        repeated=run.repeated,
        dropped_rows=run.dropped_rows,
        gaps=dict(sorted(gaps.items())),
        pairs=pairs,
        compared=each,
        violations=[*broken, *_others(judged)],
        not_judged=[*_not_judged(run, judged), *unsure],
        history=judged.history,
        incarnations=judged.incarnations,
    )


def _others(judged: JudgedRun) -> Iterator[Violation]:
    """Return the violations of all rules but the total order."""
    history = judged.history
    yield from violations(history, (check_unique_numbers, *_OF_EACH_LIFE))
    # nobody knows how long subscribers lived, so nothing is said of what they should have heard at the end
    yield from check_publishes(replace(history, subscribers={}))
    yield from check_completeness(judged.complete)
    yield from check_resumes(judged.resumed)
    for found in check_publisher_order(history):
        if judged.incarnations[found.subscribers[0]].mode == "strict" or _is_all_recorded(judged, found):
            yield found


def _is_all_recorded(judged: JudgedRun, found: Violation) -> bool:
    """Tell whether all events between the two are recorded, as a bounded subscriber may jump over them (R20)."""
    events = [each.event for each in found.witnesses if each.event is not None]
    (client, incarnation, later), (_, _, earlier) = events
    recorded = judged.counters.get((client, incarnation), set())
    return all(at in recorded for at in range(earlier + 1, later))


# -- the total order -------------------------------------------------------------------------------------------------


def _total_order(
    judged: JudgedRun, run: str, linger: float, max_pairs: int, seed: int
) -> tuple[list[Violation], list[NotJudged]]:
    """Compare the subscribers of a run in pairs. Most pairs have one order, which a look at the positions shows."""
    subscribers = judged.history.subscribers
    sequences = {name: sequence for name, each in subscribers.items() if (sequence := sequence_of(each))}
    total, used = pairs_of(run, sequences, max_pairs, seed)
    broken, unsure = [], []
    for one, two in used:
        if _is_one_order(sequences[one], sequences[two]):
            continue
        pair = {name: subscribers[name] for name in (one, two)}
        for found in check_total_order(replace(judged.history, subscribers=pair)):
            if all(_is_certain(judged, found, name, sequences[name], linger) for name in (one, two)):
                broken.append(found)
            else:
                why = "rows are missing that may say that it had been unsubscribed for longer than the linger (R20)"
                unsure.append(NotJudged(found.sentence, why))
    if len(used) < total:
        what = f"the order of {total - len(used)} of {total} pairs of subscribers"
        unsure.append(NotJudged(what, f"only {max_pairs} are compared (--max-pairs)"))
    return broken, unsure


def _is_one_order(one: Sequence, two: Sequence) -> bool:
    places = [two[event][0] for event in one if event in two]
    return all(before < after for before, after in pairwise(places))


def _is_certain(judged: JudgedRun, found: Violation, name: str, sequence: Sequence, linger: float) -> bool:
    """Tell whether no unrecorded unsubscription can excuse two events in opposite orders. None can be longer ago than
    the linger, if the incarnation is recorded as a whole or was notified of either not long before."""
    incarnation, subscriber = judged.incarnations[name], judged.history.subscribers[name]
    if incarnation.is_complete and subscriber.spans:
        return True
    events = [each.event for each in found.witnesses if each.event is not None]
    stamped = max(judged.history.stamped[event].stamped for event in events)
    return min(sequence[event][1].when for event in events) + linger > stamped


# -- what could not be judged ----------------------------------------------------------------------------------------


def _not_judged(run: Recorded, judged: JudgedRun) -> Iterator[NotJudged]:
    for name, incarnation in judged.incarnations.items():
        subscriber = judged.history.subscribers[name]
        if not (incarnation.rows or subscriber.spans):
            continue
        if why := _why_incomplete(incarnation):
            yield NotJudged(f"what {name} left out, and copies that brokers kept", why)
        if incarnation.mode is None:
            yield NotJudged(f"what {name} must be to be strict", "how it waits is not recorded")
        if incarnation.rows and not subscriber.spans and _is_ordered(subscriber):
            yield NotJudged(f"what {name} left out", "no subscription of it is recorded")
    unclear = sorted({row.client for row in (*run.published, *run.changes) if run.clock_of(row)[1] is None})
    if unclear and any(each.spans for each in judged.history.subscribers.values()):
        what = "whether all that was published after a subscription belongs to it"
        yield NotJudged(what, f"no clock of {', '.join(unclear)} is known")


def _why_incomplete(incarnation: Incarnation) -> str:
    reasons = []
    if incarnation.dropped:
        reasons.append(f"{incarnation.dropped} of its rows could not be recorded")
    if incarnation.holes:
        reasons.append(f"{incarnation.holes} of its notifications are in no file")
    if incarnation.is_damaged:
        reasons.append("files are damaged")
    return " and ".join(reasons)


def _is_ordered(subscriber: SubscriberHistory) -> bool:
    return any(each.verdict == "in_order" for each in subscriber.notified)


# -- as JSON ---------------------------------------------------------------------------------------------------------


def to_plain(found: Audit) -> dict[str, Any]:
    """Return an audit in plain JSON types, with names of :class:`inorder_analytics.results.Summary` for figures."""
    broken = [(each, violation) for each in found.runs for violation in each.violations]
    return {
        "path": found.path,
        "ok": found.is_ok,
        "verdict": found.verdict,
        "rows": found.rows,
        "copies": found.copies,
        "files": {"read": found.read, "bytes": found.bytes, "damaged": msgspec.to_builtins(found.damaged)},
        **_figures(found.runs),
        "violations": [_violation(each, violation) for each, violation in broken],
        "not_judged": [{"run": each.run, **msgspec.to_builtins(one)} for each in found.runs for one in each.not_judged],
        "never_judged": list(NEVER_JUDGED),
        "runs": [_run(each) for each in found.runs],
    }


def _figures(runs: list[RunAudit]) -> dict[str, Any]:
    """Return counts and order figures, of one run or of several together."""
    gaps: Counter[str] = Counter()
    for each in runs:
        gaps.update(each.gaps)
    order = order_figures([pair for each in runs for pair in each.compared])
    sums = {
        name: sum(getattr(each, name) for each in runs)
        for name in ("notifications", "late", "repeated", "dropped_rows")
    }
    return {
        "events": sum(each.events for each in runs),
        "subscribers": len(
            {incarnation.session[0] for each in runs for incarnation in each.incarnations.values() if incarnation.rows}
        ),
        **sums,
        "gaps": dict(sorted(gaps.items())),
        **{name: msgspec.to_builtins(value) for name, value in sorted(order.items())},
    }


def _run(each: RunAudit) -> dict[str, Any]:
    return {
        "run": each.run,
        **_figures([each]),
        "violations": len(each.violations),
        "pairs": msgspec.to_builtins(each.pairs),
        "by_pair": msgspec.to_builtins(worst_first(pair.figures(each.run) for pair in each.compared)),
    }


def _violation(each: RunAudit, found: Violation) -> dict[str, Any]:
    history = each.history
    events = []
    for one in found.witnesses:
        topic, number = (None, None) if one.place is None else (history.topics.get(one.place[0]), one.place[1])
        recorded = one.event if one.event in history.publishes else None
        publisher = None if recorded is None else dict(zip(("client", "incarnation", "counter"), recorded, strict=True))
        events.append({"topic": topic, "number": number, "publisher": publisher})
    clients = [each.incarnations[name].session[0] if name in each.incarnations else name for name in found.subscribers]
    return {"run": each.run, "rule": found.rule, "sentence": found.sentence, "events": events, "subscribers": clients}
