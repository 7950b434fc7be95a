"""Bugs to plant, each in the rule that a profile is full of; see :mod:`tests.core.without` for most of them.

A bug is planted for the time of one test, by putting something else in the place of a method. The product has no switch
for any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from msgspec.structs import replace
from tests.core import without
from tests.simulation import hosts
from tests.simulation.clients import Client
from tests.simulation.hosts import Host

from inorder.endpoint.arrivals import Arrivals
from inorder.endpoint.changes import Change
from inorder.endpoint.durable import SavedClock
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.lease import Lease
from inorder.endpoint.limits import Limits
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.subscribing import Subscribing
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.wire import NewEvent, NumberAnswer, NumberState
from inorder_worker.sequencer import filling, retiring, stamping, subscribing
from inorder_worker.sequencer.commands import Create, Send
from inorder_worker.sequencer.ending import Ending
from inorder_worker.sequencer.following import Following
from inorder_worker.sequencer.partings import Parting, Partings
from inorder_worker.sequencer.reordering import Reordering
from inorder_worker.sequencer.retiring import Retiring
from inorder_worker.sequencer.sequencing import Overlaps
from inorder_worker.sequencer.sessions import Sessions
from inorder_worker.sequencer.settling import Settling
from inorder_worker.sequencer.stage import Stage
from inorder_worker.sequencer.state import StageState, Switch
from inorder_worker.sequencer.topic_manager import Session, TopicManager

Patch = pytest.MonkeyPatch


def lost_answers(patch: Patch) -> None:
    """R1: a stage that recovers has forgotten which requests it answered."""
    whole = Host.crash

    def crash(self: Host, down: float) -> None:
        whole(self, down)
        for session in self.stage._state.sessions.values():
            session.answers.clear()

    patch.setattr(Host, "crash", crash)


def taken_for_dropped(patch: Patch) -> None:
    """R1: a stage that has never had a client's session takes it for dropped; so whatever the client has asked other
    stages for is forgotten here, also what is on its way here."""
    patch.setattr(Sessions, "_unknown_below", lambda self, command, first: first)


def unknown_drops(patch: Patch) -> None:
    """R1: a stage does not know which sessions it has dropped, and takes them for new."""
    patch.setattr(Session, "highest", 0)


def resend_out_of_order(patch: Patch) -> None:
    """R2: what is resent over a link comes last first, and nobody looks at the numbers."""
    whole = Stage.unacknowledged

    def unacknowledged(self: Stage, stage: int) -> list[Send]:
        return whole(self, stage)[::-1]

    def take(self: StageState, origin: int, number: int) -> bool:
        self.received[origin] = max(number, self.received.get(origin, 0))
        return True

    patch.setattr(Stage, "unacknowledged", unacknowledged)
    patch.setattr(StageState, "take", take)


def aliased(patch: Patch) -> None:
    """R2: a stage fills in the very list that the stage below still keeps for resending."""
    patch.setattr(stamping, "list", lambda each: each, raising=False)


def nothing_owed(patch: Patch) -> None:
    """R10: nobody notes what topics owe when somebody leaves others beside them."""
    patch.setattr(subscribing, "owed_by", lambda *_: (0, []))


def owed_too_late(patch: Patch) -> None:
    """R10: what topics owe is noted when the others have left their groups."""
    note = Partings.note
    states: list[StageState] = []

    def owed_by(state: StageState, _: int) -> tuple[int, list[tuple[int, list[int]]]]:
        states[:] = [state]
        return 0, []

    def note_now(self: Partings, parting: Parting) -> None:
        bare, owed = filling.owed_by(states[0], parting.kept)
        note(self, parting._replace(bare=bare, owed=owed))

    patch.setattr(subscribing, "owed_by", owed_by)
    patch.setattr(Partings, "note", note_now)


def owed_at_home(patch: Patch) -> None:
    """R10: only at a topic's home it is noted what it owes."""

    def owed_by(state: StageState, kept: int) -> tuple[int, list[tuple[int, list[int]]]]:
        return filling.owed_by(state, kept & state.on_stage[state.index])

    patch.setattr(subscribing, "owed_by", owed_by)


