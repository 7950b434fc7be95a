"""How publishes end, as their rows say it, and what an audit and the figures make of each end: subscribers are owed
only what the broker took (R16, R17)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import (
    PATIENCE,
    Site,
    new_site,
    published,
    state_of,
    take_events,
    take_through,
    times,
    until,
)
from tests.client.test_lease import Cut, cut_site
from tests.client.test_publishing import CONFIRM_TIMEOUT, is_late
from tests.traces.helpers import Row, assert_well, known, of, part, recording, rows_in

from inorder.errors import Abandoned, Closed, Forgotten, LinkError, Refused, TooManyUnconfirmed
from inorder.protocol.wire import NumberState
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore

STAMPED = {"stamped_at", "dependencies", "entries", "stamp_bytes", "stage", "entry_stage", "top_stage"}
QUICK = times(gap_timeout=0.02, loss_timeout=60.0)


def ends(folder: Path) -> list[tuple[Any, ...]]:
    """Return outcome and number of each publish, by counter."""
    rows = [row for row in publishes(folder) if row["ordering"] == "total"]
    return [part(row, "outcome", "number") for row in sorted(rows, key=lambda row: row["counter"])]


def publishes(folder: Path) -> list[Row]:
    return of(rows_in(folder), "pub", "published")


def notified(folder: Path) -> list[tuple[Any, ...]]:
    """Return what was told to the subscriber, in order."""
    told = [row for row in rows_in(folder) if row["client"] == "sub" and row["delivery_index"]]
    told.sort(key=lambda row: row["delivery_index"])
    return [part(row, "topic", "number", "verdict" if row["kind"] == "notified" else "detail") for row in told]


# -- refused -----------------------------------------------------------------------------------------------------------


async def test_refused_by_the_broker(site: Site, tmp_path: Path) -> None:
    """Each has a number, which is void: skipped without a word, and nothing that anybody had to hear of."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder, times=QUICK) as sub, recording(site, "pub", folder) as pub:
        await sub.subscribe("a", "b")
        await published(pub, "a", 1)
        site.hub.refuse_publishes("pub", 2)
        refused = await asyncio.gather(pub.publish("a", b"no"), pub.publish("b", b"no"), return_exceptions=True)
        assert [type(each) for each in refused] == [Refused] * 2
        await published(pub, "b", 1)
        await published(pub, "a", 1, prefix="last")
        await take_through(sub, b"last0")
    assert ends(folder) == [("accepted", 1), ("refused", 2), ("refused", 1), ("accepted", 2), ("accepted", 3)]
    for row in publishes(folder):
        assert set(known(row)) >= STAMPED
        assert (row["accepted_at"] is None) == (row["outcome"] == "refused")
    assert_well(folder, events=3)


@pytest.mark.parametrize("order", ["fifo", "none"])
async def test_refused_without_a_number(site: Site, tmp_path: Path, order: Any) -> None:
    folder = tmp_path / "traces"
    async with recording(site, "pub", folder) as pub:
        site.hub.refuse_publishes("pub", 1)
        with pytest.raises(Refused):
            await pub.publish("a", b"no", order=order)
    (row,) = publishes(folder)
    assert part(row, "outcome", "ordering", "number", "accepted_at") == ("refused", order, None, None)
    assert_well(folder, events=0)


async def test_refused_by_the_worker(tmp_path: Path) -> None:
    """It has as many numbers open as its token allows, and asks for one more, as clients that know of no bound do."""
    folder = tmp_path / "traces"
    async with new_site(tmp_path, require_token=True) as site:
        _, secret = TokenStore(Store(f"sqlite:///{site.store}")).issue("pub", "client", max_unconfirmed=1)
        async with recording(site, "pub", folder, token=secret) as pub:
            pub._endpoint.publishing.publisher.publications.max_open = 0
            site.hub.stall("pub")
            first = pub.publish("a", b"1")
            await until(lambda: site.hub.counters["published"] == 1, "the first")
            with pytest.raises(TooManyUnconfirmed):
                await pub.publish("a", b"no")
            site.hub.resume("pub")
            await first
    assert ends(folder) == [("accepted", 1), ("refused", None)]
    (row,) = [row for row in publishes(folder) if row["outcome"] == "refused"]
    assert set(known(row)).isdisjoint(STAMPED)
    assert_well(folder, events=1)


