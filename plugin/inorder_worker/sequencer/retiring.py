"""Retirement of unused topics, of which only name, id and last number are left.

A topic is in use while a subscription contains it (also one that lingers, R10), while one of its numbers is neither
settled nor complete, and when it gets a number. Once it has not been for ``topic_ttl_ms``, each stage forgets by itself
what it kept for it: numbers one by one, what they depended on, its sequencing group. No ride is needed, because nothing
that is left depends on it:

- Its numbers go on where they were, so none is ever given again; an event id whose number is forgotten is answered
  ``forgotten``, never numbered (R1), as beyond ``number_retention``.
- Nobody has the topic, so nobody can ask for its numbers (R17). Who takes it again begins behind all of them.
- What they depended on would be the base of such a beginning (R8). It was reached before the time to live began, which
  is at least ``linger``, and that is longer than an event may wait at a live subscriber.
- Its next timestamp regards its whole group, as that of any topic that is begun (R21).

Of topics that are in use the oldest settled numbers are forgotten (see ``forgetting``).
"""

from __future__ import annotations

from inorder_worker.sequencer.event_log import base_below
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import TopicManager

LOOKS = 8
"""How often topics are looked at within their time to live; one retires up to two looks after it."""


class Retiring:
    """The department of a stage that retires topics."""

    def __init__(self, state: StageState) -> None:
        self._state = state

    def next_deadline(self) -> int | None:
        """Return the stage time at which topics are looked at next, ``None`` if they never are."""
        ttl = self._state.settings.topic_ttl_ms
        return self._state.looked_at + max(1, ttl // LOOKS) if ttl else None

    def retire_due(self) -> None:
        """Retire topics that were idle for long enough, if it is time to look at all topics."""
        state, due = self._state, self.next_deadline()
        if due is None or due > state.now:
            return
        state.looked_at = state.now
        for manager in state.topics.values():
            if state.overlaps.anyone >> manager.id & 1:
                manager.idle_since = 0
            elif not manager.idle_since:
                manager.idle_since = state.now
            elif not manager.is_retired and manager.idle_since + state.settings.topic_ttl_ms <= state.now:
                if _is_open(manager):
                    manager.idle_since = 0
                else:
                    self._retire(manager)

    def _retire(self, manager: TopicManager) -> None:
        state = self._state
        manager.is_retired = True
        if manager.log_first:
            manager.log_base = base_below(manager)  # what is in its log stays (R18)
        state.kept -= len(manager.records)
        manager.records, manager.marks, manager.mark_at = {}, [], 0
        manager.expired, manager.expired_base, manager.base = manager.number, {}, {}
        manager.filled = 0


def _is_open(manager: TopicManager) -> bool:
    return any(each.is_open for each in manager.records.values())
