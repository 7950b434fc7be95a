"""Each check with a history that breaks its rule and one that nearly does; histories are written as words.

``told(history, "s", "a1 b1 late:a2 gap:a3-4:lost")`` is what a subscriber got, in this order: ``a1`` is number 1 of
topic a, in order unless a verdict is named; ``!a1`` is marked as redelivered.
"""

from __future__ import annotations

import json
import random
from itertools import combinations

import pytest

from inorder_analytics.checks import (
    CHECKS,
    History,
    Place,
    Span,
    SubscriberHistory,
    Unfinished,
    Violation,
    Witness,
    count_opposite,
    violations,
)
from inorder_analytics.checks.total_order import check_total_order
from inorder_analytics.checks.verdicts import check_late

LINGER = 20.0


def place(text: str) -> Place:
    return ord(text[0]) - ord("a") + 1, int(text[1:])


def new_history(*words: str, linger: float = LINGER) -> History:
    """Return a history in which these were published: ``b1<a2`` depends on a up to 2, ``b1@p3`` is p's third event,
    else topic a's publisher is ``pa`` with the number as its counter."""
    history = History(linger, topics={each: chr(ord("a") + each - 1) for each in range(1, 27)})
    for word in words:
        name, _, needs = word.partition("<")
        name, _, by = name.partition("@")
        event = (by[0], 1, int(by[1:])) if by else (f"p{name[0]}", 1, int(name[1:]))
        deps = [part for each in needs.split(",") if each for part in place(each)]
        history.stamp(event, place(name), deps, 0, 1.0)
    return history


def told(history: History, name: str, words: str, mode: str = "strict") -> SubscriberHistory:
    """A subscriber was told this; what was not published yet is now."""
    subscriber = history.subscriber(name, mode)
    for word in words.split():
        if word.startswith("gap:"):
            _, numbers, reason = word.split(":")
            first, _, last = numbers[1:].partition("-")
            subscriber.report(place(numbers[0] + first)[0], int(first), int(last or first), reason)
            continue
        verdict, _, name_ = word.rpartition(":")
        at = place(name_.lstrip("!"))
        if at not in history.places:
            history.stamp((f"p{name_.lstrip('!')[0]}", 1, at[1]), at, [], 0, 1.0)
        is_again = name_.startswith("!")
        subscriber.notify(history.places[at], at, verdict or "in_order", 1.0, redelivered=is_again)
    return subscriber


def span(topic: str, start: int = 0, end: int | None = None, began: float = 0.0, dropped: float | None = None) -> Span:
    return Span(ord(topic) - ord("a") + 1, start, 0, began, end, dropped)


def broken(history: History) -> list[str]:
    return [each.rule for each in violations(history)]


# -- violations as data --------------------------------------------------------------------------------------------


def test_a_violation_is_data() -> None:
    history = new_history()
    told(history, "s", "a1 b1")
    told(history, "t", "b1 a1")
    (found,) = violations(history)
    assert found == Violation(
        "TNO",
        (Witness(("pa", 1, 1), (1, 1)), Witness(("pb", 1, 1), (2, 1))),
        ("s", "t"),
        "s (strict) was notified of a#1 ('pa', 1, 1) before b#1 ('pb', 1, 1), t (strict) after it",
    )
    assert str(found) == f"TNO {found.sentence}"
    assert json.loads(json.dumps(found.to_json())) == {
        "rule": "TNO",
        "events": [{"event": ["pa", 1, 1], "place": [1, 1]}, {"event": ["pb", 1, 1], "place": [2, 1]}],
        "subscribers": ["s", "t"],
        "sentence": found.sentence,
    }


def test_nothing_is_broken_by_nothing() -> None:
    assert violations(History(LINGER)) == []


def test_every_check_says_what_it_promises() -> None:
    assert [each for each in CHECKS if not each.__doc__] == []


# -- total order (TNO) -----------------------------------------------------------------------------------------------


def total_order(history: History) -> list[Violation]:
    return list(check_total_order(history))


def test_tno_over_what_two_have_in_common() -> None:
    history = new_history()
    told(history, "s", "a1 b1 c1 d1")
    told(history, "t", "a1 c1 e1 d1")
    told(history, "u", "b1 e1")
    assert total_order(history) == []
    told(history, "v", "d1 f1 a1")
    assert [each.subscribers for each in total_order(history)] == [("s", "v"), ("t", "v")]


