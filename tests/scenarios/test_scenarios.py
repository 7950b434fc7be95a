"""Every scenario of this folder holds; and its language tells what is wrong with a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.language import ScenarioError, ScenarioFailed
from tests.scenarios.player import play, run

FOLDER = Path(__file__).parent
SCENARIOS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda each: each.stem)
def test_scenario(path: Path) -> None:
    run(path)
