"""The router turns a client's frame into a command for one stage, after a check of the frame's shape.

A frame for a stage that is not here (any more) is not a mistake: the client learns where it is and asks there.

A stage trusts its commands; whatever could make it fail or loop is refused here, as ProtocolError, before anything
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from math import inf
from typing import Final

from msgspec.structs import replace

from inorder.errors import ProtocolError
from inorder.protocol.filters import length_problem, name_problem, number_problem
from inorder.protocol.names import MAX_NAME_BYTES, MAX_SPACE_BYTES, Filter, FilterKind
from inorder.protocol.pairs import firsts, flat, triples
from inorder.protocol.portions import size_of
from inorder.protocol.wire import (
    MAX_FRAME_BYTES,
    MAX_NUMBER,
    AskDurable,
    AskHeads,
    AskNumbers,
    AutomaticShown,
    ChangeAutomatic,
    ChangeLog,
    ChangeOrder,
    ClientFrame,
    CreateTimestamps,
    EndSubscription,
    FindEvent,
    FindNumber,
    NameTopics,
    NumberState,
    Ping,
    PinTopics,
    Pong,
    ReadLog,
    ReleaseNumbers,
    Renew,
    Renewed,
    Resolve,
    SaveClock,
    Settle,
    ShowAutomatic,
    ShowLogs,
    ShowOpenNumbers,
    ShowOrder,
    ShowSubscriptions,
    ShowTopics,
    SpaceFilter,
    Subscribe,
)
from inorder_worker.sequencer.commands import Automatic, EndDurable, Pin, Release, Reorder, SetAutomatic, SetLogRule
from inorder_worker.sequencer.inputs import command_of
from inorder_worker.service.host import StageHost
from inorder_worker.service.work import Session, StageElsewhere

MAX_NAMES_BYTES: Final = MAX_FRAME_BYTES - 1024
"""Of topics in one answer, which clients do not take in parts."""


def route(frame: ClientFrame, session: Session, host: StageHost) -> Callable[[], None]:
    """Return what is to be run for a frame of a session. Raises ProtocolError; StageElsewhere for a frame to another
    worker's stage."""
    handler = _HANDLERS.get(type(frame))
    if handler is None:
        raise ProtocolError(f"{type(frame).__name__} is not allowed here")
    return handler(frame, session, host)


EVENTS_AT_ONCE: Final = 64
"""Events that a session gets timestamps for in one turn. One may cost milliseconds, where thousands of topics have
hundreds of different readers; a command costs as much as a few ordinary ones."""


def parts_of(frame: ClientFrame) -> list[ClientFrame]:
    """Return a frame as frames that each have a turn. A client may cut its requests as it likes: an order change, or
    the end of the connection, may come between any two of them."""
    if not isinstance(frame, CreateTimestamps) or len(frame.events) <= EVENTS_AT_ONCE:
        return [frame]
    firsts = range(0, len(frame.events), EVENTS_AT_ONCE)
    return [replace(frame, events=frame.events[first : first + EVENTS_AT_ONCE]) for first in firsts]


_ENTERING: Final = (Resolve, Subscribe, ChangeOrder, ChangeAutomatic, ChangeLog, EndSubscription)
"""What enters at the bottom stage, and rides up."""


def entry_of(frame: ClientFrame, host: StageHost) -> int | None:
    """Return the stage from which a frame may send rides up the belt; ``None`` for one that sends none."""
    if isinstance(frame, CreateTimestamps):
        return frame.stage
    return host.count - 1 if isinstance(frame, _ENTERING) else None


def _create(frame: CreateTimestamps, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)
    _require(0 <= frame.low <= MAX_NUMBER, "low")
    for event in frame.events:
        if not (0 < event.counter <= MAX_NUMBER and 0 < event.topic <= MAX_NUMBER):
            raise ProtocolError(f"counter {event.counter} or topic {event.topic} is out of range")
        if event.after:
            _check_pairs(event.after, "after")
            _require_once(firsts(event.after), "after")
        if event.required:
            _check_required(event.required, host.count)
    _require(0 < frame.order_epoch <= MAX_NUMBER, "order_epoch")
    host.metrics.requests += len(frame.events)
    command = command_of(*session, frame)
    return lambda: host.commits.create(frame.stage, command)


