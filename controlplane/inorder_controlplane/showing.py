"""Conversion of observations of the cluster into answers and live messages."""

from __future__ import annotations

from collections.abc import Sequence

from inorder_controlplane.lives import Latencies, Percentiles
from inorder_controlplane.models import overview, stages
from inorder_controlplane.models.common import answer, moment
from inorder_controlplane.series import Sample, Series
from inorder_controlplane.watching import Picture
from inorder_worker.admin import TopicState

RATE_SECONDS = 10.0


def stages_of(picture: Picture) -> list[stages.Stage]:
    """Return the stages in the API's form."""
    homes: dict[int, list[TopicState]] = {}
    for topic in picture.topics:
        homes.setdefault(topic.stage, []).append(topic)
    is_known = picture.workers_error is None
    return [
        answer(
            stages.Stage,
            each,
            owner=each.owner or None,
            address=each.address or None,
            topics=len(homes.get(each.stage, ())) if is_known else None,
            rate=sum(topic.rate for topic in homes.get(each.stage, ())) if is_known else None,
        )
        for each in (picture.store.stages if picture.store else ())
    ]


def workers_of(picture: Picture) -> list[stages.Worker]:
    """Return the workers in the API's form."""
    return [
        answer(
            stages.Worker,
            each,
            name=each.owner.partition("/")[0],
            drained=each.is_drained,
            lag={str(stage): rows for stage, rows in each.lag.items()},
        )
        for each in (picture.store.workers if picture.store else ())
    ]


def alarms_of(picture: Picture) -> list[overview.Alarm]:
    """Return the alarms in the API's form."""
    return [answer(overview.Alarm, alarm, since=since) for alarm, since in picture.alarms]


def overview_of(picture: Picture, series: Series) -> overview.Overview:
    """Return the whole overview."""
    store = picture.store
    subscribed = {each.client_id for each in picture.subscriptions if each.away_ms == 0}
    reporting = {each.client_id for each in picture.reports.clients} if picture.reports else set()
    return overview.Overview(
        at=moment(picture.at_ms),
        state=picture.state,
        alarms=alarms_of(picture),
        counts=overview.Counts(
            topics=len(picture.topics),
            clients=len(subscribed | reporting),
            subscriptions=len(picture.subscriptions),
            workers=len(store.workers) if store else 0,
            stages=len(store.stages) if store else 0,
        ),
        totals=totals_of(picture),
        rates=rates_of(series),
        latency=_latency(picture.latencies),
        series=[figures_of(each) for each in series],
    )


def totals_of(picture: Picture) -> overview.Totals:
    """Return the total counts."""
    return overview.Totals.model_validate(picture.totals)


def rates_of(series: Series) -> overview.Rates:
    """Return the counts per second."""
    return overview.Rates(**series.rates(RATE_SECONDS))


def figures_of(sample: Sample) -> overview.Figures:
    """Return one entry of the figures over time."""
    names: Sequence[str] = ("timestamps", "delivered", "late", "gaps", "duplicates")
    return overview.Figures(
        at=moment(sample.at_ms),
        total_ms_p50=sample.values.get("total_ms_p50"),
        **{name: sample.rates.get(name) for name in names},
    )


def _latency(found: Latencies | None) -> overview.Latency | None:
    if found is None:
        return None
    parts = [found.timestamp, found.ens, found.wait, found.total]
    if not any(parts):
        return None
    timestamp, ens, wait, total = map(_percentiles, parts)
    return overview.Latency(timestamp_ms=timestamp, ens_ms=ens, wait_ms=wait, total_ms=total)


def _percentiles(found: Percentiles | None) -> overview.Percentiles | None:
    return answer(overview.Percentiles, found) if found is not None else None
