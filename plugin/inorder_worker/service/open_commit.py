"""The work that collects between two commits, to be written by the next one and released after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from inorder_worker.sequencer.commands import Effect, LogChange, LogEvent, Reply, Send
from inorder_worker.service.work import Source, StageElsewhere, Work
from inorder_worker.store.log_rows import LogRow, LogWrite
from inorder_worker.store.records import now_ms

MOST_AT_ONCE: Final = 0.1
"""Seconds of work between two turns of the event loop: a question of some bytes may cost much more than these."""


@dataclass(slots=True)
class OpenCommit:
    """The effects of one group commit, beside the stages' rows.

    Attributes:
        replies: leave when the commit is durable, in this order.
        proofs: replies that leave when the commit has also shown that all stages here are ours (R12).
        sends: (stage, a ride of it), in the order in which they were made.
        delivered: (stage, origin) -> last ride taken from that stage.
        after: called when the commit is durable.
        settled: by the identity of a source: the source, and how many of its requests, of how many bytes, are answered
            or dropped with this commit.
        log: changes of event logs and of the history of topic orders; they are part of the commit's transaction.
        commands, size: that were stepped, and the bytes that they take.
        is_urgent: somebody may wait for it.
        spent: seconds of work so far.
    """

    replies: list[Reply] = field(default_factory=list)
    proofs: list[Reply] = field(default_factory=list)
    sends: list[tuple[int, Send]] = field(default_factory=list)
    delivered: dict[tuple[int, int], int] = field(default_factory=dict)
    after: list[Callable[[], None]] = field(default_factory=list)
    settled: dict[int, tuple[Source, int, int]] = field(default_factory=dict)
    log: list[LogWrite] = field(default_factory=list)
    commands: int = 0
    size: int = 0
    is_urgent: bool = False
    spent: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to commit or release."""
        return not (self.commands or self.replies or self.proofs or self.after or self.settled)

    def has_room(self, max_commands: int, max_bytes: int) -> bool:
        """Tell whether more may be run before its commit, and the next turn of the event loop."""
        return self.commands < max_commands and self.size < max_bytes and self.spent < MOST_AT_ONCE

    def run(self, work: Work, clock: Callable[[], float]) -> None:
        """Run work, and count its seconds by a clock. Raises StageBroken."""
        began = clock()
        try:
            work.run()
        except StageElsewhere:
            work.elsewhere()
        finally:
            self.spent += clock() - began

    def take(self, stage: int, effects: Iterable[Effect], size: int, contents: Mapping[int, bytes]) -> None:
        """Add what a command of ``size`` bytes brought about at a stage. ``contents``: what was taken out of the
        command for event logs, by counter."""
        self.commands += 1
        self.size += size
        for effect in effects:
            if isinstance(effect, Reply):
                self.replies.append(effect)
            elif isinstance(effect, Send):
                self.sends.append((stage, effect))
            else:
                self._take_change(effect, contents)

    def _take_change(self, change: LogChange, contents: Mapping[int, bytes]) -> None:
        if not isinstance(change, LogEvent):
            self.log.append(change)
            return
        content = change.content
        if content is not None and not content:
            content = contents.get(change.counter)
            self.size += len(content or b"")
        self.log.append(LogRow(change.topic, change.number, now_ms(), change.deps, content, change.ticks))

    def settle_with(self, work: Work) -> None:
        """A request was run, or dropped: its source hears of it with this commit's answers."""
        if work.source is not None:
            _, count, size = self.settled.get(id(work.source), (work.source, 0, 0))
            self.settled[id(work.source)] = (work.source, count + work.count, size + work.size)

    def settle(self) -> None:
        """Tell the sources that their requests are answered or dropped."""
        for source, count, size in self.settled.values():
            source.settled(count, size)
