"""What a change of the topic order would do, told before it is done (R2, R14, R15)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.cluster import Cluster

from inorder.protocol.wire import Frame
from inorder_controlplane.planning import MAX_ERRORS, Fault, Moved, NotAnOrder, Ordered, PresentOrder, moves_between
from inorder_worker.sequencer.bits import bit_set
from inorder_worker.sequencer.rides import StampRide


def present(stages: list[list[int]], **more: dict[int, object]) -> PresentOrder:
    """An order whose topics have the attributes given by name, each by topic; groups as sets of topics."""
    places = {topic: place for place, topic in enumerate(topic for stage in stages for topic in stage)}
    groups = {topic: bit_set([places[each] for each in group]) for topic, group in more.pop("group", {}).items()}  # type: ignore[attr-defined]
    more["group"] = groups  # type: ignore[assignment]
    topics = {
        topic: Ordered(topic, f"m:t{topic}", at, **{name: of[topic] for name, of in more.items() if topic in of})  # type: ignore[arg-type]
        for at, stage in enumerate(stages)
        for topic in stage
    }
    return PresentOrder(stages, topics)


def faults(call: object, *arguments: object) -> list[Fault]:
    with pytest.raises(NotAnOrder) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.faults


# -- the forms of a change ---------------------------------------------------------------------------------------------


def test_a_whole_order_names_every_topic_once() -> None:
    now = present([[1, 2], [3]])
    assert now.whole([[3], [2, 1]]) == [[3], [2, 1]]
    assert faults(now.whole, [[3, 9], [3]]) == [
        Fault("stages.0.1", "there is no topic 9"),
        Fault("stages.1.0", "topic 3 (m:t3) is named twice"),
        Fault("stages", "topic 1 (m:t1) is missing"),
        Fault("stages", "topic 2 (m:t2) is missing"),
    ]


def test_a_whole_order_has_as_many_stages_as_there_are() -> None:
    assert faults(present([[1], [2]]).whole, [[1, 2]]) == [Fault("stages", "there are 2 stages, not 1")]


def test_a_refusal_names_a_bounded_number_of_topics() -> None:
    found = faults(present([list(range(1, 1001))]).whole, [[]])
    assert len(found) == MAX_ERRORS + 1
    assert found[-1] == Fault("stages", "and 900 more like that")
    found = faults(present([[1]]).whole, [[1, *[1] * 1000, *range(2, 1002)]])
    assert found[:: MAX_ERRORS + 1] == [
        Fault("stages.0.1001", "there is no topic 2"), Fault("stages.0.1", "topic 1 (m:t1) is named twice"),
    ]  # fmt: skip
    assert found[MAX_ERRORS :: MAX_ERRORS + 1] == [Fault("stages", "and 900 more like that")] * 2


def test_a_swap_changes_two_places() -> None:
    now = present([[1, 2], [3, 4]])
    assert now.swapped(1, 4) == [[4, 2], [3, 1]]
    assert faults(now.swapped, 1, 1) == [Fault("swap", "topic 1 (m:t1) is named twice")]
    assert faults(now.swapped, 7, 8) == [Fault("swap.0", "there is no topic 7"), Fault("swap.1", "there is no topic 8")]


def test_a_move_goes_to_the_front_of_a_stage_or_to_a_rank_in_it() -> None:
    now = present([[1, 2], [3, 4]])
    assert now.moved(3, 0) == [[3, 1, 2], [4]]
    assert now.moved(1, 1, 4) == [[2], [3, 4, 1]]
    assert now.moved(1, 0, 2) == [[2, 1], [3, 4]]
    assert faults(now.moved, 1, 1, 1) == [Fault("move.rank", "rank 1 is not allowed; on stage 1 it would be 2 to 4")]
    assert faults(now.moved, 1, 2) == [
        Fault("move.stage", "stage 2 is not allowed; there are the stages 0 to 1"),
    ]
    assert faults(now.moved, 9, 0) == [Fault("move.topic", "there is no topic 9")]
    assert faults(present([[], [1]]).moved, 1, 0, 2) == [
        Fault("move.rank", "rank 2 is not allowed; on stage 0 it would be 1")
    ]


# -- moves -------------------------------------------------------------------------------------------------------------


def test_those_that_make_room_do_not_move() -> None:
    now = present([[1, 2, 3], [4, 5]])
    assert now.plan(now.moved(5, 0)).moves == [Moved(5, 1, 0, 5, 1)]
    assert now.plan(now.moved(1, 0, 3)).moves == [Moved(1, 0, 0, 1, 3)]


def test_both_topics_of_a_swap_are_told_of() -> None:
    now = present([[1, 2, 3]])
    assert now.plan(now.swapped(1, 2), named=(1, 2)).moves == [Moved(2, 0, 0, 2, 1), Moved(1, 0, 0, 1, 2)]


def test_topics_that_were_made_meanwhile_have_not_moved() -> None:
    assert moves_between([[1], [2]], [[2], [1, 3, 4]]) == [Moved(2, 1, 0, 2, 1), Moved(1, 0, 1, 1, 2)]
    assert moves_between([[1], [2]], [[1, 3], [2]]) == [Moved(3, 1, 0, 3, 2)]


@st.composite
def _two_orders(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    topics, count = draw(st.integers(0, 8)), draw(st.integers(1, 4))

    def order() -> list[list[int]]:
        stages: list[list[int]] = [[] for _ in range(count)]
        for topic in draw(st.permutations(range(1, topics + 1))):
            stages[draw(st.integers(0, count - 1))].append(topic)
        return stages

    return order(), order()


@given(_two_orders())
def test_the_moves_make_the_new_order(orders: tuple[list[list[int]], list[list[int]]]) -> None:
    """Taken out and put in at their new ranks, the movers alone turn one order into the other."""
    before, after = orders
    moves = present(before).plan(after).moves
    movers = {each.topic for each in moves}
    left = [topic for stage in before for topic in stage if topic not in movers]
    for each in moves:  # by their new rank, so each finds the ones above it in place
        left.insert(each.to_rank - 1, each.topic)
    assert left == [topic for stage in after for topic in stage]
    assert {each.topic for each in moves if each.from_stage != each.to_stage} == {
        topic for at, stage in enumerate(after) for topic in stage if topic not in before[at]
    }


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_r2_a_timestamp_visits_every_stage_up_to_the_highest_of_its_group() -> None:
    now = present([[1], [2], [3]], rate={1: 1.0, 2: 1.0, 3: 2.0}, group={3: {1}, 1: {3}})
    plan = now.plan(now.whole([[1], [3], [2]]))
    assert plan.rates_known
    assert plan.visits_now == (1 + 1 + 2 * 3) / 4  # topic 3 passes stage 1 too, though nothing of its group is there
    assert plan.visits_then == (1 + 1 + 2 * 2) / 4


def test_without_rates_every_topic_counts_the_same() -> None:
    now = present([[1], [2]], group={2: {1}}, rate={1: 0.0})
    plan = now.plan(now.stages)
    assert (plan.rates_known, plan.visits_now) == (False, 1.5)


def test_an_order_without_topics_has_a_cost_too() -> None:
    assert present([[], []]).plan([[], []]).visits_now == 1.0


class Counting(Cluster):
    """Stages that count the rides of timestamps between them."""

    rides = 0

    def move(self, origin: int, target: int, rides: int = 1) -> list[Frame]:
        self.rides += sum(isinstance(each, StampRide) for each in self.waiting(origin, target)[:rides])
        return super().move(origin, target, rides)


def test_the_visits_are_those_of_real_stages() -> None:
    """The stages of the core make the timestamps, before and after the change; counted are the stages of their way."""
    cluster = Counting({"a": 0, "b": 1, "c": 1, "d": 2, "e": 2}, stages=3)
    subscriptions = {"s1": "a b d", "s2": "a b", "s3": "d b e", "s4": "e c"}
    for publisher in cluster.ids:  # one for each topic, so that nobody's order (R19) is in it
        cluster.open(publisher)
    for client, names in subscriptions.items():
        cluster.open(client)
        cluster.subscribe(client, *names.split())
    events = {"a": 1, "b": 4, "c": 2, "d": 7, "e": 3}
    shares = [{cluster.ids[name] for name in names.split()} for names in subscriptions.values()]
    topics = {
        topic: Ordered(
            topic,
            f"m:{name}",
            cluster.stages[0].stage_of(topic) or 0,
            rate=events[name],
            group=bit_set(
                [
                    at
                    for at, each in enumerate(cluster.ids.values())
                    if sum({each, topic} <= mine for mine in shares) > 1
                ]
            ),
        )
        for name, topic in cluster.ids.items()
    }

    def counted() -> float:
        cluster.rides = 0
        for name, count in events.items():
            for _ in range(count):
                cluster.stamp(name, name)
        return 1 + cluster.rides / sum(events.values())

    ids = cluster.ids
    now = PresentOrder([[ids["a"]], [ids["b"], ids["c"]], [ids["d"], ids["e"]]], topics)
    plan = now.plan(now.swapped(ids["d"], ids["a"]))
    assert counted() == pytest.approx(plan.visits_now)
    cluster.reorder("d", "b c", "a e")
    cluster.run()
    assert counted() == pytest.approx(plan.visits_then)
    assert plan.visits_now != plan.visits_then


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_an_operator_is_warned() -> None:
    now = present([[1], [2], [3]], pinned={1: True}, group={2: {1}, 1: {2}})
    assert now.plan(now.stages).warnings == ["that is the present topic order"]
    plan = now.plan(now.swapped(1, 3))
    assert [each.partition(":")[0] for each in plan.warnings] == [
        "topics change their stage",
        "pinned to their stage, so the change would be refused",
    ]
    assert plan.warnings[1].endswith(": 1 (m:t1)")
    assert now.fixed(plan.stages) == [1]
    assert now.plan(now.swapped(2, 3)).warnings[-1] == "a timestamp would visit 1.67 stages in the mean, 1.33 now"
