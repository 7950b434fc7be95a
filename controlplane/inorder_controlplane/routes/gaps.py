"""``/gaps``: numbers that hold subscribers up, and an operator's remedies (R16, R17, R18)."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter

from inorder.protocol.wire import TopicInfo
from inorder_controlplane.auditing import audited
from inorder_controlplane.context import ClusterDep, ContextDep
from inorder_controlplane.models.common import answer
from inorder_controlplane.models.events import STATES, Gap, Numbers, NumbersChanged, Release
from inorder_controlplane.models.topics import Dependency, TopicRef
from inorder_controlplane.paging import ListQueryDep, Page, page_of
from inorder_controlplane.principals import Operator, Viewer
from inorder_controlplane.problems import Problem
from inorder_controlplane.survey import ref_of
from inorder_worker.admin import StuckNumber

router = APIRouter(prefix="/gaps", tags=["gaps"])

MAX_RANGE = 10_000
"""Numbers that are released at a time."""


@router.get("", operation_id="listGaps")
async def list_gaps(_: Viewer, cluster: ClusterDep, query: ListQueryDep) -> Page[Gap]:
    """List the numbers that subscribers wait for: given a while ago, neither confirmed nor given up."""
    infos = {each.id: each for each in (await cluster.order()).topics}

    def label(each: StuckNumber) -> str:
        info = infos.get(each.topic)
        return info.label if info is not None else str(each.topic)

    return page_of(
        await cluster.stuck(),
        query,
        lambda each: _shown(each, infos),
        ident=lambda each: f"{each.topic:020d}-{each.first:020d}",
        sorts={"age_s": lambda each: each.age_ms, "topic": label, "client": lambda each: each.client_id},
        default="-age_s",
        text=lambda each: f"{label(each)} {each.client_id} {each.reason}",
    )


@router.post("/release", operation_id="releaseNumbers")
async def release(who: Operator, body: Release, context: ContextDep, cluster: ClusterDep) -> NumbersChanged:
    """Let subscribers go on without these numbers. What was published under them and still arrives is late; under
    void numbers it is dropped where a reader waits for the order. Numbers with an event in the log are repaired
    instead: 409."""
    first, last = _range(body)
    async with audited(
        context, who, "numbers.release", body.topic, first=body.first, last=body.last, as_=body.as_
    ) as result:
        changed = await cluster.release(int(body.topic), first, last, body.as_)
        result["changed"] = len(changed)
    return NumbersChanged(changed=[str(each) for each in changed], unchanged=last - first + 1 - len(changed))


@router.post("/repair", operation_id="repairNumbers")
async def repair(who: Operator, body: Numbers, context: ContextDep, cluster: ClusterDep) -> NumbersChanged:
    """Confirm numbers whose events are in the event log, from which subscribers then fetch the events."""
    first, last = _range(body)
    async with audited(context, who, "numbers.repair", body.topic, first=body.first, last=body.last) as result:
        changed = await cluster.confirm_logged(int(body.topic), first, last)
        result["changed"] = len(changed)
    return NumbersChanged(changed=[str(each) for each in changed], unchanged=last - first + 1 - len(changed))


def _range(body: Numbers) -> tuple[int, int]:
    first, last = int(body.first), int(body.last)
    if not 1 <= first <= last < first + MAX_RANGE:
        allowed = f"1 to {MAX_RANGE} numbers, the first one at most the last"
        raise Problem("invalid", f"numbers {first} to {last} are no range", allowed=allowed)
    return first, last


def _shown(each: StuckNumber, infos: Mapping[int, TopicInfo]) -> Gap:

    def ref(topic: int) -> TopicRef:
        return ref_of(topic, infos.get(topic))

    return answer(
        Gap,
        each,
        topic=ref(each.topic),
        state=STATES[each.state],
        client=each.client_id or None,
        away_s=each.away_ms / 1000 if each.away_ms > 0 else None,
        age_s=each.age_ms / 1000,
        holds=None if each.holds is None else Dependency(topic=ref(each.holds[0]), number=str(each.holds[1])),
    )
