"""R22 (a): topics that a strict reader has left are read on, in silence, as far as other events may rely on them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.cluster import Cluster, wild
from tests.core.endpoints import SPACE, Hand, info

from inorder.endpoint.changes import Change
from inorder.endpoint.effects import AskBroker, Began, Changed, Effect, Ended, Need
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.outputs import Mode
from inorder.endpoint.routing import Subscription
from inorder.errors import Refused
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.wire import (
    AskNumbers,
    Moved,
    NameTopics,
    NumberAnswer,
    Numbers,
    NumberState,
    Opened,
    Subscribe,
    Subscribed,
    Topics,
    TopicStart,
)
from inorder_worker.sequencer import answers


class Leaving(Hand):
    """A client with ``t/1``, ``t/2`` and ``t/3``, that leaves some."""

    def __init__(self, mode: Mode = "strict") -> None:
        self._to_brokers: list[Change] = []
        super().__init__(mode)
        self.subscribe("t/1", "t/2", "t/3")

    def ask(self, *filters: str, is_at_brokers: bool = False) -> Change:
        """Begin to leave filters; the brokers do what they are asked, and the change is on its way to the stages."""
        removes = [(SPACE, mqtt_filter(each)) for each in filters]
        change = self.endpoint.change([], removes, is_at_brokers=is_at_brokers)
        self.asked = self.brokers()
        return change

    def done(self) -> list[Effect]:
        """See :class:`Hand`; what the brokers are asked for is kept."""
        effects = super().done()
        self._to_brokers += [each.change for each in effects if isinstance(each, AskBroker)]
        return effects

    def cut(self) -> None:
        """What the brokers are asked for has no answer."""
        assert self._to_brokers
        self._to_brokers.clear()

    def brokers(self) -> list[list[str]]:
        """Have the brokers answer; return what they are to unsubscribe from, question by question."""
        asked = []
        while self.done() or self._to_brokers:
            changes, self._to_brokers = self._to_brokers, []
            for change in changes:
                asked.append([filter.text for _, filter in change.unsubscribes])
                self.endpoint.broker_answered(change)
        return [each for each in asked if each]

    def answer(self, **left: int) -> None:
        """The stages answer: the rest goes on, and these (``t1=2``) are to be read up to their numbers."""
        change = self.endpoint.subscriber.change
        assert change is not None
        kept = [TopicStart(info(int(each.filter.name[2:])), 0, []) for each in change.filters if each.filter.name]
        gone = [TopicStart(info(int(name[1:])), number, []) for name, number in left.items()]
        self.endpoint.receive(Subscribed(change.version, kept, left=gone))

    def leave(self, *filters: str, **left: int) -> None:
        self.ask(*filters)
        self.answer(**left)

    def answered(self, topic: int, *answers: NumberAnswer, expired: int = 0) -> None:
        self.endpoint.receive(Numbers(1, topic, list(answers), expired))

    @property
    def reads(self) -> list[int]:
        return sorted(self.endpoint.ordering.clock)


@pytest.fixture
def hand() -> Leaving:
    return Leaving()


def test_r22_a_topic_that_was_left_is_read_up_to_its_number_in_silence(hand: Leaving) -> None:
    """t/2's event says only that t/1's comes before it: what t/1's depends on is left out there."""
    hand.arrive(2, 1, 1, 2)
    hand.leave("t/1", t1=2)
    assert hand.asked == [], "the broker delivers it as long"
    hand.arrive(1, 2, 3, 1)
    hand.arrive(1, 1)
    assert hand.words() == []
    hand.arrive(3, 1)
    assert hand.words() == ["t/3 1 in_order", "t/2 1 in_order"]
    assert hand.reads == [2, 3]
    assert hand.brokers() == [["t/1"]]
    assert sum(hand.endpoint.arrivals.delivered.values()) == 2


def test_r22_the_call_ends_with_the_stages_answer_and_the_broker_is_left_after_that(hand: Leaving) -> None:
    change = hand.ask("t/1")
    hand.answer(t1=1)
    assert [each.change for each in hand.all(Changed)] == [change]
    assert hand.brokers() == []
    hand.arrive(1, 1)
    assert hand.brokers() == [["t/1"]]
    hand.arrive(1, 2)
    assert hand.words() == []