@pytest.mark.parametrize("verdict", ["late", "retained", "fifo", "unsequenced"])
def test_tno_is_about_what_is_in_order(verdict: str) -> None:
    """Tagged notifications are excepted."""
    history = new_history()
    told(history, "s", "a1 b1", "bounded")
    told(history, "t", f"b1 {verdict}:a1", "bounded")
    assert total_order(history) == []
    told(history, "u", "b1 a1", "bounded")
    assert [each.subscribers for each in total_order(history)] == [("s", "u")]


def test_tno_names_the_closest_witnesses() -> None:
    history = new_history()
    told(history, "s", "a1 b1 c1 d1 e1")
    told(history, "t", "a1 d1 b1 c1 e1")
    (found,) = total_order(history)
    assert [each.place for each in found.witnesses] == [place("c1"), place("d1")]


def _unsubscribed(dropped: float, stamped: float) -> History:
    """R10's counter-example 2: s leaves a, takes b; t sees both in the other order."""
    history = new_history()
    s, t = told(history, "s", "a1"), told(history, "t", "")
    history.stamp(("pb", 1, 1), place("b1"), [], 0, stamped)
    told(history, "s", "b1")
    told(history, "t", "b1 a1")
    s.spans += [span("a", 0, 1, dropped=dropped), span("b", 0, 1, began=dropped)]
    t.spans += [span("a", 0, 1), span("b", 0, 1)]
    return history


def test_tno_across_an_unsubscription_within_the_linger_holds() -> None:
    """R10, R20."""
    assert len(total_order(_unsubscribed(dropped=5.0, stamped=24.9))) == 1


def test_tno_across_an_unsubscription_longer_ago_is_not_promised() -> None:
    """R20."""
    history = _unsubscribed(dropped=5.0, stamped=25.0)
    history.subscribers["s"].spans[1].began = 30.0
    assert total_order(history) == []


def test_tno_an_unsubscription_of_a_topic_that_was_taken_again_excuses_nothing() -> None:
    """R10, R11: s had left a long ago, and took it again before it was notified of a1."""
    history = _unsubscribed(dropped=40.0, stamped=50.0)
    history.subscribers["s"].spans.insert(0, span("a", dropped=0.5))
    assert len(total_order(history)) == 1


def test_tno_is_excused_by_what_the_one_that_left_was_notified_of_and_when() -> None:
    """R20: t was notified long after s had left a; the excuse is about s, whichever of them is asked first."""
    history = _unsubscribed(dropped=5.0, stamped=25.0)
    history.subscribers["s"].spans[1].began = 30.0
    for seen in history.subscribers["t"].notified:
        seen.when = 100.0
    assert total_order(history) == []
    history.subscribers = dict(reversed(history.subscribers.items()))
    assert total_order(history) == []


def test_tno_where_both_went_on_holding_what_they_shared() -> None:
    """R10: the first timestamp after a shrink carries the removed entries once more, however late it is."""
    assert len(total_order(_unsubscribed(dropped=5.0, stamped=1000.0))) == 1


def test_tno_looks_behind_excused_neighbours() -> None:
    """a1, b1 and b1, c1 are in opposite orders across unsubscriptions long ago; a1, c1 have no such excuse."""
    history = new_history()
    for name in ("a1", "b1", "c1"):
        history.stamp((f"p{name[0]}", 1, 1), place(name), [], 0, 1000.0)
    s, t = told(history, "s", "a1 b1 c1"), told(history, "t", "c1 b1 a1")
    s.spans += [span("a", dropped=5.0), span("b", dropped=6.0), span("b", began=900.0), span("c")]
    t.spans += [span("a"), span("b", dropped=6.0), span("b", began=900.0), span("c")]
    (found,) = total_order(history)
    assert [each.place for each in found.witnesses] == [place("a1"), place("c1")]
    t.spans[0].dropped = 6.0
    assert total_order(history) == []


@pytest.mark.parametrize("seed", range(200))
def test_tno_agrees_with_looking_at_every_pair(seed: int) -> None:
    rng = random.Random(seed)
    history = new_history()
    events = [f"{topic}{number}" for topic in "abc" for number in (1, 2)]
    for name in "stu":
        chosen = sorted(rng.sample(events, rng.randint(0, 6)))
        for _ in range(rng.randint(0, 2)):
            if len(chosen) > 1:
                at = rng.randrange(len(chosen) - 1)
                chosen[at : at + 2] = reversed(chosen[at : at + 2])
        told(history, name, " ".join(chosen))
    found = {each.subscribers: each for each in total_order(history)}
    for one, two in combinations(history.subscribers.values(), 2):
        first = [each.place for each in one.in_order]
        second = [each.place for each in two.in_order]
        both = [each for each in first if each in second]
        opposite = {pair for pair in combinations(both, 2) if second.index(pair[0]) > second.index(pair[1])}
        assert count_opposite(one, two) == len(opposite)
        assert ((one.name, two.name) in found) == bool(opposite)
        if opposite:
            assert tuple(each.place for each in found[one.name, two.name].witnesses) in opposite


