"""Which subscription an arriving topic belongs to."""

from __future__ import annotations

from inorder.endpoint.routing import Ordering, Route, Routes, Subscription
from inorder.protocol.filters import mqtt_filter


def _subscribed(text: str, ordering: Ordering = "total", space: str = "m") -> Subscription:
    return Subscription(space, mqtt_filter(text), ordering, 0, True)


def test_a_route_is_that_of_the_subscriptions_there_are_now() -> None:
    routes = Routes()
    assert routes.of("m", "t/1") is None
    routes.add(_subscribed("t/+", "none"))
    assert routes.of("m", "t/1") == Route("none", "t/+", 1)
    assert (routes.of("other", "t/1"), routes.of("m", "u/1")) == (None, None)
    routes.add(_subscribed("t/1", "fifo"))
    routes.add(_subscribed("t/#", "fifo"))
    assert routes.of("m", "t/1") == Route("fifo", "t/1", 3), "of equals the oldest counts"
    routes.add(_subscribed("t/#"))
    assert routes.of("m", "t/1") == Route("total", "t/#", 3)
    assert [each.filter.text for each in routes.all()] == ["t/+", "t/1", "t/#"]
    assert routes.get("m", mqtt_filter("t/#")) == _subscribed("t/#")
    routes.remove("m", mqtt_filter("t/#"))
    assert routes.of("m", "t/1") == Route("fifo", "t/1", 2)
    routes.remove("m", mqtt_filter("t/#"))
    routes.remove("m", mqtt_filter("t/1"))
    routes.remove("m", mqtt_filter("t/+"))
    assert routes.of("m", "t/1") is None
