"""Durable subscriptions at the stages and at a subscriber (R12, R18)."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.core.cluster import SPACE, Cluster, base_of, stamps
from tests.core.durables import change, end_sessions, publish, save, starts

from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Found, Output
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.names import exact
from inorder.protocol.pairs import flat
from inorder.protocol.wire import (
    AskDurable,
    Done,
    Failure,
    Frame,
    NewEvent,
    SpaceFilter,
    StampedEvent,
    Subscribed,
)
from inorder_worker.sequencer.commands import (
    ChangeSubscription,
    Create,
    CreateTopics,
    EndDurable,
    LeaveSession,
    OpenSession,
    Reply,
    SaveNumbers,
    StageSettings,
    Tick,
    TrimLog,
)
from inorder_worker.sequencer.quotas import NAME_BYTES
from inorder_worker.sequencer.sessions import Holder
from inorder_worker.sequencer.stage import Stage


@pytest.fixture(params=[1, 3])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Topics a, b and c, all logged, on one stage or on three."""
    stages = {"a": 0, "b": 0, "c": 0} if request.param == 1 else {"a": 0, "b": 1, "c": 2}
    cluster = Cluster(stages)
    cluster.open_all("d", "p")
    cluster.rule("a", "b", "c")
    return cluster


def test_it_stays_and_resumes_from_its_saved_clock(cluster: Cluster) -> None:
    change(cluster, "d", "a", "b")
    publish(cluster, "a", 5)
    publish(cluster, "b", 3)
    save(cluster, "d", a=3, b=1)
    end_sessions(cluster, "d")
    publish(cluster, "a", 2)
    cluster.open("d", 2)
    found = starts(change(cluster, "d", "a", "b", incarnation=2))
    assert [(found[name].start, found[name].saved) for name in "ab"] == [(3, 3), (1, 1)]
    assert [(found[name].repeats, found[name].reached) for name in "ab"] == [(5, 7), (3, 3)]


def test_what_may_have_been_notified_is_known_by_the_end_of_the_session(cluster: Cluster) -> None:
    """While its session lives a client may go on notifying (R12), however cut off it is."""
    change(cluster, "d", "a")
    publish(cluster, "a", 5)
    for stage in range(len(cluster.stages)):
        cluster.step(stage, LeaveSession("d", 1))
    publish(cluster, "a", 2)
    cluster.open("d", 2)
    assert starts(change(cluster, "d", "a", incarnation=2))["a"].repeats == 7


def test_clocks_only_rise_and_those_of_a_former_process_count_no_more(cluster: Cluster) -> None:
    change(cluster, "d", "a")
    publish(cluster, "a", 5)
    save(cluster, "d", a=3)
    save(cluster, "d", a=2)
    cluster.open("d", 2)
    assert starts(change(cluster, "d", "a", incarnation=2))["a"].start == 3
    save(cluster, "d", 1, a=5)
    cluster.open("d", 3)
    assert starts(change(cluster, "d", "a", incarnation=3))["a"].start == 3


def test_a_clock_ahead_of_its_topic_hides_nothing(cluster: Cluster) -> None:
    """Numbers of another store (one was restored): what is published next must not count as done with."""
    change(cluster, "d", "a")
    publish(cluster, "a", 2)
    save(cluster, "d", a=500)
    cluster.open("d", 2)
    found = starts(change(cluster, "d", "a", incarnation=2))["a"]
    assert (found.start, found.saved) == (2, 2)
    publish(cluster, "a", 2)
    save(cluster, "d", 2, a=3)
    cluster.open("d", 3)
    assert starts(change(cluster, "d", "a", incarnation=3))["a"].start == 3


def test_a_number_that_was_not_given_is_not_done_with(cluster: Cluster) -> None:
    """Else its event would be skipped when it comes: here c is at home at the bottom stage, which knows its numbers."""
    change(cluster, "d", "c")
    publish(cluster, "c", 2)
    save(cluster, "d", c=500)
    publish(cluster, "c", 2)
    cluster.open("d", 2)
    assert starts(change(cluster, "d", "c", incarnation=2))["c"].start == 2


def test_an_answer_that_is_given_again_is_the_same(cluster: Cluster) -> None:
    """R11: the connection broke before the client heard where it begins; what came since comes from the broker."""
    publish(cluster, "a", 2)
    first = starts(change(cluster, "d", "a"))
    publish(cluster, "a", 3)
    again = starts(change(cluster, "d", "a"))
    assert (first["a"].start, again["a"].start, again["a"].base) == (2, 2, first["a"].base)