def _settle(frame: Settle, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)
    what, lists = "confirmed, void or abandoned", (frame.confirmed, frame.void, frame.abandoned)
    _require(not any(len(each) % 3 for each in lists), what)
    parts = chain.from_iterable(lists)
    before = (0, 0)
    for topic, first, last in sorted(triples(parts)):
        _require(topic > 0 and 0 < first <= last <= MAX_NUMBER, what)
        if (topic, first) <= before:
            raise ProtocolError(f"number {first} of topic {topic} is in two ranges of {what}")
        before = topic, last
    command = command_of(*session, frame)
    return lambda: host.commits.settle(frame.stage, command)


def _resolve(frame: Resolve, session: Session, host: StageHost) -> Callable[[], None]:
    for space, name in frame.topics:
        _check_name(space, name)
    command = command_of(*session, frame)
    bottom = _bottom(host)
    return lambda: host.commits.step(bottom, command)


def _subscribe(frame: Subscribe, session: Session, host: StageHost) -> Callable[[], None]:
    _require(0 < frame.version <= MAX_NUMBER, "version")
    for one in frame.filters:
        _check_names(one.space, one.filter)
        _require(0 <= one.qos <= 2, "qos")
    bottom = _bottom(host)
    command = command_of(*session, frame)
    return lambda: host.commits.step(bottom, command)


def _problem_of(one: Filter) -> str | None:
    return length_problem(one) or name_problem(one)


def _each_topic_once(filters: list[SpaceFilter]) -> list[SpaceFilter]:
    """Return the filters with each topic once: stages keep all filters, and a client that may make few topics could
    name one of these as often as a frame has room. (The number of wildcards is limited.)"""
    topics = set[tuple[str, str]]()
    kept = []
    for one in filters:
        if one.filter.kind is FilterKind.EXACT:
            its = one.space, one.filter.name
            if its in topics:
                continue
            topics.add(its)
        kept.append(one)
    return kept


def check_filters(frame: Subscribe, session: Session, host: StageHost) -> None:
    """Leave each topic once in a subscription. Raise ProtocolError where it has more, or longer, wildcards than are
    allowed: comes before they are looked at in any other way."""
    frame.filters = _each_topic_once(frame.filters)
    problems = (_problem_of(one.filter) for one in frame.filters)
    problem = next(filter(None, problems), None) or number_problem([one.filter for one in frame.filters])
    if problem is not None:
        raise ProtocolError(f"filters are not allowed: {problem}")


def _ask(frame: AskNumbers, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)
    _check_pairs(frame.ranges, "ranges")

    host.metrics.questions += 1

    def answer() -> None:
        stage = host.stage(frame.stage)
        host.commits.reply(session, stage.numbers(frame))
        if (moved := stage.moved(frame.topic)) is not None:
            host.commits.reply(session, moved)

    return answer


def _name(frame: NameTopics, session: Session, host: StageHost) -> Callable[[], None]:
    bottom = _bottom(host)
    topics = host.stage(bottom).name_topics(frame).topics
    if sum(map(size_of, topics)) > MAX_NAMES_BYTES:
        raise ProtocolError(f"the names of {len(topics)} topics are too long for one answer; ask for fewer at once")
    return lambda: host.commits.reply(session, host.stage(bottom).name_topics(frame))


def _change_order(frame: ChangeOrder, session: Session, host: StageHost) -> Callable[[], None]:
    _require(0 < frame.order_epoch <= MAX_NUMBER, "order_epoch")
    _require(all(0 < topic <= MAX_NUMBER for stage in frame.stages for topic in stage), "stages")
    command = Reorder(*session, frame.request, frame.order_epoch, frame.stages, frame.by)
    bottom = _bottom(host)
    return lambda: host.commits.step(bottom, command)


def _pin(frame: PinTopics, session: Session, host: StageHost) -> Callable[[], None]:
    command = Pin(*session, frame.request, frame.topics, frame.is_pinned)
    bottom = _bottom(host)
    return lambda: host.commits.step(bottom, command)


