"""Every interleaving of small systems keeps every promise; without the rule that one is for, some do not.

The state counts are not asserted: they are what the search says, and change with the core.
"""

from __future__ import annotations

import json
import pickle
import sys

import pytest
from tests.core.table import Table
from tests.core.without import RULES
from tests.explorer.__main__ import main
from tests.explorer.configs import CONFIGS, random_config
from tests.explorer.freeze import client_key
from tests.explorer.search import Found, explore

from inorder.endpoint.waiting import WaitingRoom
from inorder.protocol.names import exact

SHORT = [name for name, each in CONFIGS.items() if not each.long]
LONG = [name for name, each in CONFIGS.items() if each.long]
NEEDS = {name: each.rule for name, each in CONFIGS.items() if each.rule is not None}
RARE = {"r23-announced", "r23-group", "r23-epoch"}
"""Where a violation is found after many steps only; scenarios show each of them."""
SMALL = ["r1-again", "r9-hold", "r10-linger", "r10-later-topic", "r13-new-topic", "r6-floor"]
"""Where leaving out nothing is affordable: explored in both ways."""


def _explore(name: str, **options: bool) -> Found:
    found = explore(CONFIGS[name], **options)
    print(f"{name}: {found}")  # noqa: T201
    assert not found.violations, str(found)
    assert found.is_complete
    return found


@pytest.mark.parametrize("name", [each for each in SHORT if each not in SMALL])
def test_every_interleaving_keeps_every_promise(name: str) -> None:
    assert _explore(name).outcomes


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_every_interleaving_of_larger_systems(name: str) -> None:
    assert _explore(name).outcomes


def _explore_by_chance(first: int, systems: int, max_states: int) -> None:
    broken = []
    for seed in range(first, first + systems):
        found = explore(random_config(seed), max_states)
        print(f"seed {seed}: {found}")  # noqa: T201
        if found.violations:
            broken.append(f"seed {seed}: {found}")
    assert not broken, "\n".join(broken)


def test_systems_made_by_chance() -> None:
    _explore_by_chance(1, systems=10, max_states=1000)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1500, 100))
def test_many_systems_made_by_chance(first: int) -> None:
    _explore_by_chance(first, systems=100, max_states=2000)


def test_chance_finds_what_a_rule_prevents(monkeypatch: pytest.MonkeyPatch) -> None:
    """The systems made by chance are not too small to break."""
    RULES["hold"](monkeypatch)
    assert any(explore(random_config(seed), 1000).violations for seed in range(1, 30))


@pytest.mark.parametrize(
    ("name", "rule"), [pytest.param(*each, marks=pytest.mark.long if each[0] in RARE else ()) for each in NEEDS.items()]
)
def test_without_its_rule_a_violation_is_found(name: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[rule](monkeypatch)
    found = explore(CONFIGS[name])
    print(f"{name} without {rule}: {found}")  # noqa: T201
    assert found.violations
    assert found.trace


@pytest.mark.parametrize("name", SMALL)
def test_leaving_out_moves_leaves_out_no_outcome(name: str) -> None:
    reduced, whole = _explore(name), _explore(name, reduced=False)
    assert reduced.outcomes == whole.outcomes != set()
    assert reduced.states < whole.states


def test_a_trace_says_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    RULES["hold"](monkeypatch)
    found = explore(CONFIGS["r9-hold"])
    assert {"A asks for a b", "the ENS delivers y to A"} <= set(found.trace)
    assert found.violations == [
        "TNO A (strict) was notified of a#1 ('q', 1, 1) before b#1 ('p', 1, 1), B (strict) after it"
    ]


def _parts_of(value: object, parts: dict[int, object]) -> dict[int, object]:
    if type(value).__module__.startswith("inorder.endpoint.") and hasattr(value, "__dict__") and id(value) not in parts:
        parts[id(value)] = value
        for each in vars(value).values():
            _parts_of(each, parts)
    return parts


def test_states_of_a_client_are_told_apart_by_all_that_its_endpoint_knows() -> None:
    table = Table({"a": 0, "b": 1})
    table.join("A")
    client = table.clients["A"]
    client.change({exact("a"), exact("b")})
    table.collect()
    table.settle_down()
    key = client_key(client)
    assert client_key(pickle.loads(pickle.dumps(client))) == key
    parts = _parts_of(client.endpoint, {})
    assert len(parts) > 20
    for part in parts.values():
        vars(part)["surprise"] = 1
        is_told = client_key(client) != key
        del vars(part)["surprise"]
        # what waits speaks for itself: whoever gives it more to know has to see whether that counts
        known = {"_has_limits", "entries", "_order", "_alarms", "_arrivals", "_by_ticks", "size", "count", "changed"}
        assert is_told or (isinstance(part, WaitingRoom) and vars(part).keys() == known), part


def test_the_limit_is_kept_and_told() -> None:
    found = explore(CONFIGS["r2-belt"], max_states=100)
    assert found.states >= 100
    assert not found.is_complete
    assert "not all states" in str(found)


def test_the_command_line_prints_one_object_a_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["tests.explorer", "--config", "r9-hold", "--json"]
    monkeypatch.setattr(sys, "argv", command)
    assert main() == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["config"] == "r9-hold"
    assert facts["is_complete"] is True
    assert facts["violations"] == []
    monkeypatch.setattr(sys, "argv", [*command, "--without", "hold"])
    assert main() == 1
