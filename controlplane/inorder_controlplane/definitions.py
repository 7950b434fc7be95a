"""Definitions: exported from the workers, and compared with the present state before an import changes anything.

An import brings the topics that it names into their stages and order, with their pins, and adds rules of event logs. It
takes nothing away: other topics stay in their stages, behind those that are named, and other logs are kept. Schedules
of analyses go by their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from inorder.errors import InvalidFilter, InvalidOption
from inorder.protocol.filters import filter_of
from inorder.protocol.names import FilterKind
from inorder.protocol.wire import LogRule, TopicInfo, TopicOrder
from inorder_controlplane.cron import Cron
from inorder_controlplane.models.analytics import Job, NewSchedule
from inorder_controlplane.models.definitions import AutomaticOrder, Definitions, LogDefinition, TopicName
from inorder_controlplane.problems import Problem
from inorder_worker.admin import Automatic
from inorder_worker.store.schedules import Schedule

T = TypeVar("T")
Name = tuple[str, str]
"""Space and name of a topic."""


@dataclass(slots=True)
class Plan:
    """The changes of an import.

    Attributes:
        creates: topics that are not there yet.
        stages: names of the topics of each stage, whole.
        is_other_order: ``stages`` is not what is there.
        moves: topics that change their stage.
        lets_go: topics that are pinned and are not to be, or would be kept from their place.
        pins: topics to be pinned, after all else.
        rules: of event logs, new or changed.
        automatic: how topics change places by themselves from then on; ``None``: as they do.
        schedules: of analyses, new or other ones.
    """

    creates: list[Name] = field(default_factory=list)
    stages: list[list[Name]] = field(default_factory=list)
    is_other_order: bool = False
    moves: int = 0
    lets_go: list[Name] = field(default_factory=list)
    pins: list[Name] = field(default_factory=list)
    rules: list[LogRule] = field(default_factory=list)
    automatic: Automatic | None = None
    schedules: list[NewSchedule] = field(default_factory=list)


def definitions_of(
    order: TopicOrder, logs: Sequence[LogRule], automatic: Automatic, schedules: Sequence[Schedule] = ()
) -> Definitions:
    """Return the present definitions."""
    pinned = set(order.pinned)
    return Definitions(
        version=1,
        order=[[_name(info) for info in topics] for topics in order.by_stage()],
        pinned=[_name(info) for info in order.topics if info.id in pinned],
        logs=[_log(rule) for rule in logs],
        automatic=AutomaticOrder(
            on=automatic.is_on, window_s=automatic.window_s, alpha=automatic.alpha, beta=automatic.beta
        ),
        schedules=[_schedule(each) for each in schedules],
    )


def plan(
    wanted: Definitions,
    order: TopicOrder,
    logs: Sequence[LogRule],
    automatic: Automatic,
    schedules: Sequence[Schedule] = (),
) -> Plan:
    """Return the changes of an import. Raises Problem for what cannot be: other stages, topics named twice, pins of
    topics that are in no order, filters that are none, schedules at no times."""
    named = [[(each.space, each.name) for each in stage] for stage in wanted.order]
    pinned = [(each.space, each.name) for each in wanted.pinned]
    rules = [_rule(each, f"body.logs.{at}") for at, each in enumerate(wanted.logs)]
    _check_schedules(wanted.schedules)
    present_schedules = [_schedule(each) for each in schedules]
    now = {(info.space, info.name): info.stage for info in order.topics}
    _check(named, pinned, rules, now, order.stages)
    placed = {name: stage for stage, names in enumerate(named) for name in names}
    present: list[list[Name]] = [[] for _ in range(order.stages)]
    for name, stage in now.items():
        present[stage].append(name)
    stages = [names + [name for name in present[stage] if name not in placed] for stage, names in enumerate(named)]
    ids = {info.id: (info.space, info.name) for info in order.topics}
    are_pinned = {ids[topic] for topic in order.pinned}
    moved = {name for name, stage in placed.items() if now.get(name, stage) != stage}
    lets_go = [name for name in are_pinned if name in placed and (name not in pinned or name in moved)]
    return Plan(
        creates=[name for name in placed if name not in now],
        stages=stages,
        is_other_order=stages != present,
        moves=len(moved),
        lets_go=sorted(lets_go),
        pins=[name for name in pinned if name not in are_pinned or name in lets_go],
        rules=[rule for rule in rules if rule not in logs],
        automatic=_automatic(wanted.automatic, automatic),
        schedules=[each for each in wanted.schedules if each not in present_schedules],
    )


def _automatic(wanted: AutomaticOrder | None, now: Automatic) -> Automatic | None:
    if wanted is None:
        return None
    if wanted.on and not wanted.window_s:
        wrong = ("body.automatic.window_s", "a number over 0 where it is on")
        raise Problem("invalid", "automatic: it is on, over no time", errors=[wrong])
    found = Automatic(wanted.window_s if wanted.on else 0.0, wanted.alpha, wanted.beta)
    return None if found == now else found


def _check(named: list[list[Name]], pinned: list[Name], rules: list[LogRule], now: dict[Name, int], count: int) -> None:
    if len(named) != count:
        wrong = ("body.order", f"{len(named)} stages; this store has {count}, which was fixed when it was made")
        raise Problem("invalid", "the order has another number of stages", errors=[wrong])
    all_named = [name for names in named for name in names]
    found = [("body.order", f"{_shown(name)} stands there twice") for name in _repeated(all_named)]
    found += [("body.pinned", f"{_shown(name)} stands there twice") for name in _repeated(pinned)]
    known = {*now, *all_named}
    found += [("body.pinned", f"{_shown(name)} is no topic") for name in pinned if name not in known]
    filters = [(rule.space, rule.filter.text) for rule in rules]
    found += [("body.logs", f"{_shown(name)} stands there twice") for name in _repeated(filters)]
    if found:
        raise Problem("invalid", "; ".join(message for _, message in found[:3]), errors=found[:100])


def _check_schedules(wanted: Sequence[NewSchedule]) -> None:
    found = [("body.schedules", f"{name!r} stands there twice") for name in _repeated(each.name for each in wanted)]
    for at, each in enumerate(wanted):
        try:
            Cron(each.cron, each.timezone)
        except InvalidOption as error:
            name = "timezone" if error.option == "timezone" else "cron"
            found.append((f"body.schedules.{at}.{name}", f"{error.value!r} is not allowed: {error.allowed}"))
    if found:
        raise Problem("invalid", "; ".join(message for _, message in found[:3]), errors=found[:100])


def _schedule(stored: Schedule) -> NewSchedule:
    job = {name: getattr(stored.job, name) for name in Job.model_fields}
    return NewSchedule.model_construct(
        name=stored.name,
        cron=stored.cron,
        timezone=stored.timezone,
        job=Job.model_construct(**job),
        is_on=stored.is_on,
    )


def _repeated(names: Iterable[T]) -> list[T]:
    return [name for name, count in Counter(names).items() if count > 1]


def _shown(name: Name) -> str:
    return f"{name[0]}:{name[1]}"


def _name(info: TopicInfo) -> TopicName:
    return TopicName(space=info.space, name=info.name)


def _log(rule: LogRule) -> LogDefinition:
    is_glob = rule.filter.kind is FilterKind.REDIS or rule.filter.text != rule.filter.name
    return LogDefinition(
        space=rule.space,
        filter=rule.filter.text,
        glob=is_glob,
        max_age_s=rule.max_age_ms / 1000,
        max_count=rule.max_count,
        max_bytes=rule.max_bytes,
    )


def _rule(wanted: LogDefinition, where: str) -> LogRule:
    try:
        found = filter_of(wanted.space, wanted.filter, glob=wanted.glob)
    except InvalidFilter as error:
        raise Problem("invalid", str(error), errors=[(f"{where}.filter", error.reason)]) from None
    return LogRule(wanted.space, found, round(wanted.max_age_s * 1000), wanted.max_count, wanted.max_bytes)