def unmerged(patch: Patch) -> None:
    """R6: an event that is forced does not move the clocks of what it depends on."""
    whole = Limits._let_go

    def let_go(self: Limits, entry: Sequenced, now: float) -> None:
        deps, entry.deps = entry.deps, []
        whole(self, entry, now)
        entry.deps = deps

    patch.setattr(Limits, "_let_go", let_go)


def forced_while_pending(patch: Patch) -> None:
    """R6: an event of a topic whose subscribe is outstanding is let go by the limit, too."""
    whole = Turns._receive_unbegun

    def receive_unbegun(self: Turns, entry: Sequenced) -> None:
        if not self.is_strict and self.unbegun.is_held(entry.topic):
            self.out.append(entry)
        else:
            whole(self, entry)

    patch.setattr(Turns, "_receive_unbegun", receive_unbegun)


def early_holes(patch: Patch) -> None:
    """R17: a hole is skipped when its stage has answered, not in its turn."""
    whole = Turns.put_hole

    def put_hole(self: Turns, reader: TopicReader, number: int, *arguments: Any) -> Sequenced:
        made = whole(self, reader, number, *arguments)
        reader.clock = max(reader.clock, number - 1)
        return made

    patch.setattr(Turns, "put_hole", put_hole)


def pending_is_void(patch: Patch) -> None:
    """R17: a number that is still pending is answered as if its publisher had given it up."""
    whole = Settling._answer

    def answer(manager: Any, number: int) -> NumberAnswer:
        found = whole(manager, number)
        return replace(found, state=NumberState.VOID) if found.state is NumberState.PENDING else found

    patch.setattr(Settling, "_answer", staticmethod(answer))


def released_alone(patch: Patch) -> None:
    """R17: a number that an operator gave up is skipped whatever comes before it."""
    whole = Settling._release_all

    def release_all(self: Settling, manager: Any, records: list[Any], to: NumberState) -> list[int]:
        for record in records:
            record.deps = []
        return whole(self, manager, records, to)

    patch.setattr(Settling, "_release_all", release_all)


def no_flush(patch: Patch) -> None:
    """R14: a stage hands over as soon as it is sealed, whatever is still on the links."""

    def go_on(self: Reordering, switch: Switch) -> None:
        if switch.is_sealed and not switch.is_sent:
            switch.is_sent = True
            self._hand_over(switch)
        if switch.is_sent and len(switch.finished) == self._state.count - 1:
            self._switch(switch)

    patch.setattr(Reordering, "_go_on", go_on)


def forgotten_numbers(patch: Patch) -> None:
    """R14: after a switch the stages do not know each other's last numbers."""
    patch.setattr(Reordering, "_take_numbers", lambda self, parts: None)


def readmitted(patch: Patch) -> None:
    """R14: requests that a sealed stage got are taken right after the switch, whatever their path was."""
    whole = Reordering.holds

    def holds(self: Reordering, command: Any) -> bool:
        switch = self._state.switch
        if isinstance(command, Create) and switch is not None:
            switch.held.append(replace(command, order_epoch=switch.order_epoch))
            return True
        return whole(self, command)

    patch.setattr(Reordering, "holds", holds)


def logged_voids(patch: Patch) -> None:
    """R16, R18: what its publisher took back is void, though the log has it."""
    patch.setattr(TopicManager, "has_logged", lambda self, record: False)


def belt(patch: Patch) -> None:
    """R2: see there; a ride that jumps is taken by the stage where it lands."""
    without.belt(patch)
    patch.setattr(hosts, "check_ride", lambda ride, origin, stage: None)


def restarted_numbers(patch: Patch) -> None:
    """A topic that retires begins with number 1 when it is used again."""
    whole = Retiring._retire

    def retire(self: Retiring, manager: TopicManager) -> None:
        whole(self, manager)
        manager.number = manager.expired = 0

    patch.setattr(Retiring, "_retire", retire)