class _Counted(tuple[str, int, int]):
    """An event id that counts how often it is looked up."""

    __slots__ = ()
    looked_up = 0

    def __hash__(self) -> int:
        _Counted.looked_up += 1
        return super().__hash__()


@pytest.mark.parametrize("swapped", [False, True])
def test_tno_over_long_streams_looks_each_event_up_a_few_times(swapped: bool) -> None:
    counts = []
    for length in (500, 1000, 2000):
        history = new_history()
        for name in "st":
            numbers = list(range(1, length + 1))
            if swapped and name == "t":
                numbers.reverse()
            for number in numbers:
                history.subscriber(name).notify(_Counted(("p", 1, number)), (1, number), "in_order", 1.0)
        _Counted.looked_up = 0
        assert len(total_order(history)) == swapped
        counts.append(_Counted.looked_up)
    assert counts[0] <= 10 * 500
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


# -- one subscriber's order (R4, R19, fifo) --------------------------------------------------------------------------


def test_topic_order() -> None:
    """R4."""
    history = new_history()
    told(history, "s", "a1 b7 a3 late:a2 b8", "bounded")
    assert broken(history) == []
    told(history, "s", "a2")
    assert broken(history)[:1] == ["R4"]


def test_dependencies() -> None:
    """R4: at least, so a lower entry is nothing; and only what was published with it counts."""
    history = new_history("a1", "a2", "b1<a1", "c1<a2")
    told(history, "s", "a1 b1 a2 c1")
    assert broken(history) == []
    told(history, "t", "b1 c1 late:a1", "bounded")
    assert broken(history) == []
    told(history, "u", "c1 a2")
    assert broken(history) == ["R4", "TNO"]


def test_skipped_numbers_take_their_turn() -> None:
    """R17: a gap is told when what its number depends on was told, and before what depends on it."""
    history = new_history("a1", "b1<a1", "c1<b1")
    told(history, "s", "a1 gap:b1:lost c1")
    assert broken(history) == []
    told(history, "t", "gap:b1:lost a1 c1")
    assert broken(history) == ["R17"]
    history = new_history("a1", "b1<a1", "c1<b1")
    told(history, "u", "a1 c1 gap:b1:lost")
    assert broken(history) == ["R17"]
    told(history, "v", "a1 c1 gap:b1:skipped", "bounded")
    assert broken(history) == ["R17"]


def test_of_an_expired_number_nobody_knows_what_it_depends_on() -> None:
    """R12, R17."""
    history = new_history("a1", "b1<a1")
    told(history, "s", "gap:b1:expired a1")
    assert broken(history) == []


def test_publisher_order() -> None:
    """R19: across topics, per incarnation."""
    history = new_history("a1@p1", "b1@p2", "c1@p3")
    told(history, "s", "a1 b1 c1")
    told(history, "t", "a1 c1")
    history.stamp(("p", 2, 1), place("d1"), [], 0, 1.0)
    told(history, "u", "c1 d1")
    assert broken(history) == []
    told(history, "v", "b1 a1")
    assert broken(history) == ["R19", "TNO"]


def test_publisher_order_across_what_was_jumped() -> None:
    """R20: p published a1, b1, b2; who jumped over b1 knows nothing of a1."""
    history = new_history("a1@p1", "b1@p2", "b2@p3")
    jumping = told(history, "s", "b2 a1 late:b1", "bounded")
    jumping.spans += [span("a", 0, 1), span("b", 0, 2)]
    assert broken(history) == []
    told(history, "t", "b2 a1 gap:b1:lost")
    assert broken(history) == ["R17", "R19"]  # strict: nothing is jumped, and b1 has its turn before b2


def test_publisher_order_across_a_jumped_number_of_which_its_publisher_never_heard() -> None:
    """The stages know whose it is."""
    history = new_history("a1@p1", "b2@p3")
    jumping = told(history, "s", "b2 a1 gap:b1:skipped", "bounded")
    jumping.spans += [span("a", 0, 1), span("b", 0, 2)]
    history.states[place("b1")] = "VOID"
    assert broken(history) == ["R19"]
    history.owners[place("b1")] = "p", 1, 2
    assert broken(history) == []


