"""Throughput where topics overlap more, where there are many, and where stages are on several workers."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from inorder_bench.match import Aim, Contender, Match, Size, play, rates
from inorder_bench.rows import Result, Say
from inorder_bench.servers import ON_POSTGRESQL, THREE_WORKERS, Servers
from inorder_bench.shapes import SHAPES
from inorder_bench.stamps import Stamps, observe
from inorder_bench.throughput import together

OBSERVED = 0.1
"""Of the events of a match: so many have their timestamps read, in a run of its own."""
AIM_BYTES = Aim("<=", 6.0)
"""Of an entry of a timestamp, on the wire."""

OVERLAP = Match(
    Contender("inorder, MQTT 5", "ordered"),
    (
        Contender("paho, one property, loop_start", "paho_threads", envelope="property"),
        Contender("paho, one property, no threads", "paho_direct", envelope="property"),
        Contender("paho, no property, no threads", "paho_direct"),
        Contender("JetStream, windowed", "jetstream", "nats"),
    ),
    {"shape": "overlap"},
    0.5,
)
POWER_LAW = Match(
    Contender("inorder, MQTT 5", "ordered"),
    (
        Contender("paho, one property, no threads", "paho_direct", envelope="property"),
        Contender("paho, no property, no threads", "paho_direct"),
    ),
    {"shape": "power-law"},
    0.2,
)
_APART, _MANY = {"shape": "stages-apart"}, {"shape": "stages-16"}
STAGES = Match(
    Contender("inorder, three stages on three workers", "ordered", workers=THREE_WORKERS),
    (
        Contender("inorder, three stages, a publisher for each", "ordered", workers=THREE_WORKERS, settings=_APART),
        Contender("inorder, three stages, 16 publishers", "ordered", workers=THREE_WORKERS, settings=_MANY),
        Contender("inorder, one stage", "ordered", workers=ON_POSTGRESQL),
        Contender("paho, one property, no threads", "paho_direct", envelope="property"),
    ),
    {"shape": "stages"},
    0.5,
)
STAGES_AWAITED = Match(
    Contender("inorder, three stages, awaited", "ordered", workers=THREE_WORKERS),
    (
        Contender(
            "inorder, three stages, a publisher for each, awaited", "ordered", workers=THREE_WORKERS, settings=_APART
        ),
        Contender("inorder, three stages, 16 publishers, awaited", "ordered", workers=THREE_WORKERS, settings=_MANY),
        Contender("inorder, one stage, awaited", "ordered", workers=ON_POSTGRESQL),
        Contender("inorder, one stage, 16 publishers, awaited", "ordered", workers=ON_POSTGRESQL, settings=_MANY),
    ),
    {"shape": "stages", "window": 1},
    0.1,
)


def overlapping(size: Size, say: Say) -> Result:
    """W3: 16 topics in turn, all of which two subscribers have: each timestamp has an entry for each of the others."""
    with Servers() as servers:
        result, stamps = _played("W3", OVERLAP, servers, size, say)
    ours = msgspec.structs.replace(
        result.rows[0], aim=f"{AIM_BYTES} bytes an entry", reached=AIM_BYTES.is_reached(stamps.bytes_an_entry)
    )
    return msgspec.structs.replace(result, rows=[ours, *result.rows[1:]])


def many_topics(size: Size, say: Say) -> Result:
    """W4: 1,000 topics, ten publishers and 100 subscribers with ten topics each; popular ones more often."""
    with Servers() as servers:
        return _played("W4", POWER_LAW, servers, size, say)[0]


def several_workers(size: Size, say: Say) -> Result:
    """W7: six topics on three stages, each stage on a worker of its own, all on one PostgreSQL. Two publishers go round
    the stages, or 16; or three keep to the topics of one stage each."""
    with Servers() as servers:
        result, stamps = _played("W7", STAGES, servers, size, say)
        awaited = rates("W7", play(STAGES_AWAITED, servers, size, say, stamp=round(stamps.bytes)))
    return together([result, awaited])


def _played(workload: str, match: Match, servers: Servers, size: Size, say: Say) -> tuple[Result, Stamps]:
    """Read timestamps first, so that bare clients carry as many bytes, then play. A warm-up has each topic once."""
    size = replace(size, warm_up=max(size.warm_up, len(SHAPES[match.changes["shape"]].topics)))
    few = {"events": size.share(match.share * OBSERVED), "warm_up": size.warm_up, **match.changes}
    stamps = observe(match.ours.job(servers, size.repeats, 0, few))
    say(f"timestamps: {stamps.bytes:.1f} bytes, {stamps.entries:.1f} entries, {stamps.bytes_an_entry:.2f} bytes each")
    result = rates(workload, play(match, servers, size, say, stamp=round(stamps.bytes)))
    more = {
        "stamp_bytes": stamps.bytes,
        "stamp_entries": stamps.entries,
        "bytes_an_entry": stamps.bytes_an_entry,
    }
    ours = msgspec.structs.replace(result.rows[0], more=result.rows[0].more | more)
    return msgspec.structs.replace(result, rows=[ours, *result.rows[1:]]), stamps
