"""The client's machine as a whole, by what it says of itself; its parts have tests of their own."""

from __future__ import annotations

from inorder.endpoint.effects import AskBroker
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.routing import Subscribed as Subscription
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.wire import Subscribed, TopicInfo, TopicStart


class Still:
    """A clock that stands."""

    def now(self) -> float:
        return 1.0

    uptime = now


def subscription(text: str) -> Subscription:
    return Subscription("m", mqtt_filter(text), "total", 0, True)


def test_a_topic_that_another_filter_of_the_same_change_covers_goes_on() -> None:
    """R8: the stages keep it as it was, so they tell no base of it; forgotten here it would begin in the middle."""
    endpoint = Endpoint("strict", Still())
    endpoint.reached({0}, 0)
    first = endpoint.change([subscription("t/1"), subscription("t/2")])
    endpoint.broker_answered(first)
    topics = [TopicInfo(number, "m", f"t/{number}", 0) for number in (1, 2)]
    endpoint.receive(Subscribed(1, [TopicStart(each, 5, []) for each in topics]))
    assert endpoint.describe()["clock"] == {1: 5, 2: 5}
    removed = [("m", mqtt_filter("t/1")), ("m", mqtt_filter("t/2"))]
    second = endpoint.change([subscription("+/1")], removed)
    assert endpoint.describe()["clock"] == {1: 5}
    assert [each.change for each in endpoint.take() if isinstance(each, AskBroker)] == [first, second]
