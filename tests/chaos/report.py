"""A run in words and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.chaos.run import Result

SHOWN = 10
"""Violations of one rule that are printed."""


def to_json(result: Result) -> dict[str, Any]:
    """Return a run as what a JSON encoder takes."""
    history, faults = result.history, result.faults
    gaps: Counter[str] = Counter()
    for subscriber in history.subscribers.values():
        for gap in subscriber.gaps:
            gaps[gap.reason] += gap.last - gap.first + 1
    verdicts = Counter(each.verdict for subscriber in history.subscribers.values() for each in subscriber.notified)
    times = sorted(each.seconds for each in result.take_overs if each.seconds is not None)
    alone = sorted(each.seconds for each in result.take_overs if each.seconds is not None and each.is_alone)
    repeats = [each for subscriber in history.subscribers.values() for each in subscriber.notified if each.redelivered]
    return {
        "store": result.options.store,
        "seed": result.options.seed,
        "planted": result.options.planted,
        "log": result.options.log,
        "published": len(history.publishes),
        "acknowledged": sum(each.outcome == "acknowledged" for each in history.publishes.values()),
        "failed": dict(sorted(result.failed.items())),
        "delivered": sum(verdicts.values()),
        "verdicts": dict(sorted(verdicts.items())),
        "repaired": result.repaired,
        "subscribers": len(history.subscribers),
        "resumes": sum(len(each.resumes) for each in history.subscribers.values()),
        "redelivered": len(repeats),
        "gaps": dict(sorted(gaps.items())),
        "kills": sum(count for kind, count in faults.items() if kind.startswith("kill_")),
        "stops": faults["stop_worker"] + faults["stop_client"],
        "cuts": sum(count for kind, count in faults.items() if kind.startswith("cut_")),
        "stalls": sum(count for kind, count in faults.items() if kind.startswith(("stall_", "delay_"))),
        "faults": dict(sorted(faults.items())),
        "take_overs": len(result.take_overs),
        "take_over_p50": _percentile(times, 0.5),
        "take_over_p99": _percentile(times, 0.99),
        "take_overs_alone": len(alone),
        "take_over_alone_p50": _percentile(alone, 0.5),
        "take_over_alone_p99": _percentile(alone, 0.99),
        "take_overs_by_kind": _by_kind(result),
        "violations": [each.to_json() for each in result.violations],
        "stuck": result.stuck,
        "marks": result.marks,
        "logs": result.logs if not result.is_ok else {},
        "seconds": round(result.seconds, 1),
    }


def _by_kind(result: Result) -> dict[str, list[float | None]]:
    times: dict[str, list[float | None]] = {}
    for each in result.take_overs:
        times.setdefault(each.kind, []).append(None if each.seconds is None else round(each.seconds, 3))
    return times


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def to_text(report: dict[str, Any]) -> str:
    """Return a report to read."""
    lines = [
        f"{name}: {value}" for name, value in report.items() if name not in ("violations", "logs", "stuck", "marks")
    ]
    by_rule = Counter(each["rule"] for each in report["violations"])
    for rule, count in by_rule.items():
        found = [each["sentence"] for each in report["violations"] if each["rule"] == rule]
        lines += [f"violation: {rule} {each}" for each in found[:SHOWN]]
        lines += [f"violation: {rule}, {count - SHOWN} more"] if count > SHOWN else []
    lines += [f"stuck: {each}" for each in report["stuck"]]
    if report["violations"] or report["stuck"]:
        lines += ["what happened:", *(f"  {seconds:6.2f} s {what}" for seconds, what in report["marks"])]
        for name, log in report["logs"].items():
            lines += [f"end of the log of {name}:", *(f"  {line}" for line in log.splitlines())]
    return "\n".join(lines)
