"""What clients say of numbers is believed as far as a stage can know it: R19's ``after``, ranges of Settle."""

from __future__ import annotations

import pytest
from tests.core.cluster import Cluster, arrive, base_of, entries, reader

from inorder.protocol.wire import Frame, NewEvent, NumberState, Settled, StampedEvent, Timestamps, TopicInfo
from inorder_worker.sequencer.claims import may_pass
from inorder_worker.sequencer.commands import Create, OpenSession, SaveNumbers, SettleNumbers, StageSettings, Tick
from inorder_worker.sequencer.rides import SettleRide
from inorder_worker.sequencer.state import Snapshot, StageState
from inorder_worker.sequencer.topic_manager import NumberRecord, Session

CHECKED = StageSettings(session_timeout_ms=20_000, ended_kept_ms=600_000)
FOREVER = 10**9


def cluster_of(settings: StageSettings = CHECKED, **topics: int) -> Cluster:
    """Stages, with a liar that must prove what it says, and a publisher that need not."""
    cluster = Cluster(dict(topics), settings=settings)
    cluster.open("liar", proves=True)
    cluster.open("p")
    return cluster


def answers(frames: list[Frame]) -> list[list[int]]:
    return [frame.forgotten for frame in frames if isinstance(frame, Timestamps)]


def forgotten(cluster: Cluster, client: str, name: str, after: list[int], *, at: int = 0, counter: int = 50) -> bool:
    """Ask for a timestamp; tell whether it will never have a number."""
    frames = cluster.step(at, Create(client, 1, 0, [NewEvent(counter, cluster.ids[name], after)]))
    return [counter] in answers([*frames, *cluster.run()])


@pytest.mark.parametrize("client", ["liar", "p"])
def test_r19_a_number_that_was_not_given_is_never_stored(client: str) -> None:
    """Neither one that will never be given, nor the next one: that event would follow this one, and each would wait for
    the other."""
    cluster = cluster_of(a=0, b=0)
    first, second = (reader(cluster.subscribe(name, "a", "b")) for name in ("r", "s"))
    cluster.stamp("p", "a")
    for named in (FOREVER, 2, 2**63 - 1):
        assert forgotten(cluster, client, "b", [1, named])
    assert forgotten(cluster, client, "b", [99, 1]), "no topic has this id"
    follower, next_one = cluster.stamp(client, "b", after=[1, 1]), cluster.stamp("p", "a")
    for module in (first, second):
        assert arrive(module, StampedEvent(0, 1, 1, [])) == ["1:1"]
        assert arrive(module, next_one) == []
        assert arrive(module, follower) == ["2:1", "1:2"]
    cluster.subscribe("late", "a")
    assert base_of(cluster.subscribe("late", "a", "b"), 2) == {1: 2}, "who begins later waits for nothing else"


def test_r19_a_number_of_a_topic_that_a_stage_does_not_know_does_not_pass() -> None:
    assert not may_pass(StageState(Snapshot(0, 2)), Session("p", 1), [99, 1])


@pytest.mark.parametrize(
    ("stage", "proves", "named", "later"),
    [(2, True, [5, 3], 5), (2, True, [3, 5], 5), (2, False, [5], 0), (0, True, [5], 0), (1, True, [5], 0)],
    ids=["the highest counts", "it rises", "believed anyhow", "further up", "here"],
)
def test_r19_what_passed_a_stage_may_be_named_there_if_it_is_of_a_topic_further_down(
    stage: int, proves: bool, named: list[int], later: int
) -> None:
    """What is above was looked at by nobody yet; it may be further down after a change of the order."""
    state, session = StageState(Snapshot(1, 3)), Session("p", 1, proves=proves)
    state.add_topic(TopicInfo(1, "m", "t", stage))
    for number in named:
        assert may_pass(state, session, [1, number]) is (stage != 1)
    assert session.vouched.get(1, 0) == later


@pytest.mark.parametrize("client", ["liar", "p"])
def test_r19_what_nobody_reads_together_is_kept_for_who_begins_it_later(client: str) -> None:
    cluster = cluster_of(a=0, b=0)
    cluster.subscribe("r", "a")
    cluster.subscribe("s", "b")
    cluster.open("q")
    cluster.stamp("q", "a")
    assert entries(cluster.stamp(client, "b", after=[1, 1])) == {}
    assert base_of(cluster.subscribe("r", "a", "b"), 2) == {1: 1}


