"""Idle topics end (see ``ending``), or retire: then only name, id and last number are left.

A topic is idle once it got no number for ``topic_ttl_ms``, and none of its numbers is unsettled or incomplete. One that
may not end retires while no subscription contains it (also one that lingers, R10): each stage forgets by itself what it
kept for it: numbers one by one, what they depended on. No ride is needed, because nothing that is left depends on it:

- Its numbers go on where they were, so none is ever given again; an event id whose number is forgotten is answered
  ``forgotten``, never numbered (R1), as beyond ``number_retention``.
- Nobody has the topic, so nobody can ask for its numbers (R17). Who takes it again begins behind all of them.
- What they depended on would be the base of such a beginning (R8). It was reached before the time to live began, which
  is at least ``linger``, and that is longer than an event may wait at a live subscriber.
- Its next timestamp regards its whole group, as that of any topic that is begun (R21).

Of topics that are in use the oldest settled numbers are forgotten (see ``forgetting``).
"""

from __future__ import annotations

from itertools import islice

from inorder_worker.sequencer.ending import Ending
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import TopicManager

LOOKS = 8
"""How often topics are looked at within their time to live; one retires up to two looks after it."""
PAUSE_MS = 50
"""Between two looks where one found more topics than may end at once."""


class Retiring:
    """The department of a stage that retires topics."""

    def __init__(self, state: StageState, ending: Ending) -> None:
        self._state, self._ending = state, ending

    def next_deadline(self) -> int | None:
        """Return the stage time at which topics are looked at next, ``None`` if they never are."""
        ttl = self._state.settings.topic_ttl_ms
        return self._state.looked_at + self._step if ttl else None

    @property
    def _step(self) -> int:
        return max(1, self._state.settings.topic_ttl_ms // LOOKS)

    def retire_due(self) -> None:
        """Retire topics that were idle for long enough, if it is time to look at all topics."""
        state, due = self._state, self.next_deadline()
        if due is None or due > state.now:
            return
        state.looked_at = state.now
        has_more = self._ending.end_read()
        idle = [each for each in state.topics.values() if self._is_idle(each)]
        closed = [each for each in idle if not _is_open(each)]
        most = self._ending.at_once
        ending = list(islice(self._ending.may_end(closed), most + 1))
        for manager in closed:
            is_read = state.overlaps.anyone >> manager.id & 1
            if not (is_read or manager.is_retired or manager.id in state.endings):
                self._retire(manager)
        self._ending.begin(ending[:most])
        if has_more or len(ending) > most:
            state.looked_at += PAUSE_MS - self._step

    def _is_idle(self, manager: TopicManager) -> bool:
        manager.idle_since = manager.idle_since or self._state.now
        return manager.idle_since + self._state.settings.topic_ttl_ms <= self._state.now

    def _retire(self, manager: TopicManager) -> None:
        state = self._state
        manager.is_retired = True
        state.kept -= len(manager.records)
        manager.records, manager.marks, manager.mark_at = {}, [], 0
        manager.expired, manager.base = manager.number, {}
        manager.filled = 0


def _is_open(manager: TopicManager) -> bool:
    return any(each.is_open for each in manager.records.values())