def test_publisher_order_in_bounded_mode_without_a_jump() -> None:
    """R20: no number is between these two in a topic that it holds."""
    history = new_history("a1@p1", "c1@p2", "b1@p3")
    subscriber = told(history, "s", "b1 a1", "bounded")
    subscriber.spans += [span("a", 0, 1), span("b", 0, 1)]
    assert broken(history) == ["R19"]
    subscriber.spans.append(span("c", 1, 1))
    assert broken(history) == []


def _fifo(*counters: int) -> History:
    history = History(LINGER)
    for counter in range(1, 6):
        history.publish(("p", 1, counter), 1, "fifo").outcome = "acknowledged"
    for counter in counters:
        history.subscriber("s").notify(("p", 1, counter), None, "fifo", 1.0)
    return history


def test_fifo() -> None:
    """In its publisher's order, without repetition; outside total order, and what is missing is passed over."""
    assert broken(_fifo(2, 3, 5)) == []
    assert broken(_fifo(2, 2)) == ["fifo"]
    assert broken(_fifo(3, 2)) == ["fifo"]


def test_fifo_is_per_topic_and_incarnation_and_outside_tno() -> None:
    history = _fifo(4, 5)
    history.publish(("p", 1, 6), 2, "fifo").outcome = "acknowledged"
    history.publish(("p", 2, 1), 1, "fifo").outcome = "acknowledged"
    for name, events in (("s", [(1, 6), (2, 1)]), ("t", [(2, 1), (1, 6), (1, 4)])):
        for incarnation, counter in events:
            history.subscriber(name).notify(("p", incarnation, counter), None, "fifo", 1.0)
    assert broken(history) == []


def test_a_retained_or_redelivered_copy_is_no_step_of_fifo() -> None:
    history = _fifo(3)
    history.subscriber("s").notify(("p", 1, 2), None, "retained", 1.0)
    history.subscriber("s").notify(("p", 1, 3), None, "fifo", 1.0, redelivered=True)
    assert broken(history) == []


# -- numbers and identities (R1, R16) --------------------------------------------------------------------------------


def test_one_timestamp_for_one_event() -> None:
    """R1: again the same is no violation."""
    history = new_history("a1", "b1<a1")
    history.stamp(("pb", 1, 1), place("b1"), [1, 1], 0, 5.0)
    assert broken(history) == []


def test_a_timestamp_that_names_a_topic_twice_depends_on_both() -> None:
    history = History(60.0)
    history.stamp(("p", 1, 1), (1, 1), [2, 5, 3, 1, 2, 4], 0, 5.0)
    assert history.deps_of((1, 1)) == {2: 5, 3: 1}


@pytest.mark.parametrize(
    ("event", "number", "deps"),
    [(("pb", 1, 1), "b2", [1, 1]), (("pb", 1, 1), "b1", [1, 2]), (("px", 1, 9), "b1", [1, 1])],
    ids=["two numbers", "two timestamps", "two events"],
)
def test_two_timestamps_for_one_event(event: tuple[str, int, int], number: str, deps: list[int]) -> None:
    """R1."""
    history = new_history("a1", "b1<a1")
    history.stamp(event, place(number), deps, 0, 5.0)
    assert broken(history) == ["R1"]


def test_two_numbers_for_one_event_of_which_nobody_heard() -> None:
    history = new_history()
    history.owners.update({place("a1"): ("p", 1, 1), place("a2"): ("p", 2, 1), place("b1"): ("q", 1, 1)})
    assert broken(history) == []
    history.owners[place("a3")] = "p", 1, 1
    (found,) = violations(history)
    assert (found.rule, found.sentence) == ("R1", "('p', 1, 1) was a#1, later a#3")


def test_only_who_was_away_is_forgotten() -> None:
    history = new_history()
    history.ended.add(("p", 1))
    history.forgotten = [("p", 1, 1), ("p", 2, 1), ("q", 1, 1)]
    assert [each.witnesses for each in violations(history)] == [
        (Witness(("p", 2, 1), None),),
        (Witness(("q", 1, 1), None),),
    ]


