"""As fast as possible: publishers with a window of open publishes, and the time to the last notification."""

from __future__ import annotations

from inorder.protocol.stamp import PlainStamp, encode_stamp
from inorder_bench.match import Aim, Contender, Match, Size, play, rates
from inorder_bench.rows import Result, Say
from inorder_bench.servers import Servers

_311 = {"protocol": 4}
_AWAITED = {"window": 1}
_ABOVE = Aim(">", 1.0)
_SHARE_AWAITED = 0.05
"""Of the events, where each publish waits for the one before: as many take twenty times as long."""

MQTT5 = Match(
    Contender("inorder, MQTT 5", "ordered"),
    (
        Contender("paho, MQTT 5, one property, loop_start", "paho_threads", envelope="property", aim=Aim(">=", 0.75)),
        Contender("paho, MQTT 5, one property, no threads", "paho_direct", envelope="property", aim=Aim(">=", 0.75)),
        Contender("paho, MQTT 5, no property, loop_start", "paho_threads"),
        Contender("paho, MQTT 5, no property, no threads", "paho_direct"),
        Contender(
            "paho, MQTT 5, one property, QoS 1", "paho_threads", envelope="property", aim=_ABOVE, settings={"qos": 1}
        ),
        Contender("JetStream, windowed", "jetstream", "nats", aim=_ABOVE),
        Contender("JetStream, windowed, synced", "jetstream", "nats, synced"),
    ),
)
MQTT311 = Match(
    Contender("inorder, MQTT 3.1.1", "ordered", settings=_311),
    (
        Contender(
            "paho, MQTT 3.1.1, loop_start", "paho_threads", envelope="payload", aim=Aim(">=", 0.75), settings=_311
        ),
        Contender(
            "paho, MQTT 3.1.1, no threads", "paho_direct", envelope="payload", aim=Aim(">=", 0.75), settings=_311
        ),
    ),
)
REDIS = Match(
    Contender("inorder, Redis", "ordered", "redis"),
    (
        Contender("redis-py, pipelines", "redis_pipelines", "redis", aim=Aim(">=", 0.7)),
        Contender("redis-py, tasks", "redis_tasks", "redis", aim=Aim(">=", 0.7)),
        Contender("Redis Stream, pipelines, appendfsync always", "redis_streams", "redis, appendfsync always"),
    ),
)
MQTT5_AWAITED = Match(
    Contender("inorder, MQTT 5, awaited", "ordered"),
    (
        Contender("JetStream, awaited", "jetstream", "nats", aim=_ABOVE),
        Contender("JetStream, awaited, synced", "jetstream", "nats, synced"),
    ),
    _AWAITED,
    _SHARE_AWAITED,
)
REDIS_AWAITED = Match(
    Contender("inorder, Redis, awaited", "ordered", "redis"),
    (Contender("Redis Stream, awaited, appendfsync always", "redis_streams", "redis, appendfsync always", aim=_ABOVE),),
    _AWAITED,
    _SHARE_AWAITED,
)


def stamp_bytes() -> int:
    """Return the length of a timestamp of two topics, as it is on the wire."""
    return len(encode_stamp(PlainStamp(2**31, 2, 20_000, [1, 20_000])))


def two_and_two(size: Size, say: Say) -> Result:
    """W1: two publishers, two subscribers, two topics, 100 bytes, over MQTT 5, MQTT 3.1.1 and Redis."""
    matches = MQTT5, MQTT5_AWAITED, MQTT311, REDIS, REDIS_AWAITED
    with Servers() as servers:
        return together([rates("W1", play(match, servers, size, say, stamp=stamp_bytes())) for match in matches])


def together(results: list[Result]) -> Result:
    """Return several results as one."""
    return Result(
        rows=[row for each in results for row in each.rows],
        left_out={name: why for each in results for name, why in each.left_out.items()},
    )