def test_r22_what_is_read_so_far_is_let_go_of_with_the_answer(hand: Leaving) -> None:
    hand.arrive(1, 1)
    assert hand.words() == ["t/1 1 in_order"]
    hand.ask("t/1")
    hand.arrive(1, 2)
    hand.answer(t1=2)
    assert (hand.words(), hand.reads) == ([], [2, 3])


def test_r22_stages_that_do_not_say_how_far_rely_on_nothing_that_is_left(hand: Leaving) -> None:
    """Workers of a former version name every entry."""
    hand.arrive(2, 1, 1, 1)
    hand.ask("t/1")
    assert hand.words() == []
    hand.answer()
    assert hand.words() == ["t/2 1 in_order"]


@pytest.mark.parametrize("make", [lambda: Leaving("tag"), Leaving])
def test_r22_who_waits_for_nobody_or_has_one_topic_left_lets_go_at_once(make: Callable[[], Leaving]) -> None:
    """An event of a topic relies on the topic that is left for a third one."""
    hand = make()
    gone = ["t/1"] if hand.endpoint.ordering.mode == "tag" else ["t/1", "t/3"]
    hand.ask(*gone)
    assert hand.asked == [gone]
    assert not set(hand.reads) & {int(each[2:]) for each in gone}


# -- missing numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [NumberState.CONFIRMED, NumberState.ABANDONED, NumberState.VOID, NumberState.PENDING])
def test_r22_a_missing_number_is_passed_over_when_its_dependencies_are_told_and_met(
    hand: Leaving, state: NumberState
) -> None:
    """Its event is for nobody, so nobody waits for it: neither for a slow publisher, nor to know that it is lost."""
    hand.arrive(2, 1, 1, 1)
    hand.leave("t/1", t1=1)
    hand.pass_time(1.0)
    assert hand.endpoint.ordering.describe()["readers"][1]["missing"]["next_ask"] is not None, "asked for"
    hand.answered(1, NumberAnswer(1, state, [3, 1]))
    assert hand.words() == []
    hand.arrive(3, 1)
    assert hand.words() == ["t/3 1 in_order", "t/2 1 in_order"]
    assert hand.endpoint.ordering.counts.voids == 0


def test_r22_a_pending_number_without_dependencies_is_asked_for_again(hand: Leaving) -> None:
    """Its timestamp may be on its way still."""
    hand.leave("t/1", t1=1)
    hand.pass_time(1.0)
    hand.answered(1, NumberAnswer(1, NumberState.PENDING))
    assert hand.reads == [1, 2, 3]
    hand.time += 1.0
    hand.endpoint.tick()
    assert [each.topic for each in hand.sent(AskNumbers)] == [1]


def test_r22_what_no_stage_knows_any_more_is_not_waited_for(hand: Leaving) -> None:
    hand.arrive(2, 1, 1, 1)
    hand.leave("t/1", t1=2)
    hand.answered(1, expired=2)
    assert (hand.words(), hand.reads) == ([], []), "what t/2 1 leaves out nobody knows any more"
    assert hand.endpoint.ordering.interrupted == {2: 1, 3: 1}


def test_r22_where_the_library_has_unsubscribed_what_is_missing_is_asked_for_at_once(hand: Leaving) -> None:
    hand.ask("t/1", is_at_brokers=True)
    assert hand.asked == [["t/1"]]
    hand.answer(t1=2)
    (asked,) = hand.sent(AskNumbers)
    assert (asked.topic, asked.ranges) == (1, [1, 2])
    hand.answered(1, *(NumberAnswer(each, NumberState.CONFIRMED) for each in (1, 2)))
    assert hand.reads == [2, 3]
    assert hand.brokers() == []


def test_r22_a_left_topic_that_moves_is_asked_for_at_its_new_home(hand: Leaving) -> None:
    hand.leave("t/1", t1=1)
    hand.endpoint.receive(Moved(0, 1, 2, 1, [1, 4]))
    assert [each.stages for each in hand.all(Need)][-1] == {0, 4}
    hand.time += 1.0
    hand.endpoint.tick()
    assert [(each.stage, each.topic) for each in hand.sent(AskNumbers)] == [(4, 1)]