def test_subscribers_agree_on_a_number_whose_publisher_got_no_answer() -> None:
    """R1."""
    history = new_history()
    for counter in (1, 2):
        history.publish(("p", 1, counter), 1).outcome = "unknown"
    for name in "st":
        history.subscriber(name).notify(("p", 1, 1), (1, 1), "in_order", 1.0)
    assert broken(history) == []
    history.subscriber("u").notify(("p", 1, 2), (1, 1), "in_order", 1.0)
    assert broken(history) == ["R1"]
    history.subscribers["u"].notified[0].event = ("p", 1, 1)
    history.subscribers["u"].notified[0].place = (1, 2)
    assert broken(history) == ["R1"]


def test_phantoms() -> None:
    history = new_history("a1", "a2")
    subscriber = told(history, "s", "a1")
    subscriber.notify(None, None, "unsequenced", 1.0)
    subscriber.notify(None, None, "retained", 1.0)
    assert broken(history) == []
    subscriber.notify(None, place("a2"), "in_order", 1.0)
    assert broken(history) == ["phantom"]
    subscriber.notified[-1].event = ("nobody", 1, 1)
    assert broken(history) == ["R1", "phantom"]
    subscriber.notified[-1].event = ("pa", 1, 1)
    assert broken(history) == ["phantom"]


def test_what_is_void_is_not_notified() -> None:
    """R16."""
    history = new_history()
    told(history, "s", "a1 a2")
    history.states.update({place("a1"): "CONFIRMED", place("a2"): "ABANDONED"})
    assert broken(history) == []
    history.states[place("a2")] = "VOID"
    assert broken(history) == ["R16"]
    del history.states[place("a2")]
    history.publish(("pa", 1, 2), 1).outcome = "void"
    assert broken(history) == ["R16"]


# -- verdicts (R5, R6, R12) ------------------------------------------------------------------------------------------


def test_repetition() -> None:
    """R5."""
    history = new_history()
    told(history, "s", "a1 retained:a1 retained:a1 a2")
    assert broken(history) == []
    told(history, "t", "a2 late:a1 late:a1", "bounded")
    assert broken(history) == ["R5"]


def test_duplicates_never_reach_the_application() -> None:
    """R5: not under that name either, and the broker's mark is no excuse within one run."""
    history = new_history()
    told(history, "s", "a1 duplicate:a1")
    assert broken(history) == ["R5"]
    history = new_history()
    told(history, "s", "a1 !a1")
    assert broken(history) == ["R4", "R5"]


def test_late_is_for_bounded_waiting_and_for_what_comes_after_its_gap() -> None:
    """R5, R6."""
    history = new_history()
    told(history, "s", "a2 late:a1", "tag")
    told(history, "u", "b1 gap:b2-4:lost gap:b6:abandoned late:b3 late:b2 b7 late:b6")
    assert broken(history) == []
    told(history, "v", "late:b2 gap:b1-2:lost")
    assert broken(history) == ["R6", "R17"]
    del history.subscribers["v"]
    told(history, "t", "late:a1")
    assert broken(history) == ["R6"]


def test_what_is_late_beside_the_total_order_is_another_order() -> None:
    """A topic that is read with fifo has no span; there counters are passed over, too."""
    history = new_history()
    told(history, "s", "a1 late:b1").spans.append(span("a"))
    assert broken(history) == []
    told(history, "s", "late:a2")
    assert broken(history) == ["R6"]


def test_what_was_lost_does_not_arrive() -> None:
    """R24: where bridges may be in between nothing is said."""
    history = new_history()
    told(history, "s", "gap:a1:abandoned gap:a2-3:lost late:a1 a4")
    told(history, "t", "b2 gap:b1:skipped late:b1", "bounded")
    history.is_direct = True
    assert broken(history) == []
    told(history, "s", "late:a3")
    assert broken(history) == ["R24"]
    history.is_direct = False
    assert broken(history) == []


@pytest.mark.parametrize(
    ("words", "is_late"),
    [
        ("a2 late:a1", True),
        ("b1 late:a1", True),
        ("b2 late:a1", True),
        ("c1 late:a1", True),
        ("b2 late:b1 late:a1", True),
        ("gap:b1:lost late:a1", True),
        ("a1 late:a2", False),
        ("a1 late:c1", False),
        ("a1 b1 late:b2", False),
        ("late:a1 a2", False),
        ("b1 late:a2", True),
        ("d1 late:a1", True),
    ],
)
def test_late_is_what_comes_after_something_that_follows_it_or_may(words: str, is_late: bool) -> None:
    """R5, R6: by its topic's numbers or dependencies, or what comes first is nowhere said (R23)."""
    history = new_history("a1", "a2", "b1<a1", "b2", "c1<b2", "d1")
    told(history, "s", words, "bounded").lapses = []
    assert set(broken(history)) == (set() if is_late else {"R6"})