def test_a_log_that_was_trimmed_is_resumed_where_it_begins(cluster: Cluster) -> None:
    """With what was before it as the base: b:1 is before a:2, which nobody has any more."""
    for client in ("one", "two"):
        cluster.open(client)
        cluster.subscribe(client, "a", "b")
    change(cluster, "d", "a", "b")
    publish(cluster, "a")
    publish(cluster, "b")
    publish(cluster, "a", 4)
    home = cluster.stages[0].stage_of(1)
    assert home is not None
    deps = [part for number in (1, 2, 3) for part in cluster.log[1][number].deps]
    cluster.step(home, TrimLog(1, 3, deps))
    cluster.open("d", 2)
    found = starts(change(cluster, "d", "a", "b", incarnation=2))["a"]
    assert (found.start, found.saved, found.base) == (3, 0, [2, 1])


@pytest.mark.parametrize(("saved", "start"), [(1, 3), (2, 3), (3, 3), (4, 4), (5, 5)])
def test_a_resumed_topic_misses_nothing_that_the_log_has_and_nothing_is_taken_for_missing(
    cluster: Cluster, saved: int, start: int
) -> None:
    """The log begins with a:4. Who is done with a:3 resumes there; who is not begins there, with what was before it."""
    change(cluster, "d", "a")
    publish(cluster, "a", 5)
    save(cluster, "d", a=saved)
    home = cluster.stages[0].stage_of(1)
    assert home is not None
    cluster.step(home, TrimLog(1, 3, [2, 7]))
    cluster.open("d", 2)
    found = starts(change(cluster, "d", "a", incarnation=2))["a"]
    assert (found.start, found.saved, found.reached) == (start, saved, 5)
    assert found.base == ([2, 7] if saved < start else [])


def test_one_that_begins_anew_resumes_from_its_saved_clock(cluster: Cluster) -> None:
    """Its stage has forgotten what it misses, which the application is not done with (R17): the same process comes back
    for it, and where the log does not have it any more it is told so."""
    change(cluster, "d", "a", "b")
    publish(cluster, "a", 4)
    publish(cluster, "b", 2)
    save(cluster, "d", a=2)
    cluster.rule("b", is_on=False)
    filters = [SpaceFilter(SPACE, exact(name)) for name in "ab"]
    command = ChangeSubscription("d", 1, 2, filters, False, durable=True, anew=True)
    frames = cluster.step(len(cluster.stages) - 1, command) + cluster.run()
    found = starts(next(each for each in frames if isinstance(each, Subscribed)))
    assert [(found[name].start, found[name].saved) for name in "ab"] == [(2, 2), (2, 0)]


def test_a_version_more_of_the_same_process_begins_nothing_anew(cluster: Cluster) -> None:
    """What it has it goes on with; only what is new to it begins, behind everything."""
    change(cluster, "d", "a")
    publish(cluster, "a", 4)
    save(cluster, "d", a=2)
    publish(cluster, "b", 2)
    found = starts(change(cluster, "d", "a", "b", version=2))
    assert [(found[name].start, found[name].saved) for name in "ab"] == [(4, -1), (2, -1)]
    publish(cluster, "b", 1)
    cluster.open("d", 2)
    found = starts(change(cluster, "d", "a", "b", incarnation=2))
    assert [found[name].start for name in "ab"] == [2, 2]


def test_the_answer_to_a_change_that_was_overtaken_says_nothing_of_where_a_clock_begins() -> None:
    """R11: its client did not take it, and began with the next one, behind what was published meanwhile."""
    cluster = Cluster({"a": 0, "b": 1})
    cluster.open_all("d", "p")
    cluster.rule("a")
    filters = [SpaceFilter(SPACE, exact("a"))]
    cluster.step(1, ChangeSubscription("d", 1, 1, filters, False, durable=True))
    cluster.move(1, 0)  # its answer is on its way back
    for _ in range(2):
        cluster.request("p", "a", content=b"x")
    assert starts(change(cluster, "d", "a", version=2))["a"].start == 2
    cluster.open("d", 2)
    assert starts(change(cluster, "d", "a", incarnation=2))["a"].start == 2


def test_a_topic_without_a_log_begins_behind_everything(cluster: Cluster) -> None:
    cluster.rule("c", is_on=False)
    change(cluster, "d", "c")
    publish(cluster, "c", 4)
    cluster.open("d", 2)
    found = starts(change(cluster, "d", "c", incarnation=2))["c"]
    assert (found.start, found.saved) == (4, 0)