# -- what else happens meanwhile ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["t/1", "t/+"])
def test_r22_a_new_subscription_waits_for_the_end_of_the_old_one(hand: Leaving, text: str) -> None:
    hand.leave("t/1", t1=1)
    hand.endpoint.change([Subscription(SPACE, mqtt_filter(text), "total", 0, True)])
    hand.endpoint.change([Subscription(SPACE, mqtt_filter("t/9"), "total", 0, True)])
    assert hand.sent(Subscribe) == []
    hand.arrive(1, 1)
    assert hand.brokers() == [["t/1"]]
    change = hand.endpoint.subscriber.change
    assert change is not None
    assert [each.filter.text for each in change.filters] == ["t/2", "t/3", text]


def test_r22_a_subscription_to_something_else_does_not_wait(hand: Leaving) -> None:
    hand.leave("t/1", t1=1)
    hand.subscribe("t/9")
    assert hand.reads == [1, 2, 3, 9]
    hand.leave("t/9", t9=0)
    assert (hand.reads, hand.brokers()) == ([1, 2, 3], [["t/9"]])


def test_r22_each_change_is_over_when_its_own_topics_are(hand: Leaving) -> None:
    """What two changes have left ends apart, and a subscription waits for any of it."""
    hand.subscribe("t/4", "t/5")
    hand.leave("t/1", "t/4", t1=0, t4=1)
    hand.leave("t/5", t5=1)
    both = [Subscription(SPACE, mqtt_filter(each), "total", 0, True) for each in ("t/6", "t/4")]
    hand.endpoint.change(both)
    hand.arrive(5, 1)
    assert hand.brokers() == [["t/5"]]
    assert hand.endpoint.subscriber.change is None
    hand.arrive(4, 1)
    assert hand.brokers() == [["t/1", "t/4"]]
    assert hand.endpoint.subscriber.change is not None


def test_r22_an_unordered_subscription_of_what_the_broker_still_delivers_waits(hand: Leaving) -> None:
    """It would end with the old one."""
    hand.subscribe("t/4")
    hand.leave("t/1", "t/4", t1=1, t4=1)
    none = [Subscription(SPACE, mqtt_filter(each), "none", 0, True) for each in ("x/1", "t/1")]
    hand.endpoint.change(none)
    assert hand.brokers() == []
    hand.arrive(1, 1)
    hand.arrive(4, 1)
    assert hand.brokers() == [["t/1", "t/4"]]
    assert hand.endpoint.routes.get(*("m", mqtt_filter("t/1"))) is not None


def test_r22_an_unordered_subscription_of_the_same_topic_goes_on(hand: Leaving) -> None:
    """It is passed through as ever, and the broker goes on delivering for it."""
    hand.subscribe("t/1", ordering="none")
    assert hand.reads == [1, 2, 3]
    hand.answer(t1=1)
    hand.arrive(1, 1)
    assert hand.words() == ["t/1 1 unsequenced"]
    assert (hand.reads, hand.brokers()) == ([2, 3], [])


def test_r22_a_copy_for_the_filter_that_was_left_is_given_to_nobody() -> None:
    hand = Leaving()
    hand.subscribe("+/1", ordering="none")
    hand.leave("t/1", t1=2)
    hand.arrive(1, 1, via=("t/1",))
    hand.arrive(1, 1, via=("+/1",))
    assert hand.words() == ["t/1 1 unsequenced"]


def test_r22_whatever_the_lease_holds_is_not_let_go_before(hand: Leaving) -> None:
    hand.leave("t/1", t1=1)
    hand.pass_time(16.0)
    assert not hand.endpoint.ordering.is_leased
    hand.arrive(1, 1)
    assert hand.reads == [1, 2, 3]
    hand.endpoint.opened(Opened(0, 1, True, 2, 30_000), hand.time)
    assert hand.reads == [2, 3]


def _expire(endpoint: Endpoint) -> None:
    endpoint.opened(Opened(0, 1, False, 0, 30_000), 200.0)


def _another_domain(endpoint: Endpoint) -> None:
    endpoint.leave_domain()
    endpoint.enter_domain(6)


