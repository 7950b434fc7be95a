"""What becomes of numbers: R16 (confirm, void, abandon) and the stage's side of R17 (answers about gaps, heads)."""

from __future__ import annotations

from inorder.core.commands import SettleNumbers, SettleRide
from inorder.core.state import Outbox, StageState
from inorder.core.topic_manager import Session, TopicManager, flat
from inorder.core.wire import AskNumbers, NumberAnswer, Numbers, NumberState, Settled

_PENDING, _CONFIRMED = NumberState.PENDING, NumberState.CONFIRMED

MAX_ANSWERS = 10_000
"""Answers in one frame; whoever asks for more asks again."""
MAX_PARTS = 500_000
"""Integers of dependencies in one frame (at most 9 bytes each, so it stays below the frame's limit)."""


class Settling:
    """The department of a stage that knows the state of each number."""

    def __init__(self, state: StageState, outbox: Outbox) -> None:
        self._state, self._outbox = state, outbox
        self._risen: set[int] = set()

    # -- confirm and void --------------------------------------------------------------------------------------

    def settle(self, command: SettleNumbers) -> None:
        """Take confirms and voids of a session's own numbers; what was abandoned before is answered so."""
        key = (command.client_id, command.incarnation)
        # a session that ended (R12) left nothing pending, but its client must hear what was abandoned
        session = self._state.sessions.get(key) or Session(*key)
        late: list[int] = []
        elsewhere: dict[int, tuple[list[int], list[int]]] = {}
        for at, (triples, to) in enumerate(((command.confirmed, _CONFIRMED), (command.void, NumberState.VOID))):
            late += self._settle_all(session, triples, to)
            self._sort_out(triples, at, elsewhere)
        for stage, (confirmed, void) in elsewhere.items():
            self._outbox.send(stage, SettleRide(*key, command.request, confirmed, void))
        answer = Settled(self._state.index, self._outbox.epoch, command.request, late)
        self._outbox.reply(command.client_id, command.incarnation, answer)

    def _sort_out(self, triples: list[int], at: int, elsewhere: dict[int, tuple[list[int], list[int]]]) -> None:
        """Numbers of topics that moved away (R14) go on to their new home."""
        topics, here = self._state.topics, self._state.index
        for part in range(0, len(triples) - 2, 3):
            manager = topics.get(triples[part])
            if manager is not None and manager.stage != here:
                elsewhere.setdefault(manager.stage, ([], []))[at].extend(triples[part : part + 3])

    def settled_elsewhere(self, ride: SettleRide) -> None:
        """A topic's former home passes on what it was told. It has answered; only what is late is still to be said."""
        key = (ride.client_id, ride.incarnation)
        session = self._state.sessions.get(key) or Session(*key)
        late = self._settle_all(session, ride.confirmed, _CONFIRMED)
        late += self._settle_all(session, ride.void, NumberState.VOID)
        if late:
            answer = Settled(self._state.index, self._outbox.epoch, ride.request, late)
            self._outbox.reply(ride.client_id, ride.incarnation, answer)

    def _settle_all(self, session: Session, triples: list[int], to: NumberState) -> list[int]:
        late: list[int] = []
        for at in range(0, len(triples) - 2, 3):
            topic, first, last = triples[at : at + 3]
            manager = self._state.topics.get(topic)
            if manager is None or manager.stage != self._state.index:
                continue
            numbers = range(max(first, manager.expired + 1), min(last, manager.number) + 1)
            late += self._settle_run(session, manager, numbers, to)
        return late

    def _settle_run(self, session: Session, manager: TopicManager, numbers: range, to: NumberState) -> list[int]:
        """Settle numbers of one topic; return those that were abandoned before (flat pairs). A number of another
        session is left alone."""
        late: list[int] = []
        topic, head, settled, still_open = manager.id, 0, 0, session.open
        for number in numbers:
            record = manager.records.get(number)
            if record is None or record.incarnation != session.incarnation or record.client_id != session.client_id:
                continue
            if record.state is _PENDING:
                # R18: what the log has is never void: whoever misses it gets it from there
                record.state = _CONFIRMED if manager.has_logged(record) else to
                still_open.pop((topic, number), None)
                if record.state is _CONFIRMED:
                    head = number
                settled += 1
            elif record.state is NumberState.ABANDONED:
                late += (topic, number)
        tally = self._state.tally
        tally.late += len(late) // 2
        if to is _CONFIRMED:
            tally.confirmed += settled
        else:
            tally.void += settled
        self._raise_head(manager, head)
        return late

    def _raise_head(self, manager: TopicManager, number: int) -> None:
        if number > manager.head:
            manager.head = number
            self._risen.add(manager.id)

    # -- abandon -----------------------------------------------------------------------------------------------

    def abandon_due(self) -> None:
        """Abandon what is unconfirmed too long."""
        state, settings = self._state, self._state.settings
        for session in state.sessions.values():
            gone = not session.connected and state.now >= session.since + settings.publisher_grace_ms
            for topic, number in list(session.open):
                manager = state.topics[topic]
                record = manager.records[number]
                if not gone and state.now < record.created + settings.confirm_timeout_ms:
                    break
                if manager.has_logged(record):  # R18: whether the broker has it or not, the log has
                    record.state = _CONFIRMED
                    self._raise_head(manager, number)
                else:
                    record.state = NumberState.ABANDONED
                    state.tally.abandoned += 1
                del session.open[topic, number]

    def next_deadline(self) -> int | None:
        """Return the stage time at which a number is to be abandoned, if nothing else happens."""
        settings = self._state.settings
        due: int | None = None
        for session in self._state.sessions.values():
            for topic, number in session.open:
                when = self._state.topics[topic].records[number].created + settings.confirm_timeout_ms
                if not session.connected:
                    when = min(when, session.since + settings.publisher_grace_ms)
                due = when if due is None else min(due, when)
                break
        return due

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
        for at in range(0, len(frame.ranges) - 1, 2):
            first, last = frame.ranges[at], frame.ranges[at + 1]
            if through is not None:
                last = min(last, through)
            expired = expired or first <= manager.expired
            for number in range(max(first, manager.expired + 1), last + 1):
                if len(answers) == MAX_ANSWERS or parts > MAX_PARTS:
                    break
                answers.append(self._answer(manager, number))
                parts += len(answers[-1].deps)
        if not expired:
            return Numbers(frame.request, frame.topic, answers, logged_from=manager.log_first)
        base = flat(manager.expired_base)
        return Numbers(frame.request, frame.topic, answers, manager.expired, base, manager.log_first)

    @staticmethod
    def _answer(manager: TopicManager, number: int) -> NumberAnswer:
        record = manager.records.get(number)
        if record is None:
            return NumberAnswer(number, NumberState.UNKNOWN)
        if record.deps is None:
            return NumberAnswer(number, NumberState.PENDING)
        return NumberAnswer(number, record.state, record.deps, manager.has_logged(record))

    def changed_heads(self) -> list[int]:
        """Return the topics whose highest confirmed number rose since the last call."""
        risen, self._risen = self._risen, set()
        return sorted(risen)
