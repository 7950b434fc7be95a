"""Creating and completing timestamps: R1 (create), R2 (belt), R19 (publisher order), R21 (compact)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec.structs import replace

from inorder.protocol.pairs import firsts, name_once
from inorder.protocol.wire import NewEvent, NumberState, StampedEvent, Timestamps
from inorder_worker.sequencer.claims import may_follow, may_pass
from inorder_worker.sequencer.commands import Create
from inorder_worker.sequencer.ending import Ending
from inorder_worker.sequencer.event_log import EventLog
from inorder_worker.sequencer.filling import Filling
from inorder_worker.sequencer.following import Following
from inorder_worker.sequencer.forgetting import Forgetting
from inorder_worker.sequencer.reader_classes import Group
from inorder_worker.sequencer.rides import CompleteRide, SessionKey, StampRide
from inorder_worker.sequencer.sessions import take_ended
from inorder_worker.sequencer.state import MAX_ENTRIES, Outbox, StageState
from inorder_worker.sequencer.ticks import Ticks, first_ticks, passed
from inorder_worker.sequencer.topic_manager import NumberRecord, Session, TopicManager

_PENDING = NumberState.PENDING
_NEVER = (0, 0)
REFUSED = -1
"""As a number: there is none, its session has too many open; ``CROWDED``: all sessions of its owner have."""
CROWDED = -2

GIVEN_UP = (NumberState.ABANDONED, NumberState.VOID)
"""Subscribers may have skipped the number, so its event must not be handed over any more. (A publisher whose own word
made it void does not ask again.)"""


class Stamping:
    """The department of a stage that makes timestamps."""

    def __init__(
        self, state: StageState, outbox: Outbox, log: EventLog, forgetting: Forgetting, ending: Ending
    ) -> None:
        self._state, self._outbox, self._log, self._forgetting = state, outbox, log, forgetting
        self._ending = ending
        self._filling, self._following = Filling(state), Following(state)

    # -- requests (R1) -----------------------------------------------------------------------------------------

    def create(self, command: Create) -> None:
        """Answer a session's requests in the order it sent them; each event id gets one timestamp for ever."""
        key = (command.client_id, command.incarnation)
        session = self._state.sessions.get(key)
        if session is None:
            # R1: of an unknown incarnation, never numbered
            self._outbox.timestamps(key).forgotten.extend(event.counter for event in command.events)
            return
        state, events = self._state, iter(command.events)
        session.forget_below(command.low)
        if command.refusals != session.refusals and not self._ending.has_heard(session, command):
            self._ending.refuse(session, command, events)
            return
        topics, here, overlaps, endings = state.topics, state.index, state.overlaps, state.endings
        frame: Timestamps | None = None
        room, before = 0, len(session.open)
        most, owned = state.open_numbers.bound(session, session.max_open)
        forgotten_below = session.forgotten_below
        for event in events:
            counter, topic = event.counter, event.topic
            manager = topics.get(topic)
            if manager is None or manager.stage != here or topic in endings:
                self._not_numbered_here(session, command, event, events)
            elif counter in session.answers:  # also below the mark: a hello raises it, for what is not known here
                self._answer_again(key, session, event)
            elif counter < forgotten_below or ((event.after or event.required) and not self._may_enter(session, event)):
                self._outbox.timestamps(key).forgotten.append(counter)
            elif len(session.open) >= most:
                self._outbox.refused(key, counter, owned)
            elif (complete := self._number(session, manager, counter, here, event)) is not None:
                if frame is None or room < 0:
                    frame, room = self._outbox.new_timestamps(key), MAX_ENTRIES
                frame.events.append(complete)
                if overlaps.ticked and (ticks := manager.records[complete.number].ticks):
                    frame.ticks.append((counter, *ticks))
                room -= len(complete.deps)
        state.open_numbers.add(session.owner, len(session.open) - before)
        session.keep_answers(state.settings.answers_kept, topics)

    def _not_numbered_here(
        self, session: Session, command: Create, event: NewEvent, behind: Iterator[NewEvent]
    ) -> None:
        """Answer a request of a topic with another home, or with none any more; or send it up."""
        state, counter, manager = self._state, event.counter, self._state.topics.get(event.topic)
        key = (session.client_id, session.incarnation)
        is_below = manager is not None and manager.stage > state.index
        if counter in session.answers and not is_below:
            self._answer_again(key, session, event)
        elif counter >= session.forgotten_below and command.refusals >= 0 and state.has_ended(event.topic):
            self._ending.refuse(session, command, chain([event], behind))
        elif (
            manager is None
            or is_below
            or counter < session.forgotten_below
            or state.has_ended(event.topic)  # its client knows no refusals, nor events of its own there (see may_end)
            or not self._may_enter(session, event)
        ):
            self._outbox.timestamps(key).forgotten.append(counter)
        else:
            self._send_up(session, manager, event)

    def _may_enter(self, session: Session, event: NewEvent) -> bool:
        """Tell whether all that the event follows (R19) can be known, and does exist."""
        if event.required and not session.remembers(event.required, self._state.index):
            return False
        return not event.after or may_follow(self._state, session, event.after)

    def _answer_again(self, key: SessionKey, session: Session, event: NewEvent) -> None:
        counter = event.counter
        topic, number = session.answers[counter]
        manager = self._state.topics.get(topic)
        if manager is not None and manager.stage != self._state.index:
            if number:  # else it still rides, and the answer comes with its completion
                self._send_up(session, manager, event, number)  # its home knows what became of it
            return
        record = None if manager is None else manager.records.get(number)
        # only what was settled is not known any more; its publisher did not settle it, or would not ask
        if record is None or record.state in GIVEN_UP:
            self._outbox.timestamps(key).abandoned += (counter, topic, number)
        elif record.deps is not None:
            self._outbox.stamped(
                key, StampedEvent(counter, topic, number, record.deps, record.in_payload), record.ticks
            )
        elif manager is not None:
            # where the request entered, below, the timestamp may be complete already, and its client asks here now
            manager.riding[number] = self._state.index

    def _send_up(self, session: Session, manager: TopicManager, event: NewEvent, again: int = 0) -> None:
        """R19: the request entered below its topic's stage, behind its publisher's earlier ones; it rides up. Of one
        that is asked again its home knows what it follows; what is said of that now nobody has looked at."""
        session.answers[event.counter] = (manager.id, 0)
        ride = _ride(session, manager, event.counter, self._state.index)
        ride.after = ([] if again else event.after) + session.follow(manager.id, event.counter)
        ride.again, ride.content = again, None if again else event.content
        ride.low, ride.required = session.low, event.required
        ride.owner, ride.max_open, ride.max_owned = session.owner, session.max_open, session.max_owned
        self._outbox.up(ride)

    # -- the home stage (R1) -----------------------------------------------------------------------------------

    def _number(
        self, session: Session, manager: TopicManager, counter: int, entry: int, asked: NewEvent | StampRide
    ) -> StampedEvent | None:
        """Take the topic's next number and fill what is known here. Return the timestamp if it is complete; if not,
        it is on its way up."""
        state, topic, number = self._state, manager.id, manager.number + 1
        if number >= manager.mark_at or state.now >= manager.mark_by:
            self._forgetting.begin_block(manager, number)
        its = state.overlaps.classes.of(topic)
        state.tally.numbers += 1
        deps: list[int] = []
        group = its.group or state.group(its)
        parted = self._filling.fill(manager, its, group, number, deps)
        top = self._top_of(group, parted) if parted else group.top
        if asked.required:
            top = min(top, *firsts(asked.required))
        ticks = self._first_ticks(manager, group, parted) if group.has_ticks else ()
        after = asked.after + manager.follows if manager.follows else asked.after
        used = session.used
        since = used.get(topic, _NEVER)[0]
        # of the first event since somebody subscribed members of the group count, too
        if after or group.neighbours or session.begun != state.begun or since < session.before:
            top = min(top, self._following.add(session, manager, counter, its, group, after, deps))
        else:  # nobody reads what it may follow, together with it
            used.pop(topic, None)
            used[topic] = (counter, number)
        in_payload = group.plain > 0 and group.plain >> topic & 1 > 0
        complete = top == state.index
        known = deps if complete else None
        is_logged = manager.logged and self._log.numbered(manager, number, known, ticks, asked.content, counter)
        client_id, incarnation = session.client_id, session.incarnation
        manager.records[number] = NumberRecord(
            client_id, incarnation, counter, topic, number, known, _PENDING, state.now, in_payload, is_logged, ticks
        )
        session.open[place := (topic, number)] = None
        if len(session.open) == 1:
            state.opened(session)
        session.answers[counter] = place
        state.kept += 1
        if len(manager.records) == 1 or 0 < state.settings.numbers_kept < state.kept:
            self._forgetting.added(manager)
        if complete:
            return StampedEvent(counter, topic, number, deps, in_payload)
        manager.riding[number] = -1
        ride = _ride(session, manager, counter, entry)
        ride.number, ride.deps, ride.top, ride.ticks = number, deps, top, ticks
        ride.in_payload, ride.required, ride.since = in_payload, asked.required, since
        self._outbox.up(ride)
        return None

    def _first_ticks(self, manager: TopicManager, group: Group, parted: int) -> Ticks:
        """Return the ticks (R23) of the event that was just numbered."""
        others = (group.fills | group.above) & ~(1 << manager.id)
        return first_ticks(self._state, is_grouped=bool(others or parted))

    def _top_of(self, group: Group, parted: int) -> int:
        """Return the last stage that has something to fill in: also of what has left the group (R10)."""
        on_stage = self._state.on_stage
        return next((stage for stage in range(group.top) if parted & on_stage[stage]), group.top)

    # -- the belt (R2) -----------------------------------------------------------------------------------------

    def ride(self, ride: StampRide) -> None:
        """Number a ride from below at its topic's home, fill in a timestamp above it, and relay a request below it."""
        state = self._state
        manager = state.topics[ride.topic]
        if ride.home < state.index:
            self._relayed(ride)
        elif ride.home == state.index:
            self._ridden_home(manager, ride)
        else:
            self._pass(manager, ride)

    def _relayed(self, ride: StampRide) -> None:
        """A request that entered below is on its way to its topic's home."""
        session = self._session(ride)
        if not self._may_pass(session, ride) or (
            not ride.again and not session.remembers(ride.required, self._state.index)
        ):
            self._never_numbered(ride)
            return
        self._outbox.up(replace(ride, after=ride.after + session.follow(ride.topic, ride.counter)))

    def _may_pass(self, session: Session, ride: StampRide) -> bool:
        return not ride.after or may_pass(self._state, session, ride.after)

    def _never_numbered(self, ride: StampRide) -> None:
        """Answer that a request is never numbered (R1), for its publisher's session was dropped meanwhile. With the
        session went what the event follows (R19), or whether it has a number already."""
        self._outbox.send(ride.entry, _completion(ride, StampedEvent(ride.counter, ride.topic, 0, [])))

    def _ridden_home(self, manager: TopicManager, ride: StampRide) -> None:
        """Number a request from below at its topic's home, or repeat the answer that was given before (R1)."""
        session, counter = self._session(ride), ride.counter
        may_pass = self._may_pass(session, ride)
        session.forget_below(ride.low)
        known = session.answers.get(counter) or (manager.id, ride.again)
        if known[1]:
            self._complete_again(ride, *known)
        elif (
            counter < session.forgotten_below or not may_pass or not session.remembers(ride.required, self._state.index)
        ):
            self._never_numbered(ride)
        elif (before := len(session.open)) >= (bound := self._state.open_numbers.bound(session, ride.max_open))[0]:
            refused = StampedEvent(counter, manager.id, CROWDED if bound[1] else REFUSED, [])
            self._outbox.send(ride.entry, _completion(ride, refused))
        else:
            complete = self._number(session, manager, counter, ride.entry, ride)
            self._state.open_numbers.add(session.owner, len(session.open) - before)
            session.keep_answers(self._state.settings.answers_kept, self._state.topics)
            if complete is not None:
                ticks = manager.records[complete.number].ticks
                self._outbox.send(ride.entry, _completion(ride, complete, ticks))

    def _complete_again(self, ride: StampRide, topic: int, number: int) -> None:
        record = self._state.topics[topic].records.get(number)
        if record is None or record.state in GIVEN_UP:
            gone = StampedEvent(ride.counter, topic, number, [])
            self._outbox.send(ride.entry, replace(_completion(ride, gone), abandoned=True))
        elif record.deps is None:
            # its completion is on its way here; to where the request entered it may have come before it was asked again
            self._state.topics[topic].riding[number] = ride.entry
        else:
            event = StampedEvent(ride.counter, topic, number, record.deps, record.in_payload)
            self._outbox.send(ride.entry, _completion(ride, event, record.ticks))

    def _session(self, ride: StampRide) -> Session:
        """Return the session of a request from below, for which the stage of its entry vouches; begin one if there is
        none. One that begins may have been dropped here before, and knows nothing of what it was asked for then: that
        is never numbered (R1)."""
        key = (ride.client_id, ride.incarnation)
        session = self._state.sessions.get(key)
        if session is None:
            now = self._state.now
            ended = take_ended(self._state, key)
            first = ended + 1 if ended or not self._state.ended_since else ride.counter
            session = Session(*key, low=first, connected=False, since=now, is_opened=False, began=first)
            self._state.sessions[key], self._state.gone[key] = session, None
        elif not session.connected:
            # the client is there, if only at another worker: its grace begins anew with what it asked for (R16)
            session.since = self._state.now
            self._state.gone.pop(key, None)
            self._state.gone[key] = None
        session.proves = session.proves or ride.proves
        if not session.is_opened:
            self._state.open_numbers.belongs(session, ride.owner, ride.max_owned)
        return session

    def _pass(self, manager: TopicManager, ride: StampRide) -> None:
        state = self._state
        its = state.overlaps.classes.of(manager.id)
        group = state.group(its)
        # a copy: the stage below keeps this ride until it is durable here, and may send it again
        deps = list(ride.deps) if not ride.proves else self._following.proved(manager, ride.deps)
        carried = len(deps)
        self._filling.fill(manager, its, group, ride.number, deps)
        if 0 < carried < len(deps):  # its publisher's earlier events may be in topics that rose here
            name_once(deps)
        ticks = passed(state, ride.ticks)
        is_known = state.index not in firsts(ride.required) or self._following.add_from_above(
            manager, group, ride, deps
        )
        is_given_up = ride.is_given_up or not is_known
        # also one that is given up: a log would serve it (R18), and all readers must sort it alike
        if ride.top < state.index:
            self._outbox.up(replace(ride, deps=deps, is_given_up=is_given_up, ticks=ticks))
            return
        event = StampedEvent(ride.counter, ride.topic, ride.number, deps, ride.in_payload)
        completion = replace(_completion(ride, event, ticks), abandoned=is_given_up, top=state.index)
        self._outbox.send(ride.home, completion)
        if ride.entry != ride.home:
            self._outbox.send(ride.entry, completion)

    def _take_back(self, manager: TopicManager, record: NumberRecord) -> None:
        """Make a number void without telling anybody, for its event is never published."""
        state = self._state
        session = state.sessions.get((record.client_id, record.incarnation))
        state.open_numbers.end(session, (record.topic, record.number))
        if record.state is _PENDING and manager.settle(record, NumberState.VOID) is NumberState.VOID:
            state.tally.void += 1

    def completed(self, ride: CompleteRide) -> None:
        """Keep a complete timestamp at its topic's home, and answer the client at the stage of the entry."""
        state = self._state
        key = (ride.client_id, ride.incarnation)
        manager = state.topics[ride.topic]
        session = state.sessions.get(key)
        abandoned = ride.abandoned
        if manager.stage == state.index:
            record = manager.records[ride.number]
            record.deps, record.ticks = ride.deps, ride.ticks
            if abandoned:
                self._take_back(manager, record)
            again = manager.riding.pop(ride.number, -1)
            self._log.completed(manager, ride.number, ride.deps, ride.ticks)
            abandoned = abandoned or record.state in GIVEN_UP
            if again == state.index:
                ride = replace(ride, entry=again)  # answered below
            elif again >= 0:
                self._outbox.send(again, replace(ride, entry=again, abandoned=abandoned))
        if ride.entry != state.index or session is None or ride.counter not in session.answers:
            return
        if ride.number <= 0:
            del session.answers[ride.counter]
            if ride.number in (REFUSED, CROWDED):
                self._outbox.refused(key, ride.counter, session.max_owned if ride.number == CROWDED else 0)
            else:
                self._outbox.timestamps(key).forgotten.append(ride.counter)
            return
        session.answers[ride.counter] = (ride.topic, ride.number)
        if abandoned:
            self._outbox.timestamps(key).abandoned += (ride.counter, ride.topic, ride.number)
        else:
            event = StampedEvent(ride.counter, ride.topic, ride.number, ride.deps, ride.in_payload)
            frame = self._outbox.stamped(key, event, ride.ticks)
            if ride.top >= 0:
                frame.tops += (ride.counter, ride.top)


def _ride(session: Session, manager: TopicManager, counter: int, entry: int) -> StampRide:
    """Return a ride for a request of a session, of which nothing is filled in."""
    return StampRide(
        client_id=session.client_id,
        incarnation=session.incarnation,
        counter=counter,
        entry=entry,
        topic=manager.id,
        home=manager.stage,
        number=0,
        after=[],
        deps=[],
        top=0,
        in_payload=False,
        proves=session.proves,
    )


def _completion(ride: StampRide, event: StampedEvent, ticks: Ticks = ()) -> CompleteRide:
    return CompleteRide(
        ride.client_id,
        ride.incarnation,
        event.counter,
        event.topic,
        event.number,
        event.deps,
        event.in_payload,
        ride.entry,
        ticks=ticks,
    )