@pytest.mark.parametrize("happens", [_expire, _another_domain])
@pytest.mark.parametrize("is_told", [False, True])
def test_r22_with_the_subscription_all_that_was_left_ends(
    hand: Leaving, happens: Callable[[Endpoint], None], is_told: bool
) -> None:
    hand.arrive(1, 2)
    hand.ask("t/1")
    if is_told:
        hand.answer(t1=2)
    happens(hand.endpoint)
    assert 1 not in hand.reads
    assert not [each for each in hand.words() if each.startswith("t/1")]
    assert not hand.endpoint.ordering.left
    hand.endpoint.reached({0}, 0)
    hand.done()
    hand.answer()
    assert hand.brokers() in ([["t/1"]], [])
    assert not hand.endpoint.subscribing.drains


def test_r22_the_change_is_asked_for_again_on_a_new_connection(hand: Leaving) -> None:
    hand.ask("t/1")
    hand.endpoint.lost([0])
    hand.endpoint.reached({0}, 0)
    assert [each.version for each in hand.sent(Subscribe)] == [2]
    hand.answer(t1=1)
    assert hand.reads == [1, 2, 3]


@pytest.mark.parametrize("is_over", [False, True])
def test_r22_a_client_that_closes_leaves_no_subscription_at_a_broker_that_keeps_sessions(is_over: bool) -> None:
    """Also where the broker is just asked: that call ends with the client."""
    hand = Leaving()
    hand.leave("t/1", t1=1)
    if is_over:
        hand.arrive(1, 1)
        hand.done()
        hand.cut()
    hand.endpoint.stop()
    hand.endpoint.leave()
    hand.endpoint.leave()
    assert hand.brokers() == [["t/1"]]


def test_r22_traces_say_that_a_topic_ended_when_it_was_left() -> None:
    hand = Leaving()
    hand.endpoint.watch()
    hand.arrive(1, 1)
    hand.words()
    hand.endpoint.change([], [(SPACE, mqtt_filter("t/1"))])
    effects = hand.done()
    assert [(each.topic, each.number) for each in effects if isinstance(each, Ended)] == [(1, 1)]
    (asked,) = [each.change for each in effects if isinstance(each, AskBroker)]
    hand.endpoint.broker_answered(asked)
    hand.answer(t1=3)
    hand.arrive(1, 2)
    hand.arrive(1, 2)
    hand.arrive(1, 3)
    assert not [each for each in hand.done() if isinstance(each, Ended | Began)]


# -- topics under wildcards (R13) --------------------------------------------------------------------------------------


@pytest.fixture
def wide() -> Leaving:
    hand = Leaving()
    hand.subscribe("+/+")
    change = hand.endpoint.subscriber.change
    if change is not None:
        hand.endpoint.receive(Subscribed(change.version, [TopicStart(info(each), 0, []) for each in (1, 2, 3)]))
    hand.done()
    return hand


def test_r22_topics_that_were_created_before_the_change_passed_begin_at_0(wide: Leaving) -> None:
    """Nobody has named t/7 to this client, and events that depend on it wait all the time."""
    wide.arrive(2, 1, 7, 2)
    wide.ask("+/+")
    wide.answer(t7=2)
    assert wide.words() == []
    wide.arrive(7, 1)
    wide.arrive(7, 2)
    assert wide.words() == ["t/2 1 in_order"]
    assert wide.reads == [1, 2, 3]
    assert wide.brokers() == [["+/+"]]


@pytest.mark.parametrize("is_at_stages", [False, True])
def test_r22_a_topic_that_is_named_while_its_subscription_is_being_left_is_read_on(
    wide: Leaving, is_at_stages: bool
) -> None:
    wide.arrive(2, 1, 7, 1)
    (asked,) = wide.sent(NameTopics)
    change = wide.endpoint.change([], [(SPACE, mqtt_filter("+/+"))])
    if is_at_stages:
        wide.endpoint.broker_answered(change)
    wide.endpoint.receive(Topics(asked.request, [info(7)]))
    if not is_at_stages:
        wide.endpoint.broker_answered(change)
    wide.arrive(7, 1)
    assert wide.words() == ["t/2 1 in_order"]
    wide.answer(t7=1)
    assert wide.reads == [1, 2, 3]


