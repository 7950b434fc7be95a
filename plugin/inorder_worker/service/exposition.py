"""A worker's metrics for Prometheus.

``METRICS`` and ``TOPIC_METRICS`` are the list of what there is; docs/OPERATIONS.md has the same list for people, and a
test compares both with what is served.

The library is imported when it is first needed: a worker runs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

from inorder.errors import MissingExtra, StoreOutdated
from inorder_worker.sequencer.tally import TopicFigures
from inorder_worker.service.host import StageHost
from inorder_worker.service.metrics import COMMIT_BUCKETS
from inorder_worker.service.server import Server
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.slow import NAMED

if TYPE_CHECKING:
    from prometheus_client.core import Metric as LibraryMetric

TOPIC_LIMIT: Final = 1_000
"""Topics that are listed one by one, unless more are asked for; ``MAX_TOPICS`` at most."""
MAX_TOPICS: Final = 10_000

Samples = Iterator[tuple[Sequence[object], float]]


@dataclass(frozen=True, slots=True)
class View:
    """The source from which metrics are read."""

    settings: WorkerSettings
    host: StageHost
    server: Server
    links: Callable[[], dict[str, object]]
    is_ready: Callable[[], bool]
    version: str


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric has a name (a counter's as served, with ``_total``), a meaning, and a way to be read."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    text: str
    read: Callable[[Any], Samples]


# -- how metrics are read --------------------------------------------------------------------------------------------


def _one(value: Callable[[View], float]) -> Callable[[View], Samples]:
    def read(view: View) -> Samples:
        yield (), value(view)

    return read


def _stages(value: Callable[[StageHost, int], float]) -> Callable[[View], Samples]:
    """One sample for each stage of this worker."""

    def read(view: View) -> Samples:
        for stage in view.host.stages:
            yield (stage,), value(view.host, stage)

    return read


def _worker(view: View) -> Samples:
    yield (view.settings.name, view.version), 1


def _roles(view: View) -> Samples:
    for stage, role in view.host.roles().items():
        yield (stage, role), 1


def _room(name: str) -> Callable[[View], Samples]:
    """One sample, where the store is a file."""

    def read(view: View) -> Samples:
        if (room := view.host.room) is not None:
            yield (), getattr(room, name)

    return read


def _outboxes(view: View) -> Samples:
    for index, stage in view.host.stages.items():
        for target, count in stage.inspection.figures().waiting.items():
            yield (index, target), count


def _links(view: View) -> Samples:
    for stage, size in view.links().items():
        yield (stage,), float(isinstance(size, int))


def _under_way(view: View) -> Samples:
    for stage, size in view.links().items():
        yield (stage,), size if isinstance(size, int) else 0


def _clients(*names: str) -> Callable[[View], Samples]:
    """One sample for each verdict, or other label, of what clients have reported."""

    def read(view: View) -> Samples:
        for name in names:
            yield (name,) if len(names) > 1 else (), getattr(view.server.reports.totals, name)

    return read


def _slow_clients(view: View) -> Samples:
    for each in view.server.slow_clients()[:NAMED]:
        yield (each.client,), each.unread_bytes


def _topics(value: Callable[[TopicFigures], float]) -> Callable[[list[TopicFigures]], Samples]:
    def read(topics: list[TopicFigures]) -> Samples:
        for each in topics:
            yield (each.space, each.name, each.stage), value(each)

    return read


METRICS: Final[tuple[Metric, ...]] = (
    Metric("inorder_worker_info", "gauge", ("worker", "version"), "always 1; the worker and its release", _worker),
    Metric("inorder_ready", "gauge", (), "1 while work is taken, as /health/ready", _one(lambda v: v.is_ready())),
    Metric("inorder_requests_total", "counter", (), "requests for timestamps, repeated ones too",
           _one(lambda v: v.host.metrics.requests)),
    Metric("inorder_timestamps_total", "counter", (), "timestamps answered, repeated ones too",
           _one(lambda v: v.host.metrics.timestamps)),
    Metric("inorder_gap_questions_total", "counter", (), "questions of subscribers about missing numbers",
           _one(lambda v: v.host.metrics.questions)),
    Metric("inorder_commands_total", "counter", (), "journaled commands", _one(lambda v: v.host.metrics.commands)),
    Metric("inorder_commit_seconds", "histogram", (), "how long commits took, waiting for the store's thread included",
           lambda view: iter(())),
    Metric("inorder_snapshots_total", "counter", (), "snapshots saved", _one(lambda v: v.host.metrics.snapshots)),
    Metric("inorder_log_events_read_total", "counter", (), "events of event logs sent for repair, resume and replay",
           _one(lambda v: v.host.logs.events_read)),
    Metric("inorder_log_damaged_total", "counter", (), "damaged rows of event logs that were not served",
           _one(lambda v: v.host.logs.damaged)),
    Metric("inorder_store_failures_total", "counter", (), "failures of the store, each attempt to recover too",
           _one(lambda v: v.host.metrics.failures)),
    Metric("inorder_store_outdated", "gauge", (), "1 while nothing is numbered: the store is an older copy of itself",
           _one(lambda v: int(isinstance(v.server.store_error, StoreOutdated)))),
    Metric("inorder_store_log_bytes", "gauge", (), "log (-wal) of an SQLite store; grows while a reader holds it up",
           _room("log")),
    Metric("inorder_store_free_bytes", "gauge", (), "free on its disk; no numbers are given where the log has more",
           _room("free")),
    Metric("inorder_fences_total", "counter", (), "times that stages of this worker had been taken over by another one",
           _one(lambda v: v.host.metrics.fences)),
    Metric("inorder_takeovers_total", "counter", (),
           "stages taken over from workers that were silent, gone, or told to let go",
           _one(lambda v: v.host.metrics.takeovers)),
    Metric("inorder_takeover_seconds", "gauge", (),
           "how long the last of these took, from the decision to the first answer it allows",
           _one(lambda v: v.host.metrics.takeover or 0)),
    Metric("inorder_connections", "gauge", (), "connections of clients and workers, greeted or not",
           _one(lambda v: v.server.connections)),
    Metric("inorder_sessions", "gauge", (), "clients that are connected", _one(lambda v: len(v.server.sessions))),
    Metric("inorder_queued_requests", "gauge", (), "frames that wait for a commit", _one(lambda v: v.host.queued)),
    Metric("inorder_queued_bytes", "gauge", (), "bytes of frames that wait for a commit; about max_queue_bytes at most",
           _one(lambda v: v.host.queued_bytes)),
    Metric("inorder_held_requests", "gauge", (), "frames held because max_outbox rides wait for the stage above",
           _one(lambda v: v.host.relay.held)),
    Metric("inorder_reading_paused", "gauge", (), "1 while too much is queued: who has something in it is not read",
           _one(lambda v: v.server.is_pressed)),
    Metric("inorder_slow_clients", "gauge", (), "clients that leave too much unread now",
           _one(lambda v: len(v.server.slow_clients()))),
    Metric("inorder_slow_client_unread_bytes", "gauge", ("client",), f"by client, of the worst {NAMED} of them",
           _slow_clients),
    Metric("inorder_slow_client_disconnects_total", "counter", (), "clients disconnected because they did not read",
           _one(lambda v: v.server.slow.thrown_out)),
    Metric("inorder_clients_published_total", "counter", (), "events that brokers accepted, as clients report",
           _clients("published")),
    Metric("inorder_clients_notified_total", "counter", ("verdict",), "events that clients notified of, as they report",
           _clients("in_order", "late", "other")),
    Metric("inorder_clients_duplicates_total", "counter", (), "events that clients dropped as duplicates",
           _clients("duplicates")),
    Metric("inorder_clients_gaps_total", "counter", (), "gaps that clients reported to their applications",
           _clients("gaps")),
    Metric("inorder_clients_after_gap_total", "counter", (), "events that came after a gap had told of them, as late",
           _clients("after_gap")),
    Metric("inorder_clients_missed_total", "counter", (), "numbers in these gaps", _clients("missed")),
    Metric("inorder_clients_waiting", "gauge", (), "events that wait for their turn at clients", _clients("waiting")),
    Metric("inorder_link_connected", "gauge", ("stage",), "1 while the link to another worker's stage is up", _links),
    Metric("inorder_link_bytes", "gauge", ("stage",), "sent there and not durable yet; bounded by max_link_bytes",
           _under_way),
    Metric("inorder_stage_role", "gauge", ("stage", "role"), "always 1; what this worker is to each stage", _roles),
    Metric("inorder_stage_epoch", "gauge", ("stage",), "of our ownership", _stages(lambda h, s: h.epochs[s])),
    Metric("inorder_stage_order_epoch", "gauge", ("stage",), "of the topic order",
           _stages(lambda h, s: h.stage(s).order_epoch)),
    Metric("inorder_stage_topics", "gauge", ("stage",), "topics whose home it is",
           _stages(lambda h, s: h.stage(s).inspection.figures().topics)),
    Metric("inorder_stage_retired_topics", "gauge", ("stage",), "those of them of which just the last number is kept",
           _stages(lambda h, s: h.stage(s).inspection.figures().retired)),
    Metric("inorder_stage_sessions", "gauge", ("stage",), "clients that it hears",
           _stages(lambda h, s: h.stage(s).inspection.figures().sessions)),
    Metric("inorder_stage_subscriptions", "gauge", ("stage",), "clients with a subscription",
           _stages(lambda h, s: h.stage(s).inspection.figures().subscriptions)),
    Metric("inorder_stage_pending_numbers", "gauge", ("stage",), "numbers neither confirmed nor given up",
           _stages(lambda h, s: h.stage(s).inspection.figures().pending)),
    Metric("inorder_stage_outbox_rides", "gauge", ("stage", "target"), "rides that are not durable at their target yet",
           _outboxes),
    Metric("inorder_stage_numbers_total", "counter", ("stage",), "numbers created, since the stage was taken",
           _stages(lambda h, s: h.stage(s).tally.numbers)),
    Metric("inorder_stage_confirmed_total", "counter", ("stage",), "numbers confirmed",
           _stages(lambda h, s: h.stage(s).tally.confirmed)),
    Metric("inorder_stage_void_total", "counter", ("stage",), "numbers made void: their events were not published",
           _stages(lambda h, s: h.stage(s).tally.void)),
    Metric("inorder_stage_abandoned_total", "counter", ("stage",), "numbers given up; subscribers report them as gaps",
           _stages(lambda h, s: h.stage(s).tally.abandoned)),
    Metric("inorder_stage_late_confirmations_total", "counter", ("stage",), "confirmed after they had been given up",
           _stages(lambda h, s: h.stage(s).tally.late)),
)  # fmt: skip

TOPIC_METRICS: Final[tuple[Metric, ...]] = (
    Metric("inorder_topic_numbers_total", "counter", ("space", "topic", "stage"), "the topic's last number",
           _topics(lambda each: each.number)),
    Metric("inorder_topic_head", "gauge", ("space", "topic", "stage"), "its highest confirmed number",
           _topics(lambda each: each.head)),
    Metric("inorder_topic_remembered_numbers", "gauge", ("space", "topic", "stage"), "numbers known one by one",
           _topics(lambda each: each.remembered)),
)  # fmt: skip


# -- exposition ------------------------------------------------------------------------------------------------------


def require_library() -> None:
    """Raise MissingExtra where Prometheus' client library is not installed."""
    try:
        import prometheus_client as _  # noqa: F401
    except ImportError:
        raise MissingExtra("metrics for Prometheus", "worker") from None


