"""``/events``: the known facts of one event, and a test event (R1, R16, R18)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query

import inorder
from inorder.protocol.wire import NumberState, SeenLife
from inorder_controlplane import payloads
from inorder_controlplane.auditing import audited
from inorder_controlplane.brokers import broker_of, brokers_of
from inorder_controlplane.context import ClusterDep, Context, ContextDep
from inorder_controlplane.lives import Moment as LifeMoment
from inorder_controlplane.lives import moments
from inorder_controlplane.models.common import moment, moment_or_none
from inorder_controlplane.models.events import STATES, DependencyState, Event, Happening, NewEvent, Published
from inorder_controlplane.models.numbers import GivenNumber, SignedNumber
from inorder_controlplane.models.topics import TopicRef
from inorder_controlplane.principals import Operator, Viewer
from inorder_controlplane.problems import Problem
from inorder_controlplane.survey import ref_of, refs_of
from inorder_worker.admin import Cluster, EventState

router = APIRouter(prefix="/events", tags=["events"])

MAX_DEPENDENCIES: Final = 200
"""Dependencies of which the state is looked up; of further ones it is not."""
PUBLISH_SECONDS: Final = 10.0
WORDS: Final = {"accepted": "accepted by the broker", "arrived": "received", "notified": "delivered"}


@router.get("", operation_id="findEvent")
async def find_event(
    _: Viewer,
    cluster: ClusterDep,
    topic: Annotated[GivenNumber | None, Query(description="a topic's id, together with number")] = None,
    number: Annotated[GivenNumber | None, Query(description="the event's number in its topic")] = None,
    client: Annotated[str | None, Query(max_length=128, description="the publisher, with incarnation, counter")] = None,
    incarnation: Annotated[SignedNumber | None, Query(description="which start of the publisher's process")] = None,
    counter: Annotated[GivenNumber | None, Query(description="the event's counter there")] = None,
) -> Event:
    """Find an event by its number in its topic, or by its event id (client, incarnation, counter).

    ``life`` holds what the workers know, and what clients told of it: they tell of a sample of all events only.
    """
    if topic is not None and number is not None:
        found = await cluster.find_event(int(topic), int(number))
    elif client is not None and incarnation is not None and counter is not None:
        found = await cluster.find_event_by_id(client, int(incarnation), int(counter))
    else:
        allowed = "topic and number, or client, incarnation and counter"
        raise Problem("invalid", f"an event is found by {allowed}", allowed=allowed)
    if found is None:
        raise Problem("not-found", "no such event is known (any more)")
    return await _shown(cluster, found)


@router.post("", operation_id="publishTestEvent", status_code=201)
async def publish_test_event(who: Operator, body: NewEvent, context: ContextDep, cluster: ClusterDep) -> Published:
    """Publish an event in total order through its space's broker, to all subscribers of the topic."""
    url = broker_of(brokers_of(context.settings.brokers), body.space)
    async with audited(context, who, "event.publish", f"{body.space}:{body.topic}", qos=body.qos) as result:
        receipt = await _publish(context, url, body)
        result["number"] = str(receipt.number)
    order = await cluster.order()
    made = next(each for each in order.topics if (each.space, each.name) == (body.space, body.topic))
    return Published(topic=ref_of(made.id, made), number=str(receipt.number))


async def _publish(context: Context, url: str, body: NewEvent) -> inorder.Receipt:
    """Publish an event and wait for the broker. Raises Problem and InorderErrors."""
    if context.access is None:
        raise Problem("workers-unavailable", "this control plane knows of no workers")
    client = inorder.Client(
        {body.space: url},
        workers=await context.access.addresses(),
        token=await context.access.token(),
        tls=context.access.tls,
    )
    is_open = False
    try:
        async with asyncio.timeout(PUBLISH_SECONDS), client:
            is_open = True
            return await client.publish(body.topic, body.payload.encode(), qos=body.qos, space=body.space)
    except TimeoutError:
        detail = f"not accepted by the broker within {PUBLISH_SECONDS:g} s"
        raise Problem("unknown-outcome" if is_open else "workers-unavailable", detail) from None


# -- what is shown -----------------------------------------------------------------------------------------------------


async def _shown(cluster: Cluster, found: EventState) -> Event:
    deps = found.deps
    order, told, states, waiting = await asyncio.gather(
        cluster.order(),
        cluster.lives(found.topic, found.number),
        cluster.number_states(deps[:MAX_DEPENDENCIES]),
        cluster.waiting_for(found.topic, found.number),
    )
    refs = refs_of(order)
    return Event(
        topic=refs[found.topic],
        number=str(found.number),
        state=STATES[found.state],
        dependencies=[
            DependencyState(
                topic=refs[topic], number=str(number), state=STATES[states.get((topic, number), NumberState.UNKNOWN)]
            )
            for topic, number in deps
            if topic in refs
        ],
        client=found.client_id or None,
        incarnation=str(found.incarnation) if found.client_id else None,
        counter=str(found.counter) if found.client_id else None,
        logged=found.logged,
        stored_at=moment_or_none(found.stored_ms or None),
        life=_life(found, told, refs),
        waiting=waiting,
        **payloads.fields_of(None if found.content is None else found.content.payload),
    )


def _life(found: EventState, told: list[SeenLife], refs: dict[int, TopicRef]) -> list[Happening]:
    """Return an event's moments, by clients and workers; those without a time come first and last."""
    known = moments(told)
    life = [
        Happening(
            at=moment(each.at_us // 1000),
            what=WORDS.get(each.what, each.what),
            who=each.who,
            detail=_detail(each, refs),
        )
        for each in known
    ]
    if found.logged and found.stored_ms:
        life.append(
            Happening(at=moment(found.stored_ms), what="stored", who=None, detail="in the event log, with its number")
        )
    life.sort(key=lambda each: each.at or "")
    whats, who, word = {each.what for each in known}, found.client_id or None, STATES[found.state]
    if "stamped" not in whats:
        life.insert(0, Happening(at=None, what="stamped", who=who, detail=f"number {found.number}"))
    if word != "pending" and not (word == "confirmed" and "accepted" in whats):
        life.append(Happening(at=None, what=word, who=who, detail=""))
    return life


def _detail(each: LifeMoment, refs: dict[int, TopicRef]) -> str:
    waited = refs.get(each.waited_topic)
    words = [
        each.verdict,
        f"waited for {waited.space}:{waited.name} {each.waited_number}" if waited else "",
        "by the client's own clock" if each.error_us < 0 else "",
    ]
    return ", ".join(word for word in words if word)
