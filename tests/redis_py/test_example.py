"""The price ticker under ``examples/``, before and after the change of its import."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.programs import Program, versions

from inorder.testing.services import RedisServer, WorkerServer


@pytest.mark.parametrize("program", versions("redis_ticker"), ids=lambda path: path.stem)
def test_two_watch_and_one_feeds(program: Path, worker: WorkerServer) -> None:
    with (
        RedisServer() as server,
        Program(program, "watch", str(server.port), workers=worker.url) as one,
        Program(program, "watch", str(server.port), workers=worker.url) as two,
    ):
        for each in (one, two):
            each.until(lambda lines: "watching" in lines, what="the subscription")
        with Program(program, "feed", str(server.port), workers=worker.url) as feed:
            feed.say("ACME 101.5")
            feed.say("INIT 7")
            feed.say("ACME 99")
            feed.until(lambda lines: len(lines) == 3, what="the replies")
            assert feed.lines == ["ACME 101.5: 2 watching", "INIT 7: 2 watching", "ACME 99: 2 watching"]
            assert feed.end() == 0
        shown = ["the market is open", "ACME 101.5", "INIT 7", "ACME 99 (was 101.5)", "the market is closed"]
        for each in (one, two):
            assert each.end() == 0
            assert each.lines == ["watching", *shown]


def test_a_watcher_of_each_kind(worker: WorkerServer) -> None:
    """A program that was not changed publishes, one that was reads: at once, as ever."""
    before, after = versions("redis_ticker")
    with RedisServer() as server, Program(after, "watch", str(server.port), workers=worker.url) as watcher:
        watcher.until(lambda lines: "watching" in lines, what="the subscription")
        with Program(before, "feed", str(server.port)) as feed:
            feed.say("ACME 1")
            assert feed.end() == 0
        assert watcher.end() == 0
        assert watcher.lines == ["watching", "the market is open", "ACME 1", "the market is closed"]
