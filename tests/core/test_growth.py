"""What one command costs a stage does not depend on what it does not concern: topics, subscribers, sessions.

Counted are the interpreter's steps, and operations with a set of topics as a whole, which cost as much as it is wide.
"""

from __future__ import annotations

import random
import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from tests.core.cluster import Cluster

from inorder.protocol.deadlines import SPARE
from inorder.protocol.names import Filter, FilterKind, exact
from inorder.protocol.wire import NewEvent, SpaceFilter
from inorder_worker.sequencer.bits import bit_set, members, packed, unpacked
from inorder_worker.sequencer.commands import (
    AnyCommand,
    ChangeSubscription,
    Configure,
    Create,
    CreateTopics,
    LeaveSession,
    OpenSession,
    RestartTimers,
    SettleNumbers,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.lingers import Linger, Lingers
from inorder_worker.sequencer.rides import SessionKey
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.subscribing import LINGER_PAUSE_MS

ALL = [SpaceFilter("s", Filter("#", FilterKind.MQTT, "#"))]


def _steps(call: Callable[[], object]) -> int:
    """Return how many instructions the interpreter executes in a call."""
    count = 0

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _stage(topics: int) -> Stage:
    stage = Stage(0, 1)
    stage.step(OpenSession("publisher", 1), 0)
    stage.step(CreateTopics("publisher", 1, 1, [("s", f"t{topic}") for topic in range(topics)]), 0)
    return stage


def _subscribe(stage: Stage, client_id: str, version: int, filters: list[SpaceFilter]) -> None:
    stage.step(ChangeSubscription(client_id, 1, version, filters, bounded=False), 0)


def _parted(topics: int) -> int:
    """Return what the next event of a topic costs whose reader has left all others, which have risen since."""
    stage, one = _stage(topics), [SpaceFilter("s", exact("t0"))]
    for reader in ("all", "one"):
        stage.step(OpenSession(reader, 1), 0)
    _subscribe(stage, "all", 1, ALL)
    _subscribe(stage, "one", 1, ALL)
    _subscribe(stage, "one", 2, one)
    for topic in range(1, topics + 1):
        stage.step(Create("publisher", 1, topic, [NewEvent(topic, topic)]), 0)
    stage.step(Tick(), 60_000)
    return _steps(lambda: stage.step(Create("publisher", 1, topics + 1, [NewEvent(topics + 1, 1)]), 60_000))


def test_what_left_a_group_is_carried_once_more_at_a_cost_of_what_it_is() -> None:
    few, many = _parted(100), _parted(400)
    assert many < 5 * few


def _new_topic(there_are: int) -> int:
    stage = _stage(there_are)
    for subscriber in ("one", "two"):
        stage.step(OpenSession(subscriber, 1), 0)
        _subscribe(stage, subscriber, 1, ALL)
    return _steps(lambda: stage.step(CreateTopics("publisher", 1, 2, [("s", "new")]), 0))


def _new_subscriber(there_are: int) -> int:
    stage = _stage(8)
    for number in range(there_are):
        stage.step(OpenSession(f"subscriber-{number}", 1), 0)
        _subscribe(stage, f"subscriber-{number}", 1, [SpaceFilter("s", exact(f"t{number % 8}"))])

    def join() -> None:
        stage.step(OpenSession("new", 1), 0)
        _subscribe(stage, "new", 1, [SpaceFilter("s", exact("t1")), SpaceFilter("s", exact("t5"))])

    return _steps(join)


def _end_of_a_linger(there_are: int) -> int:
    """One topic is left out of a subscription of as many."""
    stage = _stage(there_are)
    stage.step(OpenSession("one", 1), 0)
    filters = [SpaceFilter("s", exact(f"t{topic}")) for topic in range(there_are)]
    _subscribe(stage, "one", 1, filters)
    _subscribe(stage, "one", 2, filters[1:])
    return _steps(lambda: stage.step(Tick(), 10**6))


def _ends_of_lingers_among_subscribers(there_are: int) -> int:
    """A subscriber leaves eight topics that two others have; all subscribers beside have other topics."""
    stage = _stage(40)
    for at in range(there_are + 3):
        of = range(8) if at < 3 else [8 + at % 32]
        stage.step(OpenSession(f"one-{at}", 1), 0)
        _subscribe(stage, f"one-{at}", 1, [SpaceFilter("s", exact(f"t{topic}")) for topic in of])
    _subscribe(stage, "one-0", 2, [])
    return _steps(lambda: stage.step(Tick(), 10**6))


def _look_at_lingers(there_are: int) -> int:
    """Nothing is due yet of as many subscribers that have left their topics, one after the other."""
    stage = _stage(8)
    for at in range(there_are):
        stage.step(OpenSession(f"one-{at}", 1), at)
        _subscribe(stage, f"one-{at}", 1, [SpaceFilter("s", exact(f"t{at % 8}"))])
        stage.step(ChangeSubscription(f"one-{at}", 1, 2, [], bounded=False), at)
    stage = Stage.restore(stage.snapshot())

    def look() -> None:
        assert stage.next_deadline() == 60_000
        stage.step(Tick(), 59_999)
        assert len(stage._state.lingers) == there_are

    return _steps(look)


def _open_numbers_of_the_gone(there_are: int) -> int:
    """The number of one of as many publishers that are gone is given up (R16)."""
    stage = _stage(1)
    for at in range(there_are):
        stage.step(OpenSession(f"gone-{at}", 1), at)
        stage.step(Create(f"gone-{at}", 1, 0, [NewEvent(1, 1)]), at)
        stage.step(LeaveSession(f"gone-{at}", 1), at)
    stage = Stage.restore(stage.snapshot())

    def look() -> None:
        assert stage.next_deadline() == 10_000
        stage.step(Tick(), 10_000)
        assert (stage.next_deadline(), stage.tally.abandoned) == (10_001, 1)

    return _steps(look)


def _takes_few_topics(there_are: int) -> int:
    """A reader takes three topics of as many that nobody reads, and all have risen."""
    stage = _stage(there_are)
    stage.step(OpenSession("one", 1), 0)
    stage.step(Create("publisher", 1, 1, [NewEvent(each, each) for each in range(1, there_are + 1)]), 0)
    return _steps(lambda: _subscribe(stage, "one", 1, [SpaceFilter("s", exact(f"t{each}")) for each in (1, 2, 3)]))


def _gives_few_topics_back(there_are: int) -> int:
    """The lingers of a reader end in three topics; as many that nobody reads have risen before and behind these."""
    stage = _stage(there_are)
    stage.step(OpenSession("one", 1), 0)
    _subscribe(stage, "one", 1, [SpaceFilter("s", exact(f"t{each}")) for each in (1, 2, 3)])
    _subscribe(stage, "one", 2, [])
    stage.step(Create("publisher", 1, 1, [NewEvent(each, each) for each in range(1, there_are + 1)]), 1)
    return _steps(lambda: stage.step(Tick(), 60_000))


@pytest.mark.parametrize(
    "kind",
    [
        _new_topic,
        _new_subscriber,
        _takes_few_topics,
        _gives_few_topics_back,
        _end_of_a_linger,
        _ends_of_lingers_among_subscribers,
        _look_at_lingers,
        _open_numbers_of_the_gone,
    ],
)
def test_a_command_costs_the_same_however_much_there_is_beside(kind: Callable[[int], int]) -> None:
    few, many = kind(20), kind(400)
    assert few > 100
    assert many < few * 1.1


def _noted(name: str) -> Any:
    plain = getattr(int, name)

    def method(self: _Wide, *arguments: Any) -> Any:
        _Wide.operations += 1
        result = plain(self, *arguments)
        return _Wide(result) if type(result) is int and result > 1 << 64 else result

    return method


class _Wide(int):
    """A set of topics that notes each operation with the whole of it."""

    operations = 0
    __and__, __rand__, __xor__, __neg__, __rshift__, bit_length, bit_count, to_bytes = (
        _noted(name)
        for name in ("__and__", "__rand__", "__xor__", "__neg__", "__rshift__", "bit_length", "bit_count", "to_bytes")
    )


def test_the_members_of_a_wide_set_are_not_found_by_operations_with_all_of_it() -> None:
    topics = range(1, 5_000, 2)
    _Wide.operations = 0
    assert list(members(_Wide(bit_set(topics)))) == list(topics)
    assert _Wide.operations <= 5


@pytest.mark.parametrize("width", [1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000])
@pytest.mark.parametrize("step", [1, 3, 60])
def test_a_bit_set_has_the_members_that_it_was_made_of(width: int, step: int) -> None:
    topics = list(range(width, 0, -step))
    bits = bit_set(topics)
    assert bits == sum(1 << topic for topic in topics)
    assert list(members(bits)) == topics[::-1]
    assert (bit_set([]), list(members(0))) == (0, [])
    assert (unpacked(packed(bits)), len(packed(bits))) == (bits, -(-bits.bit_length() // 8))


def test_who_takes_and_leaves_topics_again_and_again_leaves_no_more_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them lingers for its time after it was left last (R10)."""
    monkeypatch.setattr("inorder_worker.sequencer.subscribing.LINGERS_UNCHECKED", 10)
    stage = _stage(topics=20)
    stage.step(OpenSession("one", 1), 0)
    for version in range(1, 101):
        _subscribe(stage, "one", version, ALL if version % 2 else [])
        if version == 50:
            stage = Stage.restore(stage.snapshot())
    state = stage._state
    assert len(state.lingers) <= 10 + 3 * 20
    assert stage.next_deadline() == 60_000
    stage.step(Tick(), 59_999)
    known = state.overlaps.get("one")
    assert known is not None
    assert len(known.lingering) == 20
    stage.step(Tick(), 60_000)
    assert (known.lingering, len(state.lingers)) == ({}, 0)


def _leave_all(topics: int, readers: int = 1, keeps: int = 0) -> Stage:
    """Some read everything, and all of them but one leave it, but for the first topics where they keep some."""
    stage = _stage(topics)
    stage.step(Configure(StageSettings(linger_work=5_000)), 0)
    kept = [SpaceFilter("s", exact(f"t{topic}")) for topic in range(keeps)]
    for at in range(readers + 1):
        stage.step(OpenSession(f"one-{at}", 1), 0)
        _subscribe(stage, f"one-{at}", 1, ALL)
    for at in range(readers):
        _subscribe(stage, f"one-{at}", 2, kept)
    return stage


def _dearest_tick(topics: int) -> int:
    stage, steps = _leave_all(topics), list[int]()
    while (due := stage.next_deadline()) is not None:
        steps.append(_steps(lambda due=due: stage.step(Tick(), due)))  # type: ignore[misc]
    known = stage._state.overlaps.get("one-0")
    assert known is None, "all of them have ended"
    return max(steps)


def test_a_tick_ends_no_more_lingers_than_it_may() -> None:
    """R10: the others linger longer, and whoever asks for something meanwhile is served between them."""
    few, many = _dearest_tick(150), _dearest_tick(600)
    assert many < 4.5 * few, "it costs what the client has left"
    stage = _leave_all(600, readers=40)
    stage.step(Tick(), 60_000)
    left = [known for at in range(40) if (known := stage._state.overlaps.get(f"one-{at}")) is not None]
    assert 0 < len(left) < 40
    assert stage.next_deadline() == 60_000 + LINGER_PAUSE_MS


def _gone_together(clients: int, grace: int) -> Stage:
    """So many clients are gone at the same time; each has ten topics, and a number open."""
    stage = _stage(40)
    stage.step(Configure(StageSettings(end_work=100, publisher_grace_ms=grace)), 0)
    for at in range(clients):
        filters = [SpaceFilter("s", exact(f"t{(at + each) % 40}")) for each in range(10)]
        stage.step(OpenSession(f"c{at}", 1), 0)
        _subscribe(stage, f"c{at}", 1, filters)
        stage.step(Create(f"c{at}", 1, 1, [NewEvent(each, 1 + at % 40) for each in (1, 2, 3)]), 0)
    for at in range(clients):
        stage.step(LeaveSession(f"c{at}", 1), 1)
    return stage


@pytest.mark.parametrize("grace", [10_000, 30_000])
def test_a_tick_ends_no_more_sessions_than_it_may(grace: int) -> None:
    """R12, R16: the others end later, and whoever asks for something meanwhile is served between them."""
    dearest = []
    for clients in (40, 400):
        stage, steps, left = _gone_together(clients, grace), list[int](), list[int]()
        while (due := stage.next_deadline()) is not None:
            steps.append(_steps(partial(stage.step, Tick(), due)))
            left.append(len(stage._state.gone))
            assert (stage.next_deadline() or 10**9) > due, "a stage rests after its work"
        dearest.append(max(steps))
        assert left[-1] == 0
        assert stage.tally.abandoned == 3 * clients
        assert len({each for each in left if each}) >= clients // 8, "seven end with one tick"
        assert not list(stage._state.overlaps)
    assert dearest[1] < 2 * dearest[0], "of more clients, more may end with one tick"


def test_one_session_with_many_open_numbers_is_given_up_in_portions() -> None:
    """R16: while it waits for the next one its first number is still open."""
    stage = _stage(1)
    stage.step(Configure(StageSettings(end_work=100)), 0)
    stage.step(Create("publisher", 1, 1, [NewEvent(each, 1) for each in range(1, 251)]), 0)
    given_up = []
    while stage._settling.next_deadline() is not None:
        stage.step(Tick(), max(60_000, stage._settling.next_deadline() or 0))
        given_up.append(stage.tally.abandoned)
    assert given_up == [100, 200, 250]


def test_nothing_is_kept_for_pairs_of_topics() -> None:
    """R22: a reader of everything that keeps one topic leaves behind a set of topics, not one for each of them."""
    sizes = []
    for topics in (200, 800):
        stage = _leave_all(topics, keeps=1)
        sizes.append(len(stage.snapshot()))
        while (due := stage.next_deadline()) is not None:
            stage.step(Tick(), due)
        sizes.append(len(stage.snapshot()))
        assert len(stage._state.partings.saved()) == 1
    assert sizes[2] < 4.5 * sizes[0]
    assert sizes[3] < 4.5 * sizes[1]


@pytest.mark.parametrize("seed", range(8))
def test_lingers_that_end_in_portions_leave_what_all_at_once_leave(seed: int) -> None:
    """R10: each timestamp carries the same. On two stages, so the ends ride up as well."""
    found = []
    for work in (10**9, 300):
        rng, names = random.Random(seed), [f"t{each}" for each in range(24)]
        cluster = Cluster({each: at % 2 for at, each in enumerate(names)}, settings=StageSettings(linger_work=work))
        clients = ["a", "b", "c", "d"]
        for client in ("p", *clients):
            cluster.open(client)
        for _ in range(5):
            for client in rng.sample(clients, 2):
                cluster.subscribe(client, *rng.sample(names, rng.randrange(12)))
            for name in rng.sample(names, 6):
                cluster.stamp("p", name)
        cluster.now += 60_000
        bottom, ticks = cluster.stages[1], 0
        while (due := bottom.next_deadline()) is not None and due < cluster.now + 59_000:
            cluster.now = max(due, cluster.now)
            cluster.step(1, Tick())
            cluster.run()
            ticks += 1
        assert len(bottom._state.lingers) == 0
        assert ticks > 1 or work > 300
        found.append([sorted(zip(*[iter(cluster.stamp("p", each).deps)] * 2, strict=True)) for each in names])
    assert found[0] == found[1]
    assert any(found[0])


def _first_given_up(stage: Stage) -> int | None:
    """When a number is given up next, found by a walk over all sessions."""
    state = stage._state
    return min((due for key in state.sessions if (due := state.given_up_at(key)) is not None), default=None)


def _anything(rng: random.Random, counters: dict[str, int]) -> AnyCommand:
    client = rng.choice("abcd")
    match rng.randrange(8):
        case 0 | 1:
            return OpenSession(client, 1)
        case 2 | 3:
            return LeaveSession(client, 1)
        case 4 | 5:
            counters[client] = counters.get(client, 0) + 1
            return Create(client, 1, 0, [NewEvent(counters[client], 1 + rng.randrange(3))])
        case 6:
            first = rng.randrange(1, 40)
            return SettleNumbers(client, 1, 1, [1 + rng.randrange(3), first, first + rng.randrange(3)], [])
        case _:
            settings = StageSettings(publisher_grace_ms=rng.choice((20, 60)), confirm_timeout_ms=rng.choice((40, 90)))
            return rng.choice((Configure(settings), RestartTimers(), Tick()))


def test_what_is_given_up_next_is_what_a_walk_over_all_sessions_finds() -> None:
    rng, now, abandoned = random.Random(7), 0, 0
    for _ in range(10):
        stage, counters = _stage(3), dict[str, int]()
        for _ in range(100):
            now += rng.randrange(10)
            stage.step(_anything(rng, counters), now)
            assert stage._settling.next_deadline() == _first_given_up(stage)
            if rng.randrange(20) == 0:
                stage = Stage.restore(stage.snapshot())
            stage.step(Tick(), now)
            due = _first_given_up(stage)
            assert stage._settling.next_deadline() == due
            assert due is None or due > now
            abandoned += stage.tally.abandoned
    assert abandoned > 100


def test_what_is_taken_out_in_front_is_kept_where_that_costs_the_same_for_all() -> None:
    """A dict looks at each place that is empty by then: 40,000 sessions that end at once would take a second."""
    for stage in (_stage(1), Stage.restore(_stage(1).snapshot())):
        assert [type(stage._state.gone), type(stage._state.ended)] == [OrderedDict] * 2


def test_who_comes_and_goes_again_and_again_leaves_no_more_times_behind() -> None:
    stage = _stage(1)
    stage.step(OpenSession("one", 1), 0)
    stage.step(Create("one", 1, 0, [NewEvent(1, 1)]), 0)
    for now in range(1, 1_000):
        stage.step(LeaveSession("one", 1), now)
        assert stage.next_deadline() == now + 10_000
        stage.step(OpenSession("one", 1), now)
        assert stage.next_deadline() == 60_000
    assert len(stage._state.deadlines) <= SPARE + 2


def test_a_publisher_that_confirms_one_by_one_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a later number nothing earlier is due: a path that every event takes does not look it up."""
    stage, looks, given_up_at = _stage(1), list[SessionKey](), StageState.given_up_at

    def counted(state: StageState, key: SessionKey) -> int | None:
        looks.append(key)
        return given_up_at(state, key)

    monkeypatch.setattr(StageState, "given_up_at", counted)
    restored = Stage.restore(stage.snapshot())
    for number in range(1, 101):
        restored.step(Create("publisher", 1, number, [NewEvent(number, 1)]), number)
        restored.step(SettleNumbers("publisher", 1, number, [1, number, number], []), number)
    assert len(looks) <= 2
    restored.step(Create("publisher", 1, 101, [NewEvent(101, 1)]), 200)
    assert restored.next_deadline() == 60_200


def test_a_number_that_a_client_gets_when_it_is_gone_is_given_up_by_the_grace() -> None:
    stage = _stage(1)
    stage.step(Create("publisher", 1, 1, [NewEvent(1, 1)]), 0)
    stage.step(SettleNumbers("publisher", 1, 1, [1, 1, 1], []), 0)
    stage.step(LeaveSession("publisher", 1), 10)
    stage.step(Create("publisher", 1, 2, [NewEvent(2, 1)]), 20)
    assert stage._settling.next_deadline() == 10_010


def test_lingers_end_when_they_are_due_and_are_kept_in_the_order_in_which_they_began() -> None:
    began = [Linger(due, "one", 1, version) for version, due in enumerate((7, 3, 9, 5, 3, 8))]
    lingers = Lingers(began[:4])
    for each in began[4:]:
        lingers.add(each)
    assert (list(lingers), len(lingers), lingers.next_deadline()) == (began, 6, 3)
    assert [each.version for each in iter(lambda: lingers.take_due(7), None)] == [1, 4, 3, 0]
    assert (list(lingers), lingers.next_deadline()) == ([began[2], began[5]], 8)
    assert [lingers.take_due(now) for now in (7, 9, 9, 9)] == [None, began[5], began[2], None]
    assert lingers.next_deadline() is None


def _wide_reader_joins(topics: int) -> int:
    """A reader of one topic takes all of them, beside another one that has them."""
    stage = _stage(topics)
    for reader in ("all", "one"):
        stage.step(OpenSession(reader, 1), 0)
    _subscribe(stage, "all", 1, ALL)
    _subscribe(stage, "one", 1, [SpaceFilter("s", exact("t0"))])
    for topic in range(1, topics + 1):
        stage.step(Create("publisher", 1, topic, [NewEvent(topic, topic)]), 0)
    return _steps(lambda: _subscribe(stage, "one", 2, ALL))


def test_a_reader_of_everything_stands_a_stage_no_longer_than_its_answer_needs() -> None:
    """Each further topic costs some 260 instructions of the interpreter; 10,000 topics 30 ms."""
    few, many = _wide_reader_joins(100), _wide_reader_joins(300)
    assert (many - few) / 200 < 290
