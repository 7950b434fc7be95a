"""``/topics``: existing and new topics, pins and event logs (R13, R15, R18)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response

from inorder.errors import InorderError
from inorder.protocol.names import exact
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import MAX_NUMBER, LogRule, decode_logged
from inorder.protocol.wire import LoggedEvent as StoredEvent
from inorder_controlplane import payloads
from inorder_controlplane.auditing import audited, half_made
from inorder_controlplane.context import ClusterDep, ContextDep
from inorder_controlplane.etags import etag, require_match
from inorder_controlplane.models.common import answer
from inorder_controlplane.models.numbers import GivenNumber
from inorder_controlplane.models.topics import (
    Dependency,
    GroupMember,
    LogBounds,
    LoggedEvent,
    LogPage,
    NewTopic,
    Topic,
    TopicDetail,
    TopicPatch,
)
from inorder_controlplane.paging import ListQueryDep, Page, by, page_of
from inorder_controlplane.principals import Operator, Viewer
from inorder_controlplane.problems import Problem
from inorder_controlplane.survey import Survey
from inorder_worker.admin import Cluster, TopicState

router = APIRouter(prefix="/topics", tags=["topics"])

TopicId = Annotated[GivenNumber, Path(description="the topic's id")]

MAX_LOGGED: Final = 200
"""Events of a log in one answer at most."""


@router.get("", operation_id="listTopics")
async def list_topics(_: Viewer, cluster: ClusterDep, query: ListQueryDep) -> Page[Topic]:
    """List the topics of all stages with their numbers, rates and subscribers."""
    survey = await Survey.take(cluster)
    names = ("rank", "id", "name", "space", "stage", "number", "head", "pending", "group_size")
    return page_of(
        survey.states.values(),
        query,
        lambda each: answer(Topic, each, **_facts(survey, each)),
        ident=lambda each: each.id,
        sorts=by(*names, rate=_rate, subscribers=lambda each: survey.subscribers[each.id]),
        default="rank",
        text=lambda each: each.label,
    )


@router.post("", operation_id="createTopic", status_code=201)
async def create_topic(
    who: Operator, body: NewTopic, context: ContextDep, cluster: ClusterDep, response: Response
) -> TopicDetail:
    """Create a topic, last in the order, on the bottom stage. Publishing to a new topic does that by itself."""
    known = next(
        (info for info in (await cluster.order()).topics if (info.space, info.name) == (body.space, body.name)), None
    )
    if known is not None:
        raise Problem("conflict", f"topic {known.id} has this name already")
    async with audited(context, who, "topic.create", f"{body.space}:{body.name}") as result:
        created = await cluster.create(body.space, body.name)
        result["id"] = str(created.id)
    response.headers["Location"] = f"/api/v1/topics/{created.id}"
    return await _detail(cluster, created.id, response)


@router.get("/{topic}", operation_id="getTopic")
async def get_topic(_: Viewer, topic: TopicId, cluster: ClusterDep, response: Response) -> TopicDetail:
    """Return a topic with its sequencing group. Its ETag is needed to change it."""
    return await _detail(cluster, int(topic), response)


@router.patch("/{topic}", operation_id="patchTopic")
async def patch_topic(
    who: Operator,
    topic: TopicId,
    body: TopicPatch,
    context: ContextDep,
    cluster: ClusterDep,
    request: Request,
    response: Response,
) -> TopicDetail:
    """Pin or release a topic; give it an event log, change the log's bounds, or delete the log. Needs If-Match with the
    ETag of the topic that you read."""
    async with context.edits:
        survey = await Survey.take(cluster)
        state = _known(survey, int(topic))
        require_match(request, _etag(survey, state))
        wanted = _wanted_log(survey, state, body)
        made = ""
        if wanted is not None:
            rule, is_on = wanted
            detail = _bounds(rule) if is_on else {}
            async with audited(context, who, "log.on" if is_on else "log.off", topic, name=_label(state), **detail):
                await cluster.change_log(rule, is_on=is_on)
            made = f"the log was turned {'on' if is_on else 'off'}"
        if "pinned" in body.model_fields_set and body.pinned != state.pinned:
            try:
                async with audited(
                    context, who, "topic.pin" if body.pinned else "topic.unpin", topic, name=_label(state)
                ):
                    await cluster.pin([state.id], is_pinned=body.pinned)
            except (Problem, InorderError) as error:
                raise half_made(made, error) if made else error from None
    return await _detail(cluster, state.id, response)


@router.get("/{topic}/log", operation_id="readTopicLog")
async def read_log(
    _: Viewer,
    topic: TopicId,
    cluster: ClusterDep,
    from_: Annotated[GivenNumber, Query(alias="from", description="the first number wanted")] = "1",
    limit: Annotated[int, Query(ge=1, le=MAX_LOGGED, description="events at most")] = 50,
) -> LogPage:
    """Read events from a topic's event log, by number. What is not in the log is left out."""
    survey = await Survey.take(cluster)
    state = _known(survey, int(topic))
    if survey.log_of(state) is None:
        raise Problem(
            "not-found", f"topic {_label(state)} has no event log", allowed='PATCH the topic with {"log": {}}'
        )
    first = int(from_)
    found = await cluster.read_log(state.id, first, MAX_NUMBER, limit=limit)
    is_all = not found.events or found.through >= found.last
    return LogPage(
        items=[_logged(survey, each) for each in found.events],
        next=None if is_all else str(found.through + 1),
        first=str(found.first) if found.first else None,
        last=str(found.last) if found.last else None,
    )


