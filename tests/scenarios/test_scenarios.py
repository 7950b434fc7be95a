"""Every scenario holds, and does not without its rule; and the language says what is wrong with a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.without import RULES
from tests.design import DESIGN, entries, sections
from tests.scenarios.language import ScenarioError, ScenarioFailed
from tests.scenarios.player import VERBS, play, run

FOLDER = Path(__file__).parent
SCENARIOS = {path.stem: path for path in sorted(FOLDER.glob("*.txt"))}
NEEDS: dict[str, str] = {
    "r01_one_timestamp_for_one_event": "one_timestamp",
    "r02_belt": "belt",
    "c07_circle_of_pairs": "belt",
    "c24_a_group_shrinks_behind_an_event": "belt",
    "r04_at_least": "at_least",
    "r06_floor": "floor",
    "r07_announces_clocks": "announcement",
    "r08_extending_keeps_clocks": "kept_clocks",
    "r08_base": "base",
    "r08_begun_behind": "begun_behind",
    "r14_parted_topics": "parted",
    "r09_hold": "hold",
    "r10_linger": "linger",
    "r10_linger_for_a_later_topic": "linger",
    "r10_carried_once_more": "carried_once",
    "r10_an_older_end": "version",
    "r12_cut_from_the_workers_only": "lease",
    "r12_an_expired_topic_lingers": "expired_linger",
    "r13_new_topic": "filters",
    "r17_heads_of_a_new_topic": "heads_of_new_topics",
    "e1_no_hand_over": "hand_over",
    "r15_a_pinned_topic_stays": "pins",
    "r17_void_waits_for_its_dependencies": "void_dependencies",
    "r24_not_read_is_not_lost": "barriers",
    "r19_dependencies": "publisher_order",
    "r19_path": "path",
    "r19_added_above": "added_above",
    "r19_passed_above": "passed_above",
    "r19_a_dropped_session": "lost_connections",
    "r21_a_topic_that_joins_a_group": "gained",
    "r22_left_is_read_on": "drain",
    "r22_begun_behind_its_event": "fresh",
    "r22_begun_before_its_topic": "fresh",
    "r22_no_event_in_this_order": "real",
    "r22_begun_before_the_order_changed": "begun_elsewhere",
    "r22_a_reader_without_it": "readers",
    "r22_a_reader_that_left": "lingering_reads",
    "r22_a_replaced_reader": "former",
    "r22_asked_again": "answered_alike",
    "r23_ticks": "ticks",
    "r23_order_epoch": "order_epoch",
    "r23_announced": "announced_ticks",
    "r23_without_a_group": "events_alone",
    "r23_alone": "groups",
    "r23_passed_above": "ticks_above",
    "r23_predecessors_first": "before_by_ticks",
}
"""Scenario -> the rule without which it must fail (:mod:`tests.core.without`)."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    run(SCENARIOS[name])


@pytest.mark.parametrize(("name", "rule"), NEEDS.items())
def test_a_scenario_fails_without_its_rule(name: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[rule](monkeypatch)
    with pytest.raises(ScenarioFailed):
        run(SCENARIOS[name])


def test_every_rule_has_a_scenario_that_needs_it() -> None:
    assert set(NEEDS.values()) == set(RULES)


def test_what_shows_a_rule_stands_with_it() -> None:
    """docs/DESIGN.md names every scenario that is called after a rule, and everything that can be switched off."""
    shown = {rule: entries(body, "Shown by") for rule, body in sections(DESIGN.read_text()).items()}
    named = {rule: {Path(path).stem for path, _ in found} for rule, found in shown.items()}
    off = {name for found in shown.values() for path, names in found for name in names if path.endswith("/without.py")}
    called = [name for name in SCENARIOS if name.startswith("r")]
    assert [name for name in called if name not in named[int(name[1:3])]] == []
    assert [name for name in RULES if name not in off] == []


# -- the language --------------------------------------------------------------------------------------------------


def _error(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        play(text)
    return str(caught.value)


def test_a_line_that_cannot_be_read_names_its_number_and_what_is_allowed() -> None:
    found = _error("order: a\n\n# a comment\nclient p\np publishs x on a\n")
    assert found.startswith("scenario, line 5: cannot read 'p publishs x on a'; allowed:\n")
    assert "    CLIENT publishes EVENT on TOPIC [at once]" in found.splitlines()
    assert "    deliver everything" not in found.splitlines()
    assert "expect CLIENT waits: ITEMS" in _error("order: a\nexpect all is well")
    assert all(each.pattern in _error("order: a\nxyzzy") for each in VERBS)


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    start = "order: a b | c\nclient p\n"
    assert _error(start + "q publishes x on a") == "scenario, line 3: there is no client 'q'; there is: p"
    assert _error(start + "client A with d") == "scenario, line 3: there is no topic 'd'; there is: a, b, c"
    assert _error(start + "request x").startswith("scenario, line 3: no request of x is on its way; under way: nothing")
    assert _error(start + "p publishes x on c\npass x to 2") == (
        "scenario, line 4: there is no stage '2'; there is: 0, 1"
    )
    assert _error(start + "client p") == "scenario, line 3: 'p' is a name already"
    assert _error("client p") == (
        "scenario, line 1: the scenario begins with its topics, highest first: order: a b | c | d"
    )


def test_what_is_under_way_is_told_when_something_is_not() -> None:
    text = "order: a | b\nclient A with a b\nclient B with a b\nclient p\np publishes x on b\nrequest x\nanswer x"
    assert _error(text) == ("scenario, line 7: no answer for x is on its way; under way: x from stage 1 to 0")


def test_an_expectation_that_does_not_hold_says_both() -> None:
    with pytest.raises(ScenarioFailed) as caught:
        play("order: a\nclient A with a\nexpect A: x")
    assert str(caught.value) == "scenario, line 3: A: expected ['x'], got []"
