"""A subscriber asks stages (R17) and event logs (R18) for missing numbers, and judges by the answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from inorder.endpoint.barriers import Sparing
from inorder.endpoint.beginnings import Beginnings
from inorder.endpoint.circles import Circles
from inorder.endpoint.gaps import MAX_ASKED, MAX_UNREAD
from inorder.endpoint.notifications import GapReason
from inorder.endpoint.outputs import Fetch, Found, Question
from inorder.endpoint.reader import TopicReader
from inorder.endpoint.suspicion import Suspicion
from inorder.endpoint.turns import Turns
from inorder.endpoint.waiting import Sequenced
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import NumberAnswer, Numbers, NumberState


class Holes:
    """Asks for the numbers that are missing, and takes the answers."""

    def __init__(self, turns: Turns, suspicion: Suspicion, beginnings: Beginnings) -> None:
        self._turns, self._suspicion, self._beginnings = turns, suspicion, beginnings
        self.circles = Circles(turns)
        # R24: how much more may be asked of what may merely not be read yet.
        self.sparing = Sparing(MAX_UNREAD, turns.times.gap_timeout)

    @property
    def due(self) -> float | None:
        """The time of the next question to a stage or a log (s), or ``None``."""
        agenda = self._turns.agenda
        leads = self._turns.leads.due
        due = self._suspicion.due, leads, agenda.next_question, agenda.held_until(self.sparing), agenda.next_fetch
        return min((each for each in due if each is not None), default=None)

    # -- stages (R17) ------------------------------------------------------------------------------------------

    def heads(self, numbers: list[int], now: float) -> None:
        """A worker told the highest confirmed numbers (flat pairs)."""
        turns = self._turns
        for topic, number in pairs(numbers, strict=False):
            if (reader := turns.readers.get(topic)) is not None:
                turns.take_head(reader, number, now)
            elif turns.unbegun.is_held(topic):
                turns.unbegun.take_head(topic, number)

    def questions(self, now: float) -> list[Question]:
        """Return what the stages are to be asked now: first the topics in which something is missing for longest."""
        turns, timeout = self._turns, self._turns.times.gap_timeout
        asked: dict[int, list[int]] = {}
        for doubtful in (self._suspicion.questions(now), self.circles.questions(now), turns.leads.questions(now)):
            for topic, numbers in doubtful.items():
                asked[topic] = asked.get(topic, []) + [each for each in numbers for _ in (0, 1)]
        for reader in turns.agenda.overdue(self.sparing, now):
            topic = reader.topic
            reader.missing.ask_again_at(now + timeout)
            ranges = reader.missing.ranges(reader.clock, turns.room.topic(topic), now, timeout, self.sparing)
            turns.agenda.note(reader)
            if ranges:
                asked[topic] = asked.get(topic, []) + ranges
        for topic in asked:
            turns.readers[topic].missing.asked(now)
        return [Question(topic, ranges) for topic, ranges in asked.items()]

    def answered(self, numbers: Numbers, now: float) -> None:
        """A stage answered: void and abandoned numbers are skipped in their turn, confirmed ones when overdue. What it
        tells without a question (request 0) was given up, and settles no question."""
        turns, topic = self._turns, numbers.topic
        turns.leads.answered(numbers)
        reader = turns.readers.get(topic)
        if reader is None:
            return
        asked_at = reader.missing.answered() if numbers.request != 0 else None
        self.circles.answered(reader, numbers)
        # It may have been void, abandoned or lost, with dependencies that nobody can tell: passing over it could put
        # what follows before them (R17, R19).
        if reader.needs_any(_lost_for_good(numbers), turns.room.topic(topic)):
            self._begin_anew(topic, now)
            return
        doubted = self._suspicion.claimed(topic)
        self._want_expired(reader, numbers)
        reader.missing.vouch(numbers.expired_through)
        made, unknown = self._take_answers(reader, numbers, doubted, asked_at, now)
        turns.run(made, now)
        turns.agenda.note(reader)
        self._suspicion.settle({(topic, number) for number in unknown}, now)

    def _begin_anew(self, topic: int, now: float) -> None:
        """Begin anew where missing numbers are forgotten, with their dependencies. In strict mode all topics do, since
        events of each may rely on such a number to have waited (R22)."""
        turns = self._turns
        self._beginnings.expired(list(turns.readers) if turns.is_strict else [topic], now)

    def _take_answers(
        self, reader: TopicReader, numbers: Numbers, doubted: set[int], asked_at: float | None, now: float
    ) -> tuple[deque[Sequenced], set[int]]:
        """Take note of each answer. Return what is to be looked at for them, and the doubted numbers that nobody has
        issued."""
        missing, room, topic = reader.missing, self._turns.room, reader.topic
        made, unknown = deque[Sequenced](), set[int]()
        again: float | None = None
        for answer in numbers.answers:
            if answer.state is not NumberState.UNKNOWN:
                missing.vouch(answer.number)
            elif answer.number in doubted:
                unknown.add(answer.number)
            if answer.number <= reader.clock or answer.number in room.topic(topic) or answer.number in doubted:
                continue
            if answer.state is NumberState.UNKNOWN:
                if asked_at is not None:
                    made += self._suspicion.discredit(reader, answer.number, asked_at, now)
                break
            if answer.state is NumberState.PENDING and self._is_waited_for(reader, answer, now):
                again = now + self._turns.times.gap_timeout
                missing.pending(now)
            else:
                made += self._judge(reader, answer, now)
        if numbers.request != 0:
            missing.ask_again_at(again)
        return made, unknown

    def _judge(self, reader: TopicReader, answer: NumberAnswer, now: float) -> list[Sequenced]:
        """Decide about a missing number whose fate is known; return the hole, where it is one."""
        number, deps, reason = answer.number, answer.deps, None
        if reader.topic in self._turns.left:  # its event is for nobody: what it depends on is all there is to know
            return [self._turns.put_hole(reader, number, deps, GapReason.SKIPPED, now)]
        if answer.logged:
            reader.missing.want(number, deps)
            return []
        if answer.state is NumberState.CONFIRMED:
            if number not in reader.given_up:
                reader.missing.confirm(number, deps, now)
                return []
            # it has arrived: nothing is to be waited for
            reason = reader.loss_reason(number, self._turns.times.loss_timeout)
        elif answer.state is NumberState.ABANDONED:
            reason = GapReason.ABANDONED
        return [self._turns.put_hole(reader, number, deps, reason, now)]

    def _is_waited_for(self, reader: TopicReader, answer: NumberAnswer, now: float) -> bool:
        """Tell whether a pending number is to be asked for again. Of a topic that was left only its dependencies are
        needed; none may mean that they are not known yet."""
        if reader.topic in self._turns.left:
            return not answer.deps
        known = reader.missing.learned_at(answer.number)
        return not answer.logged or known is None or known + self._turns.times.loss_timeout > now

    def _want_expired(self, reader: TopicReader, numbers: Numbers) -> None:
        """The stage knows these numbers no longer one by one, but its log has them."""
        if numbers.logged_from:
            missing, present = reader.missing, self._turns.room.topic(reader.topic)
            first = max(reader.clock + 1, numbers.logged_from)
            for number in range(first, min(numbers.expired_through, first + MAX_ASKED) + 1):
                if number not in present and number not in missing.confirmed:
                    missing.want(number, None)

    # -- event logs (R18) --------------------------------------------------------------------------------------

    def fetches(self, now: float, *, hold: bool) -> list[Fetch]:
        """Return what the event logs are to be asked for now; with ``hold``, put that off."""
        turns, again_at, asked = self._turns, now + self._turns.times.gap_timeout, []
        for reader in turns.agenda.fetching(now):
            if hold:
                reader.missing.hold_fetch(again_at)
            elif ranges := reader.missing.fetch(turns.room.topic(reader.topic), again_at):
                asked.append(Fetch(reader.topic, ranges))
            turns.agenda.note_fetch(reader)
        return asked

    def fetched(self, topic: int, ranges: list[int], through: int, found: Iterable[Found], now: float) -> None:
        """A log answered. What it does not have will be lost when it is overdue; where nobody knows what it depended on
        either, the topic begins anew."""
        turns = self._turns
        reader = turns.readers.get(topic)
        if reader is None:
            return
        missing = reader.missing
        wanted = missing.fetched(ranges, through)
        missing.ask_again_at(None)
        entries: list[Sequenced] = []
        for each in found:
            deps = wanted.pop(each.number, None)
            if each.content is None:
                wanted[each.number] = each.deps if deps is None else deps
            else:
                made = Sequenced(topic, each.number, each.deps, each.content, each.size, now, repaired=True)
                made.ticks = each.ticks
                entries.append(made)
        for number in sorted(wanted):
            deps = wanted[number]
            if number <= reader.clock or number in turns.room.topic(topic):
                continue
            if deps is None:
                self._begin_anew(topic, now)
                return
            missing.confirm(number, deps, now)
        if self._receive_repaired(reader, entries, now):  # there is no room for more of it yet
            missing.ask_again_at(now + turns.times.gap_timeout)
        turns.agenda.note(reader)

    def _receive_repaired(self, reader: TopicReader, entries: list[Sequenced], now: float) -> bool:
        """Take events from the log; return whether some were given up for want of room."""
        turns = self._turns
        before = turns.counts.overflow
        for entry in entries:
            if entry.number > reader.clock and entry.number not in turns.room.topic(reader.topic):
                turns.counts.repaired += 1
                reader.given_up.discard(entry.number)
                turns.receive(entry, now)
        return turns.counts.overflow != before


def _lost_for_good(numbers: Numbers) -> int:
    """Return up to which number neither the stage nor its log knows them."""
    expired, first = numbers.expired_through, numbers.logged_from
    return min(expired, first - 1) if first else expired
