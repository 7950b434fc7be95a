"""What is missing in many topics costs what is due of it, and nothing that is due is missed."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy

import pytest
from tests.core.endpoints import Hand, info
from tests.costs import steps

from inorder.endpoint import asking, holes
from inorder.endpoint.notifications import Bounded, GapReason
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.outputs import Fetch, Found, GapFound, Mode, OrderingTimes, Question
from inorder.endpoint.reader import TopicReader
from inorder.protocol.wire import Heads, NameTopics, NumberAnswer, Numbers, NumberState, TopicInfo, Topics, TopicStart

# -- what an event costs -----------------------------------------------------------------------------------------------


def _reader(topics: int) -> Hand:
    """A reader of everything that knows as many topics."""
    hand = Hand()
    hand.subscribe("t/+")
    for topic in range(1, topics + 1):
        hand.arrive(topic, 1)
    for frame in hand.sent(NameTopics):
        hand.endpoint.receive(Topics(frame.request, [info(each) for each in frame.ids]))
    hand.done()
    return hand


def _event(hand: Hand, number: int) -> None:
    """An event of the first topic arrives; what is to be done at once, and when what is next, follows."""
    hand.arrive(1, number)
    hand.endpoint.flush()
    hand.endpoint.next_deadline()


def _heads(hand: Hand, topics: int) -> None:
    hand.endpoint.receive(Heads([each for topic in range(2, topics + 1) for each in (topic, 2)]))
    hand.done()


def _told_of_all(topics: int) -> int:
    hand = _reader(topics)
    _heads(hand, topics)
    return steps(lambda: _event(hand, 2))


def _asked_for_some(topics: int) -> int:
    """It is time to ask for all, but too many may merely not be read yet."""
    hand = _reader(topics)
    _heads(hand, topics)
    hand.pass_time(1.5)
    return steps(lambda: _event(hand, 2))


def _lost_in_all(topics: int) -> int:
    """All stages have answered that the number is confirmed: it is lost when a barrier says so."""
    hand = _reader(topics)
    _heads(hand, topics)
    for topic in range(2, topics + 1):
        hand.endpoint.receive(Numbers(topic, topic, [NumberAnswer(2, NumberState.CONFIRMED)]))
    hand.done()
    return steps(lambda: _event(hand, 2))


def _names_asked(topics: int) -> int:
    """An event of a new topic arrives while workers are asked for the names of as many."""
    hand = _reader(1)
    for topic in range(2, topics + 1):
        hand.arrive(topic, 1)
    hand.done()

    def arrive() -> None:
        hand.arrive(topics + 1, 1)
        hand.endpoint.flush()
        hand.endpoint.next_deadline()

    return steps(arrive)


def _name_told(topics: int) -> int:
    """A worker names one topic to a reader of as many."""
    hand = _reader(topics)
    hand.arrive(topics + 1, 1)
    (asked,) = hand.sent(NameTopics)
    return steps(lambda: hand.endpoint.receive(Topics(asked.request, [info(topics + 1)])))


@pytest.mark.parametrize("kind", [_told_of_all, _asked_for_some, _lost_in_all, _names_asked, _name_told])
def test_an_event_costs_the_same_however_many_topics_have_something_missing(kind: Callable[[int], int]) -> None:
    few, many = kind(150), kind(600)
    assert many < 1.2 * few


def test_r13_new_topics_are_asked_for_at_once_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for an answer, nor for a timer: 100 names fit into a frame, so many frames are sent."""
    monkeypatch.setattr(asking, "NAMES_ASKED", 10)
    hand = _reader(1)
    frames = list[NameTopics]()
    for topic in range(2, 102):
        hand.arrive(topic, 1)
        if topic % 25 == 0:  # what arrives in one turn is asked for in that turn
            frames += hand.sent(NameTopics)
    frames += hand.sent(NameTopics)
    assert [each for frame in frames for each in frame.ids] == [*range(2, 102)]
    assert len(frames) == 13, "of turns with 24, 25, 25, 25 and 1 topics"
    for frame in reversed(frames):
        hand.endpoint.receive(Topics(frame.request, [info(each) for each in frame.ids]))
        assert hand.endpoint.outbox.wants_flush
    assert hand.sent(NameTopics) == []
    assert hand.endpoint.ordering.is_idle


