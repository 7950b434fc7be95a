"""Generated runs as trace files in the form of clients' own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from inorder.errors import InvalidOption
from inorder.traces.arrow import TABLE, whole
from inorder.traces.folder import open_folder
from inorder.traces.options import safe_name
from inorder.traces.schema import COLUMNS, SCHEMA_VERSION
from inorder_analytics.columns import arrow_schema
from inorder_analytics.generating import BEGAN_US, STAGES, Ints, MadeRun, Plan, Reception, made_runs
from inorder_analytics.reading import Place, Traces
from inorder_analytics.truth import Truth, publisher_name, subscriber_name

SPACE: Final = "mqtt"
TRUTH: Final = "_truth.json"
ROWS_PER_FILE: Final = 250_000
_FEW_VALUES: Final = [each.name for each in COLUMNS if each.type == "text"] + [
    "schema_version", "incarnation", "domain", "topic_id", "entries", "stamp_bytes", "stage", "entry_stage",
    "top_stage",
]  # fmt: skip
_DELAY_US: Final = 30
"""From an event's turn to its notification."""
_SECOND_US: Final = 1_000_000

Columns = dict[str, Any]


@dataclass(slots=True)
class Client:
    """The recorder of a generated trace.

    Attributes:
        offset: the worker's clock minus this one's, in microseconds; measured with an error of at most ``error``.
    """

    run: MadeRun
    name: str
    incarnation: int
    offset: int
    measured: int
    error: int
    domain: int

    def own(self, times: Ints) -> Ints:
        """Return times of the worker's clock by this client's clock."""
        return times - self.offset

    def table(self, kind: str, count: int, columns: Columns) -> pa.Table:
        """Return rows of one kind; columns not given are null."""
        common: Columns = {
            "run": _same(self.run.name, count),
            "client": _same(self.name, count),
            "kind": _same(kind, count),
        }
        numbers = {"schema_version": SCHEMA_VERSION, "incarnation": self.incarnation, "domain": self.domain}
        common |= {name: pa.repeat(pa.scalar(value, pa.int64()), count) for name, value in numbers.items()}
        given = common | columns
        arrays = [_array(each, given[each.name]) for each in arrow_schema() if each.name in given]
        return whole(pa.table(arrays, names=[name for name in arrow_schema().names if name in given]))


def generate(out: str | Path, plan: Plan, *, rows_per_file: int = ROWS_PER_FILE) -> dict[str, Any]:
    """Write generated traces, and their truth as ``_truth.json``; return that, with files and rows.

    Args:
        out: a folder or fsspec URL; made where it is not there.

    Raises:
        InvalidOption: it cannot be written, or has traces.
    """
    _check_is_new(out)
    names = [f"topic/{at + 1}" for at in range(plan.topics)]
    truth = Truth(plan)
    files = rows = 0
    for run in made_runs(plan):
        folder = open_folder(out, run.name)
        chance = np.random.default_rng([plan.seed % 2**63, run.at, 1])
        domain = int(chance.integers(1, 2**62))
        home, top = _stages(run, plan.topics)
        clients = [_client(run, name, domain, chance) for name in _names(run)]
        latest, reached = np.zeros(run.events, np.int64), np.zeros(run.events, np.int64)
        for client in clients:
            tables = (
                _published(client, names, home, top)
                if client.name.startswith("publisher")
                else _notified(client, names, plan, chance, latest, reached, rows_per_file)
            )
            for at, table in enumerate(_cut(tables, rows_per_file), start=1):
                name = f"{safe_name(client.name)}-{client.incarnation:016x}-{at:06}.parquet"
                folder.write(name, lambda file, table=table: _write(file, table))
                files, rows = files + 1, rows + table.num_rows
        truth.add(run, latest - run.order.published, reached, home - top + 1, [f"{SPACE}:{name}" for name in names])
    told = truth.to_plain() | {"files": files, "rows": rows}
    Place(out).write(TRUTH, lambda file: file.write(json.dumps(told, indent=1).encode()))
    return told