def _change_automatic(frame: ChangeAutomatic, session: Session, host: StageHost) -> Callable[[], None]:
    _require(0 <= frame.window_ms <= MAX_NUMBER, "window_ms")
    _require(0 < frame.alpha < inf and 0 <= frame.beta < 1, "alpha or beta")
    command = SetAutomatic(*session, frame.request, Automatic(frame.window_ms, frame.alpha, frame.beta))
    bottom = _bottom(host)
    return lambda: host.commits.step(bottom, command)


def _show_automatic(frame: ShowAutomatic, session: Session, host: StageHost) -> Callable[[], None]:
    bottom = _bottom(host)

    def answer() -> None:
        how = host.stage(bottom).automatic
        host.commits.reply(session, AutomaticShown(frame.request, how.window_ms, how.alpha, how.beta))

    return answer


def _show_order(frame: ShowOrder, session: Session, host: StageHost) -> Callable[[], None]:
    bottom = _bottom(host)

    def answer() -> None:
        for part in host.stage(bottom).inspection.order(frame):
            host.commits.reply(session, part)

    return answer


def _read_log(frame: ReadLog, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)
    _check_pairs(frame.ranges, "ranges")
    _require(0 <= frame.since_ms <= MAX_NUMBER, "since_ms")

    def answer() -> None:
        if (moved := host.stage(frame.stage).moved(frame.topic)) is not None:
            host.commits.reply(session, moved)
        else:
            host.read_log(session, frame)

    return answer


def _change_log(frame: ChangeLog, session: Session, host: StageHost) -> Callable[[], None]:
    rule = frame.rule
    _check_names(rule.space, rule.filter)
    if frame.is_on and (problem := _problem_of(rule.filter)) is not None:
        raise ProtocolError(f"a filter is not allowed: {problem}")
    _require(all(0 <= each <= MAX_NUMBER for each in (rule.max_age_ms, rule.max_count, rule.max_bytes)), "rule")
    command = SetLogRule(*session, frame.request, rule, frame.is_on)
    bottom = _bottom(host)
    return lambda: host.commits.step(bottom, command)


def _save_clock(frame: SaveClock, session: Session, host: StageHost) -> Callable[[], None]:
    _check_pairs(frame.numbers, "numbers")
    command = command_of(*session, frame)
    bottom = _bottom(host)
    return lambda: host.commits.step(bottom, command)


def _ask_durable(frame: AskDurable, session: Session, host: StageHost) -> Callable[[], None]:
    bottom = _bottom(host)
    return lambda: host.commits.reply(session, host.stage(bottom).durable(frame, session[0]))


def _show_subscriptions(frame: ShowSubscriptions, session: Session, host: StageHost) -> Callable[[], None]:
    bottom = _bottom(host)

    def answer() -> None:
        for part in host.stage(bottom).show_subscriptions(frame.request):
            host.commits.reply(session, part)

    return answer


def _end_subscription(frame: EndSubscription, session: Session, host: StageHost) -> Callable[[], None]:
    command = EndDurable(*session, frame.request, frame.client_id)
    bottom = _bottom(host)
    return lambda: host.commits.step(bottom, command)


def _show_logs(frame: ShowLogs, session: Session, host: StageHost) -> Callable[[], None]:
    bottom = _bottom(host)
    return lambda: host.commits.reply(session, host.stage(bottom).log.show(frame))


def _release(frame: ReleaseNumbers, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)
    _require(0 < frame.first <= frame.last <= MAX_NUMBER, "first or last")
    _require(frame.to in (NumberState.VOID, NumberState.ABANDONED, NumberState.CONFIRMED), "to")
    command = Release(*session, frame.request, frame.topic, frame.first, frame.last, frame.to)
    return lambda: host.commits.step(frame.stage, command)


def _show_topics(frame: ShowTopics, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)

    def answer() -> None:
        found = host.stage(frame.stage).inspection.topics(frame)
        rates = host.rates.of(frame.stage, [topic.id for topic in found.topics])
        for topic in found.topics:
            topic.rate = rates.get(topic.id, 0.0)
        host.commits.reply(session, found)

    return answer


