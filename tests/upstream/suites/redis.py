"""redis-py's own tests of publish/subscribe, with a real server, in both protocols."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..suite import Pass, Services, Suite

TESTS = ("tests/test_pubsub.py", "tests/test_asyncio/test_pubsub.py")
MOCKED = "it calls the class's method with a mock in place of the object, which has no super()"
AT = "tests/test_asyncio/test_pubsub.py::TestPubSubHandleMessageMetrics::"
CLUSTER = "it needs a cluster, whose client is the library's own"
NOT_APPLICABLE = {
    "tests/test_pubsub.py::*_cluster": CLUSTER,
    "tests/test_pubsub.py::*::test_pubsub_shardnumsub": CLUSTER,
    "tests/test_pubsub.py::*::test_ssubscribe_multiple_channels_*": CLUSTER,
    "tests/test_pubsub.py::*::test_generator_handles_concurrent_mapping_changes": CLUSTER,
    "tests/test_pubsub.py::*::test_get_sharded_message_timeout_is_respected": CLUSTER,
    "tests/test_pubsub.py::*::test_get_sharded_message_timeout_with_published_message": CLUSTER,
    "tests/test_pubsub.py::*::test_get_sharded_message_timeout_zero_returns_immediately": CLUSTER,
    "tests/test_pubsub.py::*::test_get_sharded_message_multiple_channels_with_timeout": CLUSTER,
    "tests/*test_pubsub.py::*::test_resubscribe_shard_channels_different_slots_same_node*": CLUSTER,
    "tests/test_pubsub.py::TestBaseException::test_base_exception": (
        "it patches a read that blocks without anything to read; here nothing is read until there is something"
    ),
    f"{AT}test_handle_message_records_metric_for_message_type": MOCKED,
    f"{AT}test_handle_message_records_metric_for_pmessage_type": MOCKED,
    f"{AT}test_handle_message_does_not_record_metric_for_*_type": MOCKED,
}


def swap() -> None:
    """Put our packages and modules in the place of the library's."""
    import redis

    import inorder.redis
    import inorder.redis.asyncio
    import inorder.redis.client

    ours: dict[str, Any] = {"redis": inorder.redis, "redis.asyncio": inorder.redis.asyncio}
    for name, package in ours.items():
        package.__path__.extend(sys.modules[name].__path__)  # what is not ours is the library's
    sys.modules.update(ours)
    sys.modules["redis.client"] = inorder.redis.client
    sys.modules["redis.asyncio.client"] = inorder.redis.asyncio.client
    assert redis.Redis is not inorder.redis.Redis
    for module in (inorder.redis.client, inorder.redis.asyncio.client):
        module.PubSub._add_order = look_at


def look_at(pubsub: Any, message: dict[str, Any], inorder: Any) -> None:
    """The tests compare whole messages, which have one more key here: it is looked at, and left out."""
    channel = message["channel"]
    try:
        has_name = bool(channel if isinstance(channel, str) else channel.decode())
    except UnicodeDecodeError:
        has_name = False
    assert (inorder.verdict, inorder.sequence is not None) == (
        ("in_order", True) if has_name else ("unsequenced", False)
    ), message


@contextmanager
def server(*arguments: str) -> Iterator[Services]:
    """Start a Redis server for the tests."""
    from inorder.testing.services import RedisServer

    with RedisServer() as running:
        yield Services(arguments=("--redis-url", f"{running.url}/9", *arguments))


SUITE = Suite(
    "redis",
    ("tests", "pyproject.toml"),
    swap,
    (
        Pass("publish/subscribe, RESP 3", TESTS, True, NOT_APPLICABLE, lambda: server("--protocol", "3")),
        Pass("publish/subscribe, RESP 2", TESTS, True, NOT_APPLICABLE, lambda: server("--protocol", "2")),
    ),
)