# -- cancelled, failed -------------------------------------------------------------------------------------------------


async def test_cancelled_with_a_number(site: Site, tmp_path: Path) -> None:
    """The broker is away, so it was stamped and not handed over: void."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder, times=QUICK) as sub, recording(site, "pub", folder) as pub:
        await sub.subscribe("a")
        await published(pub, "a", 1)
        site.hub.stop()
        publish: Any = pub.publish("a", b"never")
        await until(lambda: bool(publish.publication.number), "the timestamp")
        publish.cancel()
        site.hub.start()
        await until(lambda: all(link.is_restored for link in sub._links.values()), "the subscription")
        await published(pub, "a", 1, prefix="last")
        await take_through(sub, b"last0")
    assert ends(folder) == [("accepted", 1), ("cancelled", 2), ("accepted", 3)]
    assert [part(row, "accepted_at") for row in publishes(folder) if row["outcome"] == "cancelled"] == [(None,)]
    assert_well(folder, events=2)


async def test_cancelled_after_the_broker_had_it(site: Site, tmp_path: Path) -> None:
    """Nothing can be taken back then: the broker's word counts."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder) as sub, recording(site, "pub", folder) as pub:
        await sub.subscribe("a")
        site.hub.stall("pub")
        futures = [pub.publish("a", order.encode(), order=order) for order in ("total", "fifo", "none")]
        await until(lambda: site.hub.counters["published"] == 3, "the hand-over")
        for each in futures:
            each.cancel()
        site.hub.resume("pub")
        await take_events(sub, 3)
        await until(lambda: pub.stats().pending == 0, "the broker's word")
    assert [part(row, "ordering", "outcome") for row in publishes(folder)] == [
        ("fifo", "accepted"), ("none", "accepted"), ("total", "accepted"),
    ]  # fmt: skip
    assert_well(folder, events=1)