@pytest.mark.parametrize("stages", [1, 2])
def test_the_base_of_a_beginning_counts_until_something_of_it_is_done_with(stages: int) -> None:
    """R8: d subscribes behind a:2, which follows b:1 by its publisher; its first event must still wait for b:1."""
    cluster = Cluster({"b": 0, "a": stages - 1})
    for client in ("d", "p"):
        cluster.open(client)
    cluster.rule("a", "b")
    change(cluster, "d", "b")
    (first,) = publish(cluster, "b")
    cluster.stamp("p", "a", at=stages - 1, after=[1, first.number] if stages > 1 else [])
    assert base_of(change(cluster, "d", "a", "b", version=2), 2) == {1: 1}
    cluster.open("d", 2)
    assert base_of(change(cluster, "d", "a", "b", incarnation=2), 2) == {1: 1}
    publish(cluster, "a")
    save(cluster, "d", 2, a=2)
    cluster.open("d", 3)
    assert base_of(change(cluster, "d", "a", "b", incarnation=3), 2) == {}


def test_topics_that_leave_the_subscription_have_no_clock_any_more(cluster: Cluster) -> None:
    change(cluster, "d", "a", "b")
    publish(cluster, "b", 2)
    save(cluster, "d", b=1)
    change(cluster, "d", "a", version=2)
    found = starts(change(cluster, "d", "a", "b", version=3))
    assert (found["b"].start, found["b"].saved) == (2, -1)
    change(cluster, "d", version=4)
    bottom = cluster.stages[-1]
    assert bottom.durable(AskDurable(1), "d").filters == []


def test_the_clock_is_in_the_snapshot(cluster: Cluster) -> None:
    change(cluster, "d", "a")
    publish(cluster, "a", 3)
    save(cluster, "d", a=2)
    bottom = len(cluster.stages) - 1
    cluster.stages[bottom] = Stage.restore(cluster.stages[bottom].snapshot())
    assert [each.filter.text for each in cluster.stages[bottom].durable(AskDurable(1), "d").filters] == ["a"]
    cluster.open("d", 2)
    assert starts(change(cluster, "d", "a", incarnation=2))["a"].start == 2


def test_an_operator_ends_it_only_when_its_client_knows(cluster: Cluster) -> None:
    bottom = len(cluster.stages) - 1
    change(cluster, "d", "a")

    def end() -> str:
        (answer,) = cluster.step(bottom, EndDurable("op", 1, 1, "d"))
        assert isinstance(answer, Done)
        return answer.refusal

    assert "connected" in end()
    cluster.step(bottom, LeaveSession("d", 1))
    assert "session_timeout" in end()
    end_sessions(cluster, "d")
    assert end() == ""
    cluster.run()
    assert not any(subscribed(stage) for stage in cluster.stages), "it only lingers"
    assert cluster.stages[bottom]._state.clocks == {}
    assert "no subscription" in end()


def test_a_durable_subscription_that_is_not_durable_any_more_expires(cluster: Cluster) -> None:
    change(cluster, "d", "a")
    cluster.open("d", 2)
    cluster.subscribe("d", "a", incarnation=2)
    assert cluster.stages[-1].durable(AskDurable(1), "d").filters == []
    end_sessions(cluster, "d", 2)
    assert not subscribed(cluster.stages[0])


def subscribed(stage: Stage) -> bool:
    known = stage._state.overlaps.get("d")
    return known is not None and bool(known.active)


# -- at the subscriber -----------------------------------------------------------------------------------------------


class Process:
    """One process of a durable subscriber: what it notified of, and how far its application is."""

    def __init__(self, cluster: Cluster, incarnation: int) -> None:
        self.cluster, self.incarnation = cluster, incarnation
        self.module = OrderingModule("strict")
        self.seen: list[tuple[int, int]] = []
        self.repeats: dict[int, int] = {}
        self.now = cluster.now / 1000
        cluster.open("d", incarnation)
        self.module.subscribing()
        answer = change(cluster, "d", "a", "b", "c", incarnation=incarnation)
        self.repeats = {each.topic.id: each.repeats for each in answer.topics}
        self.record(self.module.subscribed(answer.topics, self.now, filters=False))

    def record(self, outputs: list[Output]) -> None:
        for each in outputs:
            assert isinstance(each, Sequenced), each
            self.seen.append((each.topic, each.number))

    def arrive(self, event: StampedEvent) -> None:
        self.record(self.module.receive(event.topic, event.number, event.deps, "live", 1, self.now))

    def repair(self) -> None:
        names = {number: name for name, number in self.cluster.ids.items()}
        for question in self.module.questions(self.now):
            answer = self.cluster.ask(names[question.topic], *question.ranges)
            self.record(self.module.answered(answer, self.now))
        for wanted in self.module.fetches(self.now):
            page = self.cluster.read_log(wanted.topic, wanted.ranges, limit=3)
            found = [Found(each.number, each.deps, each.content, 1) for each in page.events]
            outputs = self.module.fetched(wanted.topic, page.ranges, page.through, found, self.now)
            self.record(outputs)

    def save(self, count: int) -> None:
        """The application is done with the first ``count`` notifications."""
        numbers = dict(self.seen[:count])  # the last of each topic
        self.cluster.step(len(self.cluster.stages) - 1, SaveNumbers("d", self.incarnation, 1, flat(numbers)))


