"""The overview and the live messages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from inorder_controlplane.models.common import Answer, Moment, Number, example

_ALARM = {
    "id": "stuck-3",
    "severity": "warning",
    "since": "2026-03-01T09:30:00.125Z",
    "title": "The order is stuck",
    "detail": "mqtt:plant/line-1/state: a number for 6 s (publisher away). Strict subscribers wait for them.",
    "page": "/gaps",
}


class Alarm(Answer):
    """A condition that needs an operator's attention. It is there while its reason is."""

    model_config = example(_ALARM)

    id: str = Field(description="the same as long as it is there")
    severity: Literal["warning", "critical"]
    since: Moment
    title: str
    detail: str
    page: str = Field(description="the page of the dashboard that shows more")


class Counts(Answer):
    """The numbers of stages, workers, topics and clients."""

    topics: int
    clients: int = Field(description="connected clients that subscribe with total order, or report")
    subscriptions: int
    workers: int
    stages: int


class Totals(Answer):
    """Total counts. Null where no client reports; of clients: since their first report to this worker."""

    timestamps: Number = Field(description="sequence numbers, of all topics")
    delivered: Number | None = Field(description="notifications, over all clients")
    in_order: Number | None
    late: Number | None = Field(description="out of turn: passed over, or after their gap")
    gaps: Number | None = Field(description="gaps that were reported to applications")
    lost: Number | None = Field(description="numbers in these gaps")
    duplicates: Number | None = Field(description="copies that were dropped")
    void: Number = Field(description="numbers whose events were never published")
    abandoned: Number = Field(description="numbers that were given up")


class Rates(Answer):
    """Counts per second over the last seconds. Null: not known (yet)."""

    timestamps: float | None = None
    delivered: float | None = None
    in_order: float | None = None
    late: float | None = None
    gaps: float | None = None
    lost: float | None = None
    duplicates: float | None = None
    void: float | None = None
    abandoned: float | None = None


class Percentiles(Answer):
    """Percentiles (ms) of a sample of the last minute's events."""

    p50: float
    p90: float
    p99: float


class Latency(Answer):
    """The durations of the parts of an event's way. Null: nobody told."""

    timestamp_ms: Percentiles | None = Field(description="from the publish call to the timestamp")
    ens_ms: Percentiles | None = Field(description="from there to the arrival from the broker")
    wait_ms: Percentiles | None = Field(description="from there to the notification: what total order cost")
    total_ms: Percentiles | None = Field(description="from the publish call to the notification")


class Figures(Answer):
    """Rates per second at a time."""

    at: Moment
    timestamps: float | None
    delivered: float | None
    late: float | None
    gaps: float | None
    duplicates: float | None
    total_ms_p50: float | None


class Overview(Answer):
    """The state of the whole cluster."""

    model_config = example(
        {
            "at": "2026-03-01T09:30:06.125Z",
            "state": "degraded",
            "alarms": [_ALARM],
            "counts": {"topics": 40, "clients": 12, "subscriptions": 10, "workers": 2, "stages": 3},
            "totals": {
                "timestamps": "123456",
                "delivered": "370368",
                "in_order": "370368",
                "late": "0",
                "gaps": "1",
                "lost": "1",
                "duplicates": "17",
                "void": "2",
                "abandoned": "1",
            },
            "rates": {"timestamps": 240.5, "delivered": 721.5, "in_order": 721.5, "late": 0.0, "gaps": 0.0},
            "latency": {
                "timestamp_ms": {"p50": 1.2, "p90": 2.5, "p99": 6.0},
                "ens_ms": {"p50": 0.8, "p90": 1.1, "p99": 3.0},
                "wait_ms": {"p50": 0.1, "p90": 1.0, "p99": 4.0},
                "total_ms": {"p50": 2.2, "p90": 4.5, "p99": 12.0},
            },
            "series": [
                {
                    "at": "2026-03-01T09:30:06.125Z",
                    "timestamps": 240.5,
                    "delivered": 721.5,
                    "late": 0.0,
                    "gaps": 0.0,
                    "duplicates": 0.0,
                    "total_ms_p50": 2.2,
                }
            ],
        }
    )

    at: Moment
    state: Literal["ok", "degraded", "down"] = Field(description="down: no events can be ordered, at least of a stage")
    alarms: list[Alarm]
    counts: Counts
    totals: Totals
    rates: Rates
    latency: Latency | None = Field(description="null: no client reports")
    series: list[Figures] = Field(description="the last ten minutes, the oldest first")
