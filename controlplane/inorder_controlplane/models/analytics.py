"""Runs of analyses over traces, and their schedules."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from inorder_controlplane.models.common import Answer, Body, Moment, body_example, example
from inorder_worker.store.analyses import DEFAULT_MASTER, DEFAULT_MAX_PAIRS, DEFAULT_WINDOW_S

Outcome = Literal["queued", "running", "done", "failed", "cancelled"]
Place = Annotated[
    str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$", examples=["/var/lib/inorder/traces"])
]
"""An absolute path of a folder on the control plane's machine, or a URL."""

_JOB: Final[dict[str, Any]] = {
    "source": "/var/lib/inorder/traces",
    "out": None,
    "window_s": 60.0,
    "max_pairs": 200,
    "master": "local[*]",
}
_SUMMARY: Final[dict[str, Any]] = {
    "events": 12000,
    "subscribers": 3,
    "ordering_degree_raw": 0.9712,
    "ordering_degree_delivered": 1.0,
    "tno_violations_raw": 381,
    "tno_violations_delivered": 0,
    "late_percent": 0.0,
    "latency_ms": {"p50": 2.1, "p90": 4.8, "p99": 11.0},
}
RESULT_EXAMPLE: Final[dict[str, Any]] = {
    **_SUMMARY,
    "by_topic": [
        {
            "run": "default",
            "topic": "mqtt:plant/line4",
            "events": 4000,
            "late_percent": 0.0,
            "notified_1s_percent": 100.0,
            "latency_ms": {"p50": 2.1, "p90": 4.8, "p99": 11.0},
        }
    ],
}
_RUN: Final[dict[str, Any]] = {
    "id": "9c1f0a5b7d2e4c68",
    "kind": "analyze",
    "source": "/var/lib/inorder/traces",
    "job": _JOB,
    "schedule": "3b7e90aa12c4d5f6",
    "by": "ann",
    "queued_at": "2026-03-01T09:30:00.125Z",
    "started_at": "2026-03-01T09:30:01.000Z",
    "ended_at": "2026-03-01T09:30:40.500Z",
    "duration_s": 39.5,
    "outcome": "done",
    "reason": None,
    "cancelled_by": None,
    "owner": "plant1/0c3f5e9ab124/4711-88112/5d0e9c2b7a416f38",
    "progress": {"step": 9, "of": 9, "what": "publish the result"},
    "summary": _SUMMARY,
}
_SCHEDULE: Final[dict[str, Any]] = {
    "id": "3b7e90aa12c4d5f6",
    "name": "every night",
    "cron": "0 3 * * *",
    "timezone": "UTC",
    "job": _JOB,
    "is_on": True,
    "created_at": "2026-03-01T09:30:00.125Z",
    "by": "ann",
    "fired_at": "2026-03-02T03:00:00.000Z",
    "next": ["2026-03-03T03:00:00.000Z", "2026-03-04T03:00:00.000Z", "2026-03-05T03:00:00.000Z"],
    "last_run": {"id": "9c1f0a5b7d2e4c68", "outcome": "done"},
}


class Job(Body):
    """The task of an analysis. Where it may read and write is limited: see `GET /analytics/places`."""

    model_config = body_example(_JOB)

    source: Place = Field(description="folder or URL of the traces")
    out: Place | None = Field(
        None, description="folder for the results as Parquet, and for what the next run need not do again; null: none"
    )
    window_s: float = Field(DEFAULT_WINDOW_S, ge=1, le=366 * 86_400, description="length of a time window")
    max_pairs: int = Field(
        DEFAULT_MAX_PAIRS, ge=1, le=1_000_000, description="pairs of subscribers that are compared; of more a sample"
    )
    master: str = Field(
        DEFAULT_MASTER,
        min_length=1,
        max_length=256,
        pattern=r"^[^\x00-\x20\x7f]+$",
        description="of Spark: `local[*]`, `local[N]`, or one that the setting `masters` names",
    )


class ShownJob(Answer):
    """The task of an analysis."""

    source: str
    out: str | None
    window_s: float
    max_pairs: int
    master: str


class Progress(Answer):
    """The progress of a run."""

    step: int = Field(ge=0)
    of: int = Field(ge=0)
    what: str


class AnalyticsRun(Answer):
    """A run of an analysis over traces."""

    model_config = example(_RUN)

    id: str
    kind: str
    source: str
    job: ShownJob
    schedule: str | None = Field(description="id of the schedule that was due; null: somebody asked for it")
    by: str = Field(description="who asked for it, or made the schedule")
    queued_at: Moment
    started_at: Moment | None = Field(description="null: it waits")
    ended_at: Moment | None = Field(description="null: it has not ended")
    duration_s: float | None = Field(description="from start to end, or until now")
    outcome: Outcome
    reason: str | None = Field(description="why it failed or was cancelled")
    cancelled_by: str | None = Field(description="who wants it to end, also while it still does")
    owner: str | None = Field(description="the process that runs it")
    progress: Progress | None
    summary: dict[str, Any] | None = Field(description="the figures of its result; null while there is none")


class AnalyticsRunDetail(AnalyticsRun):
    """A run with its result and the end of its log."""

    model_config = example({**_RUN, "result": RESULT_EXAMPLE, "log": "9/9 publish the result\n"})

    result: dict[str, Any] | None = Field(
        description="see docs/ANALYTICS.md; whole numbers that browsers would round are texts"
    )
    log: str = Field(description="its last lines, 64 KiB at most")


class ScheduledRun(Answer):
    """A run of a schedule."""

    id: str
    outcome: Outcome


class NewSchedule(Body):
    """A new schedule of an analysis."""

    model_config = body_example(
        {"name": "every night", "cron": "0 3 * * *", "timezone": "UTC", "job": _JOB, "is_on": True}
    )

    name: str = Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$", description="no other has it")
    cron: str = Field(
        min_length=9,
        max_length=100,
        description="minute, hour, day of month, month, day of week",
        examples=["0 3 * * *"],
    )
    timezone: str = Field(
        "UTC", min_length=1, max_length=64, description="in which cron is meant, such as Europe/Berlin"
    )
    job: Job
    is_on: bool = True


class Schedule(Answer):
    """A schedule of an analysis."""

    model_config = example(_SCHEDULE)

    id: str
    name: str
    cron: str
    timezone: str
    job: ShownJob
    is_on: bool
    created_at: Moment
    by: str
    fired_at: Moment | None = Field(description="when it last made a run; null: never")
    next: list[Moment] = Field(description="the next three times; none while it is off")
    last_run: ScheduledRun | None


class CronAnswer(Answer):
    """The next times of a schedule."""

    model_config = example({"next": _SCHEDULE["next"]})

    next: list[Moment]


class AllowedPaths(Answer):
    """The paths that analyses may read and write here."""

    model_config = example(
        {
            "traces": ["/var/lib/inorder/traces"],
            "masters": ["local[*]"],
            "concurrency": 1,
            "found": ["/var/lib/inorder/traces/plant"],
        }
    )

    traces: list[str] = Field(description="folders and beginnings of URLs (`controlplane.traces`); none: nothing may")
    masters: list[str] = Field(description="Spark masters beside local ones (`controlplane.masters`)")
    concurrency: int = Field(ge=0, description="analyses that this control plane runs at a time; 0: none")
    found: list[str] = Field(
        description="the allowed folders that are there, and folders right below them; 100 at most"
    )