@pytest.mark.parametrize("seed", range(60))
def test_history_and_live_events_merge_in_one_order_whatever_is_lost_and_whenever_it_restarts(seed: int) -> None:
    """A witness that is always there, and a durable subscriber that is killed again and again, with half of what the
    broker sends lost: everything comes at least once, repeats are below the mark, and no pair is seen in two orders."""
    rng = random.Random(seed)
    stages = rng.choice(({"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 1, "c": 2}, {"a": 1, "b": 0, "c": 1}))
    cluster = Cluster(stages, settings=StageSettings(number_retention=rng.choice((32, 10_000))))
    cluster.open_all("p", "q")
    cluster.rule("a", "b", "c")
    witness = OrderingModule("strict")
    witness.subscribed(cluster.subscribe("w", "a", "b", "c").topics, 0.0, filters=False)
    order: list[tuple[int, int]] = []
    process = Process(cluster, 1)
    done: list[tuple[int, int]] = []
    processes = [process]
    for _ in range(120):
        cluster.now += 300
        process.now = cluster.now / 1000
        client, name = rng.choice("pq"), rng.choice("abc")
        command = Create(client, 1, 0, [NewEvent(cluster.counters.get(client, 0) + 1, cluster.ids[name], [], b"x")])
        cluster.counters[client] = command.events[0].counter
        home = cluster.stages[0].stage_of(cluster.ids[name])
        assert home is not None
        (event,) = stamps(cluster.step(home, command) + cluster.run())
        cluster.settle(client, name, confirmed=[event.number])
        outputs = witness.receive(event.topic, event.number, event.deps, None, 1, 0.0)
        order += [(each.topic, each.number) for each in outputs]  # type: ignore[union-attr]
        if rng.random() < 0.5:
            process.arrive(event)
        if rng.random() < 0.3:
            process.repair()
        if rng.random() < 0.06:
            count = rng.randint(0, len(process.seen))
            process.save(count)
            done += process.seen[:count]
            for stage in range(len(cluster.stages)):
                cluster.step(stage, LeaveSession("d", process.incarnation))
            process = Process(cluster, process.incarnation + 1)
            processes.append(process)
    for _ in range(200):
        process.now += 1.0
        for topic in cluster.ids.values():
            process.module.heads([topic, max(cluster.log.get(topic, {0: None}))], process.now)
        process.repair()
    done += process.seen
    assert len(order) == 120
    assert set(done) == set(order)
    place = {each: at for at, each in enumerate(order)}
    for earlier, later in itertools.pairwise(processes):
        for topic, number in set(earlier.seen) & set(later.seen):
            assert number <= later.repeats[topic]
    for each in processes:
        assert [place[one] for one in each.seen] == sorted(place[one] for one in each.seen)
        assert len(each.seen) == len(set(each.seen))


def test_a_session_that_opens_again_tells_what_the_stage_has(cluster: Cluster) -> None:
    """The same process: its subscription is there whatever became of its session, so it does not begin anew."""
    change(cluster, "d", "a")
    end_sessions(cluster, "d")
    frames = cluster.step(len(cluster.stages) - 1, OpenSession("d", 1))
    assert (frames[0].known, frames[0].version) == (False, 1)  # type: ignore[attr-defined]


# -- how many a token may have ---------------------------------------------------------------------------------------


def keep(stage: Stage, client: str, *names: str, version: int = 1, durable: bool = True) -> list[Frame]:
    filters = [SpaceFilter(SPACE, exact(name)) for name in names]
    effects = stage.step(ChangeSubscription(client, 1, version, filters, False, durable), 0)
    return [each.frame for each in effects if isinstance(each, Reply)]


def refusals(frames: list[Frame]) -> list[str]:
    return [each.message for each in frames if isinstance(each, Failure)]


@pytest.mark.parametrize("most", [0, 2])
def test_an_owner_has_so_many_of_them(most: int) -> None:
    """Whoever is away counts, also behind a snapshot; one that is there may change. Without a bound there are
    any."""
    stage = Stage(0, 1)
    for client in ("a", "b", "c", "other"):
        owner = "other" if client == "other" else "desk"
        stage.step(OpenSession(client, 1, owner=owner, max_subscriptions=most), 0)
    assert not refusals(keep(stage, "a", "x")) + refusals(keep(stage, "b", "x")) + refusals(keep(stage, "other", "x"))
    stage.step(LeaveSession("a", 1), 0)
    stage.step(Tick(), 10**6)
    stage = Stage.restore(stage.snapshot())
    too_many = "the token may have 2 durable subscriptions; it has 2, and one more is too many"
    assert refusals(keep(stage, "c", "new")) == ([too_many] if most else [])
    if most:
        assert stage.topic_order() == [[1]], "nothing of it is done"
    assert not refusals(keep(stage, "c", "x", version=2, durable=False))
    assert not refusals(keep(stage, "b", "x", "y", version=2)), "it is there"
    assert not refusals(keep(stage, "b", version=3))
    assert not refusals(keep(stage, "c", "x", version=3)), "there is room again"


def test_an_owner_makes_topics_with_so_many_bytes_of_names() -> None:
    """Also behind a snapshot, and by subscribing; what is there counts for nobody; without a bound there are any."""
    stage = Stage(0, 1)
    for client, most in (("a", 3), ("other", 3), ("any", 0)):
        stage.step(OpenSession(client, 1, owner=client, max_topics=most), 0)

    def make(client: str, *names: str) -> list[str]:
        effects = stage.step(CreateTopics(client, 1, 1, [(SPACE, each) for each in names]), 0)
        return refusals([each.frame for each in effects if isinstance(each, Reply)])

    half = "\u00e9" * (NAME_BYTES // 4)
    assert not make("a", half) + make("other", half)
    stage = Stage.restore(stage.snapshot())
    size = NAME_BYTES // 2
    text = f"with {NAME_BYTES} bytes of names; it has made {size}, and {size + 1} more are too many"
    text = f"the token may make topics {text}"
    assert make("a", "x" * (size + 1)) == [text]
    assert refusals(keep(stage, "a", "x" * (size + 1), durable=False)) == [text]
    assert not make("any", "x" * (size + 1), "y" * NAME_BYTES)
    assert not make("a", "x" * (size + 1), "z" * size), "one is there, the other fits"
    assert make("a", "y")


def test_an_owner_has_so_many_bytes_of_filters_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inorder_worker.sequencer.quotas.MAX_FRAME_BYTES", 100)
    monkeypatch.setattr("inorder_worker.sequencer.quotas.BYTES_EACH", 20)
    stage = Stage(0, 1)
    for client in ("a", "b"):
        stage.step(OpenSession(client, 1, owner="desk", max_subscriptions=3), 0)
    assert not refusals(keep(stage, "a", "x" * 59))
    text = "the token may have 100 bytes of filters in its durable subscriptions; it has 60, and 41 more are too many"
    assert refusals(keep(stage, "b", "y" * 40)) == [text]
    assert not refusals(keep(stage, "b", "y" * 39, version=2))
    assert refusals(keep(stage, "b", "y" * 39, "z", version=3)), "nor when it grows"
    assert not refusals(keep(stage, "a", version=2)), "nothing is left of it"
    assert not refusals(keep(stage, "b", "y" * 39, "z", version=4))


def test_whose_first_subscription_rides_may_resume_it(cluster: Cluster) -> None:
    """Its process ends before it hears where its topics begin. The next one takes up what its workers complete."""
    cluster.change("d", "a", durable=True)
    for _ in range(2):
        known = cluster.stages[-1].durable(AskDurable(1), "d")
        assert [each.filter.text for each in known.filters] == ["a"]
        cluster.run()


def test_who_a_client_id_belongs_to(cluster: Cluster) -> None:
    """To the owner of its durable subscription, connected or not, else of its session."""
    bottom = cluster.stages[-1]
    assert bottom.holder_of("new") is None
    for client in ("d", "e"):
        bottom.step(OpenSession(client, 1, owner="its token"), cluster.now)
    change(cluster, "d", "a")
    cluster.subscribe("e", "a")
    assert bottom.holder_of("e") == Holder("its token", [])
    for client in ("d", "e"):
        cluster.step(len(cluster.stages) - 1, LeaveSession(client, 1))
    assert bottom.holder_of("e") == Holder("its token", [])
    end_sessions(cluster, "e")
    assert bottom.holder_of("e") is None
    holder = bottom.holder_of("d")
    assert holder is not None
    assert (holder.owner, [each.filter.text for each in holder.filters]) == ("its token", ["a"])