def test_what_a_client_says_of_numbers_in_the_wrong_form_is_of_no_effect() -> None:
    cluster = cluster_of(a=0)
    cluster.stamp("p", "a")
    (answer,) = cluster.step(0, SettleNumbers("p", 1, 1, [1, 1], [1], [1, 1, 1, 1]))
    assert answer == Settled(0, 0, 1, [])
    assert cluster.ask("a", 1, 1).answers[0].state is NumberState.ABANDONED


def test_r19_of_a_topic_further_down_a_client_may_name_what_came_by() -> None:
    cluster = cluster_of(top=0, above=0, below=1)
    cluster.subscribe("r", "top", "above", "below")
    cluster.stamp("liar", "below")
    assert forgotten(cluster, "liar", "top", [3, 1]), "nothing behind it came up yet"
    cluster.stamp("liar", "top", at=1)
    assert entries(cluster.stamp("liar", "above", after=[3, 1])) == {1: 1, 3: 1}, "it came up with the one on top"
    assert forgotten(cluster, "liar", "above", [3, 2], counter=60)


def test_r19_who_need_not_prove_it_is_believed_of_topics_further_down() -> None:
    cluster = cluster_of(top=0, below=1)
    cluster.subscribe("r", "top", "below")
    cluster.stamp("p", "below")
    assert entries(cluster.stamp("p", "top", after=[2, 1])) == {2: 1}


def test_r19_a_number_is_looked_at_by_its_stage_on_the_way() -> None:
    cluster = cluster_of(top=0, middle=1, below=2)
    cluster.subscribe("r", "top", "middle")
    cluster.stamp("p", "middle")
    assert forgotten(cluster, "liar", "top", [2, 2], at=2)
    assert entries(cluster.stamp("liar", "top", at=2, after=[2, 1])) == {2: 1}


def test_r19_what_is_said_when_a_request_is_asked_again_counts_for_nothing() -> None:
    """Its number is known, so nobody looks at what it follows; so the stages above must not believe it either."""
    cluster = cluster_of(top=0, below=1)
    cluster.subscribe("r", "top", "below")
    first = cluster.stamp("liar", "top", at=1)
    again = cluster.request("liar", "top", at=1, counter=first.counter, after=[2, FOREVER]) or cluster.run()
    assert [first] in [frame.events for frame in again if isinstance(frame, Timestamps)]
    assert forgotten(cluster, "liar", "top", [2, FOREVER])


def test_r19_of_a_topic_further_up_a_number_counts_when_its_stage_has_proved_it() -> None:
    cluster = cluster_of(top=0, below=1)
    cluster.subscribe("r", "top", "below")
    cluster.stamp("p", "top")
    lie, truth = (cluster.stamp("liar", "below", after=[1, number]) for number in (FOREVER, 1))
    assert (entries(lie), entries(truth)) == ({}, {1: 1})
    cluster.subscribe("late", "top")
    begun = cluster.subscribe("late", "top", "below")
    assert base_of(begun, 2) == {1: 1}, "the number that was a lie is in no base"
    module = reader(begun)
    assert arrive(module, cluster.stamp("p", "below")) == ["2:3"]


def test_r19_who_need_not_prove_it_waits_for_no_stage_above() -> None:
    cluster = cluster_of(top=0, below=1)
    cluster.subscribe("r", "top", "below")
    cluster.stamp("p", "top")
    assert [entries(each) for each in cluster.request("p", "below", after=[1, 1])] == [{1: 1}]


def test_r19_what_a_stage_cannot_add_to_is_stamped_to_the_end_its_log_may_serve_it() -> None:
    """Its number is never void where the topic has a log (R18), so readers sort it by all that came before it."""
    cluster = cluster_of(top=0, middle=1, low=2)
    cluster.rule("low")
    cluster.all_subscribe(("r", "s"), "top", "low")
    cluster.step(1, OpenSession("new", 1, first=9, anywhere=9, proves=True))  # it has dropped an earlier session
    for stage in (0, 2):
        cluster.step(stage, OpenSession("new", 1, proves=True))
    cluster.stamp("p", "top")
    cluster.step(2, Create("new", 1, 0, [NewEvent(1, cluster.ids["low"], [], b"x", [1, 1])]))
    frames = cluster.run()
    assert [frame.abandoned for frame in frames if isinstance(frame, Timestamps)] == [[1, 3, 1]]
    (answer,) = cluster.ask("low", 1, 1).answers
    assert (answer.state, answer.deps, answer.logged) == (NumberState.CONFIRMED, [1, 1], True)


