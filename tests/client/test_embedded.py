"""An ENS whose connection is another library's: what it reports reaches the client, in order, once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import inorder
from inorder.client.embedded import EmbeddedEns
from inorder.errors import Closed, LinkError
from inorder.ports import Arrival, Ens, EnsCapabilities, Outgoing
from inorder.protocol.filters import redis_filter
from inorder.protocol.names import Filter


class Library(EmbeddedEns):
    """A library that carries nothing."""

    def __init__(self) -> None:
        super().__init__("nowhere:1", "embedded", EnsCapabilities(False, False, (0,), 100))
        self.handed: list[tuple[str, int]] = []

    async def subscribe(self, filter: Filter, *, qos: int = 0) -> None:
        pass

    async def unsubscribe(self, filter: Filter) -> None:
        pass

    def publish(self, message: Outgoing, token: int) -> None:
        self.handed.append((message.topic, token))

    def parse_filter(self, text: object) -> Filter:
        return redis_filter(text)

    def check_topic(self, topic: object) -> str:
        return str(topic)

    def encode_payload(self, payload: object) -> bytes:
        assert isinstance(payload, bytes)
        return payload

    def check_properties(self, properties: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return properties


class Sink:
    def __init__(self) -> None:
        self.told: list[str] = []

    def arrived(self, arrival: Arrival) -> None:
        self.told.append(f"arrived {arrival.topic}")

    def malformed(self, reason: str) -> None:
        self.told.append("malformed")

    def accepted(self, tokens: list[int]) -> None:
        self.told.append(f"accepted {tokens}")

    def refused(self, token: int, error: Exception) -> None:
        self.told.append(f"refused {token} {error}")

    def connection_lost(self, error: Exception) -> None:
        self.told.append(f"lost {error}")


@pytest.fixture
async def library() -> Library:
    library = Library()
    library.attach(asyncio.get_running_loop())
    return library


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_connect_waits_until_the_library_is_connected(library: Library) -> None:
    connecting = asyncio.ensure_future(library.connect(Sink()))
    await _turns()
    assert not connecting.done()
    library.up()
    await asyncio.wait_for(connecting, 60)


async def test_a_connection_that_broke_before_connect_returned_is_not_told(library: Library) -> None:
    sink = Sink()
    connecting = asyncio.ensure_future(library.connect(sink))
    library.up()
    library.down(OSError("gone"))
    await _turns()
    assert not connecting.done()
    assert sink.told == []
    library.up()
    await asyncio.wait_for(connecting, 60)
    library.down(OSError("gone again"))
    library.down(OSError("and once more"))
    await _turns()
    assert sink.told == ["lost gone again"]


async def test_reports_of_another_thread_keep_their_order(library: Library) -> None:
    sink = Sink()
    library.up()
    await library.connect(sink)

    def report() -> None:
        for number in range(500):
            library.arrived(Arrival(str(number), b""))
            library.accepted(number)

    thread = threading.Thread(target=report)
    thread.start()
    await asyncio.to_thread(thread.join)
    await _turns()
    assert sink.told == [text for n in range(500) for text in (f"arrived {n}", f"accepted [{n}]")]


def _count_wakes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    loop, wakes = asyncio.get_running_loop(), [0]
    wake = loop.call_soon_threadsafe

    def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
        wakes[0] += 1
        return wake(*args, **kwargs)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    return wakes


async def test_a_report_that_fails_keeps_no_other_back(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Sink):
        def arrived(self, arrival: Arrival) -> None:
            raise KeyError(arrival.topic)

    sink = Failing()
    library.up()
    await library.connect(sink)
    library.arrived(Arrival("a", b""))
    library.accepted(1)
    await _turns()
    assert sink.told == ["accepted [1]"]
    assert "event=report_failed" in caplog.text


async def test_who_looks_by_itself_is_not_woken(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink()
    library.up()
    await library.connect(sink)
    wakes = _count_wakes(monkeypatch)
    library.look_within(3600)
    library.accepted(1)
    await _turns()
    assert (sink.told, wakes) == ([], [0])
    library._take_reports()  # as subclasses do
    library.accepted(2)
    await _turns()
    assert (sink.told, wakes) == (["accepted [1]"], [0])
    library._look_now()  # the time is over
    library.accepted(3)
    await _turns()
    assert (sink.told, wakes) == (["accepted [1]", "accepted [2]", "accepted [3]"], [1])


async def test_who_looks_by_itself_does_so_in_time(library: Library) -> None:
    told = asyncio.Event()

    class Telling(Sink):
        def accepted(self, tokens: list[int]) -> None:
            told.set()

    library.up()
    await library.connect(Telling())
    library.look_within(0.001)
    library.accepted(1)
    await asyncio.wait_for(told.wait(), 60)


async def test_reports_that_wake_nobody_are_taken_with_the_next_that_does(library: Library) -> None:
    sink = Sink()
    library.up()
    await library.connect(sink)
    await _turns()
    for topic in ("a", "b"):
        library._report(lambda topic=topic: sink.arrived(Arrival(topic, b"")), wakes=False)  # type: ignore[misc]
    await _turns()
    assert sink.told == []
    library.accepted(1)
    await _turns()
    assert sink.told == ["arrived a", "arrived b", "accepted [1]"]
    library._report(lambda: sink.arrived(Arrival("c", b"")), wakes=False)
    library.wake()
    library.wake()
    await _turns()
    assert sink.told[3:] == ["arrived c"]


async def test_nothing_of_a_lost_connection_is_told_after_the_loss(library: Library) -> None:
    sink = Sink()
    library.up()
    await library.connect(sink)
    library.down(LinkError("gone"))
    library.arrived(Arrival("late", b""))
    library.accepted(1)
    await _turns()
    assert sink.told == ["lost gone"]


async def test_close_ends_a_connect_that_waits(library: Library) -> None:
    connecting = asyncio.ensure_future(library.connect(Sink()))
    await _turns()
    await library.close()
    with pytest.raises(Closed, match="nowhere:1 is closed"):
        await asyncio.wait_for(connecting, 60)


async def test_a_client_takes_an_ens_instead_of_a_url(library: Library) -> None:
    as_ens: Ens = library
    library.up()
    async with inorder.Client(as_ens, workers=()) as client:
        publishing = client.publish("a", b"1", order="none")
        await _turns()
        assert [topic for topic, _ in library.handed] == ["a"]
        library.accepted(library.handed[0][1])
        receipt = await asyncio.wait_for(publishing, 60)
        assert (receipt.space, receipt.topic) == ("embedded", "a")