@pytest.mark.parametrize(("start", "is_late"), [(1, False), (0, True)])
def test_what_a_publisher_published_before_the_start_of_a_topic_follows_its_order(start: int, is_late: bool) -> None:
    """R8, R19: b1 names no a1, as nobody had both topics when it was made; whoever begins behind it has it as base."""
    history = new_history("a1@p1", "b1@p2", "b2")
    subscriber = told(history, "s", "a1 late:b2", "bounded")
    subscriber.lapses = []
    subscriber.spans = [span("a"), span("b", start)]
    assert [each.rule for each in check_late(history)] == ([] if is_late else ["R6"])


def test_without_a_lease_bounded_waiting_tags() -> None:
    """R12: an event is late then though its turn had come."""
    history = new_history()
    subscriber = told(history, "s", "late:a1", "bounded")
    subscriber.lapses = [(0.5, 1.5)]
    assert broken(history) == []
    subscriber.lapses = [(0.1, 0.5)]
    assert broken(history) == ["R6"]
    subscriber.lapses = None  # not recorded
    assert broken(history) == []


def test_late_is_not_judged_behind_unknown_dependencies() -> None:
    """b1's publisher never got its timestamp, and passed over it."""
    history = new_history("a1", "b2")
    told(history, "s", "a1 late:b2", "bounded").lapses = []
    assert broken(history) == []
    history.unheard[place("b1")] = {1: 1}
    assert broken(history) == ["R6"]
    history.unheard[place("b1")] = {}
    assert broken(history) == []


@pytest.mark.parametrize("mode", ["strict", "bounded"])
def test_nothing_is_in_order_without_a_lease(mode: str) -> None:
    """R12: strict holds, bounded tags; what came at the very moment may have been before it."""
    history = new_history()
    subscriber = told(history, "s", "a1", mode)
    subscriber.lapses = [(1.0, 5.0), (7.0, 9.0)]
    assert broken(history) == []
    subscriber.lapses = [(0.5, 5.0)]
    assert broken(history) == ["R12"]


def test_what_has_a_timestamp_is_sequenced() -> None:
    """Except where the subscription did not ask for total order: there it has no span."""
    history = new_history("a1", "b1")
    subscriber = told(history, "s", "unsequenced:b1")
    subscriber.spans.append(span("a", 1, 1))
    assert broken(history) == []
    told(history, "s", "unsequenced:a1")
    assert broken(history) == ["R5"]


def test_a_retained_copy_is_at_or_below_the_clock() -> None:
    """R5."""
    history = new_history()
    subscriber = told(history, "s", "retained:a3 a4 retained:a4 gap:a5-6:lost retained:a6 a7")
    subscriber.spans.append(span("a", 3, 7))
    assert broken(history) == []
    told(history, "s", "retained:a8")
    assert broken(history) == ["R5"]


def test_a_retained_copy_above_the_clock_is_the_event_itself() -> None:
    """R5: it does not come in order once more; late it may, to a bounded subscriber that had jumped over it."""
    history = new_history()
    told(history, "s", "b2 retained:b1 late:b1", "bounded")
    assert broken(history) == []
    told(history, "t", "retained:a1 a1", "bounded")
    assert broken(history) == ["R5"]


# -- completeness (R7, R12, R17) -------------------------------------------------------------------------------------


def test_completeness() -> None:
    """R17: notified, void, or reported."""
    history = new_history("a1", "a2", "a3", "a4", "a5")
    subscriber = told(history, "s", "a2 gap:a4:lost a5")
    subscriber.spans.append(span("a", 1, 5))
    history.states[place("a3")] = "VOID"
    assert broken(history) == []
    subscriber.spans[0].start = 0
    (found,) = violations(history)
    assert str(found) == "R17 s: a#1 (None) skipped silently"


def test_completeness_names_a_range_once() -> None:
    history = new_history()
    told(history, "s", "a1 a1000000000").spans.append(span("a", 0))
    history.states[place("a5")] = "VOID"
    assert [[each.place for each in found.witnesses] for found in violations(history)] == [
        [place("a2"), place("a4")],
        [place("a6"), place("a999999999")],
    ]
    told(history, "t", "a1 gap:a2-999999999:expired a1000000000").spans.append(span("a", 0))
    assert {each.subscribers for each in violations(history)} == {("s",)}


