"""``/order``: the topic order, the effects of a change, and the change (R14, R15)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from inorder.errors import InorderError, OutcomeUnknown, StaleOrder
from inorder.protocol.wire import MAX_NUMBER, KnownSubscription, TopicInfo, TopicOrder
from inorder_controlplane import sharing
from inorder_controlplane.auditing import audited
from inorder_controlplane.context import ClusterDep, ContextDep
from inorder_controlplane.etags import etag, require_match
from inorder_controlplane.models.common import answer
from inorder_controlplane.models.order import (
    MAX_MOVES,
    Automatic,
    Move,
    NewAutomatic,
    Order,
    OrderChange,
    OrderChanged,
    PastOrder,
    Preview,
    StageOrder,
    Swap,
    TopicMove,
    TopicOnStage,
    Visits,
    WholeOrder,
)
from inorder_controlplane.models.topics import TopicRef
from inorder_controlplane.paging import MAX_LIMIT, Page, decoded, encoded
from inorder_controlplane.planning import Moved, NotAnOrder, Ordered, Plan, PresentOrder, moves_between
from inorder_controlplane.principals import Operator, Viewer
from inorder_controlplane.problems import Problem
from inorder_controlplane.survey import refs_of
from inorder_controlplane.watching import watching_of
from inorder_worker.admin import Automatic as AutomaticMode
from inorder_worker.admin import Cluster, TopicState
from inorder_worker.store.history import History, OrderRow

router = APIRouter(prefix="/order", tags=["order"])

MAX_PLACES: Final = 200_000
"""Places of topics in the past orders of one answer, about."""

# -- routes ------------------------------------------------------------------------------------------------------------


@router.get("", operation_id="getOrder")
async def get_order(_: Viewer, cluster: ClusterDep, response: Response) -> Order:
    """Return the whole topic order. Its ETag is needed to change it."""
    now, automatic = await asyncio.gather(cluster.order(), cluster.automatic())
    rates = {each.id: each.rate for each in await cluster.topics(groups=False) if each.is_reached}
    pinned = set(now.pinned)

    def place(each: TopicInfo) -> TopicOnStage:
        return answer(TopicOnStage, each, pinned=each.id in pinned, rate=rates.get(each.id))

    response.headers["ETag"] = order_etag(now, automatic)
    return Order(
        order_epoch=str(now.order_epoch),
        stages=[
            StageOrder(stage=stage, topics=[place(each) for each in topics])
            for stage, topics in enumerate(now.by_stage())
        ],
        automatic=_automatic(automatic),
    )


@router.post("/preview", operation_id="previewOrder")
async def preview_order(_: Viewer, change: OrderChange, cluster: ClusterDep) -> Preview:
    """Return the effects of a change without making it: moved topics, and stages per timestamp."""
    now = await cluster.order()
    _order, refs, plan = await _planned(cluster, now, change)
    return Preview(
        order_epoch=str(now.order_epoch),
        moves=moves_of(plan.moves, refs),
        moves_total=len(plan.moves),
        expected_stages_per_event=Visits(now=plan.visits_now, then=plan.visits_then),
        rates_known=plan.rates_known,
        warnings=plan.warnings,
    )


@router.put("", operation_id="putOrder")
async def put_order(
    who: Operator, change: OrderChange, context: ContextDep, cluster: ClusterDep, request: Request
) -> OrderChanged:
    """Change the topic order while everything runs. Needs If-Match with the ETag of the order that you changed.

    Answers when the bottom stage is in the new order. Publishers pause for a moment if topics change their stage.
    """
    async with context.edits:
        now, automatic = await asyncio.gather(cluster.order(), cluster.automatic())
        require_match(request, order_etag(now, automatic))
        order, _, plan = await _planned(cluster, now, change)
        stages = plan.stages
        if stages == order.stages:
            return OrderChanged(order_epoch=str(now.order_epoch))
        if fixed := set(order.fixed(stages)):
            names = [each.label for each in now.topics if each.id in fixed]
            raise Problem("conflict", f"pinned to their stage: {', '.join(names[:10])}", allowed="unpin them first")
        async with audited(
            context, who, "order.change", order_epoch=str(now.order_epoch), **change.model_dump()
        ) as result:
            try:
                with watching_of(context).order_change():
                    epoch = await cluster.change(now.order_epoch + 1, stages, who.name)
            except StaleOrder as error:
                raise Problem("stale", str(error)) from None
            except OutcomeUnknown as error:
                raise Problem("unknown-outcome", f"{error}; {await _seen(cluster, now, stages)}") from None
            result["order_epoch"] = str(epoch)
        return OrderChanged(order_epoch=str(epoch))


@router.get("/history", operation_id="listOrderHistory")
async def list_history(
    _: Viewer,
    context: ContextDep,
    cluster: ClusterDep,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="orders at most")] = 100,
    cursor: Annotated[str | None, Query(max_length=100, description="`next` of the page before")] = None,
) -> Page[PastOrder]:
    """List the former topic orders, the newest first: their times, the askers, the topics moved."""
    before, refs = None if cursor is None else _epoch_of(cursor), refs_of(await cluster.order())
    limit = min(limit, max(1, MAX_PLACES // max(1, len(refs))))
    rows, total = await context.database.call(
        lambda store: (History(store).orders(before=before, limit=limit + 1), History(store).count_orders())
    )
    items = await asyncio.to_thread(lambda: [_past(row, former, refs) for row, former in zip_longest(rows, rows[1:])])
    following = encoded(rows[limit - 1].order_epoch) if len(rows) > limit else None
    return Page(items=items[:limit], next=following, total=total)


@router.put("/automatic", operation_id="putAutomatic")
async def put_automatic(
    who: Operator, body: NewAutomatic, context: ContextDep, cluster: ClusterDep, request: Request, response: Response
) -> Automatic:
    """Turn the automatic change of topics' places by popularity on or off. It lasts, and goes before what the workers'
    settings say. Needs If-Match with the ETag of the order."""
    if body.on and not body.window_s:
        raise Problem("invalid", "window_s: 0 is not allowed", allowed="seconds over 0, while it is on")
    wanted = AutomaticMode(body.window_s if body.on else 0.0, body.alpha, body.beta)
    async with context.edits:
        now, automatic = await asyncio.gather(cluster.order(), cluster.automatic())
        require_match(request, order_etag(now, automatic))
        async with audited(context, who, "order.automatic", **body.model_dump()):
            await cluster.set_automatic(wanted)
        now, set_to = await asyncio.gather(cluster.order(), cluster.automatic())
    response.headers["ETag"] = order_etag(now, set_to)
    return _automatic(set_to)


def order_etag(now: TopicOrder, automatic: AutomaticMode) -> str:
    """Return the ETag of a topic order and of its automatic changes."""
    return etag("order", now.order_epoch, [automatic.window_s, automatic.alpha, automatic.beta])


def _automatic(mode: AutomaticMode) -> Automatic:
    return answer(Automatic, mode, on=mode.is_on)


# -- inside ------------------------------------------------------------------------------------------------------------


async def _planned(
    cluster: Cluster, now: TopicOrder, change: WholeOrder | Swap | Move
) -> tuple[PresentOrder, dict[int, TopicRef], Plan]:
    """Return the present order, its topics, and the effects of a change. That takes up to a second of a processor:
    it is done beside the event loop, which may be a worker's, too. Raises Problem.

    Groups are found from the subscriptions. Told one by one, those of ten thousand topics are a hundred million ids."""
    states, subscriptions = await asyncio.gather(cluster.topics(groups=False), cluster.subscriptions())

    def planned() -> tuple[PresentOrder, dict[int, TopicRef], Plan]:
        order = _present(now, states, subscriptions)
        return order, refs_of(now), _plan(order, change)

    return await asyncio.to_thread(planned)


def _present(now: TopicOrder, states: Sequence[TopicState], subscriptions: Sequence[KnownSubscription]) -> PresentOrder:
    known = {each.id: each for each in states}
    filters = [[(one.space, one.filter) for one in each.filters] for each in subscriptions]
    groups = sharing.groups([sharing.Topic(each.space, each.name, each.stage) for each in now.topics], filters)
    pinned = set(now.pinned)
    topics: dict[int, Ordered] = {}
    for at, each in enumerate(now.topics):
        state = known.get(each.id)
        topics[each.id] = Ordered(
            each.id,
            each.label,
            each.stage,
            pinned=each.id in pinned,
            rate=state.rate if state is not None and state.is_reached else None,
            group=groups.get(at, 0),
        )
    return PresentOrder(_ids(now), topics)


def _ids(order: TopicOrder) -> list[list[int]]:
    return [[each.id for each in topics] for topics in order.by_stage()]


def _plan(order: PresentOrder, change: WholeOrder | Swap | Move) -> Plan:
    """Return the effects of a change. Raises Problem."""
    try:
        match change:
            case WholeOrder():
                return order.plan(order.whole([[int(topic) for topic in stage] for stage in change.stages]))
            case Swap():
                one, other = map(int, change.swap)
                return order.plan(order.swapped(one, other), named=(one, other))
            case Move():
                place = change.move
                return order.plan(order.moved(int(place.topic), place.stage, place.rank), named=(int(place.topic),))
    except NotAnOrder as error:
        raise Problem("invalid", str(error), errors=[(each.where, each.message) for each in error.faults]) from None


def _past(row: OrderRow, former: OrderRow | None, refs: dict[int, TopicRef]) -> PastOrder:
    moves = None if former is None or row.kind == "start" else moves_between(former.stages, row.stages)
    return answer(
        PastOrder,
        row,
        at=row.at_ms,
        moves=None if moves is None else moves_of(moves, refs),
        moves_total=None if moves is None else len(moves),
    )


def _epoch_of(cursor: str) -> int:
    match decoded(cursor):
        case int() as epoch if 0 < epoch <= MAX_NUMBER:
            return epoch
    raise Problem("invalid", "cursor: it is none of this list", allowed="`next` of a page")


def moves_of(moves: Sequence[Moved], refs: dict[int, TopicRef]) -> list[TopicMove]:
    """Return moves in the API's form."""
    return [answer(TopicMove, each, topic=refs[each.topic]) for each in moves[:MAX_MOVES] if each.topic in refs]


async def _seen(cluster: Cluster, before: TopicOrder, stages: list[list[int]]) -> str:
    """Return what can be seen of a change during which a worker was lost."""
    try:
        now = await cluster.order()
    except InorderError as error:
        return str(error)
    if now.order_epoch == before.order_epoch:
        return f"the order epoch is still {now.order_epoch}, but the change may yet come"
    if _ids(now) == stages:
        return f"the order is as asked for, with epoch {now.order_epoch}"
    return f"the order is another one, with epoch {now.order_epoch}"