def test_r22_a_topic_that_waits_for_a_new_start_ends_when_it_is_left(wide: Leaving) -> None:
    """R17: it has had numbers before, of which this client is not to be told again."""
    wide.endpoint.arrivals.learn([info(7)])
    wide.endpoint.subscriber.named([info(7)])
    wide.endpoint.ordering.named([7], [], wide.time)
    wide.arrive(7, 2)
    weaker = wide.endpoint.change([Subscription(SPACE, mqtt_filter("+/+"), "fifo", 0, True)])
    wide.answered(7, expired=1)
    assert wide.endpoint.ordering.interrupted == {1: 1, 2: 1, 3: 1, 7: 1}
    wide.endpoint.broker_answered(weaker)
    wide.answer(t1=0, t2=0, t3=0, t7=9)
    assert (wide.reads, wide.endpoint.describe()["topics"]) == ([1, 2, 3], {each: f"m:t/{each}" for each in (1, 2, 3)})


def test_r22_a_refused_change_lets_go_of_what_it_left(hand: Leaving) -> None:
    """The stages hear nothing of it."""
    adds = [Subscription(SPACE, mqtt_filter("x/1"), "total", 0, True)]
    change = hand.endpoint.change(adds, [(SPACE, mqtt_filter("t/1"))])
    assert hand.endpoint.ordering.left == {1}
    hand.endpoint.broker_answered(change, Refused("no"))
    hand.endpoint.broker_answered(change)
    assert (hand.reads, hand.endpoint.ordering.left) == ([2, 3], set())


def test_r22_ten_thousand_topics_are_let_go_of_at_once_where_nothing_is_missing(wide: Leaving) -> None:
    topics = [info(each) for each in range(10, 10_010)]
    wide.endpoint.arrivals.learn(topics)
    wide.endpoint.subscriber.named(topics)
    wide.endpoint.ordering.named([each.id for each in topics], [], wide.time)
    wide.arrive(10, 2)
    wide.ask("+/+")
    wide.answer(t10=2, **{f"t{each.id}": 0 for each in topics[1:]})
    assert wide.reads == [1, 2, 3, 10]
    wide.arrive(10, 1)
    assert wide.brokers() == [["+/+"]]


# -- the stages' side --------------------------------------------------------------------------------------------------


def _left(answer: Subscribed) -> dict[int, int]:
    return {each.topic.id: each.start for each in answer.left}


@pytest.mark.parametrize("stages", [{"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 1, "c": 2}, {"a": 2, "b": 1, "c": 0}])
def test_r22_the_answer_tells_the_numbers_at_the_homes_of_what_is_left(stages: dict[str, int]) -> None:
    cluster = Cluster(stages)
    cluster.open_all("A", "p")
    assert _left(cluster.subscribe("A", "a", "b", "c")) == {}
    for _ in range(3):
        cluster.stamp("p", "a")
    answer = cluster.subscribe("A", "b", "c")
    assert _left(answer) == {1: 3}
    cluster.stamp("p", "a")
    cluster.change("A", "b", "c", version=2)
    cluster.run()
    again = [frame for _, frame in cluster.frames if isinstance(frame, Subscribed)][-1]
    assert _left(again) == {1: 3}, "asked again: as before"
    assert _left(cluster.subscribe("A", "b")) == {3: 0}, "what an earlier change left is known"
    assert _left(cluster.subscribe("A", "b", anew=True)) == {1: 4, 3: 0}, "its answer may be lost"


def test_r22_topics_of_a_wildcard_are_told_also_those_created_meanwhile_and_in_portions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "MAX_ENTRIES", 200)
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open_all("A", "p")
    cluster.subscribe("A", "a", "b", wild("t/#"))
    ids = [cluster.topic("p", f"t/{each}") for each in range(30)]
    cluster.run()
    cluster.stamp("p", "t/7")
    cluster.change("A", "a", "b")
    parts = [each for each in cluster.run() if isinstance(each, Subscribed)]
    assert [each.more for each in parts] == [*[True] * (len(parts) - 1), False]
    assert len(parts) > 1
    told = {key: number for each in parts for key, number in _left(each).items()}
    assert told == {each: int(each == cluster.ids["t/7"]) for each in ids}


def test_r22_another_process_has_left_nothing() -> None:
    """R18: what it has not been notified of it gets with all that comes before."""
    cluster = Cluster({"a": 0, "b": 0, "c": 0})
    cluster.open("A")
    cluster.subscribe("A", "a", "b", "c", durable=True)
    cluster.open("A", 2)
    assert _left(cluster.subscribe("A", "b", "c", durable=True, incarnation=2)) == {}