def retired_open(patch: Patch) -> None:
    """A topic retires although it has numbers of which nobody knows yet what became of them."""
    patch.setattr(retiring, "_is_open", lambda manager: False)


def ended_unread(patch: Patch) -> None:
    """A topic ends at once, though its readers may lack some of it."""
    patch.setattr(Overlaps, "is_read_by", lambda self, topic, clients: True)


def read_too_early(patch: Patch) -> None:
    """A client says that it has read a topic to its end when it hears of that end."""
    patch.setattr(OrderingModule, "has_read", lambda self, topic, number: True)


def ended_open(patch: Patch) -> None:
    """A topic ends although it has numbers of which nobody knows yet what became of them."""
    patch.setattr(retiring, "_is_open", lambda manager: False)


def numbered_behind_a_refusal(patch: Patch) -> None:
    """R19: requests behind one of a topic that has ended get their numbers before it."""
    whole = Ending.refuse

    def refuse(self: Ending, session: Session, command: Create, requests: Iterator[NewEvent]) -> None:
        whole(self, session, command, requests if command.refusals < session.refusals else islice(requests, 1))

    patch.setattr(Ending, "refuse", refuse)


def hasty(patch: Patch) -> None:
    """R12, R19: a client asks before it has heard what the stages have dropped of its session."""
    whole = Client.connect

    def connect(self: Client) -> None:
        whole(self)
        self.is_open = [True] * len(self.is_open)
        self.endpoint.reached(set(range(len(self.is_open))), len(self.is_open) - 1)
        self.endpoint.flush(settle=True)
        self.perform()

    patch.setattr(Client, "connect", connect)


def whole_timeout(patch: Patch) -> None:
    """R12: a client counts on its subscription for the whole timeout; the stage's clock is faster than its own."""
    whole = Lease.opened
    patch.setattr(Lease, "opened", lambda self, stage, timeout, greeted: whole(self, stage, 2 * timeout, greeted))


def sleeping_clock(patch: Patch) -> None:
    """R12: the clock of the lease stands still while the client's machine sleeps."""
    whole = Client.suspend

    def suspend(self: Client, until: float) -> None:
        whole(self, until)
        self._boot.show(self.uptime, until)

    patch.setattr(Client, "suspend", suspend)


def believed(patch: Patch) -> None:
    """R19: whatever a client says of numbers is believed."""
    patch.setattr(stamping, "may_follow", lambda state, session, after: True)
    patch.setattr(stamping, "may_pass", lambda state, session, after: True)
    patch.setattr(Following, "proved", lambda self, manager, deps: list(deps))


def unheld_change(patch: Patch) -> None:
    """R9: the endpoint does not tell the ordering module that a subscribe is outstanding."""
    whole = Subscribing._begin

    def begin(self: Subscribing, change: Change) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self._ordering, "subscribing", lambda: None)
            whole(self, change)

    patch.setattr(Subscribing, "_begin", begin)


def saved_ahead(patch: Patch) -> None:
    """R18: more counts as done with than the application has asked to go on from."""
    whole = SavedClock.save

    def save(self: SavedClock) -> None:
        self._unsaved = {topic: number + 3 for topic, number in self._unsaved.items()}
        whole(self)

    patch.setattr(SavedClock, "save", save)


def saved_once(patch: Patch) -> None:
    """R18: a clock that is on its way to be saved is not sent again on a new connection."""
    patch.setattr(SavedClock, "reached", lambda self: None)


def unmarked_repeats(patch: Patch) -> None:
    """R18: what is notified again after a resume does not say so."""
    patch.setattr(Arrivals, "note_repeats", lambda self, starts: None)


