"""Definitions: what is exported can be imported elsewhere; what cannot be is refused before anything is changed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controlplane.conftest import Serve, assert_problem

from inorder.errors import OutcomeUnknown, WorkerUnreachable
from inorder.protocol.filters import filter_of
from inorder.protocol.names import exact
from inorder.protocol.wire import LogRule, TopicInfo, TopicOrder
from inorder_worker.admin import Automatic
from inorder_worker.store.analyses import Job
from inorder_worker.store.schedules import Schedules


class Workers:
    """What definitions ask of a cluster, in memory. ``dies_at``: the change of this number fails, with ``error``."""

    def __init__(self, *stages: str, pinned: str = "", rules: tuple[LogRule, ...] = ()) -> None:
        self.stages = [[ord(name) for name in names] for names in stages]
        self.pinned = {ord(name) for name in pinned}
        self.rules, self.epoch = list(rules), 4
        self.popularity = Automatic(0.0, 0.1, 0.2)
        self.changes = 0
        self.dies_at = 0
        self.error: Exception = OutcomeUnknown("something was changed", "the worker is gone")

    def name(self, topic: int) -> str:
        return chr(topic)

    async def order(self) -> TopicOrder:
        topics = [
            TopicInfo(topic, "mqtt", self.name(topic), stage)
            for stage, each in enumerate(self.stages)
            for topic in each
        ]
        return TopicOrder(1, self.epoch, len(self.stages), topics, sorted(self.pinned))

    async def log_rules(self) -> list[LogRule]:
        return list(self.rules)

    async def create(self, space: str, name: str) -> TopicInfo:
        self._change()
        self.stages[-1].append(ord(name))
        return TopicInfo(ord(name), space, name, len(self.stages) - 1)

    async def change(self, order_epoch: int, stages: list[list[int]]) -> int:
        self._change()
        assert order_epoch == self.epoch + 1
        where = {topic: stage for stage, each in enumerate(self.stages) for topic in each}
        assert all(where[topic] == stage for stage, each in enumerate(stages) for topic in each if topic in self.pinned)
        self.stages, self.epoch = stages, order_epoch
        return order_epoch

    async def pin(self, topics: list[int], *, is_pinned: bool) -> int:
        self._change()
        self.pinned = self.pinned | set(topics) if is_pinned else self.pinned - set(topics)
        return self.epoch

    async def change_log(self, rule: LogRule, *, is_on: bool) -> None:
        self._change()
        kept = [each for each in self.rules if (each.space, each.filter) != (rule.space, rule.filter)]
        self.rules = [*kept, rule]

    async def automatic(self) -> Automatic:
        return self.popularity

    async def set_automatic(self, automatic: Automatic) -> None:
        self._change()
        self.popularity = automatic

    def _change(self) -> None:
        self.changes += 1
        if self.changes == self.dies_at:
            raise self.error


def named(*names: str) -> list[list[dict[str, str]]]:
    return [[{"space": "mqtt", "name": name} for name in each] for each in names]


def body(*stages: str, pinned: str = "", logs: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"version": 1, "order": named(*stages), "pinned": named(pinned)[0], "logs": list(logs)}


RULES = (
    LogRule("mqtt", filter_of("mqtt", "a/#", glob=False), 1500, 10, 0),
    LogRule("redis", filter_of("redis", "news.*", glob=True), 0, 0, 5),
    LogRule("redis", filter_of("redis", "odd\\*", glob=True)),
    LogRule("mqtt", exact("plain")),
)


async def test_what_is_exported_sets_up_another_store_alike(serve: Serve) -> None:
    one, other = Workers("ba", "c", pinned="a", rules=RULES), Workers("", "")
    one.popularity = Automatic(5.0, 0.3, 0.4)
    exported = (await serve(one).client("operator").get("/api/v1/definitions")).json()
    assert exported["order"] == named("ba", "c")
    site = serve(other)
    planned = await site.client("admin").post("/api/v1/definitions", params={"dry_run": True}, json=exported)
    assert other.changes == 0
    answer = await site.client("admin").post("/api/v1/definitions", json=exported)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {**planned.json(), "dry_run": False}
    assert (answer.json()["creates"], answer.json()["logs"]) == (named("bac")[0], 4)
    assert (other.stages, other.pinned, other.rules) == (one.stages, one.pinned, one.rules)
    assert (answer.json()["automatic"], other.popularity) == (True, one.popularity)
    again = await site.client("admin").post("/api/v1/definitions", json=exported)
    nothing = {"creates": [], "reorders": False, "moves": 0, "pins": [], "lets_go": [], "logs": 0, "automatic": False}
    nothing["schedules"] = 0
    assert again.json() == {"dry_run": False, **nothing}


async def test_schedules_are_made_and_changed_by_their_names(serve: Serve) -> None:
    """Whatever places this control plane allows: that is looked at when they run. Others stay."""
    site = serve(Workers("", ""))
    schedules = Schedules(site.store)
    job = Job(source="/elsewhere/traces", max_pairs=7)
    first = schedules.add("nightly", "0 3 * * *", "Europe/Berlin", job, is_on=True, by="ann")
    second = schedules.add("weekly", "0 4 * * MON", "UTC", job, is_on=False, by="ann")
    admin = site.client("admin")
    exported = (await admin.get("/api/v1/definitions")).json()
    assert [(each["name"], each["job"]["source"]) for each in exported["schedules"]] == [
        ("nightly", "/elsewhere/traces"),
        ("weekly", "/elsewhere/traces"),
    ]
    schedules.remove(first.id)
    schedules.change(second, name="weekly", cron="0 5 * * MON", timezone="UTC", job=Job(), is_on=True)
    other = schedules.add("other", "0 3 * * *", "UTC", job, is_on=True, by="ben")
    answer = await admin.post("/api/v1/definitions", json=exported)
    assert answer.json()["schedules"] == 2, answer.text
    assert [(each.name, each.cron, each.timezone, each.job, each.is_on, each.by) for each in schedules.list()] == [
        ("nightly", "0 3 * * *", "Europe/Berlin", job, True, "the admin"),
        ("other", "0 3 * * *", "UTC", other.job, True, "ben"),
        ("weekly", "0 4 * * MON", "UTC", job, False, "ann"),
    ]
    assert (await admin.post("/api/v1/definitions", json=exported)).json()["schedules"] == 0
    del exported["schedules"]
    assert (await admin.post("/api/v1/definitions", json=exported)).json()["schedules"] == 0


async def test_what_is_not_named_stays(serve: Serve) -> None:
    workers = Workers("abx", "yc", pinned="xa", rules=RULES[:1])
    answer = await serve(workers).client("admin").post("/api/v1/definitions", json=body("cb", "a", pinned="c"))
    assert (answer.json()["moves"], answer.json()["reorders"]) == (2, True)
    assert (answer.json()["lets_go"], answer.json()["pins"]) == (named("a")[0], named("c")[0])
    assert workers.stages == [[ord(name) for name in names] for names in ("cbx", "ay")]
    assert workers.pinned == {ord("x"), ord("c")}
    assert workers.rules == [RULES[0]]
    assert workers.popularity == Automatic(0.0, 0.1, 0.2)


AUTOMATIC = {"on": True, "window_s": 5.0, "alpha": 0.1, "beta": 0.2}
NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", "job": {"source": "/t"}}
LOG = {"space": "mqtt", "filter": "a/#", "glob": False, "max_age_s": 0.0, "max_count": 0, "max_bytes": 0}


@pytest.mark.parametrize(
    ("document", "where"),
    [
        (body("a"), "body.order"),
        (body("ab", "a"), "body.order"),
        (body("a", "", pinned="z"), "body.pinned"),
        (body("a", "", pinned="aa"), "body.pinned"),
        (body("a", "", logs=({**LOG, "filter": "a/#/b"},)), "body.logs.0.filter"),
        (body("a", "", logs=(LOG, LOG)), "body.logs"),
        (body("a", "", logs=({**LOG, "max_count": -1},)), "body.logs.0.max_count"),
        ({**body("a", ""), "automatic": {**AUTOMATIC, "window_s": 0}}, "body.automatic.window_s"),
        ({**body("a", ""), "automatic": {**AUTOMATIC, "beta": 1}}, "body.automatic.beta"),
        ({**body("a", ""), "schedules": [{**NIGHTLY, "cron": "0 24 * * *"}]}, "body.schedules.0.cron"),
        ({**body("a", ""), "schedules": [{**NIGHTLY, "timezone": "Berlin"}]}, "body.schedules.0.timezone"),
        ({**body("a", ""), "schedules": [NIGHTLY, NIGHTLY]}, "body.schedules"),
        ({**body("a", ""), "version": 2}, "body.version"),
        ({**body("a", ""), "tokens": []}, "body.tokens"),
        ({**body("", ""), "order": [[{"space": "ü" * 128, "name": "a"}], []]}, "body.order.0.0.space"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_changed(
    serve: Serve, document: dict[str, Any], where: str
) -> None:
    workers = Workers("q", "")
    found = assert_problem(await serve(workers).client("admin").post("/api/v1/definitions", json=document), "invalid")
    assert where in [each["where"] for each in found["errors"]]
    assert workers.changes == 0


GONE = OutcomeUnknown("something was changed", "the worker is gone"), WorkerUnreachable(["w:1"], "the worker is gone")


@pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
async def test_a_worker_that_dies_meanwhile(serve: Serve, error: Exception) -> None:
    """The answer and the audit log say that it is not known; doing it again goes on. That nothing was changed is never
    said of an import of which a part was made."""
    workers = Workers("", "q")
    workers.dies_at, workers.error = 3, error
    site = serve(workers)
    admin = site.client("admin")
    answer = await admin.post("/api/v1/definitions", json=body("ab", "", pinned="a"))
    assert "the worker is gone" in assert_problem(answer, "unknown-outcome")["detail"]
    entry = (await admin.get("/api/v1/audit")).json()["items"][0]
    assert (entry["action"], entry["outcome"]) == ("definitions.import", "unknown")
    assert entry["detail"]["made"] == "topics"
    assert (await admin.post("/api/v1/definitions", json=body("ab", "", pinned="a"))).status_code == 200
    assert (workers.stages, workers.pinned) == ([[ord("a"), ord("b")], [ord("q")]], {ord("a")})


async def test_a_worker_that_is_gone_before_the_first_change(serve: Serve) -> None:
    workers = Workers("", "q")
    workers.dies_at, workers.error = 1, WorkerUnreachable(["w:1"], "the worker is gone")
    admin = serve(workers).client("admin")
    assert_problem(await admin.post("/api/v1/definitions", json=body("ab", "", pinned="a")), "workers-unavailable")
    assert (await admin.get("/api/v1/audit")).json()["items"][0]["outcome"] == "refused"
