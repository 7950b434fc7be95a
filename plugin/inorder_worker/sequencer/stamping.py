"""Creating and completing timestamps: R1 (create), R2 (belt), R19 (publisher order), R21 (compact)."""

from __future__ import annotations

from msgspec.structs import replace

from inorder.protocol.wire import NewEvent, NumberState, StampedEvent, Timestamps
from inorder_worker.sequencer.claims import given, may_follow, may_pass
from inorder_worker.sequencer.commands import CompleteRide, Create, SessionKey, StampRide
from inorder_worker.sequencer.event_log import EventLog
from inorder_worker.sequencer.retiring import mark_block
from inorder_worker.sequencer.sequencing import Group, bit_set, members
from inorder_worker.sequencer.sessions import take_ended
from inorder_worker.sequencer.state import MAX_ENTRIES, Outbox, StageState
from inorder_worker.sequencer.topic_manager import NumberRecord, Session, TopicManager

_PENDING = NumberState.PENDING
_NEVER = (0, 0)
REFUSED = -1
"""As a number: there is none, its session has too many open."""

GIVEN_UP = (NumberState.ABANDONED, NumberState.VOID)
"""Subscribers may have skipped the number, so its event must not be handed over any more. (A publisher whose own word
made it void does not ask again.)"""
LONG_WALK = 32
"""More steps than this through what rose last are worth preparing."""
MEMBER_STEPS = 4
"""A member of a bit set costs as much to look at as so many of the topics that rose last."""


