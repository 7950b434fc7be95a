"""Creating and completing timestamps: R1 (create), R2 (belt), R19 (publisher order), R21 (compact)."""

from __future__ import annotations

from msgspec.structs import replace

from inorder.core.commands import CompleteRide, Create, SessionKey, StampRide
from inorder.core.state import Outbox, StageState
from inorder.core.topic_manager import NumberRecord, Session, TopicManager, raise_to
from inorder.core.wire import NewEvent, NumberState, StampedEvent

_PENDING = NumberState.PENDING

EXPIRE_SHIFT = 5
"""A topic keeps up to 1/32 more numbers than the retention says, and then forgets that many together."""


class Stamping:
    """The department of a stage that makes timestamps."""

    def __init__(self, state: StageState, outbox: Outbox) -> None:
        self._state, self._outbox = state, outbox

    # -- requests (R1) -----------------------------------------------------------------------------------------

    def create(self, command: Create) -> None:
        """Answer a session's requests in the order it sent them; each event id gets one timestamp for ever."""
        key = (command.client_id, command.incarnation)
        session = self._state.sessions.get(key)
        if session is None:
            # R1: of an unknown incarnation, never numbered
            self._outbox.timestamps(key).forgotten.extend(event.counter for event in command.events)
            return
        self._forget_below(session, command.low)
        topics, here = self._state.topics, self._state.index
        stamped: list[StampedEvent] | None = None
        for event in command.events:
            counter, manager = event.counter, topics.get(event.topic)
            if counter < session.low or manager is None:
                self._outbox.timestamps(key).forgotten.append(counter)
            elif counter in session.answers:
                self._answer_again(key, session, counter)
            elif manager.stage != here:
                self._send_up(session, manager, event)
            elif (complete := self._number(session, manager, counter, here, event.after)) is not None:
                if stamped is None:
                    stamped = self._outbox.timestamps(key).events
                stamped.append(complete)

    @staticmethod
    def _forget_below(session: Session, low: int) -> None:
        if low <= session.low:
            return
        # the shorter of the two walks: a client may name any mark, and must not make this stage count up to it
        span = range(session.low, low)
        for counter in span if len(span) < len(session.answers) else [each for each in session.answers if each < low]:
            session.answers.pop(counter, None)
            session.ridden.pop(counter, None)
        session.low = low

    def _answer_again(self, key: SessionKey, session: Session, counter: int) -> None:
        topic, number = session.answers[counter]
        ridden = session.ridden.get(counter)
        if ridden is not None:
            self._outbox.stamped(key, ridden)
            return
        manager = self._state.topics[topic]
        if manager.stage != self._state.index:
            return  # still riding; the answer comes with its completion
        record = manager.records.get(number)
        if record is None:
            self._outbox.timestamps(key).forgotten.append(counter)
        elif record.state is NumberState.ABANDONED:
            self._outbox.timestamps(key).abandoned += (counter, topic, number)
        elif record.deps is not None:
            self._outbox.stamped(key, StampedEvent(counter, topic, number, record.deps, record.in_payload))

    def _send_up(self, session: Session, manager: TopicManager, event: NewEvent) -> None:
        """R19: the request entered below its topic's stage, behind its publisher's earlier ones; it rides up."""
        session.answers[event.counter] = (event.topic, 0)
        self._state.tick += 1
        after = event.after + session.follow(event.topic, self._state.tick, 0)
        self._outbox.up(
            StampRide(
                client_id=session.client_id,
                incarnation=session.incarnation,
                counter=event.counter,
                entry=self._state.index,
                topic=event.topic,
                home=manager.stage,
                number=0,
                after=after,
                deps=[],
                top=0,
                in_payload=False,
            )
        )

    # -- the home stage (R1) -----------------------------------------------------------------------------------

    def _number(
        self, session: Session, manager: TopicManager, counter: int, entry: int, after: list[int]
    ) -> StampedEvent | None:
        """Take the topic's next number and fill what is known here. Return the timestamp if it is complete; if not,
        it is on its way up."""
        state = self._state
        number = manager.number + 1
        state.raise_number(manager, number)
        deps: list[int] = []
        stale = state.overlaps.stale
        if stale and stale >> manager.id & 1:
            state.refresh(manager)
        top = self._top_of(manager) if manager.removed else manager.top
        self._fill(manager, deps)
        # R19: a dependency on a member of the group is implied by the group's own entry
        after = after + session.follow(manager.id, state.tick, number, manager.group)
        if after:
            self._add_publisher_order(manager, after, deps)
        complete = top == state.index
        client_id, incarnation, in_payload = session.client_id, session.incarnation, manager.in_payload
        place = (manager.id, number)
        manager.records[number] = NumberRecord(
            client_id,
            incarnation,
            counter,
            manager.id,
            number,
            deps if complete else None,
            _PENDING,
            state.now,
            in_payload,
        )
        session.open[place] = None
        if entry == state.index:
            session.answers[counter] = place
        retention = state.settings.number_retention
        if len(manager.records) > retention + (retention >> EXPIRE_SHIFT):
            self._expire_old(manager)
        if complete:
            return StampedEvent(counter, manager.id, number, deps, in_payload)
        self._outbox.up(
            StampRide(
                client_id=client_id,
                incarnation=incarnation,
                counter=counter,
                entry=entry,
                topic=manager.id,
                home=state.index,
                number=number,
                after=[],
                deps=deps,
                top=top,
                in_payload=in_payload,
            )
        )
        return None

    def _top_of(self, manager: TopicManager) -> int:
        topics = self._state.topics
        return min([manager.top, *(topics[other].stage for other in manager.removed)])

    def _add_publisher_order(self, manager: TopicManager, after: list[int], deps: list[int]) -> None:
        """Add R19's dependencies. One on a member of the group is implied by the group's own entry; one on a
        topic that shares no subscription concerns no reader of this event, but is kept for the base (R8)."""
        for at in range(0, len(after), 2):
            other, number = after[at], after[at + 1]
            if other in manager.group or other in manager.above or other == manager.id:
                continue
            if manager.base.get(other, 0) < number:
                manager.base[other] = number
            if other in manager.company:
                deps += (other, number)

    def _fill(self, manager: TopicManager, deps: list[int]) -> None:
        """Add an entry for each member of the group that this stage fills in; those that have not risen since the
        topic's previous timestamp are implied by it (R21)."""
        state, group, base = self._state, manager.group, manager.base
        if manager.full or manager.bounded:
            for other in group:
                self._carry(state.topics[other], deps, base)
            manager.full = False
        elif group:
            since = manager.filled
            for other, its in reversed(state.recent.items()):
                if its.tick <= since:
                    break
                if other in group:
                    base[other] = its.number
                    deps += (other, its.number)
        if manager.removed:
            for other in manager.removed - group:
                if state.topics[other].stage >= state.index:
                    self._carry(state.topics[other], deps, base)
            manager.removed = set()
        manager.filled = state.tick

    @staticmethod
    def _carry(other: TopicManager, deps: list[int], base: dict[int, int]) -> None:
        if other.number:
            base[other.id] = other.number
            deps += (other.id, other.number)

    def _expire_old(self, manager: TopicManager) -> None:
        """Forget settled numbers beyond the retention, many at a time; what they depended on stays, as a base."""
        records, base, oldest = manager.records, manager.expired_base, manager.expired + 1
        for number in range(oldest, oldest + len(records) - self._state.settings.number_retention):
            record = records[number]
            if record.state is _PENDING or record.deps is None:
                return
            del records[number]
            manager.expired = number
            raise_to(base, record.deps)

    # -- the belt (R2) -----------------------------------------------------------------------------------------

    def ride(self, ride: StampRide) -> None:
        """A timestamp comes up: number it here if this is its home, fill it if it is above, relay it if neither."""
        state = self._state
        manager = state.topics[ride.topic]
        if ride.home < state.index:
            session = self._session(ride)
            state.tick += 1
            self._outbox.up(replace(ride, after=ride.after + session.follow(ride.topic, state.tick, 0)))
        elif ride.home == state.index:
            complete = self._number(self._session(ride), manager, ride.counter, ride.entry, ride.after)
            if complete is not None:
                self._outbox.send(ride.entry, self._completion(ride.client_id, ride.incarnation, complete))
        else:
            self._pass(manager, ride)

    def _session(self, ride: StampRide) -> Session:
        """The session of a request that came up the belt: the stage it entered at vouches for it."""
        key = (ride.client_id, ride.incarnation)
        session = self._state.sessions.get(key)
        if session is None:
            session = self._state.sessions[key] = Session(*key)
        return session

    def _pass(self, manager: TopicManager, ride: StampRide) -> None:
        state = self._state
        if ride.number > manager.number:
            state.raise_number(manager, ride.number)
        stale = state.overlaps.stale
        if stale and stale >> manager.id & 1:
            state.refresh(manager)
        # a copy: the stage below keeps this ride until it is durable here, and may send it again
        deps = list(ride.deps)
        self._fill(manager, deps)
        if ride.top < state.index:
            self._outbox.up(replace(ride, deps=deps))
            return
        event = StampedEvent(ride.counter, ride.topic, ride.number, deps, ride.in_payload)
        completion = self._completion(ride.client_id, ride.incarnation, event)
        self._outbox.send(ride.home, completion)
        if ride.entry != ride.home:
            self._outbox.send(ride.entry, completion)

    @staticmethod
    def _completion(client_id: str, incarnation: int, event: StampedEvent) -> CompleteRide:
        return CompleteRide(
            client_id, incarnation, event.counter, event.topic, event.number, event.deps, event.in_payload
        )

    def completed(self, ride: CompleteRide) -> None:
        """A complete timestamp comes back: keep it at home, answer it where it entered."""
        state = self._state
        key = (ride.client_id, ride.incarnation)
        manager = state.topics[ride.topic]
        event = StampedEvent(ride.counter, ride.topic, ride.number, ride.deps, ride.in_payload)
        session = state.sessions.get(key)
        if manager.stage == state.index:
            record = manager.records[ride.number]
            record.deps = ride.deps
            if session is None or ride.counter not in session.answers:
                return
            if record.state is NumberState.ABANDONED:
                self._outbox.timestamps(key).abandoned += (ride.counter, ride.topic, ride.number)
            else:
                self._outbox.stamped(key, event)
        elif session is not None and ride.counter in session.answers:
            session.answers[ride.counter] = (ride.topic, ride.number)
            session.ridden[ride.counter] = event
            self._outbox.stamped(key, event)
