"""Opening, failing and closing: every wait ends, nothing is left behind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.client.helpers import (
    PATIENCE,
    Notification,
    Site,
    events_of,
    gaps_of,
    keys,
    payloads,
    published,
    take,
    take_events,
    take_through,
    times,
    until,
)

from inorder import Bounded, Client, ClientTimes, Gap, Reconnected
from inorder.client import client as client_module
from inorder.errors import (
    BrokerUnreachable,
    Closed,
    InorderError,
    InvalidOption,
    Replaced,
    StreamInUse,
    Unauthorized,
    UsageError,
    VersionMismatch,
    WorkerUnreachable,
)
from inorder.protocol.wire import PROTOCOL_VERSIONS

CLOSE_SECONDS = 1.0


async def closes_in_time(client: Client) -> None:
    """Close a client and check how long that took."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    async with asyncio.timeout(PATIENCE):
        await client.close()
    assert loop.time() - before < CLOSE_SECONDS


# -- opening ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"brokers": "kafka://x"}, "scheme 'kafka'.*memory://.*mqtt://"),
        ({"brokers": "no url"}, "scheme ''"),
        ({"brokers": {}}, "brokers"),
        ({"brokers": {"a": "memory://x"}, "space": "b"}, "space"),
        ({"workers": ["localhost"]}, "worker address 'localhost'.*host:port"),
        *(({"workers": [each]}, "worker address") for each in ("localhost:99999", "a b:1", "u@a:1", "::1:7", 5)),
        ({"client_id": ""}, "client_id"),
        ({"client_id": "x" * 129}, "client_id"),
        ({"client_id": "\ud800"}, "client_id"),
        ({"client_id": 7}, "client_id"),
        ({"space": ""}, "space"),
        ({"space": "x" * 256}, "space"),
        ({"brokers": {"\ud800": "memory://x"}}, "space"),
        ({"mode": "loose"}, "mode"),
        ({"brokers": 5}, "brokers 5: .*a URL"),
        ({"brokers": None}, "brokers None: .*a URL"),
        ({"brokers": ["memory://user:hush@x"]}, "brokers <class 'list'>: .*by space"),
        ({"workers": "localhost"}, "worker address 'localhost'.*host:port"),
        ({"workers": ""}, "worker address ''"),
        ({"workers": 7401}, "workers 7401: .*host:port"),
        *(({"workers": [each]}, "worker address") for each in ("localhost:\u00b2", "local\nhost:7401", "a:1/x")),
        ({"workers": [7401]}, "worker address 7401"),
        ({"client_id": "a\0b"}, r"client_id 'a\\x00b': .*control characters"),
        ({"client_id": "a\x85"}, "client_id .*control characters"),
        ({"token": 5}, "token <class 'int'>: allowed is a text"),
        ({"token": "hush\ud800"}, r"token '\*\*\*': .*surrogates"),
        ({"options": {"colour": "red"}}, "colour"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        Client(**{"brokers": "memory://x", **arguments})


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"buffer": -1}, "buffer -1: allowed is a whole number from 0"),
        ({"buffer": 2.5}, "buffer 2.5"),
        ({"buffer": True}, "buffer True"),
        ({"buffer_bytes": "1"}, "buffer_bytes '1'"),
        ({"max_wait": float("nan")}, "max_wait nan: allowed is a number of seconds from 0"),
        ({"max_wait": float("inf")}, "max_wait inf"),
        ({"max_wait": -0.1}, "max_wait -0.1"),
        ({"max_wait": "soon"}, "max_wait 'soon'"),
        ({"buffer": None}, "at least one of buffer, max_wait and buffer_bytes"),
    ],
)
def test_bad_limits(limits: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        Bounded(**limits)


async def test_one_worker_may_be_given_as_a_text(site: Site) -> None:
    async with Client(f"memory://{site.name}", workers=site.address, client_id="one") as client:
        assert client.stats().connected


def test_a_password_never_shows(unused_port: int) -> None:
    with pytest.raises(InvalidOption) as raised:
        Client("kafka://user:hush@host")
    client = Client(f"mqtt://user:hush@127.0.0.1:{unused_port}", token="secret")
    assert not re.search("hush|secret", f"{raised.value} {client!r} {client._worker!r}")


@pytest.mark.parametrize("name", ["heartbeat", "gap_timeout", "max_pending"])
@pytest.mark.parametrize("value", [0, -1, True, "1", None, float("nan")])
def test_bad_times(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption, match=name):
        times(**{name: value})


async def test_no_worker_answers(site: Site, unused_port: int) -> None:
    """At once, not after a time-out; the message names who was tried, the broker was never bothered."""
    workers = [f"127.0.0.1:{unused_port}", f"localhost:{unused_port}"]
    client = Client(f"memory://{site.name}", workers=workers, times=times(connect_timeout=600.0))
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(WorkerUnreachable) as raised:
            await client.__aenter__()
    assert raised.value.addresses == workers
    assert not site.hub.members


async def test_the_first_worker_that_answers_is_taken(site: Site, unused_port: int) -> None:
    client = Client(f"memory://{site.name}", workers=[f"127.0.0.1:{unused_port}", site.address])
    async with client:
        assert (await client.publish("a", b"")).number == 1


async def test_a_worker_that_accepts_and_says_nothing(site: Site) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    async with server:
        site.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = site.client("one", clock=times(connect_timeout=0.1))
        with pytest.raises(WorkerUnreachable, match=r"not answered within 0.1 s"):
            await client.__aenter__()
    site.address = site.worker.address


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\1\xc1", b""])
async def test_something_else_on_the_workers_port(site: Site, answer: bytes) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    async with server:
        site.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(WorkerUnreachable):
            await site.client("one").__aenter__()
    site.address = site.worker.address


async def test_wrong_token(site: Site) -> None:
    await site.stop()
    await site.start(token="right")
    for token in ("wrong", None):
        with pytest.raises(Unauthorized):
            await Client(f"memory://{site.name}", workers=[site.address], token=token).__aenter__()
    async with Client(f"memory://{site.name}", workers=[site.address], token="right"):
        pass


async def test_a_token_that_is_no_longer_right_ends_the_client(site: Site) -> None:
    """Connecting again does not mend it, so readers and publishers are told."""
    async with site.client("one") as one:
        await one.subscribe("a")
        waiting = asyncio.create_task(take(one, 1))
        await site.stop()
        future = one.publish("a", b"")
        await site.start(token="new")
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(Unauthorized):
                await waiting
            with pytest.raises(Unauthorized):
                await future
        with pytest.raises(Unauthorized):
            await one.subscribe("b")


async def test_no_protocol_version_in_common(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PROTOCOL_VERSIONS", (7, 9))
    with pytest.raises(VersionMismatch) as raised:
        await site.client("one").__aenter__()
    assert raised.value.theirs == PROTOCOL_VERSIONS


async def test_no_broker_answers(site: Site) -> None:
    """The connection to the worker, made before, is not left behind."""
    site.hub.stop()
    with pytest.raises(BrokerUnreachable):
        await site.client("one").__aenter__()
    await until(lambda: site.worker._server.describe()["connections"] == 0)
    site.hub.start()


async def test_a_client_is_opened_once(site: Site) -> None:
    client = site.client("one")
    with pytest.raises(Closed):
        client.events()
    with pytest.raises(Closed):
        await client.subscribe("a")
    async with client:
        with pytest.raises(UsageError):
            await client.__aenter__()
    with pytest.raises(UsageError):
        await client.__aenter__()


async def test_a_client_that_is_closed_before_it_was_opened(site: Site) -> None:
    client = site.client("one")
    await client.close()
    with pytest.raises(UsageError):
        await client.__aenter__()


# -- the stream ------------------------------------------------------------------------------------------------


async def test_one_reader_at_a_time(site: Site) -> None:
    async with site.client("one") as one:
        await one.subscribe("a")
        first = asyncio.create_task(take(one, 1))
        await asyncio.sleep(0)
        with pytest.raises(StreamInUse):
            await anext(one.events())
        await published(one, "a", 1)
        assert payloads(await first) == [b"0"]
        await published(one, "a", 1, first=1)
        assert payloads(await take(one, 1)) == [b"1"]


async def test_a_reader_that_is_cancelled_loses_nothing(site: Site) -> None:
    async with site.client("one") as one:
        await one.subscribe("a")
        seen: list[Notification] = []
        for at in range(20):
            reader = asyncio.ensure_future(take(one, 1))
            await asyncio.sleep(0)
            publish = one.publish("a", str(at).encode())
            for _ in range(at):
                await asyncio.sleep(0)
            reader.cancel()
            for result in await asyncio.gather(reader, return_exceptions=True):
                seen += result if isinstance(result, list) else []
            await publish
        seen += await take(one, 20 - len(seen))
        assert payloads(seen) == [str(at).encode() for at in range(20)]


async def test_the_stream_ends_with_the_client(site: Site) -> None:
    """What was delivered before is still read; then the loop ends, and asking again is an error."""
    async with site.client("one") as one:
        await one.subscribe("a")
        await published(one, "a", 3)
        await until(lambda: one.stats().undelivered == 3)
    assert [each async for each in one.events()] != []
    with pytest.raises(Closed):
        one.events()


async def test_a_waiting_reader_ends_with_the_client(site: Site) -> None:
    async def read() -> int:
        return len([each async for each in one.events()])

    async with site.client("one") as one:
        reader = asyncio.create_task(read())
        await asyncio.sleep(0)
    assert await reader == 0


async def test_a_reader_that_is_too_slow(site: Site) -> None:
    """The stream is bounded; what was given up is one gap per topic, at its place."""
    async with site.client("one", clock=times(max_undelivered=10)) as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        await published(publisher, "a", 8)
        await published(publisher, "b", 4)
        await published(publisher, "a", 4, first=8)
        await until(lambda: one.stats().overflow == 6)
        seen = await take(one, 12)
        await published(publisher, "a", 1, first=12)
        seen += await take(one, 1)
        assert keys(seen) == [("a", at) for at in range(1, 9)] + [("b", 1), ("b", 2), ("a", 13)]
        assert [(each.topic, each.first, each.last, each.reason) for each in gaps_of(seen)] == [
            ("b", 3, 4, "overflow"),
            ("a", 9, 12, "overflow"),
        ]
        assert isinstance(seen[10], Gap)


async def test_a_slow_readers_events_without_numbers_are_counted_and_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """They leave no gap; one warning for each overflow."""
    async with site.client("one", clock=times(max_undelivered=4)) as one:
        await one.subscribe("a", ordering="none")
        for overflows in (1, 2):
            await asyncio.gather(*(one.publish("a", b"%d" % at, order="none") for at in range(10)))
            await until(lambda expected=6 * overflows: one.stats().overflow == expected)  # type: ignore[misc]
            assert [each.payload for each in events_of(await take(one, 4))] == [b"0", b"1", b"2", b"3"]
            warnings = [each.getMessage() for each in caplog.records if "without a number" in each.getMessage()]
            assert len(warnings) == overflows
        assert "space=memory topic=a hint=" in warnings[0]


async def test_a_slow_readers_bytes_are_bounded(site: Site) -> None:
    async with site.client("one", clock=times(max_undelivered_bytes=1000)) as one:
        await one.subscribe("a")
        await asyncio.gather(*(one.publish("a", bytes(300)) for _ in range(5)))
        await until(lambda: one.stats().overflow == 2)
        seen = await take(one, 4)
        assert [(each.first, each.last) for each in gaps_of(seen)] == [(4, 5)]


# -- closing ---------------------------------------------------------------------------------------------------


def nothing(site: Site, client: Client) -> None:
    """Leave everything as it is."""


def publishes_pending(site: Site, client: Client) -> None:
    for _ in range(100):
        client.publish("a", b"")


def broker_gone(site: Site, client: Client) -> None:
    site.hub.stop()
    publishes_pending(site, client)


def broker_stalled(site: Site, client: Client) -> None:
    site.hub.stall("one")
    publishes_pending(site, client)


@pytest.mark.parametrize("state", [nothing, publishes_pending, broker_gone, broker_stalled])
@pytest.mark.parametrize("has_worker", [True, False])
async def test_close_takes_less_than_a_second(
    site: Site, state: Callable[[Site, Client], None], has_worker: bool
) -> None:
    """With the default times, whoever is gone."""
    one = site.client("one", clock=ClientTimes())
    async with one:
        await one.subscribe("a")
        if not has_worker:
            await site.stop()
            await until(lambda: not one.stats().connected)
        state(site, one)
        await asyncio.sleep(0.01)
        await closes_in_time(one)
        assert one._publishing._open == set()
    await one.close()
    if not has_worker:
        await site.start()


async def test_a_close_that_is_cancelled_goes_on(site: Site) -> None:
    one = site.client("one", clock=times(close_timeout=0.3))
    async with one:
        await one.subscribe("a")
        site.hub.stall("one")
        one.publish("a", b"")
        closing = asyncio.create_task(one.close())
        await asyncio.sleep(0.02)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await closes_in_time(one)
    assert "one" not in site.hub.members


async def test_a_closed_client_is_forgotten_by_its_topics(site: Site) -> None:
    """R10: it says good-bye, so its topics linger and then count no more."""
    async with site.client("one") as one:
        await one.subscribe("a", "b")
    assert not site.worker._host.stages[0]._state.overlaps.get("one").active  # type: ignore[union-attr]


async def test_a_change_under_way_is_ended_before_the_good_bye(site: Site) -> None:
    async with site.client("one") as one:
        task = asyncio.create_task(one.subscribe("a"))
        for _ in range(4):
            await asyncio.sleep(0)
    with pytest.raises(Closed):
        await task
    await until(lambda: not site.worker._server.describe()["sessions"])


# -- being replaced --------------------------------------------------------------------------------------------


async def test_a_second_process_with_the_same_client_id(site: Site) -> None:
    """B21: the older one is told and leaves, once and for all; the newer one is not disturbed."""
    older, newer = site.client("same", clock=times(max_pending=100)), site.client("same")
    async with older:
        await older.subscribe("a")
        site.hub.stall("same")
        reader = asyncio.create_task(take(older, 1))
        pending = older.publish("a", b"pending")
        await asyncio.sleep(0.05)
        async with newer:
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(Replaced):
                    await reader
                with pytest.raises(Replaced):
                    await pending
            with pytest.raises(Replaced):
                older.publish("a", b"")
            with pytest.raises(Replaced):
                await older.unsubscribe("a")
            await newer.subscribe("a")
            await published(newer, "a", 3)
            await asyncio.sleep(0.3)  # in which the older one would come back, if it did
            seen = await take_through(newer, b"2")
            assert not [each for each in seen if isinstance(each, Reconnected)]
            await closes_in_time(older)
            await published(newer, "a", 1, first=3)
            await take_through(newer, b"3")
    with pytest.raises(Replaced):
        await anext(older.events())


async def test_a_subscribe_under_way_ends_when_replaced(site: Site) -> None:
    older = site.client("same")
    async with older:
        site.hub.stop()
        task = asyncio.create_task(older.subscribe("a"))
        await asyncio.sleep(0.01)
        site.hub.start()
        async with Client(f"memory://{site.name}-other", workers=[site.address], client_id="same"):
            async with asyncio.timeout(PATIENCE):
                assert isinstance(await outcome(task), (Replaced, type(None)))
            with pytest.raises(Replaced):
                await take(older, 2)  # the broker was back before


async def outcome(task: asyncio.Task[None]) -> BaseException | None:
    (result,) = await asyncio.gather(task, return_exceptions=True)
    return result


async def test_two_ids_fighting_at_the_broker_rest_between_the_rounds(site: Site, full_pauses: None) -> None:
    """B21: a broker that cuts us off again and again is not asked without a pause."""
    async with site.client("one", clock=times(backoff_first=0.02, backoff_max=0.1)) as one:
        connects = 0
        loop = asyncio.get_running_loop()
        end = loop.time() + 0.5
        while loop.time() < end:
            if "one" in site.hub.members:
                connects += 1
                site.hub.cut("one")
            await asyncio.sleep(0)
        assert 3 < connects < 15
        await one.subscribe("a")
        await published(one, "a", 1)
        assert payloads(events_of(await take_events(one, 1))) == [b"0"]


async def test_a_close_during_the_opening(site: Site) -> None:
    for turns in range(12):
        client = site.client("one")
        opening = asyncio.ensure_future(client.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        await closes_in_time(client)
        await asyncio.gather(opening, return_exceptions=True)
        assert "one" not in site.hub.members
    await until(lambda: site.worker._server.describe()["connections"] == 0)


async def test_an_opening_that_is_closed_says_so(site: Site) -> None:
    for turns in range(1, 12):
        client = site.client("one")
        opening = asyncio.ensure_future(client.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        await closes_in_time(client)
        with pytest.raises(InorderError):
            await opening


async def test_the_sockets_of_a_cancelled_opening_are_closed(site: Site) -> None:
    for turns in range(6):
        opening = asyncio.ensure_future(site.client("one").__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    await until(lambda: site.worker._server.describe()["connections"] == 0)
