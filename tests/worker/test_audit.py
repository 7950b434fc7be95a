"""What operators change at a worker is in the audit log, with what became of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.worker.helpers import until
from tests.worker.raw_client import RawClient
from tests.worker.test_access import RULE, refusal, store, tokens, url, worker

from inorder.errors import StoreCorrupt
from inorder.protocol.wire import (
    ChangeLog,
    Done,
    EndSubscription,
    Failure,
    OrderChanged,
    PinTopics,
    ShowWorker,
)
from inorder_worker.store.analyses import Analyses, Job
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.history import History, OrderRow, keep_order
from inorder_worker.store.schedules import Schedules
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore

__all__ = ["store", "tokens", "url"]


@pytest.mark.parametrize(("table", "damage", "read"), [
    ("tokens", "publish = '{'", lambda store: TokenStore(store).list()),
    ("audit", "detail = '{'", lambda store: AuditLog(store).page()),
    ("order_history", "stages = '{'", lambda store: History(store).orders()),
    ("schedules", "job = '{'", lambda store: Schedules(store).list()),
    ("analytics_runs", "job = '{'", lambda store: Analyses(store).list()),
    ("analytics_runs", "progress = '[]'", lambda store: Analyses(store).open()),
])  # fmt: skip
def test_a_damaged_row_is_named_where_all_are_listed(
    store: Store, table: str, damage: str, read: Callable[[Store], object]
) -> None:
    """No command and no page says of it that inorder has a bug."""
    TokenStore(store).issue("a", "client", publish=["s:#"])
    AuditLog(store).begin("me", "admin", "rest", "token.issue", "a")
    job = Job("traces")
    Schedules(store).add("nightly", "0 3 * * *", "UTC", job, is_on=True, by="me")
    Analyses(store).queue(job, "me")
    store.write(lambda connection: keep_order(connection, OrderRow(0, 1, "start", "", [])))
    assert read(store)
    store.write(lambda connection: connection.exec_driver_sql(f"UPDATE {table} SET {damage}"))
    with pytest.raises(StoreCorrupt, match=f"{table}.* is damaged"):
        read(store)


async def test_what_operators_change_is_in_the_audit_log(url: str, store: Store, tokens: TokenStore) -> None:
    _, secret = tokens.issue("ann", "operator")
    _, looking = tokens.issue("bob", "viewer")
    _, internal = tokens.issue("controlplane", "admin", is_internal=True)
    log = AuditLog(store)
    async with worker(url) as running:
        async with RawClient(running.address, "x", token=internal) as client:
            client.send(ChangeLog(1, RULE))
            await client.next(Done)
        async with RawClient(running.address, "y", token=secret) as client:
            client.send(ChangeLog(1, RULE))
            await client.next(Done)
            client.send(PinTopics(2, [99]))
            assert (await client.next(OrderChanged)).refusal
        for _ in range(3):  # nobody empties the log: one a minute goes into it, the worker's log has all
            await refusal(RawClient(running.address, "z", token=looking), EndSubscription(7, "somebody"))
        await until(lambda: [each.outcome for each in log.page()] == ["refused", "refused", "done"])
    ended, pinned, logged = log.page()
    assert (ended.who, ended.role, ended.action, ended.target) == ("bob", "viewer", "end_subscription", "somebody")
    assert (pinned.who, pinned.action, pinned.target) == ("ann", "pin_topics", "topics 99")
    assert pinned.detail["refusal"] == "there is no topic 99"
    assert (logged.who, logged.role, logged.via, logged.action) == ("ann", "operator", "worker", "change_log")
    assert (logged.target, logged.detail["is_on"], logged.detail["client"]) == ("s:x", True, "y")


async def test_no_other_answer_is_taken_for_that_of_a_change(url: str, store: Store, tokens: TokenStore) -> None:
    """Whoever is refused could else have it in the audit log that it was done, and hide what was."""
    _, secret = tokens.issue("ann", "operator")
    log = AuditLog(store)
    async with worker(url) as running:
        async with RawClient(running.address, "y", token=secret) as client:
            client.send(PinTopics(2, [99]), ShowWorker(2))
            assert (await client.next(OrderChanged)).refusal
            await until(lambda: [each.outcome for each in log.page()] == ["refused"])
            running._host.commits.is_holding = True  # the first one is not answered
            client.send(PinTopics(3, [99]), PinTopics(3, [98]))
            assert (await client.next(Failure)).code == "protocol"
            running._host.commits.is_holding = False
        await until(lambda: [each.outcome for each in log.page()] == ["unknown", "refused"])
