"""Traces for the analysis: some by hand, with their figures worked out, and random ones with everything in them."""

from __future__ import annotations

import random
from typing import Any

from tests.analytics.traces import EPOCH_US, Trace, us

SECOND = 1000.0
HOUR = 3_600 * SECOND


def order() -> Trace:
    """Two subscribers of topics a and b; both end up with a1 b1 a2 b2 a3, but for y, which has b2 before a2.

    ===========  ==================  ==============================================================================
    stream       s                   t, and what follows
    ===========  ==================  ==============================================================================
    raw          a1 b1 a2 b2 a3      b1 a1 a3 b2 a2: at t the ranks of s's events are 1 0 4 3 2
    delivered    a1 b1 a2 b2 a3      a1 b1 b2 a2 a3: ranks 0 1 3 2 4
    D            raw 1 1 2 0 2       sum 6, mean 6/5, degree (25 - 6) / 25 = 0.76
                 delivered 0 0 1 1 0 sum 2, mean 2/5, degree (25 - 2) / 25 = 0.92
    inversions   raw                 1-0, 4-3, 4-2, 3-2 = 4; descents 1>0, 4>3, 3>2 = 3 of 4 neighbours
                 delivered           3-2 = 1; descents 1 of 4: the witness is a2, b2
    triples      raw                 none of 3 + 3; delivered: s has 012 123 234, t 013 132 324 in s's ranks: none
    ===========  ==================  ==============================================================================
    """
    trace = Trace("order")
    trace.streams(s="a1 b1 a2 b2 a3", t="a1 b1 b2 a2 a3")
    return trace.arrive(s="a1 b1 a2 b2 a3", t="b1 a1 a3 b2 a2")


def same() -> Trace:
    """Two subscribers of the same four events in one order: 2 triples, both detected; degree 1; none opposite."""
    return Trace("same").streams(s="a1 a2 b1 a3", t="a1 a2 b1 a3")


def latency() -> Trace:
    """One event on three clocks, another that is late, a third that one subscriber never got. In ms.

    ======  ==================  ===========================================  =======================================
    who     offset, error       own clock                                    by the worker's clock
    ======  ==================  ===========================================  =======================================
    p       +100, 2             a1: published 0, stamped 5                   100, 105
    s       -50, 3              a1: arrived 180, delivered 190               130, 140: 40 after the call
    t       +30, 1              a1: arrived 80, delivered 120                110, 150: 50 after the call, the last
    p                           a2: published 200, stamped 201               300, 301
    s                           a2 late: arrived 1360, delivered 1360        1310: 1010 after the call, the last
    t                           a2: arrived 271, delivered 271               301: 1 after the call
    p                           a3: published 400, stamped 440               500, 540
    s                           a3: arrived 450, delivered 551               400 and 501: 1 after the call, ens -140
    ======  ==================  ===========================================  =======================================

    latency 50, 1010, 1: sorted 1 50 1010, so p50 = the 2nd, p90 = p99 = the 3rd
    timestamp 5, 1, 40: p50 5; ens 5 (110-105), 1009 (1310-301), -140 (400-540): p50 5, p90 1009; waiting 40, 0, 101
    error: t 2+1 = 3, s 2+3 = 5, s 5: p50 5, max 5; negative: a3
    within a second: a1 only (a2 took 1010, a3 lacks t): 1/3
    late: 1 of 5 notifications = 20 %; s: 1 of 3; s notified in time of a1, a3: 2/3; t of a1, a2: 2/3
    """
    trace = Trace("latency")
    for client, offset, error in (("p", 100, 2), ("s", -50, 3), ("t", 30, 1)):
        trace.clock(client, offset, error)
        trace.clock(client, offset, error, at=10 * SECOND)
        trace.clock(client, 999, error + 1, at=-3_600 * SECOND)  # an hour before it was set
    trace.subscribed("s", "a")
    trace.subscribed("t", "a")
    trace.published("p", "a", 1, at=0, stamped=5, entries=1, stamp_bytes=10, stage=1, entry_stage=1, top_stage=0)
    trace.published("p", "a", 2, at=200, stamped=201, dependencies=[2, 7, 3, 8], stamp_bytes=31, stage=1)
    trace.published("p", "a", 3, at=400, stamped=440, entries=5, stamp_bytes=40, stage=1, entry_stage=2, top_stage=2)
    trace.notified("s", "a", 1, at=190, arrived=180)
    trace.notified("s", "a", 2, "late", at=1360)
    trace.notified("s", "a", 3, at=551, arrived=450)
    trace.notified("t", "a", 1, at=120, arrived=80)
    trace.notified("t", "a", 2, at=271)
    trace.gap("t", "a", 3, 3, "lost")
    trace.gap("s", "b", 4, 9, "skipped")
    trace.row("dropped", "t", count=4)
    trace.row("dropped", "t", count=3)
    return trace