def test_completeness_of_what_a_bounded_subscriber_dropped() -> None:
    """What it had jumped might still have come, late or as a gap; of a span that goes on all must be told."""
    history = new_history()
    subscriber = told(history, "s", "a2", "bounded")
    subscriber.spans.append(span("a", 0, 2, dropped=3.0))
    assert broken(history) == []
    subscriber.spans[0].dropped = None
    assert broken(history) == ["R17"]
    told(history, "s", "gap:a1:skipped")
    assert broken(history) == []


def test_what_expired_is_reported() -> None:
    """R12: one gap from the old clock to the new start; a new subscription owes nothing to an older one."""
    history = new_history("a1", "a2", "a3", "a4")
    subscriber = told(history, "s", "a1 gap:a2-3:expired a4")
    subscriber.spans += [span("a", 0, 1, dropped=2.0), span("a", 3, 4, began=3.0)]
    subscriber.spans[1].continues = True
    assert broken(history) == []
    subscriber.gaps.clear()
    assert [each.place for found in violations(history) for each in found.witnesses] == [place("a2"), place("a3")]
    subscriber.spans[1].continues = False
    assert broken(history) == []


def test_what_is_published_after_a_subscription_belongs_to_it() -> None:
    """R7."""
    history = History(LINGER)
    history.stamp(("p", 1, 1), place("a1"), [], 3, 1.0)
    history.stamp(("p", 1, 2), place("a2"), [], 5, 1.0)
    subscriber = history.subscriber("s")
    subscriber.spans.append(Span(1, 2, 5, 1.0, 2))
    assert broken(history) == []
    subscriber.spans[0].completed = 4
    (found,) = violations(history)
    assert (found.rule, found.witnesses) == ("R7", (Witness(("p", 1, 2), (1, 2)),))


# -- gaps (R16, R17) -------------------------------------------------------------------------------------------------


def test_a_gap_is_told_once() -> None:
    """R17."""
    history = new_history()
    told(history, "s", "gap:a1-2:lost gap:b2:lost gap:a3-4:abandoned")
    assert broken(history) == []
    told(history, "t", "gap:a1-3:skipped gap:a3-4:skipped", "bounded")
    assert broken(history) == ["R17"]


@pytest.mark.parametrize("mode", ["strict", "bounded"])
def test_nothing_is_both_notified_and_reported(mode: str) -> None:
    """R5, R17: what was reported is late if it comes after all; what was notified is not reported any more."""
    history = new_history()
    told(history, "s", "a1 gap:a2-3:lost a4 late:a2", mode)
    assert broken(history) == []
    told(history, "t", "gap:a2-3:lost a3", mode)
    assert broken(history) == ["R17"]
    history = new_history()
    told(history, "u", "a4 gap:a2-3:skipped late:a2", "bounded")
    assert broken(history) == []
    told(history, "v", "a4 late:a2 gap:a2-3:skipped", "bounded")
    assert broken(history) == ["R17"]


def test_gaps_of_strict_waiting_take_their_turn() -> None:
    """R17; who passes numbers over is told when they had not come for a while."""
    history = new_history()
    told(history, "s", "a1 gap:a2:lost a3")
    told(history, "t", "a1 a3 gap:a2:skipped", "bounded")
    assert broken(history) == []
    told(history, "u", "a1 a3 gap:a2:lost")
    assert broken(history) == ["R17"]


def test_strict_waiting_passes_nothing_over() -> None:
    """R6."""
    history = new_history()
    told(history, "s", "gap:a1:skipped")
    assert broken(history) == ["R17"]


@pytest.mark.parametrize("reason", ["lost", "unstamped", "abandoned", "expired", "overflow"])
@pytest.mark.parametrize("state", ["PENDING", "CONFIRMED", "VOID", "ABANDONED"])
def test_the_reason_of_a_gap(reason: str, state: str) -> None:
    """R16, R17: lost is what was confirmed, void is skipped without report; of the others the stage need not know."""
    history = new_history()
    told(history, "s", f"gap:a1-3:{reason}")
    history.states[place("a2")] = state
    right = {"lost": "CONFIRMED", "unstamped": "CONFIRMED", "abandoned": "ABANDONED"}.get(reason, state)
    assert broken(history) == ([] if state == right else ["R16"] if state == "VOID" else ["R17"])


# -- the end ---------------------------------------------------------------------------------------------------------


def test_every_wait_ends() -> None:
    history = new_history("a1")
    history.unfinished.append(Unfinished("s", "a1"))
    assert list(map(str, violations(history))) == ["convergence s is left with a1"]
    history.unfinished.clear()
    publish = history.publish(("pa", 1, 1), 1)
    assert broken(history) == ["convergence"]
    publish.outcome = "unknown"
    assert broken(history) == []