class Stamping:
    """The department of a stage that makes timestamps."""

    def __init__(self, state: StageState, outbox: Outbox, log: EventLog) -> None:
        self._state, self._outbox, self._log = state, outbox, log

    # -- requests (R1) -----------------------------------------------------------------------------------------

    def create(self, command: Create) -> None:
        """Answer a session's requests in the order it sent them; each event id gets one timestamp for ever."""
        key = (command.client_id, command.incarnation)
        session = self._state.sessions.get(key)
        if session is None:
            # R1: of an unknown incarnation, never numbered
            self._outbox.timestamps(key).forgotten.extend(event.counter for event in command.events)
            return
        session.forget_below(command.low)
        topics, here = self._state.topics, self._state.index
        frame: Timestamps | None = None
        room = 0
        forgotten_below = session.forgotten_below
        for event in command.events:
            counter, manager = event.counter, topics.get(event.topic)
            if manager is None or manager.stage > here:
                self._outbox.timestamps(key).forgotten.append(counter)
            elif counter in session.answers:  # also below the mark: a hello raises it, for what is not known here
                self._answer_again(key, session, event)
            elif counter < forgotten_below or ((event.after or event.required) and not self._may_enter(session, event)):
                self._outbox.timestamps(key).forgotten.append(counter)
            elif manager.stage != here:
                self._send_up(session, manager, event)
            elif session.max_open and not session.may_open(session.max_open):
                self._outbox.timestamps(key).refused.append(counter)
            elif (complete := self._number(session, manager, counter, here, event)) is not None:
                if frame is None or room < 0:
                    frame, room = self._outbox.new_timestamps(key), MAX_ENTRIES
                frame.events.append(complete)
                room -= len(complete.deps)
        if len(session.answers) > (most := self._state.settings.answers_kept):
            session.keep_answers(most, topics)

    def _may_enter(self, session: Session, event: NewEvent) -> bool:
        """Tell whether all that the event follows (R19) can be known, and does exist."""
        if event.required and not session.remembers(event.required, self._state.index):
            return False
        return not event.after or may_follow(self._state, session, event.after)

    def _answer_again(self, key: SessionKey, session: Session, event: NewEvent) -> None:
        counter = event.counter
        topic, number = session.answers[counter]
        manager = self._state.topics[topic]
        if manager.stage != self._state.index:
            if number:  # else it still rides, and the answer comes with its completion
                self._send_up(session, manager, event, number)  # its home knows what became of it
            return
        record = manager.records.get(number)
        # only what was settled is not known any more; its publisher did not settle it, or would not ask
        if record is None or record.state in GIVEN_UP:
            self._outbox.timestamps(key).abandoned += (counter, topic, number)
        elif record.deps is not None:
            self._outbox.stamped(key, StampedEvent(counter, topic, number, record.deps, record.in_payload))
        else:
            # where the request entered, below, the timestamp may be complete already, and its client asks here now
            manager.riding[number] = self._state.index

    def _send_up(self, session: Session, manager: TopicManager, event: NewEvent, again: int = 0) -> None:
        """R19: the request entered below its topic's stage, behind its publisher's earlier ones; it rides up. Of one
        that is asked again its home knows what it follows; what is said of that now nobody has looked at."""
        session.answers[event.counter] = (manager.id, 0)
        after = ([] if again else event.after) + session.follow(manager.id, event.counter)
        self._outbox.up(
            StampRide(
                client_id=session.client_id,
                incarnation=session.incarnation,
                counter=event.counter,
                entry=self._state.index,
                topic=manager.id,
                home=manager.stage,
                number=0,
                after=after,
                deps=[],
                top=0,
                in_payload=False,
                low=session.low,
                again=again,
                content=None if again else event.content,
                max_open=session.max_open,
                required=event.required,
                proves=session.proves,
            )
        )

    # -- the home stage (R1) -----------------------------------------------------------------------------------

    def _number(
        self, session: Session, manager: TopicManager, counter: int, entry: int, asked: NewEvent | StampRide
    ) -> StampedEvent | None:
        """Take the topic's next number and fill what is known here. Return the timestamp if it is complete; if not,
        it is on its way up."""
        state, topic, number = self._state, manager.id, manager.number + 1
        state.raise_number(manager, number)
        state.tally.numbers += 1
        deps: list[int] = []
        group = state.group(manager)
        top = self._top_of(manager, group) if manager.removed else group.top
        since, required = 0, asked.required
        if required and (highest := min(required[::2])) < state.index:
            top, since = min(top, highest), session.used.get(topic, _NEVER)[0]
        else:
            required = []
        self._fill(manager, group, deps)
        if asked.after or group.neighbours:
            top = min(top, self._add_publisher_order(session, manager, counter, group, asked.after, deps))
        else:  # nobody reads what it may follow, together with it
            session.used.pop(topic, None)
            session.used[topic] = (counter, number)
        client_id, incarnation, in_payload = session.client_id, session.incarnation, manager.in_payload
        complete = top == state.index
        known = deps if complete else None
        is_logged = manager.logged and self._log.numbered(manager, number, known, asked.content, counter)
        manager.records[number] = NumberRecord(
            client_id, incarnation, counter, topic, number, known, _PENDING, state.now, in_payload, is_logged
        )
        place = (topic, number)
        session.open[place] = None
        if len(session.open) == 1:
            state.opened(session)
        session.answers[counter] = place
        if number >= manager.mark_at:
            mark_block(manager, self._state.settings.number_retention)
        if complete:
            return StampedEvent(counter, topic, number, deps, in_payload)
        manager.rode = number
        manager.riding[number] = -1
        self._outbox.up(
            StampRide(
                client_id=client_id,
                incarnation=incarnation,
                counter=counter,
                entry=entry,
                topic=topic,
                home=state.index,
                number=number,
                after=[],
                deps=deps,
                top=top,
                in_payload=in_payload,
                required=required,
                since=since,
                proves=session.proves,
            )
        )
        return None

    def _top_of(self, manager: TopicManager, group: Group) -> int:
        left, on_stage = int.from_bytes(manager.removed, "little"), self._state.on_stage
        return next((stage for stage in range(group.top) if left & on_stage[stage]), group.top)

    def _add_publisher_order(
        self, session: Session, manager: TopicManager, counter: int, group: Group, after: list[int], deps: list[int]
    ) -> int:
        """R19: the event depends on its publisher's last events in other topics since the one before it in this topic:
        those given with the request, and the session's own here. One on a member of the group is implied by the
        group's own entry. One on a topic that shares no subscription concerns no reader of this event, but it may
        concern one who begins the topic later and has the other one (R8): what was given is kept for the base, and of
        what is the session's own the base is made then (see ``bases``). Return the highest stage that the timestamp
        must visit for it: what its client must prove does not count before (``claims``)."""
        used, topics, here = session.used, self._state.topics, self._state.index
        since, top = used.pop(manager.id, _NEVER)[0], here
        named: dict[int, int] = {}
        if after:
            concerned = self._state.overlaps.anyone & group.outside
            for other, number in zip(after[::2], after[1::2], strict=True):
                if concerned >> other & 1 and named.get(other, 0) < number:
                    named[other] = number
                    if session.proves and (stage := topics[other].stage) < here:
                        deps += (other, number)
                        top = min(top, stage)
                    else:
                        self._depend(manager, group, other, number, deps)
        if group.neighbours and used:
            base = manager.base
            for other, number in self._used_since(used, since, counter, group):
                if named.get(other, 0) < number:
                    if base.get(other, 0) < number:
                        base[other] = number
                    deps += (other, number)
        used[manager.id] = (counter, manager.number)
        return top

    @staticmethod
    def _used_since(used: dict[int, tuple[int, int]], since: int, counter: int, group: Group) -> list[tuple[int, int]]:
        """Return the group's neighbours that a session has used since then with its last numbers there, the latest
        first: the shorter of the two walks."""
        neighbours = group.neighbours
        if neighbours.bit_count() * MEMBER_STEPS < min(len(used), counter - since):
            found = [
                (when, other, number)
                for other in members(neighbours)
                if (when := (its := used.get(other, _NEVER))[0]) > since and (number := its[1])
            ]
            found.sort(reverse=True)
            return [(other, number) for _, other, number in found]
        # by bytes: a bit of a long number costs as much as the number is long
        end = neighbours.bit_length()
        is_neighbour = neighbours.to_bytes(end // 8 + 1, "little")
        since_then: list[tuple[int, int]] = []
        for other, (when, number) in reversed(used.items()):
            if when <= since:
                break
            if other < end and is_neighbour[other >> 3] >> (other & 7) & 1:
                since_then.append((other, number))
        return since_then

    @staticmethod
    def _depend(manager: TopicManager, group: Group, other: int, number: int, deps: list[int]) -> None:
        if manager.base.get(other, 0) < number:
            manager.base[other] = number
        if group.co_subscribed >> other & 1:
            deps += (other, number)

    def _fill(self, manager: TopicManager, group: Group, deps: list[int]) -> None:
        """Add an entry for each member of the group that this stage fills in; those that have not risen since the
        topic's previous timestamp are implied by it (R21)."""
        state, fills = self._state, group.fills
        if manager.bounded:
            self._carry(manager, fills, deps)
        elif fills:
            since, base = manager.filled, manager.base
            steps = state.tick - since
            if steps > MEMBER_STEPS and fills.bit_count() * MEMBER_STEPS < steps:  # else one member is too many
                self._fill_from_members(manager, fills, deps)
            elif steps > LONG_WALK:
                self._fill_from_many(manager, fills, deps)
            else:
                for other, its in reversed(state.recent.items()):
                    if its.tick <= since:
                        break
                    if fills >> other & 1:
                        base[other] = reached = its.number
                        deps += (other, reached)
            if group.gained and since:  # before its first timestamp, all that have a number have risen
                still = bit_set([each for each in members(group.gained) if state.topics[each].tick <= since])
                self._carry(manager, still, deps)
        group.gained = 0
        if manager.removed:
            left = int.from_bytes(manager.removed, "little") & sum(state.on_stage[state.index :])
            self._carry(manager, left & ~fills, deps)
            manager.removed = bytearray()
        manager.filled = state.tick

    def _fill_from_many(self, manager: TopicManager, fills: int, deps: list[int]) -> None:
        """Add the same entries in the same order, where much has risen since: a bit of a long number costs as much as
        the number is long, a character of a long text does not."""
        since, base = manager.filled, manager.base
        is_filled = f"{fills:b}"[::-1]
        end = len(is_filled)
        for other, its in reversed(self._state.recent.items()):
            if its.tick <= since:
                break
            if other < end and is_filled[other] == "1":
                base[other] = reached = its.number
                deps += (other, reached)

    def _fill_from_members(self, manager: TopicManager, fills: int, deps: list[int]) -> None:
        """Add the same entries in the same order, where the group is smaller than what has risen since."""
        topics, since, base = self._state.topics, manager.filled, manager.base
        risen = [its for each in members(fills) if (its := topics[each]).tick > since]
        risen.sort(key=lambda its: its.tick, reverse=True)
        for its in risen:
            base[its.id] = its.number
            deps += (its.id, its.number)

    def _carry(self, manager: TopicManager, others: int, deps: list[int]) -> None:
        """Add an entry for each of these topics."""
        topics, base = self._state.topics, manager.base
        for other in members(others):
            if reached := topics[other].number:
                base[other] = reached
                deps += (other, reached)

    # -- the belt (R2) -----------------------------------------------------------------------------------------

    def ride(self, ride: StampRide) -> None:
        """A timestamp comes up: number it here if this is its home, fill it if it is above, relay it if neither."""
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
        """R1: its publisher's session was dropped while the request was on its way, and with it what the event follows
        (R19) or whether it has a number already."""
        self._outbox.send(ride.entry, self._completion(ride, StampedEvent(ride.counter, ride.topic, 0, [])))

    def _ridden_home(self, manager: TopicManager, ride: StampRide) -> None:
        """A request that entered below is at its topic's home: number it, or answer what it got before (R1)."""
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
        elif not session.may_open(ride.max_open):
            self._outbox.send(ride.entry, self._completion(ride, StampedEvent(counter, manager.id, REFUSED, [])))
        else:
            complete = self._number(session, manager, counter, ride.entry, ride)
            session.keep_answers(self._state.settings.answers_kept, self._state.topics)
            if complete is not None:
                self._outbox.send(ride.entry, self._completion(ride, complete))

    def _complete_again(self, ride: StampRide, topic: int, number: int) -> None:
        record = self._state.topics[topic].records.get(number)
        if record is None or record.state in GIVEN_UP:
            gone = StampedEvent(ride.counter, topic, number, [])
            self._outbox.send(ride.entry, replace(self._completion(ride, gone), abandoned=True))
        elif record.deps is None:
            # its completion is on its way here; to where the request entered it may have come before it was asked again
            self._state.topics[topic].riding[number] = ride.entry
        else:
            event = StampedEvent(ride.counter, topic, number, record.deps, record.in_payload)
            self._outbox.send(ride.entry, self._completion(ride, event))

    def _session(self, ride: StampRide) -> Session:
        """The session of a request that came up the belt: the stage it entered at vouches for it. One that begins with
        it may have been dropped here before, and knows nothing of what it was asked for then: that is never numbered
        (R1)."""
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
        return session

    def _pass(self, manager: TopicManager, ride: StampRide) -> None:
        state = self._state
        if ride.number > manager.number:
            state.raise_number(manager, ride.number)
        group = state.group(manager)
        # a copy: the stage below keeps this ride until it is durable here, and may send it again
        deps = list(ride.deps) if not ride.proves else self._proved(manager, ride.deps)
        self._fill(manager, group, deps)
        is_known = state.index not in ride.required[::2] or self._add_from_above(manager, group, ride, deps)
        is_given_up = ride.is_given_up or not is_known
        # also one that is given up: a log would serve it (R18), and all readers must sort it alike
        if ride.top < state.index:
            self._outbox.up(replace(ride, deps=deps, is_given_up=is_given_up))
            return
        event = StampedEvent(ride.counter, ride.topic, ride.number, deps, ride.in_payload)
        completion = replace(self._completion(ride, event), abandoned=is_given_up, top=state.index)
        self._outbox.send(ride.home, completion)
        if ride.entry != ride.home:
            self._outbox.send(ride.entry, completion)

    def _proved(self, manager: TopicManager, deps: list[int]) -> list[int]:
        """R19: return the entries without what the event's client said of this stage's topics and is not so. What is
        counts from here on, also for whoever begins the topic later (R8): such a subscription comes by behind it."""
        proved: list[int] = []
        for other, number, is_here in given(self._state, deps):
            if is_here and manager.base.get(other, 0) < number:
                manager.base[other] = number
            proved += (other, number)
        return proved

    def _add_from_above(self, manager: TopicManager, group: Group, ride: StampRide, deps: list[int]) -> bool:
        """R19: when the event was numbered, further down, its publisher's earlier ones were still on their way to this
        stage, ahead of it. Return whether this stage knows them: it may have dropped their session since."""
        session = self._state.sessions.get((ride.client_id, ride.incarnation))
        if session is None or not session.remembers(ride.required, self._state.index):
            return False
        concerned = self._state.overlaps.anyone & group.outside
        given = dict(zip(deps[::2], range(1, len(deps), 2), strict=True))
        for other, (when, number) in reversed(session.used.items()):
            if when <= ride.since:
                break
            if not (number and when < ride.counter and concerned >> other & 1):
                continue
            if (at := given.get(other)) is None:
                self._depend(manager, group, other, number, deps)
            else:  # the request carried an earlier one, whose number its client knew
                manager.base[other] = deps[at] = max(number, deps[at])
        return True

    @staticmethod
    def _completion(ride: StampRide, event: StampedEvent) -> CompleteRide:
        return CompleteRide(
            ride.client_id,
            ride.incarnation,
            event.counter,
            event.topic,
            event.number,
            event.deps,
            event.in_payload,
            ride.entry,
        )

    def _take_back(self, manager: TopicManager, record: NumberRecord) -> None:
        """Its event is never published, so nobody has to be told of the number."""
        session = self._state.sessions.get((record.client_id, record.incarnation))
        if session is not None:
            session.open.pop((record.topic, record.number), None)
        if record.state is _PENDING and manager.settle(record, NumberState.VOID) is NumberState.VOID:
            self._state.tally.void += 1

    def completed(self, ride: CompleteRide) -> None:
        """A complete timestamp comes back: keep it at home, answer it where it entered."""
        state = self._state
        key = (ride.client_id, ride.incarnation)
        manager = state.topics[ride.topic]
        session = state.sessions.get(key)
        abandoned = ride.abandoned
        if manager.stage == state.index:
            record = manager.records[ride.number]
            record.deps = ride.deps
            if abandoned:
                self._take_back(manager, record)
            again = manager.riding.pop(ride.number, -1)
            self._log.completed(manager, ride.number, ride.deps)
            abandoned = abandoned or record.state in GIVEN_UP
            if again == state.index:
                ride = replace(ride, entry=again)  # answered below
            elif again >= 0:
                self._outbox.send(again, replace(ride, entry=again, abandoned=abandoned))
        if ride.entry != state.index or session is None or ride.counter not in session.answers:
            return
        if ride.number <= 0:
            del session.answers[ride.counter]
            frame = self._outbox.timestamps(key)
            (frame.refused if ride.number == REFUSED else frame.forgotten).append(ride.counter)
            return
        session.answers[ride.counter] = (ride.topic, ride.number)
        if abandoned:
            self._outbox.timestamps(key).abandoned += (ride.counter, ride.topic, ride.number)
        else:
            event = StampedEvent(ride.counter, ride.topic, ride.number, ride.deps, ride.in_payload)
            frame = self._outbox.stamped(key, event)
            if ride.top >= 0:
                frame.tops += (ride.counter, ride.top)