def not_asked_again(patch: Patch) -> None:
    """R7: a subscription change that was on its way is not asked for again on a new connection."""
    whole = Endpoint.reached

    def reached(self: Endpoint, stages: set[int], bottom: int) -> None:
        whole(self, stages, bottom)
        self._is_bottom_back = False

    patch.setattr(Endpoint, "reached", reached)


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug to plant.

    Attributes:
        plant: puts it there.
        profile: what runs are full of that find it.
        seeds: one of so many seeds finds it, from ``first`` on (those before it are known to find nothing).
    """

    plant: Callable[[Patch], None]
    profile: str
    seeds: int
    first: int = 1


_BUGS = (
    Bug(without.one_timestamp, "resend", 5),
    Bug(lost_answers, "resend", 10),
    Bug(taken_for_dropped, "fresh", 40, first=6),
    Bug(unknown_drops, "dropped", 15, first=5),
    Bug(belt, "belt", 40, first=6),
    Bug(resend_out_of_order, "resend", 10, first=8),
    Bug(aliased, "resend", 30),
    Bug(without.at_least, "churn", 5),
    Bug(unmerged, "forced", 5),
    Bug(forced_while_pending, "forced", 5),
    Bug(without.announcement, "grow", 40, first=18),
    Bug(without.kept_clocks, "churn", 20, first=8),
    Bug(without.base, "begun", 5, first=5),
    Bug(without.begun_behind, "begun", 40, first=8),
    Bug(without.hold, "pending", 15),
    Bug(without.linger, "linger", 10),
    Bug(without.carried_once, "shrink", 40, first=7),
    Bug(nothing_owed, "shed", 5, first=17),
    Bug(owed_too_late, "shed", 5, first=17),
    Bug(owed_at_home, "shed", 5, first=27),
    Bug(without.version, "retake", 150, first=17),
    Bug(without.lease, "expiry", 5),
    Bug(without.expired_linger, "gone", 60, first=68),
    Bug(whole_timeout, "lease", 10),
    Bug(sleeping_clock, "lease", 30, first=16),
    Bug(hasty, "away", 20),
    Bug(without.filters, "created", 20),
    Bug(without.heads_of_new_topics, "unheard", 5, first=155),
    Bug(no_flush, "order", 10),
    Bug(forgotten_numbers, "moved", 5),
    Bug(without.hand_over, "moved", 20),
    Bug(readmitted, "order", 60, first=5),
    Bug(pending_is_void, "holes", 10),
    Bug(early_holes, "holes", 15),
    Bug(released_alone, "released", 5, first=26),
    Bug(without.void_dependencies, "holes", 40, first=24),
    Bug(without.publisher_order, "path", 5),
    Bug(without.path, "path", 5),
    Bug(without.added_above, "path", 5),
    Bug(without.passed_above, "path", 5),
    Bug(without.ticks, "compact", 5),
    Bug(without.order_epoch, "epochs", 5, first=43),
    Bug(without.announced_ticks, "ticks", 5, first=486),
    Bug(without.ticks_above, "compact", 5),
    Bug(without.events_alone, "ticks", 20),
    Bug(without.gained, "gain", 80, first=63),
    Bug(without.fresh, "told", 3, first=18),
    Bug(without.readers, "churn", 5, first=7),
    Bug(without.lingering_reads, "churn", 5, first=16),
    Bug(without.answered_alike, "any", 1, first=5000319),
    Bug(without.drain, "churn", 5, first=10),
    Bug(without.real, "told", 5, first=6),
    Bug(restarted_numbers, "idle", 4, first=760),
    Bug(retired_open, "idle", 20),
    Bug(ended_unread, "ended", 20),
    Bug(read_too_early, "ended", 20),
    Bug(ended_open, "ended", 20),
    Bug(numbered_behind_a_refusal, "ended", 40),
    Bug(logged_voids, "logged", 20, first=11),
    Bug(without.barriers, "stopped", 15, first=11),
    Bug(believed, "lies", 5, first=5),
    Bug(unheld_change, "pending", 10),
    Bug(saved_ahead, "durable", 3, first=24),
    Bug(saved_once, "durable", 5),
    Bug(unmarked_repeats, "durable", 3, first=16),
    Bug(without.merge, "resumed", 5, first=5),
    Bug(without.next_of_all, "resumed", 5, first=18),
    Bug(without.old_first, "resumed", 5, first=31),
    Bug(not_asked_again, "away", 10),
)
BUGS = {each.plant.__name__: each for each in _BUGS}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have a bug in the core meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        BUGS[name].plant(patch)
        yield