# -- saved clocks (R18) ------------------------------------------------------------------------------------------


def test_r18_a_clock_is_not_saved_beyond_what_was_given() -> None:
    """Else what comes later would count as done with, and be skipped by who resumes."""
    cluster = cluster_of(a=0)
    cluster.open("d")
    cluster.subscribe("d", "a", durable=True)
    cluster.stamp("p", "a")
    cluster.step(0, SaveNumbers("d", 1, 1, [1, FOREVER]))
    cluster.stamp("p", "a")
    cluster.open("d", 2)
    (start,) = cluster.subscribe("d", "a", incarnation=2, durable=True).topics
    assert (start.saved, start.reached) == (1, 2)


# -- ranges of Settle (R16) --------------------------------------------------------------------------------------


class Counting(dict[int, NumberRecord]):
    """Records that count how often one is looked up."""

    looked_up = 0

    def get(self, number: int, default: object = None) -> NumberRecord | None:  # type: ignore[override]
        self.looked_up += 1
        return super().get(number)

    def __getitem__(self, number: int) -> NumberRecord:
        self.looked_up += 1
        return super().__getitem__(number)


def test_r16_a_range_costs_what_its_client_has_in_it() -> None:
    cluster = cluster_of(a=0)
    manager = cluster.stages[0]._state.topics[1]
    for client in ["liar", "liar", *["p"] * 500]:
        cluster.stamp(client, "a")
    manager.records = records = Counting(manager.records)
    cluster.step(0, SettleNumbers("liar", 1, 1, [1, 1, 2**63 - 1], []))
    assert records.looked_up == 3
    assert [each.state for each in list(records.values())[:3]] == [NumberState.CONFIRMED] * 2 + [NumberState.PENDING]
    cluster.step(0, SettleNumbers("gone", 1, 1, [1, 1, 2**63 - 1], []))
    assert records.looked_up == 4, "nor does one without a session"


def test_r14_what_becomes_of_numbers_goes_on_only_to_where_a_topic_has_moved() -> None:
    """A ride waits until its stage takes it, however long that is away."""
    cluster = cluster_of(top=0, below=1)
    number = cluster.stamp("p", "below").number
    told = SettleNumbers("p", 1, 1, [1, 1, 1, 2, number, number], [])
    cluster.step(1, told)
    assert cluster.waiting(1, 0) == []
    second = cluster.stamp("p", "below").number
    cluster.reorder("top below", "")
    cluster.run()
    cluster.step(1, SettleNumbers("p", 1, 2, [2, second, second], []))
    assert [type(each) for each in cluster.waiting(1, 0)] == [SettleRide]
    cluster.run()
    assert cluster.ask("below", second, second).answers[0].state is NumberState.CONFIRMED


def test_r14_r16_what_a_session_never_had_does_not_go_on_and_nothing_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rides wait for a stage that is away as long as it is; what is too much is given up in the end, and told so."""
    monkeypatch.setattr("inorder_worker.sequencer.settling.MAX_PASSED_ON", 3, raising=False)
    cluster = cluster_of(top=0, below=1)
    cluster.open("liar")
    numbers = [cluster.stamp("p", "below").number for _ in range(5)]
    cluster.reorder("top below", "")
    cluster.run()
    for _ in range(10):
        for client in ("liar", "never here"):
            cluster.step(1, SettleNumbers(client, 1, 1, [2, 1, 5] * 5, [2, 1, 5], [2, 1, 5]))
    assert cluster.waiting(1, 0) == []
    told = [cluster.step(1, SettleNumbers("p", 1, each, [2, each, each], [])) for each in numbers]
    assert all(isinstance(each, Settled) for frames in told for each in frames)
    assert len(cluster.waiting(1, 0)) == 3
    cluster.run()
    cluster.now += 60_000
    cluster.step(0, Tick())
    states = [each.state for each in cluster.ask("below", 1, 5).answers]
    assert states == [NumberState.CONFIRMED] * 3 + [NumberState.ABANDONED] * 2
    cluster.reorder("top", "below")
    cluster.run()
    cluster.reorder("top below", "")
    cluster.run()
    cluster.step(1, SettleNumbers("p", 1, 9, [2, 5, 5], []))
    assert len(cluster.waiting(1, 0)) == 1, "each change of the order moves other numbers"
