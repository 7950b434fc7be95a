"""Runs of analytics, and when they are due."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from inorder_controlplane.models.common import Answer, Moment, example


class AnalyticsRun(Answer):
    """A run of an analysis over traces."""

    model_config = example(
        {
            "id": "9c1f",
            "kind": "verify",
            "source": "/var/lib/inorder/traces",
            "started_at": "2026-03-01T09:30:00.125Z",
            "ended_at": "2026-03-01T09:30:40.500Z",
            "outcome": "done",
            "detail": {"violations": 0},
            "log": "",
            "by": "ann",
        }
    )

    id: str
    kind: str
    source: str
    started_at: Moment
    ended_at: Moment | None = Field(description="null: it has not ended")
    outcome: str
    detail: dict[str, Any]
    log: str
    by: str = Field(description="who started it")


class Schedule(Answer):
    """An analysis that runs again and again."""

    model_config = example(
        {
            "id": "3b7e",
            "name": "every night",
            "cron": "0 3 * * *",
            "job": {"kind": "verify"},
            "is_on": True,
            "created_at": "2026-03-01T09:30:00.125Z",
            "by": "ann",
        }
    )

    id: str
    name: str
    cron: str
    job: dict[str, Any]
    is_on: bool
    created_at: Moment
    by: str
