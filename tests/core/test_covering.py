"""Many filters at once: they say what each says alone (R13), and their number is no factor of what a name costs."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.costs import ROOM, steps

from inorder.endpoint.subscriber import Subscriber
from inorder.protocol.access import Permissions
from inorder.protocol.covering import Coverage, FilterSet
from inorder.protocol.filters import MAX_SLASHES, MAX_WILDCARDS
from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import Access, LogRule, Logs, SpaceFilter, Subscribed, TopicInfo, TopicStart
from inorder_worker.sequencer.commands import ChangeSubscription, CreateTopics, OpenSession, SetLogRule
from inorder_worker.sequencer.stage import Stage

LEVELS = st.sampled_from(["", "a", "b", "$a", "é"])
NAMES = st.lists(LEVELS, min_size=1, max_size=5).map("/".join)
MQTT = st.lists(st.one_of(LEVELS, st.sampled_from(["+", "#"])), min_size=1, max_size=5).map("/".join)
GLOBS = st.lists(st.sampled_from(["a", "b", "/", "é", "*", "?", "[ab]", "[^a]", "[^]", "[]", "\\*", "["]), max_size=6)
FILTERS = st.one_of(
    NAMES.map(lambda text: Filter(text, FilterKind.EXACT, text)),
    MQTT.map(lambda text: Filter(text, FilterKind.MQTT, text)),
    GLOBS.map("".join).map(lambda text: Filter(text, FilterKind.REDIS, text)),
)


def mqtt(text: str) -> Filter:
    return Filter(text, FilterKind.MQTT, text)


@given(st.lists(st.tuples(st.sampled_from("mr"), FILTERS), max_size=8), st.sampled_from("mr"), NAMES)
def test_a_set_covers_what_any_of_its_filters_covers(filters: list[tuple[str, Filter]], space: str, name: str) -> None:
    expected = any(each == space and filter.covers(name) for each, filter in filters)
    assert FilterSet(filters).covers(space, name) is expected


@given(st.lists(st.tuples(FILTERS, st.booleans()), max_size=8), st.lists(NAMES, max_size=6))
def test_a_topic_is_plain_if_one_filter_that_covers_it_cannot_read_properties(
    filters: list[tuple[Filter, bool]], names: list[str]
) -> None:
    topics = [SimpleNamespace(id=at, space="s", name=name) for at, name in enumerate(names)]
    reading = {at: [reads for each, reads in filters if each.covers(name)] for at, name in enumerate(names)}
    expected = {at for at, each in reading.items() if each}, {at for at, each in reading.items() if not all(each)}
    assert Coverage(SpaceFilter("s", each, reads) for each, reads in filters).of(topics) == expected


@pytest.mark.parametrize("tail", ["a", "+"])
def test_filters_full_of_wildcards_cannot_branch_out(tail: str) -> None:
    """All mixtures of ``a`` and ``+``, and then as many levels as there may be, at whose end nothing fits: in a tree of
    levels, a name of ``a`` goes down all of the branches."""

    def cost(branching: int) -> int:
        rest = f"/{tail}" * (MAX_SLASHES - branching) + "/x"
        found = FilterSet(("s", mqtt("/".join(each) + rest)) for each in product("a+", repeat=branching))
        name = "a/" * MAX_SLASHES + "a"
        assert not found.covers("s", name)
        return steps(lambda: found.covers("s", name))

    assert MAX_WILDCARDS >= 2**9
    assert cost(9) < 1.1 * cost(2)


def test_globs_that_fit_nearly_everywhere_cost_what_one_costs() -> None:
    def cost(count: int) -> int:
        found = FilterSet(("s", Filter(f"*a?a*[ab]{each}", FilterKind.REDIS, "")) for each in range(count))
        return steps(lambda: found.covers("s", "ab" * 500))

    assert cost(50) < 1.1 * cost(1)


def test_a_long_name_is_read_as_far_as_filters_go() -> None:
    found = FilterSet(("s", mqtt(f"+/+/{each}")) for each in range(100))
    assert steps(lambda: found.covers("s", "a/" * 30_000)) < 100


def test_a_new_topic_is_tried_once_on_all_rules_of_logs() -> None:
    def cost(rules: int) -> int:
        stage = Stage(0, 1)
        stage.step(OpenSession("p", 1), 0)
        for at in range(rules):
            stage.step(SetLogRule("", 0, 0, LogRule("s", mqtt(f"+/{at}/x")), is_on=True), 0)
        new = [("s", f"a/{each}") for each in range(200)]
        return steps(lambda: stage.step(CreateTopics("p", 1, 1, new), 0))

    assert cost(40) < 1.1 * cost(1)


def test_a_new_topic_is_tried_once_on_all_subscriptions_with_the_same_wildcards() -> None:
    """A thousand readers of everything are no thousand looks at each topic, and who has no wildcards is no look."""

    def cost(readers: int, *filters: Filter) -> int:
        stage = Stage(0, 1)
        stage.step(OpenSession("p", 1), 0)
        for at in range(readers):
            stage.step(OpenSession(f"reader{at}", 1), 0)
            wanted = [SpaceFilter("s", each, qos=at % 3) for each in filters]
            stage.step(ChangeSubscription(f"reader{at}", 1, 1, wanted, bounded=False), 0)
        new = [("s", f"a/{each}") for each in range(200)]
        return steps(lambda: stage.step(CreateTopics("p", 1, 1, new), 0))

    assert cost(20, mqtt("a/#")) < 1.2 * cost(1, mqtt("a/#"))
    known = [Filter(f"b/{each}", FilterKind.EXACT, f"b/{each}") for each in range(200)]
    assert cost(20, *known) < 1.1 * cost(1, *known)


def is_within(wanted: Filter, allowed: Filter) -> bool:
    """The plain definition: level by level, and of two globs as far as can be seen."""
    if wanted.kind is FilterKind.EXACT:
        return allowed.covers(wanted.name)
    if wanted.kind is not allowed.kind:
        return False
    text, its = wanted.text, allowed.text
    if wanted.kind is FilterKind.REDIS:
        return text == its or (its.endswith("*") and not set("*?[\\") & set(its[:-1]) and text.startswith(its[:-1]))
    if text.startswith("$") and its[:1] in ("+", "#"):
        return False
    levels, allowed_levels = text.split("/"), its.split("/")
    for at, level in enumerate(allowed_levels):
        if level == "#":
            return True
        if at >= len(levels) or levels[at] == "#" or level not in ("+", levels[at]):
            return False
    return len(levels) == len(allowed_levels)


@given(st.lists(FILTERS, max_size=5), FILTERS)
def test_a_filter_is_within_a_set_where_it_is_within_one_of_it(allowed: list[Filter], wanted: Filter) -> None:
    limits = FilterSet(("s", each) for each in allowed)
    assert limits.contains("s", wanted) == any(is_within(wanted, each) for each in allowed)
    assert not limits.contains("t", wanted)


def test_many_wildcards_are_compared_with_many_limits_at_once() -> None:
    def cost(limits: int) -> int:
        allowed = [f"s:+/{each}/#" for each in range(limits)] + ["s:a/#"]
        permissions = Permissions(Access("client", allowed, allowed))
        wanted = [SpaceFilter("s", mqtt(f"a/{each}/+")) for each in range(100)]
        return steps(lambda: permissions.check_filters(wanted))

    assert cost(200) < 1.1 * cost(2)


def test_many_rules_of_logs_are_compared_with_many_limits_once() -> None:
    """Who asks again which logs there are is told from memory which of them its token lets it see."""

    def cost(limits: int) -> tuple[int, int]:
        allowed = [f"s:x/{each}/#" for each in range(limits)]
        permissions = Permissions(Access("client", allowed, allowed))
        rules = [LogRule("s", mqtt(f"a/{each}/+")) for each in range(20)] + [LogRule("s", mqtt("x/1/b"))]
        topics = [TopicInfo(each, "s", f"x/{each}/y", 0) for each in range(50)]
        seen = Logs(1, rules, topics)

        def look() -> None:
            found = permissions.visible(seen)
            assert isinstance(found, Logs)
            assert (found.rules, len(found.topics)) == (rules[-1:], min(limits, 50))

        return steps(look), steps(look)

    (first, again), (more, more_again) = cost(40), cost(400)
    assert again < first / 4
    assert more_again < 1.1 * again
    assert more < 11 * first


def test_who_takes_and_leaves_everything_again_and_again_tries_each_topic_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that were made meanwhile; and who has other wildcards gets what these cover."""
    tried, whole = list[str](), FilterSet.covers

    def covers(self: FilterSet, space: str, name: str) -> bool:
        tried.append(name)
        return whole(self, space, name)

    monkeypatch.setattr(FilterSet, "covers", covers)
    stage, client = Stage(0, 1), "reader"
    stage.step(OpenSession(client, 1), 0)

    def topics_of(version: int, *filters: Filter) -> set[int]:
        wanted = [SpaceFilter("s", each, reads_properties=False) for each in filters]
        stage.step(ChangeSubscription(client, 1, version, wanted, bounded=False), 0)
        known = stage._state.overlaps.get(client)
        assert known is None or known.active == known.plain
        return set() if known is None else known.active

    stage.step(CreateTopics(client, 1, 1, [("s", f"a/{each}") for each in range(20)]), 0)
    tried.clear()
    assert topics_of(1, mqtt("a/+")) == set(range(1, 21))
    assert topics_of(2) == set()
    first = len(tried)
    stage.step(CreateTopics(client, 1, 1, [("s", "a/new"), ("s", "b")]), 0)
    assert topics_of(3, mqtt("a/+")) == set(range(1, 22))
    assert topics_of(4, mqtt("b/#")) == {22}
    other = len(tried)
    assert topics_of(5, mqtt("a/+")) == set(range(1, 22))
    assert (first, tried.count("a/3"), len(tried)) == (20, 3, other)


def test_a_client_that_leaves_one_of_many_topics_looks_at_each_once() -> None:
    def cost(size: int) -> int:
        subscriber = Subscriber(bounded=False)
        filters = [SpaceFilter("s", Filter(str(each), FilterKind.EXACT, str(each))) for each in range(size)]
        subscriber.begin(filters)
        starts = [TopicStart(TopicInfo(each + 1, "s", str(each), 0), 0, []) for each in range(size)]
        assert subscriber.completed(Subscribed(1, starts))
        found = steps(lambda: subscriber.dropped(filters[1:]))
        assert subscriber.dropped(filters[1:]) == [1]
        return found

    assert cost(200) < ROOM * cost(100)


def test_a_name_is_tried_once_on_all_that_a_token_allows() -> None:
    def cost(size: int) -> int:
        permissions = Permissions(Access("client", publish=[f"s:+/{each}" for each in range(size)]))
        permissions.check_publish("s", f"a/{size - 1}")
        return steps(lambda: permissions.check_publish("s", f"a/{size - 1}"))

    assert cost(100) < 1.1 * cost(10)
