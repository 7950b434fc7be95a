"""Outcomes of numbers: R16 (confirm, void, abandon) and the stage's side of R17 (answers about gaps, heads)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from inorder.protocol.pairs import joined, pairs, triples
from inorder.protocol.wire import AskNumbers, NumberAnswer, Numbers, NumberState, Released, Settled
from inorder_worker.sequencer.commands import Release, SettleNumbers
from inorder_worker.sequencer.rides import SettleRide
from inorder_worker.sequencer.sessions import END_PAUSE_MS
from inorder_worker.sequencer.state import Outbox, StageState
from inorder_worker.sequencer.topic_manager import NumberRecord, Session, TopicManager

_PENDING, _CONFIRMED = NumberState.PENDING, NumberState.CONFIRMED

MAX_ANSWERS = 10_000
"""Answers in one frame; whoever asks for more asks again."""
MAX_RELEASED = 10_000
"""Numbers that an operator settles at once."""
MAX_PASSED_ON = 20_000
"""Ranges of numbers that a session settles where their topics were before the order changed last: as many publishes may
be unfinished at our clients, unless that is set otherwise (``max_pending``)."""
MAX_PARTS = 500_000
"""Integers of dependencies in one frame (at most 9 bytes each, so it stays below the frame's limit)."""
MAX_TOLD = 1_000
"""Integers of dependencies, and numbers, in a frame that nobody has asked for."""
TOLD_IN_A_SECOND = 50_000
"""Subscriptions that a stage looks at in a second for those to be told; each of these counts for ``TOLD_COST``. Who is
not told asks: one publisher that takes everything back must not keep the stage busy."""
TOLD_COST = 10


class Settling:
    """The department of a stage that knows the state of each number."""

    def __init__(self, state: StageState, outbox: Outbox) -> None:
        self._state, self._outbox = state, outbox
        self._risen: set[int] = set()
        self._void: dict[int, list[int]] = {}  # by topic, what its publisher took back in this step
        self._second = self._told = 0
        self._resume_at = 0  # when the next tick goes on: no part of the state, as each does what it finds

    # -- confirm and void --------------------------------------------------------------------------------------

    def settle(self, command: SettleNumbers) -> None:
        """Take what a publisher says of a session's own numbers; what was abandoned before is answered so."""
        key = (command.client_id, command.incarnation)
        # a session that ended (R12) left nothing pending, but its client must hear what was abandoned
        session = self._state.sessions.get(key) or Session(*key)
        late: list[int] = []
        for told, to in _outcomes(command):
            if told:  # of most only some were confirmed
                late += self._settle_all(session, told, to)
        if self._state.homes_epoch > 1:  # else no topic ever moved
            self._pass_on(session, command)
        answer = Settled(self._state.index, self._outbox.epoch, command.request, late)
        self._outbox.reply(command.client_id, command.incarnation, answer)
        if self._void:
            self._tell_void()

    def _pass_on(self, session: Session, command: SettleNumbers) -> None:
        """Send outcomes of numbers on to the new home of a topic that moved away (R14). It does so if the session had
        numbers of the topic here, for no more than it may have had: rides are kept until taken, and the new home may
        be away. What is not passed on stays pending there, and is given up in the end: skipped and told as a gap, as
        it may have been delivered (R16)."""
        topics, here = self._state.topics, self._state.index
        elsewhere: dict[int, tuple[list[int], ...]] = {}
        for at, (told, _) in enumerate(_outcomes(command)):
            for topic, first, last in triples(told, strict=False):
                manager = topics.get(topic)
                if manager is None or manager.stage == here or not manager.moved or manager.id not in session.used:
                    continue
                if session.passed_on < MAX_PASSED_ON:
                    session.passed_on += 1
                    elsewhere.setdefault(manager.stage, ([], [], []))[at].extend((topic, first, last))
        for stage, lists in elsewhere.items():
            self._outbox.send(stage, SettleRide(command.client_id, command.incarnation, command.request, *lists))

    def settled_elsewhere(self, ride: SettleRide) -> None:
        """A topic's former home passes on what it was told. It has answered; only what is late is still to be said."""
        key = (ride.client_id, ride.incarnation)
        session = self._state.sessions.get(key) or Session(*key)
        late = [part for told, to in _outcomes(ride) for part in self._settle_all(session, told, to)]
        if late:
            answer = Settled(self._state.index, self._outbox.epoch, ride.request, late)
            self._outbox.reply(ride.client_id, ride.incarnation, answer)
        self._tell_void()

    def _settle_all(self, session: Session, told: list[int], to: NumberState) -> list[int]:
        """Settle numbers (flat triples); return those that were given up before (flat pairs)."""
        state, had = self._state, len(session.open)
        topics, here, tally = state.topics, state.index, state.tally
        late: list[int] = []
        settled = 0
        for topic, first, last in triples(told, strict=False):
            manager = topics.get(topic)
            if manager is not None and manager.stage == here:
                first = first if first > manager.expired else manager.expired + 1
                last = last if last < manager.number else manager.number
                settled += self._settle_run(session, manager, range(first, last + 1), to, late)
        state.open_numbers.add(session.owner, len(session.open) - had)
        tally.late += len(late) // 2
        if to is _CONFIRMED:
            tally.confirmed += settled
        elif to is NumberState.VOID:
            tally.void += settled
        else:
            tally.abandoned += settled
        return late

    def _settle_run(
        self, session: Session, manager: TopicManager, numbers: range, to: NumberState, late: list[int]
    ) -> int:
        """Settle numbers of one topic; return how many, and add those that were given up before. Numbers of another
        session are left alone, and what comes behind one: who gives a range says that all of it is its own, and may not
        have this stage walk through what others have."""
        topic, head, settled, before = manager.id, 0, 0, len(late)
        key, take = (session.client_id, session.incarnation), session.open.pop
        records, is_confirm = manager.records, to is _CONFIRMED
        for number in numbers:
            if take((topic, number), False) is None:  # it was open
                settled += 1
                if is_confirm:  # what manager.settle does then
                    records[number].state, head = _CONFIRMED, number
                elif (became := manager.settle(records[number], to)) is _CONFIRMED:
                    head = number
                elif became is NumberState.VOID:
                    self._void.setdefault(topic, []).append(number)
            elif (record := records.get(number)) is None or (record.client_id, record.incarnation) != key:
                break
            elif to is NumberState.ABANDONED:
                continue  # nothing comes too late for that
            elif record.state is NumberState.ABANDONED or (is_confirm and record.state is NumberState.VOID):
                late += (topic, number)
        if is_confirm:
            manager.confirmed += settled
            manager.late += (len(late) - before) // 2
        if head > manager.head:
            self._raise_head(manager, head)
        return settled

    def _tell_void(self) -> None:
        """Tell subscribers unasked of void numbers, whose events nobody will ever get (R17). This is no more than an
        answer, so whoever is away, or does not know the topic yet, misses nothing. (What was abandoned or released may
        still arrive, so nobody is told before asking.)"""
        void, self._void = self._void, {}
        second = self._state.now // 1000
        if second != self._second:
            self._second, self._told = second, 0
        for topic, numbers in void.items():
            manager = self._state.topics[topic]
            if len(numbers) > MAX_TOLD or self._told >= TOLD_IN_A_SECOND:
                continue
            found = [self._answer(manager, number) for number in numbers]
            answers = [each for each in found if each.state is not _PENDING]  # of others the timestamp is on its way
            if answers and sum(len(each.deps) for each in answers) <= MAX_TOLD:
                self._tell_subscribers(Numbers(0, topic, answers))

    def _tell_subscribers(self, notice: Numbers) -> None:
        for subscription in self._state.overlaps:
            self._told += 1
            if notice.topic in subscription.active:
                self._told += TOLD_COST
                self._outbox.reply(subscription.client_id, subscription.incarnation, notice)

    def _raise_head(self, manager: TopicManager, number: int) -> None:
        if number > manager.head:
            manager.head = number
            self._risen.add(manager.id)

    # -- release: an operator settles --------------------------------------------------------------------------

    def release(self, command: Release) -> None:
        """Settle pending numbers in place of the publisher: as given up, so that nobody waits, or as confirmed if the
        event log has the event. Their publisher hears of it as of any number that was given up (R16)."""
        refusal, changed = self._release_refusal(command), list[int]()
        if not refusal:
            manager = self._state.topics[command.topic]
            changed = self._release_all(manager, self._releasable(manager, command), command.to)
        answer = Released(command.request, command.topic, changed, refusal)
        self._outbox.reply(command.client_id, command.incarnation, answer)

    def _releasable(self, manager: TopicManager, command: Release) -> list[NumberRecord]:
        """Return the pending ones of some numbers: for ``CONFIRMED`` those in the log, else those outside."""
        numbers = range(max(command.first, manager.expired + 1), min(command.last, manager.number) + 1)
        records = (manager.records[number] for number in numbers)
        is_logged = command.to is _CONFIRMED
        return [each for each in records if each.state is _PENDING and manager.has_logged(each) == is_logged]

    def _release_all(self, manager: TopicManager, records: list[NumberRecord], to: NumberState) -> list[int]:
        changed: list[int] = []
        for record in records:
            manager.settle(record, to)
            session = self._state.sessions.get((record.client_id, record.incarnation))
            self._state.open_numbers.end(session, (record.topic, record.number))
            if changed and changed[-1] == record.number - 1:
                changed[-1] = record.number
            else:
                changed += (record.number, record.number)
        tally, count = self._state.tally, len(records)
        if to is _CONFIRMED:
            tally.confirmed += count
            self._raise_head(manager, records[-1].number)
        elif to is NumberState.VOID:
            tally.void += count
        else:
            tally.abandoned += count
        return changed

    def _release_refusal(self, command: Release) -> str:
        """Return why nothing can be done, with what could be."""
        manager, first, last = self._state.topics.get(command.topic), command.first, command.last
        if manager is None:
            return f"there is no topic with the id {command.topic}"
        if last - first >= MAX_RELEASED:
            return f"{last - first + 1} numbers are too many at once; allowed are {MAX_RELEASED}"
        if last > manager.number:
            return f"number {last} was not issued yet; the topic's last one is {manager.number}"
        if self._releasable(manager, command):
            return ""
        if self._releasable(manager, replace(command, to=NumberState.VOID)):
            return "the event log does not have these numbers, so they cannot be repaired; release them instead"
        if self._releasable(manager, replace(command, to=_CONFIRMED)):
            return "the event log has these numbers, so they are not given up; repair them instead"
        pending = sorted(at for each in self._state.sessions.values() for topic, at in each.open if topic == manager.id)
        allowed = f"from {pending[0]} to {pending[-1]} there are {len(pending)}" if pending else "the topic has none"
        return f"none of the numbers {first} to {last} is pending; {allowed}"

    # -- abandon -----------------------------------------------------------------------------------------------

    def abandon_due(self) -> None:
        """Abandon what is unconfirmed too long, as much as one tick may."""
        state, most, done = self._state, self._state.settings.end_work, 0
        self._resume_at = 0
        while (due := state.deadlines.first()) is not None and due[0] <= state.now:
            if 0 < most <= done:
                self._resume_at = state.now + END_PAUSE_MS
                break
            done += self._abandon(state.sessions[due[1]], most - done if most else None)

    def _abandon(self, session: Session, most: int | None) -> int:
        """Abandon the numbers of a session that is gone for too long, else its old ones; return how many these were."""
        state, settings = self._state, self._state.settings
        gone = not session.connected and state.now >= session.since + settings.publisher_grace_ms
        done, before = 0, len(session.open)
        for topic, number in list(islice(session.open, most)):
            manager = state.topics[topic]
            record = manager.records[number]
            if not gone and state.now < record.created + settings.confirm_timeout_ms:
                break
            done += 1
            if manager.settle(record, NumberState.ABANDONED) is _CONFIRMED:
                self._raise_head(manager, number)
            else:
                state.tally.abandoned += 1
            del session.open[topic, number]
        state.open_numbers.add(session.owner, len(session.open) - before)
        return done

    def next_deadline(self) -> int | None:
        """Return the stage time at which a number is to be abandoned, if nothing else happens."""
        first = self._state.deadlines.first()
        return None if first is None else max(first[0], self._resume_at)

    # -- queries (R17) -----------------------------------------------------------------------------------------

    def numbers(self, frame: AskNumbers) -> Numbers:
        """Tell what became of numbers, one by one with their dependencies."""
        manager = self._state.topics.get(frame.topic)
        answers: list[NumberAnswer] = []
        if manager is None or manager.stage != self._state.index:
            return Numbers(frame.request, frame.topic, answers)
        expired, parts = False, 0
        # a topic that is about to move may have higher numbers at its new home already
        through = manager.number if self._state.is_sealed else None
        for first, last in pairs(frame.ranges, strict=False):
            if through is not None:
                last = min(last, through)
            expired = expired or first <= manager.expired
            for number in range(max(first, manager.expired + 1), last + 1):
                if len(answers) == MAX_ANSWERS or parts > MAX_PARTS:
                    break
                answers.append(self._answer(manager, number))
                parts += len(answers[-1].deps)
        return Numbers(frame.request, frame.topic, answers, manager.expired if expired else 0, manager.log_first)

    @staticmethod
    def _answer(manager: TopicManager, number: int) -> NumberAnswer:
        record = manager.records.get(number)
        if record is None:
            return NumberAnswer(number, NumberState.UNKNOWN)
        if record.deps is None:
            return NumberAnswer(number, NumberState.PENDING)
        return NumberAnswer(number, record.state, record.deps, manager.has_logged(record), record.ticks)

    def changed_heads(self) -> list[int]:
        """Return the topics whose highest confirmed number rose since the last call."""
        risen, self._risen = self._risen, set()
        return sorted(risen)

    def heads(self, client_id: str, topics: Iterable[int] | None) -> list[int]:
        """Return the highest confirmed numbers (flat pairs) of this stage's topics in a client's subscription; of
        those in ``topics`` only, where given.

        The bottom stage tells whoever has filters of topics elsewhere, too, with number 0. All clients are connected to
        it, but to other stages only where they know of topics there; a new topic (R13) may be on another one by now."""
        subscription = self._state.overlaps.get(client_id)
        if subscription is None:
            return []
        wanted = subscription.active if topics is None else subscription.active.intersection(topics)
        known, here = self._state.topics, self._state.index
        names_all = self._state.is_bottom and subscription.has_wildcards
        return joined(
            (topic, known[topic].head)
            for topic in sorted(wanted)
            if known[topic].head or (names_all and known[topic].stage != here)
        )


def _outcomes(told: SettleNumbers | SettleRide) -> list[tuple[list[int], NumberState]]:
    """Return the outcomes that a publisher tells, in flat triples."""
    return [(told.confirmed, _CONFIRMED), (told.void, NumberState.VOID), (told.abandoned, NumberState.ABANDONED)]