async def test_given_up_by_a_close(site: Site, tmp_path: Path) -> None:
    """What was not handed over has failed, and is void; of what was, and of what was cancelled then, nobody knows. A
    subscriber has heard of those, all the same."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder, times=QUICK) as sub:
        await sub.subscribe("a")
        async with recording(site, "pub", folder, times=times(close_timeout=0.1)) as pub:
            await published(pub, "a", 1)
            site.hub.stall("pub")
            futures: list[Any] = [pub.publish("a", b"handed"), pub.publish("a", b"cancelled")]
            plain = pub.publish("a", b"plain", order="none")
            await until(lambda: site.hub.counters["published"] == 4, "the hand-over")
            futures[1].cancel()
            link = pub._links["memory"]
            link.is_restored = False  # as while a connection is restored: nothing is handed over
            futures += [pub.publish("a", b"never"), pub.publish("a", b"never", order="fifo")]
            await until(lambda: bool(futures[2].publication.number), "a timestamp")
        assert isinstance(plain.exception(), Closed)
        async with recording(site, "other", folder) as other:
            await published(other, "a", 1, prefix="last")
            await take_through(sub, b"last0")
    assert ends(folder) == [("accepted", 1), ("unknown", 2), ("unknown", 3), ("failed", 4)]
    others = [part(row, "ordering", "outcome") for row in publishes(folder) if row["ordering"] != "total"]
    assert sorted(others) == [("fifo", "failed"), ("none", "unknown")]
    assert {number for _, number, _ in notified(folder)} >= {1, 2, 3, 5}
    assert_well(folder, events=4)


async def test_failed_at_the_adapter(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "traces"
    async with recording(site, "pub", folder) as pub:
        ens: Any = pub._links["memory"].ens

        def broken(message: Any, token: int) -> None:
            raise LinkError("broken")

        with monkeypatch.context() as patch:
            patch.setattr(ens, "publish", broken)
            for order in ("total", "fifo"):
                with pytest.raises(LinkError, match="broken"):
                    await pub.publish("a", b"no", order=order)
        await pub.publish("a", b"1")
    assert ends(folder) == [("failed", 1), ("accepted", 2)]
    assert [row["outcome"] for row in publishes(folder) if row["ordering"] == "fifo"] == ["failed"]
    assert_well(folder, events=1)


async def test_refused_though_it_may_have_been_delivered(site: Site, tmp_path: Path) -> None:
    """The broker took it, the word of that was lost with the connection, and the second hand-over was refused."""
    folder = tmp_path / "traces"
    async with recording(site, "sub", folder) as sub, recording(site, "pub", folder) as pub:
        await sub.subscribe("a")
        site.hub.stall("pub")
        publish = pub.publish("a", b"twice")
        await until(lambda: site.hub.counters["published"] == 1, "the hand-over")
        site.hub.refuse_publishes("pub", 1)
        site.hub.cut("pub")
        with pytest.raises(Refused):
            await publish
        await take_events(sub, 1)
    assert ends(folder) == [("unknown", 1)]
    assert notified(folder) == [("a", 1, "in_order")]
    assert_well(folder, events=1)


# -- forgotten, abandoned ----------------------------------------------------------------------------------------------


async def test_forgotten(tmp_path: Path) -> None:
    """R1: numbered, but its session ended before it heard of that; a subscriber is told of the number that is gone."""
    folder = tmp_path / "traces"
    async with cut_site(tmp_path) as cut, recording(cut.site, "sub", folder) as sub, publisher(cut, folder) as away:
        await sub.subscribe("a")
        await published(away, "a", 1)
        cut.proxy.stall("down")
        lost = away.publish("a", b"lost")
        await until(lambda: state_of(cut.site, 2) is not None, "the number")
        cut.away()
        sessions = cut.site.worker._host.stage(0)._state.sessions
        await until(lambda: "away" not in [client for client, _ in sessions], "the end of the session")
        await cut.proxy.heal()
        with pytest.raises(Forgotten):
            await lost
        await published(away, "a", 1, prefix="last")
        await take_through(sub, b"last0")
    rows = sorted(of(rows_in(folder), "away", "published"), key=lambda row: row["counter"])
    assert [part(row, "outcome", "number", "topic_id") for row in rows] == [
        ("accepted", 1, 1), ("forgotten", None, 1), ("accepted", 3, 1),
    ]  # fmt: skip
    assert notified(folder) == [("a", 1, "in_order"), ("a", 2, "abandoned"), ("a", 3, "in_order")]
    assert_well(folder, events=2, gaps={"abandoned": 1})


def publisher(cut: Cut, folder: Path) -> Any:
    """Return a client whose way to the worker leads through the proxy."""
    workers = [f"127.0.0.1:{cut.proxy.port}"]
    return recording(cut.site, "away", folder, workers=workers, times=times(connect_timeout=0.5))


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "missed"])
async def test_abandoned_while_the_broker_was_slow(tmp_path: Path, is_heard: bool) -> None:
    """R16: the confirmation came too late. Who heard of the event had it in order; who did not is told of a gap."""
    folder = tmp_path / "traces"
    async with (
        new_site(tmp_path, publisher_grace=0.2) as site,
        recording(site, "sub", folder) as sub,
        recording(site, "pub", folder) as pub,
    ):
        await sub.subscribe("a")
        await published(pub, "a", 1)
        await take_events(sub, 1)
        site.hub.stall("pub")
        publish: Any = None

        async def slow() -> None:
            nonlocal publish
            publish = pub.publish("a", b"slow")
            await until(lambda: site.hub.counters["published"] == 2 and is_late(publish), "half the grace")

        await (slow() if is_heard else site.lose(sub, slow()))
        site.leap(CONFIRM_TIMEOUT)
        await until(lambda: state_of(site, 2) is NumberState.ABANDONED, "the end of the patience")
        site.hub.resume("pub")
        with pytest.raises(Abandoned):
            await asyncio.wait_for(publish, PATIENCE)
        await published(pub, "a", 1, prefix="last")
        await take_through(sub, b"last0")
    assert ends(folder) == [("accepted", 1), ("abandoned", 2), ("accepted", 3)]
    (row,) = [row for row in publishes(folder) if row["outcome"] == "abandoned"]
    assert row["published_at"] <= row["stamped_at"] <= row["accepted_at"] <= row["recorded_at"]
    assert notified(folder)[1] == ("a", 2, "in_order" if is_heard else "abandoned")
    assert_well(folder, events=3 if is_heard else 2, gaps={} if is_heard else {"abandoned": 1})


async def test_abandoned_before_it_was_handed_over(tmp_path: Path) -> None:
    """R16: the timestamp lay in the network for too long, so it was asked about first. It has a number, and no more."""
    folder = tmp_path / "traces"
    async with cut_site(tmp_path, session_timeout=600.0, publisher_grace=0.2) as cut:
        site = cut.site
        async with recording(site, "sub", folder) as sub, recording(
            site, "pub", folder, workers=[f"127.0.0.1:{cut.proxy.port}"], times=times(heartbeat=5.0)
        ) as pub:  # fmt: skip
            await sub.subscribe("a")
            await published(pub, "a", 1)
            cut.proxy.stall("down")
            publish = pub.publish("a", b"never")
            await until(lambda: state_of(site, 2) is NumberState.PENDING and is_late(publish), "half the grace")
            site.leap(CONFIRM_TIMEOUT)
            await until(lambda: state_of(site, 2) is NumberState.ABANDONED, "the end of the patience")
            await cut.proxy.heal()
            with pytest.raises(Abandoned):
                await asyncio.wait_for(publish, PATIENCE)
            await published(pub, "a", 1, prefix="last")
            await take_through(sub, b"last0")
    assert ends(folder) == [("accepted", 1), ("abandoned", 2), ("accepted", 3)]
    (row,) = [row for row in publishes(folder) if row["outcome"] == "abandoned"]
    assert set(known(row)).isdisjoint(STAMPED | {"accepted_at"})
    assert_well(folder, events=2, gaps={"abandoned": 1})


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "missed"])
async def test_confirmed_too_late(tmp_path: Path, is_heard: bool) -> None:
    """The broker took it at once, but the worker hears of that only when it has abandoned the number. The caller has
    its receipt, and the row says what the broker said. A gap of an accepted event is no violation then."""
    folder = tmp_path / "traces"
    async with (
        cut_site(tmp_path, session_timeout=600.0, publisher_grace=600.0) as cut,
        recording(cut.site, "sub", folder) as sub,
        publisher(cut, folder) as away,
    ):
        site = cut.site
        await sub.subscribe("a")
        await published(away, "a", 1)
        await take_events(sub, 1)
        await until(lambda: away.stats().pending == 0, "the confirmation")
        site.hub.stall("away")
        publish: Any = None

        async def handed() -> None:
            nonlocal publish
            publish = away.publish("a", b"slow")
            await until(lambda: site.hub.counters["published"] == 2, "the hand-over")

        await (handed() if is_heard else site.lose(sub, handed()))
        cut.away()
        site.hub.resume("away")
        assert (await asyncio.wait_for(publish, PATIENCE)).number == 2
        site.leap(CONFIRM_TIMEOUT)
        await until(lambda: state_of(site, 2) is NumberState.ABANDONED, "the end of the patience")
        await cut.proxy.heal()
        await until(lambda: away.stats().late_confirms == 1, "the late confirmation")
        await published(away, "a", 1, prefix="last")
        await take_through(sub, b"last0")
    rows = sorted(of(rows_in(folder), "away", "published"), key=lambda row: row["counter"])
    assert [part(row, "outcome", "number") for row in rows] == [("accepted", 1), ("accepted", 2), ("accepted", 3)]
    assert notified(folder)[1] == ("a", 2, "in_order" if is_heard else "abandoned")
    assert_well(folder, events=3, gaps={} if is_heard else {"abandoned": 1})