# -- nothing that is due is missed -------------------------------------------------------------------------------------

SPACES = ("one", "two")
TOPICS = range(1, 9)
TIMES = OrderingTimes(gap_timeout=1.0, loss_timeout=5.0)
CONFIRMED, PENDING, VOID = NumberState.CONFIRMED, NumberState.PENDING, NumberState.VOID


class Walked:
    """An ordering module beside walks over all its readers, which tell what it should say."""

    def __init__(self, mode: Mode, seed: int) -> None:
        self.module = OrderingModule(mode, TIMES)
        self.module.space_of = lambda topic: SPACES[topic % 2]
        self.module.subscribed([TopicStart(TopicInfo(each, "s", "t", 0), 0, []) for each in TOPICS], 0.0, filters=True)
        self.chance, self.now = random.Random(seed), 0.0
        self.numbers = dict.fromkeys(TOPICS, 0)
        self.begun = list[str]()
        self.asked = list[Question]()
        self.fetching = list[Fetch]()
        self.found = 0

    @property
    def readers(self) -> list[TopicReader]:
        return list(self.module._turns.readers.values())

    def due(self, reader: TopicReader) -> float | None:
        return reader.missing.due(reader.clock, TIMES.gap_timeout)

    def overdue(self) -> list[TopicReader]:
        found = [each for each in self.readers if (due := self.due(each)) is not None and due <= self.now]
        return sorted(found, key=lambda each: (each.missing.since, each.topic))

    def questions(self) -> list[Question]:
        """What is asked next, by a look at all topics: the longest missing first."""
        sparing, asked = copy(self.module._holes.sparing), []
        for reader in self.overdue():
            present = self.module._turns.room.topic(reader.topic)
            ranges = copy(reader.missing).ranges(reader.clock, present, self.now, TIMES.gap_timeout, sparing)
            asked += [Question(reader.topic, ranges)] if ranges else []
        return asked

    def next_tick(self) -> float | None:
        """When the next barrier is to begin, by a look at all topics."""
        proofs = [(each.missing.broker, each.proof_due(TIMES.loss_timeout)) for each in self.readers]
        proofs += [(each.missing.broker, each.missing.known_at) for each in self.overdue() if each.missing.is_unread]
        due = (broker.due(time) for broker, time in proofs if time is not None)
        return min((each for each in (*due, self.module._limits.due) if each is not None), default=None)

    def look(self) -> None:
        """Ask, and compare that and the next deadline."""
        self.begun += self.module.barriers(self.now)
        expected = self.questions()
        asked = self.module.questions(self.now)
        assert asked == expected
        self.asked += asked
        self.fetching += (fetches := self.module.fetches(self.now, hold=self.chance.random() < 0.2))
        self.found += len(asked) + len(fetches)
        held = self.module._holes.sparing.until if self.overdue() else None
        due = [each for reader in self.readers for each in (self.due(reader), reader.missing.fetch_due(reader.clock))]
        times = [each for each in due if each is not None and each > self.now]
        times += [each for each in (held, self.next_tick()) if each is not None]
        assert self.module.next_deadline() == min(times, default=None)
        behind = any(each.missing.known > each.clock for each in self.readers)
        assert self.module.is_idle == (not (behind or self.module._turns.jumping or self.module.waiting))

    def happen(self) -> None:
        """Something happens, at random."""
        module, chance, now = self.module, self.chance, self.now
        topic = chance.choice(TOPICS)
        number = self.numbers[topic]
        match chance.randrange(9):
            case 0 | 1 | 2:
                self.numbers[topic] = number = number + chance.choice((1, 1, 2, 3))
                other = chance.choice(TOPICS)
                deps = [other, self.numbers[other]] if other != topic and self.numbers[other] else []
                module.receive(topic, number, deps, None, 1, now)
            case 3:
                module.heads([each for one in TOPICS for each in (one, self.numbers[one])], now)
            case 4 if number:
                module.receive(topic, chance.randint(1, number), [], None, 1, now)
            case 5 | 6 if self.asked:
                question = self.asked.pop(chance.randrange(len(self.asked)))
                first, last = question.ranges[:2]
                states = [chance.choice((CONFIRMED, CONFIRMED, PENDING, PENDING, VOID)) for _ in range(first, last + 1)]
                answers = [
                    NumberAnswer(first + at, state, [], state is CONFIRMED and chance.random() < 0.2)
                    for at, state in enumerate(states)
                ]
                module.answered(Numbers(1, question.topic, answers), now)
            case 7 if self.fetching:
                fetch = self.fetching.pop()
                first, last = fetch.ranges[0], fetch.ranges[-1]
                found = [Found(first, [], "x", 1), Found(last, [], None, 0)]
                module.fetched(fetch.topic, fetch.ranges, last, found, now)
            case 8 if self.begun:
                space = self.begun.pop(0)
                if chance.random() < 0.8:
                    module.caught_up(space, now)
                else:
                    module.not_caught_up(space, now)