# -- inside ------------------------------------------------------------------------------------------------------------


async def _detail(cluster: Cluster, topic: int, response: Response) -> TopicDetail:
    survey, with_group = await asyncio.gather(Survey.take(cluster), cluster.topics([topic]))
    state = _known(survey, topic)
    response.headers["ETag"] = _etag(survey, state)
    members = _states(survey, with_group[0].group if with_group else ())
    return answer(TopicDetail, state, **_facts(survey, state), group=[answer(GroupMember, each) for each in members])


def _known(survey: Survey, topic: int) -> TopicState:
    state = survey.states.get(topic)
    if state is None:
        raise Problem("not-found", f"there is no topic {topic}")
    return state


def _states(survey: Survey, topics: Iterable[int]) -> list[TopicState]:
    """Return the states of topics in the topic order."""
    found = [survey.states[each] for each in topics if each in survey.states]
    return sorted(found, key=lambda each: each.rank)


def _rate(state: TopicState) -> float | None:
    return state.rate if state.is_reached else None


def _label(state: TopicState) -> str:
    return f"{state.space}:{state.name}"


def _etag(survey: Survey, state: TopicState) -> str:
    """Return the ETag of a topic's editable fields, without its numbers, which change all the time."""
    log = survey.log_of(state)
    return etag("topic", state.id, state.pinned, log and [log.max_age_ms, log.max_count, log.max_bytes])


def _facts(survey: Survey, state: TopicState) -> dict[str, Any]:
    """Return what an answer says of a topic beside its state."""
    log = survey.log_of(state)
    return {
        "rate": _rate(state),
        "subscribers": survey.subscribers[state.id],
        "log": log and LogBounds(**_bounds(log)),
    }


def _wanted_log(survey: Survey, state: TopicState, body: TopicPatch) -> tuple[LogRule, bool] | None:
    """Return the wanted rule of a change, and whether to add it or to take it away; ``None``: all stays. Raises
    Problem."""
    name, bounds = exact(state.name), body.log
    if "log" not in body.model_fields_set:
        return None
    if bounds is not None:
        milliseconds = round(bounds.max_age_s * 1000)
        return LogRule(state.space, name, milliseconds, bounds.max_count, bounds.max_bytes), True
    wider = [
        f"{each.space}:{each.filter.text}"
        for each in survey.rules
        if each.covers(state.space, state.name) and each.filter != name
    ]
    if wider:
        detail = f"the topic has its log by rules for more topics than this one: {', '.join(wider[:5])}"
        raise Problem("conflict", detail, allowed="take these rules back: inorder log off")
    return None if survey.log_of(state) is None else (LogRule(state.space, name), False)


def _bounds(rule: LogRule) -> dict[str, Any]:
    return {"max_age_s": rule.max_age_ms / 1000, "max_count": rule.max_count, "max_bytes": rule.max_bytes}


def _logged(survey: Survey, event: StoredEvent) -> LoggedEvent:
    content = None if event.content is None else decode_logged(event.content)
    return answer(
        LoggedEvent,
        event,
        stored_at=event.stored_ms,
        dependencies=[Dependency(topic=survey.ref(topic), number=str(number)) for topic, number in pairs(event.deps)],
        qos=None if content is None else content.qos,
        **payloads.fields_of(None if content is None else content.payload),
    )