def _check_is_new(out: str | Path) -> None:
    """Refuse a place with traces, for which the new truth would not hold."""
    try:
        there = Traces(out).files
    except InvalidOption:  # it is not there yet; that it cannot be is found when it is made
        return
    if there:
        raise InvalidOption("OUT", str(out), f"a folder without traces (there are {len(there)} files)")


def _names(run: MadeRun) -> list[str]:
    publishers = [publisher_name(at) for at in np.unique(run.order.publisher).tolist()]
    return publishers + [subscriber_name(at) for at in range(len(run.seen))]


def _client(run: MadeRun, name: str, domain: int, chance: np.random.Generator) -> Client:
    offset, error = int(chance.integers(-40_000, 40_000)), int(chance.integers(50, 250))
    measured = offset + int(chance.integers(-error, error + 1))
    return Client(run, name, int(chance.integers(1, 2**62)), offset, measured, error, domain)


def _stages(run: MadeRun, topics: int) -> tuple[Ints, Ints]:
    """Return each event's home stage and the highest stage that its timestamp visited: popular topics are high."""
    stages = min(STAGES, topics)
    home = run.order.topic * stages // topics
    top = home.copy()
    for topic, _ in run.order.others:
        top = np.where(topic >= 0, np.minimum(top, topic * stages // topics), top)
    return home, top


# -- publishers --------------------------------------------------------------------------------------------------------


def _published(client: Client, names: Sequence[str], home: Ints, top: Ints) -> Iterator[pa.Table]:
    order = client.run.order
    mine = np.flatnonzero(order.publisher == int(client.name.rsplit("-", 1)[1]) - 1)
    yield _begin(client, "strict")
    columns: Columns = {
        "recorded_at": client.own(order.accepted[mine]),
        **_topics(order.topic[mine], names),
        "number": order.number[mine],
        "counter": order.counter[mine],
        "ordering": _same("total", len(mine)),
        "outcome": _same("accepted", len(mine)),
        "published_at": client.own(order.published[mine]),
        "stamped_at": client.own(order.stamped[mine]),
        "accepted_at": client.own(order.accepted[mine]),
        "payload_size": order.size[mine],
        "dependencies": _dependencies(client.run, mine),
        "entries": order.entries[mine],
        "stamp_bytes": order.stamp_bytes[mine],
        "stage": home[mine],
        "entry_stage": home[mine],
        "top_stage": top[mine],
    }
    yield client.table("published", len(mine), columns)


# -- subscribers -------------------------------------------------------------------------------------------------------


def _notified(
    client: Client,
    names: Sequence[str],
    plan: Plan,
    chance: np.random.Generator,
    latest: Ints,
    reached: Ints,
    slice_: int,
) -> Iterator[pa.Table]:
    """Yield one client's notifications; raise ``latest`` and ``reached``: when last, and how often, per event."""
    run, order = client.run, client.run.order
    seen = run.seen[int(client.name.rsplit("-", 1)[1]) - 1]
    began = BEGAN_US + run.at * 86_400_000_000 - _SECOND_US
    yield _begin(client, "bounded" if plan.late else "strict")
    topics = np.arange(len(names), dtype=np.int64)
    yield _changed(client, "subscribed", names, topics, np.zeros(len(names), np.int64), began)
    arrivals = seen.arrivals(run.events)
    came = np.maximum.accumulate(order.stamped[arrivals] + chance.integers(1_000, 8_000, len(arrivals)))
    arrived, index = np.zeros(run.events, np.int64), np.zeros(run.events, np.int64)
    arrived[arrivals], index[arrivals] = came, np.arange(1, len(arrivals) + 1)
    told = seen.notifications(run.events)
    when = np.maximum.accumulate(arrived[told]) + _DELAY_US
    is_lost = np.zeros(run.events, bool)
    is_lost[seen.lost] = True
    heard = ~is_lost[told]
    reached[told[heard]] += 1
    latest[told[heard]] = np.maximum(latest[told[heard]], when[heard])
    for at in range(0, run.events, slice_):
        part = slice(at, at + slice_)
        yield from _stream(client, names, seen, told[part], when[part], heard[part], at, arrived, index)
    ends = np.bincount(order.topic, minlength=len(names)).astype(np.int64)
    yield _changed(client, "unsubscribed", names, topics, ends, int(when[-1]) + _SECOND_US)


def _stream(
    client: Client,
    names: Sequence[str],
    seen: Reception,
    told: Ints,
    when: Ints,
    heard: Any,
    at: int,
    arrived: Ints,
    index: Ints,
) -> Iterator[pa.Table]:
    """Return a part of a subscriber's notifications: events, then gaps."""
    order = client.run.order
    places = np.arange(at + 1, at + len(told) + 1)
    events, times = told[heard], when[heard]
    late = np.isin(events, seen.late)
    waited = times - arrived[events]
    before = np.maximum(np.concatenate([told[:1], told[:-1]])[heard], 0)  # what its turn came after
    is_waiting = (waited > _DELAY_US) & (arrived[before] > arrived[events])
    columns: Columns = {
        "recorded_at": client.own(times),
        **_topics(order.topic[events], names),
        "number": order.number[events],
        "verdict": pa.DictionaryArray.from_arrays(pa.array(late.astype(np.int32)), pa.array(["in_order", "late"])),
        "arrived_at": client.own(arrived[events]),
        "delivered_at": client.own(times),
        "arrival_index": index[events],
        "delivery_index": places[heard],
        "waited_us": waited,
        "waited_topic_id": pa.array(order.topic[before] + 1, mask=~is_waiting),
        "waited_number": pa.array(order.number[before], mask=~is_waiting),
        **{name: pa.repeat(pa.scalar(False), len(events)) for name in ("retained", "redelivered", "repaired")},
        "payload_size": order.size[events],
        "dependencies": _dependencies(client.run, events),
    }
    yield client.table("notified", len(events), columns)
    lost, missed = told[~heard], when[~heard]
    if len(lost):
        numbers = order.number[lost]
        columns = {
            "recorded_at": client.own(missed),
            **_topics(order.topic[lost], names),
            "number": numbers,
            "last_number": numbers,
            "detail": _same("lost", len(lost)),
            "delivery_index": places[~heard],
        }
        yield client.table("gap", len(lost), columns)


def _begin(client: Client, mode: str) -> pa.Table:
    began = np.array([BEGAN_US + client.run.at * 86_400_000_000 - 2 * _SECOND_US])
    opened = client.table("opened", 1, {"recorded_at": client.own(began), "detail": _same(mode, 1)})
    clock: Columns = {"recorded_at": client.own(began), "offset_us": [client.measured], "error_us": [client.error]}
    return pa.concat_tables([opened, client.table("clock", 1, clock)])


def _changed(client: Client, kind: str, names: Sequence[str], topics: Ints, numbers: Ints, when: int) -> pa.Table:
    times = client.own(np.full(len(topics), when, np.int64))
    return client.table(kind, len(topics), {"recorded_at": times, **_topics(topics, names), "number": numbers})


# -- columns -----------------------------------------------------------------------------------------------------------


def _topics(topic: Ints, names: Sequence[str]) -> Columns:
    return {
        "space": _same(SPACE, len(topic)),
        "topic": pa.DictionaryArray.from_arrays(pa.array(topic.astype(np.int32)), pa.array(names)),
        "topic_id": topic + 1,
    }


def _dependencies(run: MadeRun, events: Ints) -> pa.ListArray:
    """Return the dependencies of events: topic id, number, topic id, number."""
    flat = np.column_stack([part[events] for topic, number in run.order.others for part in (topic + 1, number)])
    is_there = np.repeat(flat[:, ::2] > 0, 2, axis=1)
    ends = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(flat[is_there]))


def _same(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def _array(field: pa.Field, values: Any) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return pa.array(values, pa.int64()).cast(field.type)


# -- files -------------------------------------------------------------------------------------------------------------


def _cut(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Return the same rows in tables of so many; only the last may have fewer."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= rows:
            every = pa.concat_tables(waiting)
            yield every.slice(0, rows)
            waiting, count = [every.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(waiting)


def _write(file: Any, table: pa.Table) -> None:
    pq.write_table(
        table.unify_dictionaries().cast(TABLE),
        file,
        compression="zstd",
        use_dictionary=_FEW_VALUES,
        store_schema=False,
    )