def clock_set() -> Trace:
    """p's clock is the worker's; s's is set forward by 8 hours at 25 s. Both are measured every 10 s, with an error of
    0.5 ms; each event took 5 ms.

    Events at 1, 21, 31 and 45 s. s has the second at 21.005 s, behind the last measurement before the step, so its
    clock is off by 0, with a bound of 8 h + 0.5 ms, as the next measurement says; the third at 8 h + 31.005 s is behind
    the first one after it, as the fourth. Latency 5, error 0.5 + 0.5 = 1 of three, so p50 1; p99 and max 8 h + 1 ms.
    """
    trace = Trace("clock set")
    for at in range(0, 60_000, 10_000):
        trace.clock("p", 0, 0.5, at=at)
        trace.clock("s", *((0, 0.5) if at < 25_000 else (-8 * HOUR, 0.5)), at=at + (0 if at < 25_000 else 8 * HOUR))
    trace.subscribed("s", "a")
    for number, at in enumerate((1_000, 21_000, 31_000, 45_000), start=1):
        trace.published("p", "a", number, at=at)
        trace.notified("s", "a", number, at=at + 5 + (0 if at < 25_000 else 8 * HOUR))
    return trace


def popular() -> Trace:
    """110 events of c on stage 1 and 10 of a on stage 0, nobody subscribed; two days apart.

    c has 1000 * 110 / 120 = 916.67 of 1,000. Stage 0 holds one topic, so c is suggested for it: [[c], [a]]. f(916.67) =
    0.989, f(83.33) = 0.888: 0.989 > 0.888 + 0.2 does not hold, so no swap. Stage 0 handles 10 own and the 110 of c that
    pass: 91.67 %; stage 1 its 110 own. Stages per event: (110 * 2 + 10 * 1) / 120.
    """
    trace = Trace("popular")
    for number in range(1, 111):
        trace.published("p", "c", number, at=number, stage=1, entry_stage=1, top_stage=0)
    for number in range(1, 11):
        at = 2 * 86_400 * SECOND + number
        trace.published("q", "a", number, at=at, stage=0, entry_stage=0, top_stage=0)
    return trace


TOPICS = (
    "",
    "01",
    "1",
    "007",
    "a/b",
    "a=b",
    "%2F",
    "..",
    "\N{SNOWMAN}\N{ROCKET}",
    "1e3",
    "2024-01-01",
    "A",
    "a",
    "null",
)
"""B79: names that a folder would change, merge or lose."""


def named() -> Trace:
    """Each name is a topic of its own, with one event more than the one before."""
    trace = Trace("na=me/%2F")
    for at, topic in enumerate(TOPICS):
        for number in range(1, at + 2):
            trace.published("p", "x", number).update(topic=topic, topic_id=at + 1)
    return trace


def randomly(seed: int) -> Trace:
    """Anything that rows can hold, and what they can leave out."""
    dice = random.Random(seed)
    trace = Trace(f"random {seed}")
    clients = [f"c{at}" for at in range(dice.randint(2, 5))]
    topics = "abcd"[: dice.randint(1, 4)]
    numbers = dict.fromkeys(topics, 0)
    events = []
    for at in range(dice.randint(20, 60)):
        topic = dice.choice(topics)
        numbers[topic] += 1
        events.append((topic, numbers[topic]))
        if dice.random() < 0.9:
            trace.published(dice.choice(clients), topic, numbers[topic], at=at * 900, **_published(dice, at))
    for client in clients:
        for incarnation in dice.sample((1, 2, 3), dice.choice((1, 1, 2))):
            _session(trace, dice, client, incarnation, events, topics)
    _odds(trace, dice, clients)
    dice.shuffle(trace.rows)
    return trace


