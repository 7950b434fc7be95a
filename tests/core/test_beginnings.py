"""Topics that begin anew beside others that go on (R12), and in another domain."""

from __future__ import annotations

from tests.core.cluster import seen
from tests.core.readers import get, new_reader, start_of

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import Left


def test_r12_of_what_is_held_that_of_a_topic_that_expires_is_let_go_of_and_the_rest_goes_on() -> None:
    module = new_reader(a=0, b=0)
    module.lapse()
    assert get(module, 1, 1) + get(module, 2, 1) == []
    assert seen(module.expired([1], 1.0)) == []
    assert [each.topic for each in module.describe()["on_hold"]] == [2]
    assert seen(module.renewed(2.0)) == ["2:1"]


def test_r12_an_event_that_waits_for_a_number_of_a_topic_that_expires_waits_for_its_new_start() -> None:
    module = new_reader(Bounded(buffer=9), a=0, b=0)
    assert get(module, 2, 1, 1, 3) == []
    assert seen(module.expired([1], 1.0)) == []
    assert seen(module.subscribed([start_of(1, 5)], 2.0, filters=False)) == ["gap 1:1-5 expired", "2:1"]


def test_r22_what_is_only_read_on_ends_where_all_begins_anew() -> None:
    module = new_reader(a=0, b=0)
    module.leave([1], 0.0)
    module.read_through({1: 5}, 0.0, at_once=False)
    assert [type(each) for each in module.expired([1, 2], 1.0)] == [Left]
    assert (set(module.left), set(module.clock), dict(module.interrupted)) == (set(), set(), {2: 1})


def test_another_domains_events_of_topics_that_do_not_begin_go_out_without_an_order() -> None:
    """They came while nobody knew which topics begin; afterwards a subscription is one as ever."""
    module = new_reader(a=0)
    module.other_domain(1.0)
    module.subscribing()
    assert seen(module.receive(3, 1, [], None, 1, 1.0)) == []
    assert seen(module.subscribed([start_of(1)], 2.0, filters=False)) == ["3:1 unsequenced"]
    module.subscribing()
    assert seen(module.subscribed([start_of(2, 2)], 3.0, filters=False)) == []
    assert seen(module.receive(2, 1, [], None, 1, 4.0)) == []
    assert module.counts.before == 1
