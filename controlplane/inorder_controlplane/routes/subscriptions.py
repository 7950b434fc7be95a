"""``/subscriptions``: the clients subscribed with total order, and the topics that they share (R7, R12, R13)."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from inorder.protocol.wire import KnownSubscription
from inorder_controlplane import sharing
from inorder_controlplane.auditing import audited
from inorder_controlplane.context import ClusterDep, ContextDep
from inorder_controlplane.models.common import answer
from inorder_controlplane.models.subscriptions import ClientPair, Overlap, SequencedPair, SpaceFilter, Subscription
from inorder_controlplane.paging import ListQueryDep, Page, by, page_of
from inorder_controlplane.principals import Operator, Viewer
from inorder_controlplane.problems import Problem
from inorder_controlplane.survey import ref_of
from inorder_worker.admin import TopicState

router = APIRouter(prefix="/subscriptions", tags=["subscriptions"])

MAX_SHOWN: Final = 200
"""Clients of an overlap matrix at most."""
KEPT_SECONDS: Final = 30.0
"""How long an overlap is shown again while nobody subscribes anew: computing takes a while, and only rates change."""


@router.get("", operation_id="listSubscriptions")
async def list_subscriptions(_: Viewer, cluster: ClusterDep, query: ListQueryDep) -> Page[Subscription]:
    """List the subscriptions with total order. Others (fifo, none) are between clients and their broker only. A page
    with very many filters has fewer items than its limit."""
    return await asyncio.to_thread(
        page_of,
        await cluster.subscriptions(),
        query,
        _shown,
        ident=lambda each: each.client_id,
        sorts=by("topics", "durable", client=lambda each: each.client_id, away_s=lambda each: _away(each) or 0.0),
        default="client",
        text=lambda each: " ".join([each.client_id, *(f"{one.space}:{one.filter.text}" for one in each.filters)]),
        size=lambda each: len(each.filters),
    )


@router.get("/overlap", operation_id="getOverlap")
async def get_overlap(
    _: Viewer,
    context: ContextDep,
    cluster: ClusterDep,
    limit: Annotated[int, Query(ge=1, le=MAX_SHOWN, description="clients, and pairs, at most")] = 50,
) -> Overlap:
    """Return the topics that clients have in common, and the pairs of topics that must be sequenced because two or more
    clients have both. These are what total order costs."""
    found, states = await asyncio.gather(cluster.subscriptions(), cluster.topics(groups=False))
    wanted = limit, [(each.client_id, each.filters) for each in found], [(each.id, each.stage) for each in states]
    async with context.parts.setdefault("overlap lock", asyncio.Lock()):
        kept: tuple[object, float, Overlap] | None = context.parts.get("overlap")
        if kept is None or kept[0] != wanted or time.monotonic() - kept[1] > KEPT_SECONDS:
            kept = wanted, time.monotonic(), await asyncio.to_thread(_overlap, found, states, limit)
            context.parts["overlap"] = kept
    return kept[2]


@router.delete("/{client:path}", operation_id="endSubscription", status_code=204)
async def end_subscription(who: Operator, client: str, context: ContextDep, cluster: ClusterDep) -> Response:
    """End the subscription of a client that does not come back, with its saved clock. If it does come back, it begins
    anew. One that is connected keeps its subscription: 409."""
    if all(each.client_id != client for each in await cluster.subscriptions()):
        raise Problem("not-found", "no client of this id has a subscription")
    async with audited(context, who, "subscription.end", client):
        await cluster.end_subscription(client)
    return Response(status_code=204)


def _shown(each: KnownSubscription) -> Subscription:
    return answer(
        Subscription,
        each,
        client=each.client_id,
        connected=each.away_ms == 0,
        away_s=_away(each),
        filters=[SpaceFilter(space=one.space, filter=one.filter.text) for one in each.filters],
        token=each.owner or None,
    )


def _away(each: KnownSubscription) -> float | None:
    return each.away_ms / 1000 if each.away_ms > 0 else None


def _overlap(found: list[KnownSubscription], states: list[TopicState], limit: int) -> Overlap:
    refs = [ref_of(each.id, each) for each in states]
    topics = [sharing.Topic(each.space, each.name, each.stage, each.rate) for each in states]
    filters = [[(one.space, one.filter) for one in each.filters] for each in found]
    shared = sharing.overlap(topics, sharing.subscribed(topics, filters), limit)
    names = [each.client_id for each in found]
    return Overlap(
        clients=[names[each] for each in shared.clients],
        clients_total=len(found),
        matrix=shared.matrix,
        pairs=[
            ClientPair(
                a=names[each.one],
                b=names[each.other],
                shared=each.shared,
                topics=[refs[topic] for topic in each.first_topics],
            )
            for each in shared.pairs
        ],
        sequenced_pairs=[
            answer(SequencedPair, each, topics=[refs[each.lower], refs[each.higher]]) for each in shared.topic_pairs
        ],
        sequenced_pairs_total=shared.topic_pairs_total,
    )
