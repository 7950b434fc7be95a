"""The topics with an event log, and the contents of each log: R18, the stage's side. The rows themselves are in the
store.

A logged number's row is written in the commit in which the number was issued, before anybody knows the number. What
was published stands in that row only: where a request enters at its topic's own stage, the worker takes the content
out of it before the command is journaled (:func:`split`) and puts it into the row, so payloads make neither the
journal nor replay, snapshots and standbys larger. A request that has to ride up to its topic's stage carries it along.

Invariant: of a topic with a log, every number from ``log_first`` on has a row, with its dependencies once they are
complete. So what may be repaired, resumed or replayed is a range.

A durable subscriber merges what it reads of logs by the ticks of the rows (R23), so it needs no dependencies of numbers
that are gone. Ticks do not tell what events follow on other stages (R19); this is kept in one base for each log. Events
of a later topic order come behind all of an earlier one anyhow (R14).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from inorder.protocol.pairs import raise_to
from inorder.protocol.portions import PORTION_BYTES, fitting, portions, size_of
from inorder.protocol.wire import Done, LogRule, Logs, NewEvent, ShowLogs, Topics
from inorder_worker.sequencer.commands import Create, LogDeps, LogEvent, LogTrim, SetLogRule, TrimLog
from inorder_worker.sequencer.rides import LogRulesRide, SessionKey
from inorder_worker.sequencer.state import Outbox, StageState
from inorder_worker.sequencer.topic_manager import TopicManager

TOPICS_IN_FRAME = 5_000
"""Topics in one frame."""
BESIDE = b""
"""The content of a journaled request whose content stands beside it."""


class EventLog:
    """The department of a stage that knows the logs of its topics."""

    def __init__(self, state: StageState, outbox: Outbox) -> None:
        self._state, self._outbox = state, outbox

    def command(self, command: SetLogRule | TrimLog) -> None:
        """A command of this department."""
        if isinstance(command, SetLogRule):
            self.set_rule(command)
        else:
            self.trim(command)

    # -- rules -------------------------------------------------------------------------------------------------

    def set_rule(self, command: SetLogRule) -> None:
        """An operator turns logs on or off; the rules ride up the belt like topics, so all stages agree (R13)."""
        key, rule = (command.client_id, command.incarnation), command.rule
        rules = [each for each in self._state.rules if (each.space, each.filter) != (rule.space, rule.filter)]
        if not command.is_on and len(rules) == len(self._state.rules):
            self._outbox.reply(*key, Done(command.request, "there is no such rule"))
            return
        self._apply([*rules, rule] if command.is_on else rules)
        if key[0]:
            self._outbox.reply(*key, Done(command.request))

    def rules_ride(self, ride: LogRulesRide) -> None:
        """The rules changed."""
        self._apply(ride.rules)

    def _apply(self, rules: list[LogRule]) -> None:
        state = self._state
        before, now = set(state.rules), set(rules)
        added, removed = now - before, before - now
        state.rules = rules
        changed = []
        for manager in state.topics.values():
            if manager.logged:  # what did not change is not looked at again: there may be many rules
                is_ended = any(each.covers(manager.space, manager.name) for each in removed)
                is_logged = not is_ended or state.is_logged(manager.space, manager.name)
            else:
                is_logged = any(each.covers(manager.space, manager.name) for each in added)
            if is_logged != manager.logged:
                manager.logged = is_logged
                changed.append(manager.id)
                if not is_logged:
                    self._end(manager)
        if state.is_bottom:
            for session in state.sessions.values():
                if session.connected:
                    self._tell((session.client_id, session.incarnation), changed)
        if state.index > 0:
            self._outbox.up(LogRulesRide(rules))

    def _end(self, manager: TopicManager) -> None:
        if manager.log_first:
            self._outbox.log(LogTrim(manager.id, manager.number))
        manager.log_first, manager.log_base = 0, {}

    def opened(self, key: SessionKey) -> None:
        """Tell a client that is connected (again) which of its topics have a log by now."""
        if self._state.rules and self._state.is_bottom:
            self._tell(key, [each.id for each in self._state.topics.values() if each.logged])

    def _tell(self, key: SessionKey, topics: list[int]) -> None:
        state = self._state
        for infos in portions(map(state.info, topics), TOPICS_IN_FRAME) if topics else ():
            self._outbox.reply(*key, Topics(0, infos, state.order_epoch))

    def show(self, frame: ShowLogs) -> Logs:
        """Return the rules and the next of the topics that they cover, in a frame of a bounded size."""
        state, limit = self._state, min(max(frame.limit, 0), TOPICS_IN_FRAME)
        if frame.names:
            ids = [state.by_name[each] for each in map(tuple, frame.names[:TOPICS_IN_FRAME]) if each in state.by_name]
            return Logs(frame.request, [], fitting(state.info(each) for each in ids if state.topics[each].logged))
        answer = Logs(frame.request, [] if frame.after else state.rules, [])
        found, answer.behind = state.topics_behind(frame.after) if limit else ([], 0)
        room = PORTION_BYTES
        for info in (state.info(each.id) for each in found if each.logged):
            room -= size_of(info)
            if len(answer.topics) == limit or room < 0:
                answer.behind = answer.topics[-1].id
                break
            answer.topics.append(info)
        return answer

    def bounds(self, topic: int) -> LogRule | None:
        """Return the widest bounds of all rules for a topic; ``None``: it has no log."""
        manager = self._state.topics.get(topic)
        if manager is None or not manager.logged:
            return None
        return self._state.log_rules.widest(manager.space, manager.name)

    # -- rows --------------------------------------------------------------------------------------------------

    def numbered(
        self,
        manager: TopicManager,
        number: int,
        deps: list[int] | None,
        ticks: tuple[int, ...],
        content: bytes | None,
        counter: int,
    ) -> bool:
        """A number was issued: its row goes into this commit. Return whether the log has what was published."""
        if not manager.logged:
            return False
        if not manager.log_first:
            manager.log_first, manager.log_base = number, dict(manager.base)
        self._outbox.log(LogEvent(manager.id, number, deps, content, counter, ticks))
        return content is not None

    def completed(self, manager: TopicManager, number: int, deps: list[int], ticks: tuple[int, ...]) -> None:
        """The timestamp of a number that was issued before is complete."""
        if 0 < manager.log_first <= number:
            self._outbox.log(LogDeps(manager.id, number, deps, ticks))

    def since(self, order_epoch: int) -> tuple[int, list[int]]:
        """Return the order epoch of the last move (R14), and the topics with rows that came here after another one."""
        epoch, topics, here = self._state.homes_epoch, self._state.topics.values(), self._state.index
        if order_epoch >= epoch:
            return epoch, []
        return epoch, [each.id for each in topics if each.log_first and each.stage == here and each.moved > order_epoch]

    @property
    def has_rules(self) -> bool:
        """Tell whether there are rules for event logs."""
        return bool(self._state.rules)

    def settled(self, topic: int, count: int) -> range:
        """Return the oldest numbers in a log, so many at most, before the first whose outcome is not known."""
        manager = self._state.topics.get(topic)
        if manager is None or manager.stage != self._state.index or not manager.log_first:
            return range(0)
        first, records = manager.log_first, manager.records
        numbers = range(first, min(first + count, manager.number + 1))
        is_open = (number for number in numbers if (known := records.get(number)) is not None and known.is_open)
        return range(first, next(is_open, numbers.stop))

    def known_deps(self, topic: int, number: int, told: list[int] | None) -> list[int] | None:
        """Return the dependencies of a number of a topic, ``None`` on the way up. ``told``: those in its row, which are
        believed for forgotten numbers only; ``None`` in a damaged row, whose number has none then."""
        manager = self._state.topics.get(topic)
        record = manager.records.get(number) if manager is not None else None
        return record.deps if record is not None else told or []

    def trim(self, command: TrimLog) -> None:
        """Forget the oldest rows; not before all of them are settled and the base of what is below is known."""
        manager = self._state.topics.get(command.topic)
        if manager is None or manager.stage != self._state.index or not manager.log_first:
            return
        count = command.through + 1 - manager.log_first
        if not 0 < count == len(self.settled(manager.id, count)):
            return
        base = dict(manager.log_base or {})
        raise_to(base, command.base)
        if not self._state.group_of(manager.id).has_ticks:  # who begins it later begins behind all of it (R8)
            base = {}
        elif command.has_ticks:
            base = {each: base[each] for each in base if self._is_needed(manager, command.through, each, base[each])}
        manager.log_base, manager.log_first = base, command.through + 1
        self._outbox.log(LogTrim(manager.id, command.through))

    def _is_needed(self, manager: TopicManager, through: int, other: int, number: int) -> bool:
        """Tell whether ticks do not say that numbers behind ``through`` follow another topic's number. Its home is
        another stage, or it is of an earlier topic order like some of these."""
        its = self._state.topics.get(other)
        if its is None:  # the topic has ended: nobody reads it
            return False
        return its.stage != manager.stage if number > its.switched else through < manager.switched


def split(command: Create, topics: Iterable[int]) -> tuple[Create, dict[int, bytes]]:
    """Take the contents of requests for these topics out of a command: return the command to be journaled, and the
    contents by counter."""
    here, contents, events = set(topics), dict[int, bytes](), list[NewEvent]()
    for event in command.events:
        if event.content and event.topic in here:
            contents[event.counter] = event.content
            event = replace(event, content=BESIDE)
        events.append(event)
    return replace(command, events=events) if contents else command, contents