def test_the_heads_are_reached() -> None:
    """R17: the end of a burst, too; of what was dropped nobody is told."""
    history = new_history()
    told(history, "s", "a1").spans += [span("a", 0, 1), span("b", 0, 0, dropped=1.0)]
    told(history, "t", "a1").spans.append(span("a", 0))
    history.heads.update({1: 1, 2: 5})
    assert broken(history) == []
    history.heads[1] = 2
    assert broken(history) == ["R17", "R17"]


@pytest.mark.parametrize("mode", ["strict", "bounded"])
def test_an_acknowledged_publish_is_notified_or_reported(mode: str) -> None:
    """R17; who subscribed later or left has no claim."""
    history = new_history("a1")
    history.publish(("pa", 1, 1), 1).outcome = "acknowledged"
    told(history, "s", "a1", mode).spans.append(span("a", 0, 1))
    told(history, "t", "gap:a1:lost", mode).spans.append(span("a", 0, 1))
    told(history, "u", "", mode).spans += [span("a", 0, 0, dropped=1.0), span("a", 1, 1)]
    told(history, "v", "", mode).spans.append(span("b", 0, 0))
    assert broken(history) == []
    told(history, "w", "", mode).spans.append(span("a", 0, 0))
    assert broken(history) == ["R16"]


def test_an_acknowledged_publish_has_a_number_that_stands() -> None:
    """R16; it may have been abandoned: the acknowledgement came too late then."""
    history = new_history("a1")
    history.publish(("pa", 1, 1), 1).outcome = "acknowledged"
    history.publish(("pf", 1, 1), 1, "fifo").outcome = "acknowledged"
    history.states[place("a1")] = "ABANDONED"
    assert broken(history) == []
    history.states[place("a1")] = "VOID"
    assert broken(history) == ["R16"]
    history.publish(("pz", 1, 1), 1).outcome = "acknowledged"
    assert broken(history) == ["R16", "R16"]


# -- resuming (R18) --------------------------------------------------------------------------------------------------


def _resumed(clock: dict[int, int], before: str, after: str, *, start: int | None = None, end: int = 4) -> History:
    history = new_history()
    subscriber = told(history, "s", before)
    subscriber.spans.append(span("a", 0, dropped=1.0))
    subscriber.resume(clock)
    told(history, "s", after)
    subscriber.spans.append(span("a", clock.get(1, 0) if start is None else start, end, began=2.0))
    return history


def test_a_resume_repeats_what_was_not_saved_and_marks_it() -> None:
    """R18: at least once, from the saved clock."""
    assert broken(_resumed({1: 1}, "a1 a2 a3", "!a2 !a3 a4")) == []
    assert broken(_resumed({1: 3}, "a1 a2 a3", "!a4")) == []  # the broker may mark what never got here
    assert broken(_resumed({1: 1}, "a1 gap:a2:lost a3", "gap:a2:lost !a3 a4")) == []


def test_repeats_after_a_resume_are_marked() -> None:
    """R18."""
    assert broken(_resumed({1: 1}, "a1 a2 a3", "a2 !a3 a4")) == ["R18"]


def test_what_was_saved_is_not_repeated() -> None:
    """R18."""
    assert broken(_resumed({1: 2}, "a1 a2 a3", "!a2 !a3 a4")) == ["R18"]


def test_a_resume_leaves_nothing_out() -> None:
    """R17, R18: a2 was notified before, but not saved: the application may not have handled it."""
    assert broken(_resumed({1: 1}, "a1 a2 a3", "!a3 a4")) == ["R17"]


def test_repeats_keep_their_order() -> None:
    """R18: among each other, and before what is new."""
    assert broken(_resumed({1: 0}, "a1 b1 a2", "!a1 !b1 !a2 a3 a4")) == []
    assert broken(_resumed({1: 0}, "a1 b1 a2", "!b1 !a1 !a2 a3 a4")) == ["R18"]
    assert broken(_resumed({1: 0}, "a1 b1 a2", "!a1 !a2 a3 !b1 a4")) == ["R18"]


def test_repeats_are_no_second_place_in_total_order() -> None:
    """TNO counts where an event came first; s saw b1, a1 and then both again."""
    history = _resumed({}, "b1 a1", "!b1 !a1 a2 a3 a4")
    told(history, "t", "b1 a1")
    assert broken(history) == []
    told(history, "u", "a1 b1")
    assert broken(history) == ["TNO", "TNO"]