def _published(dice: random.Random, at: int) -> dict[str, Any]:
    more: dict[str, Any] = {"stamped": at * 900 + dice.randint(0, 9), "counter": at}
    more["outcome"] = dice.choice(("accepted",) * 9 + ("failed",))
    more["ordering"] = dice.choice(("total",) * 9 + ("fifo", None))
    if dice.random() < 0.8:
        entry = dice.randint(0, 3)
        more |= {"stage": entry, "entry_stage": entry, "top_stage": dice.choice((None, *range(entry + 1)))}
    if dice.random() < 0.8:
        more |= {"entries": dice.choice((None, 1, 4)), "dependencies": dice.choice((None, [], [1, 2], [1, 2, 3, 4]))}
        more |= {"stamp_bytes": dice.choice((None, 7, 90))}
    if dice.random() < 0.1:
        more["published_at"] = None
    return more


def _session(
    trace: Trace, dice: random.Random, client: str, incarnation: int, events: list[tuple[str, int]], topics: str
) -> None:
    more = {"incarnation": incarnation}
    base = dice.randint(0, 5) * 1000.0
    for _ in range(dice.choice((0, 1, 2))):
        trace.clock(client, dice.randint(-20, 20), dice.randint(0, 5), at=base + dice.random(), **more)
    for topic in topics:
        if dice.random() < 0.7:
            trace.subscribed(client, topic, dice.choice((0, 0, 3)), at=base, **more)
        if dice.random() < 0.2:
            trace.unsubscribed(client, topic, dice.choice((None, 5, 9)), at=base + dice.choice((-1, 1, 2)), **more)
            trace.subscribed(client, topic, dice.choice((7, 12)), at=base + 3, **more)
    heard = [event for event in events if dice.random() < 0.8]
    heard += dice.sample(heard, min(3, len(heard)))
    places = sorted(range(len(heard)), key=lambda at: at + dice.choice((0, 0, 0, 1.5, 6)))
    arrivals = [heard[at] for at in places]
    for topic, number in arrivals:
        verdict = dice.choice(("in_order",) * 12 + ("late", "duplicate", "before", "retained", "fifo"))
        at = 50_000 * dice.choice((0, 0, 0, 1)) + number * 900 + dice.randint(0, 1100)
        given: dict[str, Any] = {"repaired": dice.choice((False, False, False, None, True)), **more}
        if dice.random() < 0.05:
            given["delivered_at"] = None
        trace.notified(client, topic, number, verdict, at=at, arrived=at - dice.randint(0, 300), **given)


def _odds(trace: Trace, dice: random.Random, clients: list[str]) -> None:
    for client in clients:
        if dice.random() < 0.5:
            trace.gap(client, "a", 2, 2 + dice.randint(0, 3), dice.choice(("lost", "skipped")))
        if dice.random() < 0.3:
            trace.row("dropped", client, count=dice.randint(1, 5))
    trace.row("gap", clients[0], number=3, detail=None)
    trace.row("opened", "watcher", detail="strict")
    trace.rows.append({**trace.row("published", clients[0]), "client": None})
    trace.rows.append({**trace.row("notified", clients[0], verdict="in_order"), "kind": None})


def everything() -> list[dict[str, Any]]:
    """All of them, as rows of runs beside each other; and a row without a run."""
    traces = [order(), same(), latency(), clock_set(), popular(), named(), *map(randomly, range(12))]
    rows = [row for trace in traces for row in trace.rows]
    return [*rows, {**Trace("").row("opened", "lonely", at=0, detail="tag"), "run": None}]


__all__ = ["EPOCH_US", "TOPICS", "everything", "us"]