def exposed(view: View, accept: str) -> tuple[str, bytes]:
    """Return (content type, text) of the worker's metrics, in the form that a scraper accepts. Raises MissingExtra."""
    require_library()
    families = [_family(each, each.read(view)) for each in METRICS if each.kind != "histogram"]
    return _encoded([*families, _commits(view)], accept)


def exposed_topics(view: View, accept: str, limit: int = TOPIC_LIMIT) -> tuple[str, bytes]:
    """Return the same of single topics: those of this worker's stages that got a number last, ``limit`` for each stage
    at most. Raises MissingExtra."""
    require_library()
    topics = [
        each for stage in view.host.stages.values() for each in stage.inspection.busiest_topics(min(limit, MAX_TOPICS))
    ]
    return _encoded([_family(each, each.read(topics)) for each in TOPIC_METRICS], accept)


def _family(metric: Metric, samples: Samples) -> LibraryMetric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.text, labels=metric.labels)
    for labels, value in samples:
        family.add_metric([str(each) for each in labels], float(value))
    return family


def _commits(view: View) -> LibraryMetric:
    from prometheus_client.core import HistogramMetricFamily

    (metric,) = (each for each in METRICS if each.kind == "histogram")
    figures = view.host.metrics
    bounds = [*map(str, COMMIT_BUCKETS), "+Inf"]
    buckets = list(zip(bounds, map(float, accumulate(figures.commit_counts)), strict=True))
    return HistogramMetricFamily(metric.name, metric.text, buckets=buckets, sum_value=figures.commit_seconds)


def _encoded(families: Iterable[LibraryMetric], accept: str) -> tuple[str, bytes]:
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    found = list(families)

    class Collector:
        def collect(self) -> list[LibraryMetric]:
            return found

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    encode, kind = choose_encoder(accept)
    return kind, encode(registry)