def _show_open(frame: ShowOpenNumbers, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)
    _require(0 <= frame.older_ms <= MAX_NUMBER, "older_ms")

    def answer() -> None:
        for part in host.stage(frame.stage).inspection.open_numbers(frame, host.now(frame.stage)):
            host.commits.reply(session, part)

    return answer


def _find_number(frame: FindNumber, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)

    def answer() -> None:
        stage = host.stage(frame.stage)
        moved = stage.moved(frame.topic)
        host.commits.reply(session, stage.inspection.number(frame, host.now(frame.stage)) if moved is None else moved)

    return answer


def _find_event(frame: FindEvent, session: Session, host: StageHost) -> Callable[[], None]:
    _check_stage(frame.stage, host)
    return lambda: host.commits.reply(session, host.stage(frame.stage).inspection.event(frame))


def _ping(frame: Ping, session: Session, host: StageHost) -> Callable[[], None]:
    return lambda: host.commits.reply(session, Pong(frame.nonce))


def _renew(frame: Renew, session: Session, host: StageHost) -> Callable[[], None]:
    def answer() -> None:
        host.commits.reply_as_owner(session, Renewed(frame.request, flat(host.epochs)))

    return answer


def _nothing(frame: Pong | AskHeads, session: Session, host: StageHost) -> Callable[[], None]:
    return lambda: None


_HANDLERS: Final[dict[type, Callable[..., Callable[[], None]]]] = {
    CreateTimestamps: _create,
    Settle: _settle,
    Resolve: _resolve,
    Subscribe: _subscribe,
    AskNumbers: _ask,
    NameTopics: _name,
    ChangeOrder: _change_order,
    PinTopics: _pin,
    ShowOrder: _show_order,
    ReadLog: _read_log,
    ChangeLog: _change_log,
    ShowLogs: _show_logs,
    SaveClock: _save_clock,
    AskDurable: _ask_durable,
    ShowSubscriptions: _show_subscriptions,
    EndSubscription: _end_subscription,
    ReleaseNumbers: _release,
    ShowAutomatic: _show_automatic,
    ChangeAutomatic: _change_automatic,
    ShowTopics: _show_topics,
    ShowOpenNumbers: _show_open,
    FindNumber: _find_number,
    FindEvent: _find_event,
    Ping: _ping,
    Renew: _renew,
    Pong: _nothing,
    AskHeads: _nothing,
}


def _check_stage(stage: int, host: StageHost) -> None:
    if host.has(stage):
        return
    if not 0 <= stage < host.count:
        raise ProtocolError(f"there is no stage {stage}")
    raise StageElsewhere


def _bottom(host: StageHost) -> int:
    """Return the stage where topics and subscriptions enter."""
    bottom = host.count - 1
    _check_stage(bottom, host)
    return bottom


def _check_pairs(flat: list[int], what: str) -> None:
    _require(len(flat) % 2 == 0 and min(flat, default=0) >= 0 and max(flat, default=0) <= MAX_NUMBER, what)


def _check_required(required: list[int], count: int) -> None:
    """Raise ProtocolError for more than a pair for each stage, before any of them is looked at."""
    if len(required) > 2 * count:
        raise ProtocolError(f"required has {len(required)} numbers: a pair for each of {count} stages is allowed")
    _check_pairs(required, "required")
    _require(max(firsts(required)) < count, "required")
    _require_once(firsts(required), "required")


def _require_once(values: list[int], what: str) -> None:
    _require(len(set(values)) == len(values), what)


def _check_name(space: str, name: str) -> None:
    _require(0 < len(space.encode()) <= MAX_SPACE_BYTES and 0 < len(name.encode()) <= MAX_NAME_BYTES, "space or name")


def _check_names(space: str, filter: Filter) -> None:
    _check_name(space, filter.text)
    _check_name(space, filter.name)


def _require(allowed: bool, what: str) -> None:
    if not allowed:
        raise ProtocolError(f"{what} is out of range or not well formed")