@pytest.mark.parametrize("mode", ["strict", Bounded(buffer=3, max_wait=2.0)], ids=["strict", "bounded"])
def test_what_is_due_next_is_what_a_walk_over_all_topics_finds(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "MAX_UNREAD", 2)
    found = 0
    for seed in range(10):
        walked = Walked(mode, seed)
        for _ in range(100):
            walked.now += walked.chance.choice((0.0, 0.125, 0.25, 1.0))
            for _ in range(walked.chance.randrange(4)):
                walked.happen()
            walked.module.tick(walked.now)
            walked.look()
        found += walked.found
    assert found > 100, found


def _two_topics(space_of: Callable[[int], str] = lambda _: "") -> OrderingModule:
    module = OrderingModule(times=TIMES)
    module.space_of = space_of
    module.subscribed([TopicStart(TopicInfo(each, "s", "t", 0), 0, []) for each in (1, 2)], 0.0, filters=True)
    return module


def test_r24_what_was_overdue_behind_a_number_that_comes_is_lost_with_the_barrier_that_is_on_its_way() -> None:
    """Another topic's number is overdue later than that, and earlier than the number that comes."""
    module = _two_topics()
    module.receive(1, 3, [], None, 1, 0.0)
    assert module.questions(1.0) == [Question(1, [1, 2])]
    module.answered(Numbers(1, 1, [NumberAnswer(1, PENDING), NumberAnswer(2, CONFIRMED)]), 1.0)
    module.heads([2, 1], 2.0)
    module.answered(Numbers(1, 2, [NumberAnswer(1, CONFIRMED)]), 2.0)
    for second in range(1, 6):
        assert module.barriers(second) == [""]
        assert module.caught_up("", second + 0.25) == []
    assert module.barriers(6.5) == [""]
    module.answered(Numbers(1, 1, [NumberAnswer(1, CONFIRMED)]), 8.0)
    assert module.next_tick() is None, "a barrier is on its way"
    module.receive(1, 1, [], None, 1, 8.5)
    gap, event = module.caught_up("", 9.0)
    assert (gap, event.topic) == (GapFound(1, 2, 2, GapReason.LOST), 1)


def test_r22_what_is_missing_of_a_topic_that_was_left_is_asked_for_at_once_though_nothing_was_missing_before() -> None:
    """Something of another topic is asked for later than that, and earlier than it would have been for what came."""
    module = _two_topics()
    module.heads([2, 1], 9.5)
    module.heads([1, 2], 10.0)
    for number in (1, 2):
        module.receive(1, number, [], None, 1, 10.1)
    module.leave([1], 10.2)
    module.read_through({1: 5}, 10.3, at_once=True)
    assert module.questions(10.3) == [Question(1, [3, 5])]


def test_what_was_read_by_one_broker_is_asked_for_at_once_though_another_one_may_lag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R24: too much was asked already, so both topics are held; only what may merely be unread goes on waiting."""
    monkeypatch.setattr(holes, "MAX_UNREAD", 0)
    module = _two_topics(lambda topic: SPACES[topic % 2])
    for topic in (1, 2):
        module.receive(topic, 2, [], None, 1, 0.0)
    assert module.questions(1.0) == []
    assert sorted(module.barriers(1.0)) == sorted(SPACES)
    assert module.next_deadline() == 2.0
    module.caught_up("one", 1.5)
    assert module.next_deadline() == 0.0, "now"
    assert module.questions(1.5) == [Question(2, [1, 1])]
