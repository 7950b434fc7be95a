"""What there was before: topic orders and who had which stage, kept with what caused them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worker.helpers import settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import Fenced, StoreError
from inorder.protocol.wire import ChangeOrder, OrderChanged
from inorder.testing.services import PostgresServer
from inorder_worker.service import Worker
from inorder_worker.store.history import History, OrderRow
from inorder_worker.store.journal import Batch, Member
from inorder_worker.store.log_rows import LogWrite
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore
from inorder_worker.store.verification import verify


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        return postgres.database()
    return f"sqlite:///{tmp_path}/inorder.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    journal = SqlJournal(url)
    journal.open(2, [["s:top"], ["s:low"]])
    journal.close()
    opened = Store(url)
    yield opened
    opened.close()


async def change(client: RawClient, order_epoch: int, stages: list[list[int]], by: str = "") -> OrderChanged:
    client.send(ChangeOrder(1, order_epoch, stages, by))
    return await client.next(OrderChanged)


async def test_each_topic_order_is_kept_with_who_asked_for_it(url: str, store: Store) -> None:
    _, ann = TokenStore(store).issue("ann", "operator")
    _, internal = TokenStore(store).issue("controlplane", "admin", is_internal=True)
    history = History(store)
    async with Worker(settings(store=url, stages=2)) as worker:
        async with RawClient(worker.address, "a", token=ann) as client:
            assert (await change(client, 2, [[2], [1]], "somebody else")).refusal == ""
            assert (await change(client, 9, [[1], [2]])).refusal
        async with RawClient(worker.address, "b", token=internal) as client:
            assert (await change(client, 3, [[2, 1], []], "bob")).refusal == ""
            assert (await change(client, 4, [[1, 2], []])).refusal == ""  # inside a stage only
    assert [each._replace(at_ms=0) for each in history.orders()] == [
        OrderRow(4, 0, "manual", "controlplane", [[1, 2], []]),
        OrderRow(3, 0, "manual", "bob", [[2, 1], []]),
        OrderRow(2, 0, "manual", "ann", [[2], [1]]),
        OrderRow(1, 0, "start", "", [[1], [2]]),
    ]
    times = [each.at_ms for each in history.orders()]
    assert times == sorted(times, reverse=True)
    assert [each.order_epoch for each in history.orders(before=3, limit=1)] == [2]
    async with Worker(settings(store=url, stages=2)):
        pass
    assert history.count_orders() == 4  # a start tells nothing new
    assert verify(store._engine.url.render_as_string(hide_password=False)).is_ok


async def test_an_order_is_kept_with_the_commit_that_made_it_or_not_at_all(url: str, store: Store) -> None:
    class Failing(SqlJournal):
        fails = False

        def append(self, batches: Any, log: Any = ()) -> None:
            if self.fails and any(isinstance(each, OrderRow) for each in log):
                Failing.fails = False
                raise StoreError(self.url, "planted")
            super().append(batches, log)

    history = History(store)
    async with Worker(settings(store=url, stages=2), journal=Failing(url)) as worker:
        async with RawClient(worker.address, "a") as client:
            Failing.fails = True
            client.send(ChangeOrder(1, 2, [[2], [1]]))
            assert (await client.failure()).code == "store"
        assert [each.order_epoch for each in history.orders()] == [1]
        # what was journaled before goes on, and comes to the same order
        await until(lambda: [each.order_epoch for each in history.orders()] == [2, 1])
        assert history.orders()[0].stages == [[2], [1]]


def test_where_a_commit_writes_an_order_twice_the_last_one_counts(store: Store, url: str) -> None:
    """The answer to the first attempt may have been lost."""
    journal = SqlJournal(url)
    journal.open(2)
    epoch = journal.claim(1, "a")
    rows: list[LogWrite] = [OrderRow(2, 5, "manual", "ann", [[1], []]), OrderRow(2, 6, "manual", "ann", [[1], []])]
    journal.append([Batch(1, epoch, 1, b"x")], rows)
    journal.append([Batch(1, epoch, 2, b"x")], [OrderRow(2, 7, "start", "", [[], []])])
    journal.close()
    assert History(store).orders() == [OrderRow(2, 6, "manual", "ann", [[1], []])]


def test_who_got_which_stage(store: Store, url: str) -> None:
    one, two = SqlJournal(url), SqlJournal(url)
    one.open(2)
    two.open(2)
    first = one.claim(0, "one", address="h:1")
    one.beat([(0, first)], Member("one", "h:1"))
    second = two.claim(0, "two", first, "h:2")  # one was silent
    with pytest.raises(Fenced):
        one.claim(0, "one", first)
    two.beat([(0, second)], Member("two", "h:2"))
    two.release([(0, second)])
    third = one.claim(0, "one", second)  # two goes on
    one.release([(0, third)])
    one.forget_members(["one"])
    two.claim(0, "two", third)  # one has stopped
    one.close()
    two.close()
    history = History(store)
    found = history.take_overs()
    assert [(each.owner, each.epoch, each.kind) for each in reversed(found)] == [
        ("one", 1, "claim"), ("two", 2, "takeover"), ("one", 3, "handover"), ("two", 4, "claim"),
    ]  # fmt: skip
    assert {each.stage for each in found} == {0}
    assert found[2].address == "h:2"
    paged = history.take_overs(limit=1)
    while following := history.take_overs(before=paged[-1], limit=1):
        paged += following
    assert paged == found
    assert len(found) == 4
