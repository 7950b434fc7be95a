"""The chat under ``examples/``, before and after the change of its import."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.programs import Program, versions

from inorder.testing.services import Mosquitto, WorkerServer


@pytest.mark.parametrize("program", versions("paho_chat"), ids=lambda path: path.stem)
def test_two_talk(program: Path, worker: WorkerServer) -> None:
    with Mosquitto() as broker:
        port = str(broker.port)
        with (
            Program(program, "ann", port, workers=worker.url) as ann,
            Program(program, "bob", port, workers=worker.url) as bob,
        ):
            for each, name in ((ann, "ann"), (bob, "bob")):
                each.until(lambda lines, name=name: f"{name} is here" in lines, what="the subscription")  # type: ignore[misc]
            ann.say("hello")
            bob.until(lambda lines: "[hall] ann: hello" in lines, what="the greeting")
            bob.say("!to be")
            bob.say("or not to be")
            for each in (ann, bob):
                each.until(lambda lines: "[hall] bob: or not to be" in lines, what="the rest")
            assert ann.end() == 0
            bob.until(lambda lines: "[hall] ann leaves" in lines, what="her good-bye")
            assert bob.end() == 0
        talk = ["[hall] ann: hello", "[stage] bob: to be", "[hall] bob: or not to be"]
        assert ann.lines[:4] == ["ann is here", *talk]
        assert bob.lines[:5] == ["bob is here", *talk, "[hall] ann leaves"]
