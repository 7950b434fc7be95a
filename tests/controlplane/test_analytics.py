"""Runs of analyses and their schedules through the API: what can be asked for, what is shown, what is refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from tests.controlplane.conftest import Serve, Site, assert_problem

from inorder_worker.store.analyses import Analyses, Job, Progress
from inorder_worker.store.schedules import Schedules

RUNS, SCHEDULES = "/api/v1/analytics/runs", "/api/v1/analytics/schedules"
RESULT: dict[str, Any] = {
    "events": 12,
    "tno_violations_delivered": 0,
    "tno_violations_raw": 2**60,
    "latency_ms": {"p50": 1.5, "p90": None, "p99": 2.0},
    "files": {"read": 3, "bytes": 1000, "damaged": [{"file": "x", "reason": "short"}]},
    "by_topic": [
        {"run": "default", "topic": "mqtt:a", "events": 5, "latency_ms": {"p50": 1.0}},
        {"run": "default", "topic": "=cmd|x", "events": 7, "latency_ms": {"p50": -2.0}},
    ],
    "worst_pairs": [
        {"a": "x", "b": "y", "witness": {"first": {"topic": "mqtt:a", "number": 2**53 + 1}, "second": None}},
    ],
}


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    (folder / "plant").mkdir(parents=True)
    return folder


@pytest.fixture
def site(serve: Serve, traces: Path) -> Site:
    return serve(traces=(str(traces), "s3://plant/traces"), masters=("spark://cluster:7077",))


def ended(site: Site, outcome: Any = "done", **more: Any) -> str:
    """Put a run into the store that has ended; return its id."""
    runs = Analyses(site.store)
    run = runs.begin(Job(source="/traces"), "somebody", "ann")
    assert runs.end(run.id, "somebody", outcome, **more)
    return run.id


# -- runs --------------------------------------------------------------------------------------------------------------


async def test_a_run_is_asked_for_shown_and_cancelled(site: Site, traces: Path) -> None:
    operator, viewer = site.client("operator"), site.client("viewer")
    body = {"source": str(traces), "out": None, "window_s": 30.0, "max_pairs": 10, "master": "local[2]"}
    answer = await operator.post(RUNS, json=body)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert answer.headers["location"] == f"{RUNS}/{made['id']}"
    assert (made["outcome"], made["by"], made["job"]) == ("queued", "the operator", body)
    assert [made[name] for name in ("started_at", "duration_s", "owner", "schedule", "reason", "summary")] == [None] * 6
    shown = (await viewer.get(f"{RUNS}/{made['id']}")).json()
    assert (shown["result"], shown["log"]) == (None, "")
    cancelled = (await operator.post(f"{RUNS}/{made['id']}/cancel")).json()
    assert (cancelled["outcome"], cancelled["cancelled_by"]) == ("cancelled", "the operator")
    assert_problem(await operator.post(f"{RUNS}/{made['id']}/cancel"), "conflict")
    audit = (await site.client("admin").get("/api/v1/audit")).json()["items"]
    assert [(each["action"], each["outcome"]) for each in audit] == [
        ("analysis.cancel", "done"),
        ("analysis.start", "done"),
    ]
    assert audit[1]["detail"]["id"] == made["id"]


async def test_a_run_that_goes_on_is_told_to_end(site: Site) -> None:
    runs = Analyses(site.store)
    run = runs.begin(Job(source="/traces"), "somebody", "ann")
    runs.beat(run.id, "somebody", progress=Progress(2, 9, "read the files"), log="1/9\n2/9\n")
    operator = site.client("operator")
    shown = (await operator.get(f"{RUNS}/{run.id}")).json()
    assert shown["progress"] == {"step": 2, "of": 9, "what": "read the files"}
    assert (shown["outcome"], shown["owner"], shown["ended_at"]) == ("running", "somebody", None)
    assert_problem(await operator.delete(f"{RUNS}/{run.id}"), "conflict")
    answer = (await operator.post(f"{RUNS}/{run.id}/cancel")).json()
    assert (answer["outcome"], answer["cancelled_by"]) == ("running", "the operator")
    assert runs.beat(run.id, "somebody") == "cancel"
    log = await operator.get(f"{RUNS}/{run.id}/log")
    assert (log.text, log.headers["content-type"]) == ("1/9\n2/9\n", "text/plain; charset=utf-8")


async def test_a_result_is_exact_and_can_be_kept(site: Site) -> None:
    id_ = ended(site, result=RESULT)
    viewer = site.client("viewer")
    shown = (await viewer.get(f"{RUNS}/{id_}")).json()
    assert shown["summary"] == {
        "events": 12,
        "tno_violations_delivered": 0,
        "tno_violations_raw": str(2**60),
        "latency_ms": {"p50": 1.5, "p90": None, "p99": 2.0},
        "files": {"read": 3, "bytes": 1000, "damaged": 1},
    }
    witness = shown["result"]["worst_pairs"][0]["witness"]
    assert witness == {"first": {"topic": "mqtt:a", "number": "9007199254740993"}, "second": None}
    kept = await viewer.get(f"{RUNS}/{id_}/result")
    assert kept.json() == shown["result"]
    assert kept.headers["content-disposition"] == f'attachment; filename="analysis-{id_}.json"'
    listed = (await viewer.get(RUNS)).json()["items"][0]
    assert listed["summary"] == shown["summary"]
    assert "result" not in listed


async def test_lists_of_a_result_as_csv(site: Site) -> None:
    """A text that a spreadsheet would run as a formula is a text there, too; a negative number is a number."""
    id_ = ended(site, result=RESULT)
    viewer = site.client("viewer")
    answer = await viewer.get(f"{RUNS}/{id_}/result", params={"list": "by_topic"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="analysis-{id_}-by_topic.csv"'
    assert list(csv.reader(io.StringIO(answer.text))) == [
        ["run", "topic", "events", "latency_ms.p50"],
        ["default", "mqtt:a", "5", "1.0"],
        ["default", "'=cmd|x", "7", "-2.0"],
    ]
    pairs = await viewer.get(f"{RUNS}/{id_}/result", params={"list": "worst_pairs"})
    assert pairs.text.splitlines()[1] == "x,y,mqtt:a,9007199254740993,"
    unknown = assert_problem(await viewer.get(f"{RUNS}/{id_}/result", params={"list": "events"}), "not-found")
    assert unknown["allowed"] == ["by_topic", "worst_pairs"]
    assert_problem(await viewer.get(f"{RUNS}/{ended(site, 'failed')}/result"), "not-found")


async def test_runs_are_listed_filtered_and_removed(site: Site) -> None:
    first, failed = ended(site), ended(site, "failed", reason="no Java")
    queued = Analyses(site.store).queue(Job(source="/other"), "ben", schedule="3b7e")
    viewer, operator = site.client("viewer"), site.client("operator")

    async def ids(**query: Any) -> list[str]:
        answer = await viewer.get(RUNS, params=query)
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["items"]]

    assert set(await ids()) == {first, failed, queued.id}
    assert await ids(outcome="failed") == [failed]
    assert await ids(schedule="3b7e") == [queued.id]
    assert await ids(q="no java") == [failed]
    assert (await ids(sort="outcome"))[0] == first
    assert await ids(sort="ended_at", limit=1) == [queued.id]
    assert_problem(await viewer.get(RUNS, params={"outcome": "lost"}), "invalid")
    assert (await operator.delete(f"{RUNS}/{failed}")).status_code == 204
    assert_problem(await operator.delete(f"{RUNS}/{failed}"), "not-found")
    assert await ids(outcome="failed") == []


# -- places ------------------------------------------------------------------------------------------------------------


async def test_what_may_be_analysed_is_told(site: Site, traces: Path) -> None:
    answer = (await site.client("viewer").get("/api/v1/analytics/places")).json()
    assert answer == {
        "traces": [str(traces), "s3://plant/traces"],
        "masters": ["spark://cluster:7077"],
        "concurrency": 1,
        "found": [str(traces), str(traces / "plant")],
    }


OUTSIDE = [
    "/etc",
    "{traces}2",
    "{traces}/link",
    "s3://plant/traces2",
    "s3://other/traces",
    "S3://plant/x",
    "memory://x",
]
IMPOSSIBLE = [
    "traces",
    "{traces}/../other",
    "{traces}/plant/..",
    "file:///etc",
    "local://etc",
    "s3://plant/traces/../other",
    "s3://plant/traces/%2e%2e/other",
    "s3://plant/traces/%252e%252e/other",
    "s3://key:secret@plant/traces",
    "s3://plant/traces?x=1",
    "zip::s3://plant/traces",
    "s3://plant/traces::file:///etc",
    "a\x00b",
    "",
]


@pytest.mark.parametrize(
    ("field", "text", "slug"),
    [
        *(("source", text, "forbidden") for text in OUTSIDE),
        *(("source", text, "invalid") for text in IMPOSSIBLE),
        # Results go to folders only.
        *(("out", text, "invalid" if "://" in text else "forbidden") for text in OUTSIDE),
        *(("out", text, "invalid") for text in IMPOSSIBLE),
    ],
)
async def test_nothing_else_may_be_read_or_written(
    site: Site, traces: Path, tmp_path: Path, field: str, text: str, slug: str
) -> None:
    (tmp_path / "outside").mkdir()
    (traces / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "traces2").mkdir()
    given = {"source": str(traces / "plant"), field: text.format(traces=traces)}
    operator = site.client("operator")
    found = assert_problem(await operator.post(RUNS, json=given), slug)
    if slug == "forbidden":
        assert found["allowed"] == [str(traces), "s3://plant/traces"]
    else:
        assert [each["where"] for each in found["errors"]] == [f"body.{field}"]
    assert "secret" not in str(found)
    schedule = {"name": "x", "cron": "0 3 * * *", "job": given}
    assert_problem(await operator.post(SCHEDULES, json=schedule), slug)
    assert (await operator.get(RUNS)).json()["total"] == (await operator.get(SCHEDULES)).json()["total"] == 0


async def test_links_inside_lead_where_they_may(site: Site, traces: Path) -> None:
    (traces / "latest").symlink_to(traces / "plant")
    answer = await site.client("operator").post(RUNS, json={"source": str(traces / "latest")})
    assert answer.status_code == 201
    assert (await site.client("operator").post(RUNS, json={"source": "s3://plant/traces/run/"})).status_code == 201


async def test_results_never_go_among_the_traces(site: Site, traces: Path) -> None:
    operator = site.client("operator")
    for out in (traces / "plant", traces / "plant/out", traces):
        found = await operator.post(RUNS, json={"source": str(traces / "plant"), "out": str(out)})
        assert_problem(found, "invalid")
    answer = await operator.post(RUNS, json={"source": str(traces / "plant"), "out": str(traces / "results")})
    assert answer.status_code == 201


async def test_masters_beside_local_ones_are_named(site: Site, traces: Path) -> None:
    operator = site.client("operator")
    for master in ("local", "local[*]", "local[4]", "spark://cluster:7077"):
        assert (await operator.post(RUNS, json={"source": str(traces), "master": master})).status_code == 201
    for master in ("spark://evil:7077", "yarn", "local[4]x", "local-cluster[2,1,1024]"):
        found = assert_problem(await operator.post(RUNS, json={"source": str(traces), "master": master}), "forbidden")
        assert found["allowed"] == ["local, local[*] or local[N]", "spark://cluster:7077"]


async def test_without_places_nothing_can_be_started(serve: Serve) -> None:
    site = serve()
    found = assert_problem(await site.client("operator").post(RUNS, json={"source": "/traces"}), "forbidden")
    assert "controlplane.traces names no folder" in found["detail"]


async def test_only_so_many_wait(site: Site, traces: Path) -> None:
    for _ in range(100):
        Analyses(site.store).queue(Job(source=str(traces)), "ann")
    assert_problem(await site.client("operator").post(RUNS, json={"source": str(traces)}), "conflict")


# -- schedules ---------------------------------------------------------------------------------------------------------


async def test_a_schedule_from_its_making_to_its_end(site: Site, traces: Path) -> None:
    context = site.app.state.context
    context.now_ms = lambda: 1_772_357_400_000  # 2026-03-01T09:30:00Z
    operator = site.client("operator")
    body = {"name": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "job": {"source": str(traces)}}
    answer = await operator.post(SCHEDULES, json=body)
    assert answer.status_code == 201, answer.text
    made, tag = answer.json(), answer.headers["etag"]
    path = f"{SCHEDULES}/{made['id']}"
    assert (answer.headers["location"], made["is_on"], made["last_run"]) == (path, True, None)
    # Later than it was made, which is now by the clock of the store.
    assert made["next"][0][10:] in ("T01:00:00.000Z", "T02:00:00.000Z")
    assert_problem(await operator.post(SCHEDULES, json=body), "conflict")
    assert_problem(await operator.put(path, json=body), "precondition-required")
    assert_problem(await operator.put(path, json=body, headers={"If-Match": '"other"'}), "stale")
    changed = await operator.put(path, json={**body, "name": "n", "is_on": False}, headers={"If-Match": tag})
    assert (changed.json()["name"], changed.json()["is_on"], changed.json()["next"]) == ("n", False, [])
    assert changed.headers["etag"] != tag == answer.headers["etag"]
    run = (await operator.post(f"{path}/run")).json()
    assert (run["schedule"], run["outcome"], run["by"]) == (made["id"], "queued", "the operator")
    shown = (await operator.get(path)).json()
    assert shown["last_run"] == {"id": run["id"], "outcome": "queued"}
    assert (await operator.get(SCHEDULES)).json()["items"] == [shown]
    assert (await operator.delete(path)).status_code == 204
    assert_problem(await operator.get(path), "not-found")
    assert (await operator.get(f"{RUNS}/{run['id']}")).status_code == 200
    actions = [each["action"] for each in (await site.client("admin").get("/api/v1/audit")).json()["items"]]
    assert actions == ["schedule.remove", "schedule.run", "schedule.change", "schedule.create", "schedule.create"]


async def test_a_change_keeps_what_is_due_unless_the_times_are_others(site: Site, traces: Path) -> None:
    schedules = Schedules(site.store)
    made = schedules.add("x", "0 3 * * *", "UTC", Job(source=str(traces)), is_on=True, by="ann")
    operator = site.client("operator")

    async def put(**changes: Any) -> int:
        path = f"{SCHEDULES}/{made.id}"
        tag = (await operator.get(path)).headers["etag"]
        body = {"name": "x", "cron": "0 3 * * *", "timezone": "UTC", "job": {"source": str(traces)}, **changes}
        assert (await operator.put(path, json=body, headers={"If-Match": tag})).status_code == 200
        found = schedules.get(made.id)
        assert found is not None
        return found.after_ms

    assert await put(name="y", job={"source": str(traces), "max_pairs": 3}) == made.after_ms
    off = await put(is_on=False)
    assert off > made.after_ms
    assert await put(cron="0 4 * * *", is_on=False) > off


@pytest.mark.parametrize(
    ("given", "where", "allowed"),
    [
        ({"cron": "61 3 * * *"}, "body.cron", "0 to 59"),
        ({"cron": "0 24 * * *"}, "body.cron", "0 to 23"),
        ({"cron": "0 3 0 * *"}, "body.cron", "1 to 31"),
        ({"cron": "0 3 * 13 *"}, "body.cron", "JAN to DEC"),
        ({"cron": "0 3 * * 8"}, "body.cron", "SUN to SAT"),
        ({"cron": "0 3 * * MON#2/2"}, "body.cron", "SUN to SAT"),
        ({"cron": "* * * * * *"}, "body.cron", "five fields"),
        ({"cron": "@daily every"}, "body.cron", "five fields"),
        ({"cron": "0 0 30 2 *"}, "body.cron", "1 to 31"),
        ({"cron": "0 3 * * *", "timezone": "Berlin"}, "body.timezone", "Europe/Berlin"),
        ({"cron": "0 3 * * *", "timezone": "../../etc/passwd"}, "body.timezone", "Europe/Berlin"),
        ({"cron": "0 3 * * *", "timezone": "Europe"}, "body.timezone", "Europe/Berlin"),
    ],
)
async def test_times_that_cannot_be(site: Site, traces: Path, given: dict[str, str], where: str, allowed: str) -> None:
    """Refused before anything is stored, with the field and what it may be."""
    body = {"name": "x", "job": {"source": str(traces)}, **given}
    found = assert_problem(await site.client("operator").post(SCHEDULES, json=body), "invalid")
    assert [each["where"] for each in found["errors"]] == [where]
    assert allowed in found["allowed"]
    query = {"expression": given["cron"], "timezone": given.get("timezone", "UTC")}
    assert_problem(await site.client("viewer").get("/api/v1/analytics/cron", params=query), "invalid")
    assert Schedules(site.store).list() == []


async def test_the_next_times_are_told(site: Site) -> None:
    site.app.state.context.now_ms = lambda: 1_774_648_800_000  # 2026-03-27T22:00:00Z; clocks change on the 29th
    query = {"expression": "30 2 * * *", "timezone": "Europe/Berlin"}
    answer = (await site.client("viewer").get("/api/v1/analytics/cron", params=query)).json()
    # At 02:30 of the 29th there is no such time: it is the first moment after.
    assert answer["next"] == ["2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]
