"""Numbers that strangers give: none stops a worker, and what is shown of them has room for all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.core.test_wire import CLIENT_FRAMES
from tests.worker.helpers import settings
from tests.worker.raw_client import RawClient

from inorder.errors import ProtocolError
from inorder.protocol import portions
from inorder.protocol.wire import (
    HEADER_BYTES,
    MAX_NUMBER,
    ClientCounts,
    EventLife,
    Frame,
    Report,
    Reports,
    ShowReports,
    Wait,
    decode_client_frame,
    encode_frame,
)
from inorder_worker.service import Worker
from inorder_worker.service import reports as reports_module
from inorder_worker.service.reports import MAX_TOLD, MAX_WAITS_TOLD, ClientReports, well_formed


def changed(parts: list[object], to: int) -> Iterator[list[object]]:
    """Yield what a frame is made of, each time with another one of its numbers changed."""
    for at, part in enumerate(parts):
        if isinstance(part, list):
            yield from ([*parts[:at], each, *parts[at + 1 :]] for each in changed(part, to))
        elif isinstance(part, int) and not isinstance(part, bool):
            yield [*parts[:at], to, *parts[at + 1 :]]


def with_number(frame: Frame, to: int) -> list[bytes]:
    """Return the frame, each time with another one of its numbers changed, as it goes over the wire."""
    tag, *fields = msgspec.msgpack.decode(encode_frame(frame)[HEADER_BYTES:])
    bodies = [msgspec.msgpack.encode([tag, *each]) for each in changed(fields, to)]
    return [len(body).to_bytes(HEADER_BYTES, "big") + body for body in bodies]


@pytest.mark.parametrize("to", [2**64 - 1, MAX_NUMBER])
async def test_no_number_of_any_frame_stops_a_worker(tmp_path: Path, to: int) -> None:
    store = f"sqlite:///{tmp_path}/inorder.db"
    async with Worker(settings(store=store, beat_interval=0.05)) as worker:
        frames = [each for frame in CLIENT_FRAMES for each in with_number(frame, to)]
        assert len(frames) > 80
        for frame in frames:
            async with RawClient(worker.address, "stranger") as client:
                client.writer.write(frame + encode_frame(ShowReports(7)))
                with contextlib.suppress(EOFError, ConnectionError, AssertionError):  # a Failure
                    await client.next(Reports)
        async with RawClient(worker.address, "operator") as client:
            client.send(ShowReports(7))
            assert (await client.next(Reports)).request == 7
            (topic,) = await client.resolve("still-there")
            assert [event.number for event in await client.create(topic, 1)] == [1]
        assert worker.status()["ready"]


def test_a_number_over_64_bits_is_refused_with_its_place() -> None:
    body = msgspec.msgpack.encode([64, 1, 0, 2**63, [1, 1]])
    with pytest.raises(ProtocolError, match="topic of ReadLog has a number over 9223372036854775807"):
        decode_client_frame(body)


def report(counts: ClientCounts, *lives: EventLife, offset_us: int = 0, error_us: int = -1) -> Report:
    return Report(1, True, counts, offset_us, error_us, list(lives))


@pytest.mark.parametrize(
    "told",
    [
        report(ClientCounts(published=MAX_TOLD + 1)),
        report(ClientCounts(waiting=-1)),
        report(ClientCounts(), offset_us=MAX_TOLD + 1),
        report(ClientCounts(), offset_us=-MAX_TOLD - 1),
        report(ClientCounts(), error_us=-2),
        report(ClientCounts(), EventLife(1, 1, [1, 2, MAX_TOLD + 1])),
        report(ClientCounts(), EventLife(2**63, 1, [1, 2, 3])),
        report(ClientCounts(), EventLife(1, 1, [1, 2], "in_order", -1)),
        report(ClientCounts(), EventLife(1, 1, [1, 2], "x" * 33)),
        report(ClientCounts(), *[EventLife(1, 1, [1, 2, 3])] * 1_001),
        msgspec.structs.replace(report(ClientCounts()), waits=[Wait(1, 1, 1, 1, 1, MAX_TOLD // 1000 + 1)]),
    ],
    ids=range(11),
)
def test_what_nobody_can_have_seen_is_no_report(told: Report) -> None:
    assert not well_formed(told)
    assert well_formed(report(ClientCounts(published=MAX_TOLD), EventLife(1, MAX_NUMBER, [0, 1], "late", 2, 3)))


def test_sums_have_room_for_all_reports() -> None:
    """A frame has room for 64 bits; so many clients as could go beyond that are still a number."""
    reports = ClientReports(0)
    most = report(ClientCounts(published=MAX_TOLD, waiting=MAX_TOLD))
    for client in range(2 * MAX_NUMBER // MAX_TOLD):
        reports.take((str(client), 1), most, 0)
    assert (reports.totals.published, reports.totals.waiting) == (MAX_NUMBER, MAX_NUMBER)
    encode_frame(reports.show(ShowReports(1), 0))


def test_what_one_owner_says_leaves_room_for_what_others_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all fits into an answer: first come those that wait longest, of each token and each client without one."""
    monkeypatch.setattr(portions, "PORTION_BYTES", 500)
    reports = ClientReports(0)

    def wait(client: str, owner: str, *for_ms: int) -> None:
        waits = [Wait(1, 1, 1, 2, 1, each) for each in for_ms]
        reports.take((client, 1), msgspec.structs.replace(report(ClientCounts()), waits=waits), 0, owner)

    for client in range(50):
        wait(f"crowd-{client}", "crowd", 9_000)
        wait(f"idle-{client}", "desk")
    wait("alone", "")
    wait("stuck", "desk", 100, 4_000)
    wait("sooner", "desk", 3_000)
    told = [each.client_id for each in reports.show(ShowReports(1), 0).clients]
    assert told[:5] == ["crowd-0", "stuck", "alone", "crowd-1", "sooner"]
    assert len(told) < 20


def test_of_clients_that_are_gone_their_counts_alone_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many may come and go, each with all the waits that a report may have."""
    monkeypatch.setattr(reports_module, "MAX_GONE", 2)
    reports = ClientReports(0)
    for client in "abc":
        waits = [Wait(topic, 1, topic, 2, 1, 1) for topic in range(1, MAX_WAITS_TOLD + 1)]
        reports.take((client, 1), msgspec.structs.replace(report(ClientCounts(published=5)), waits=waits), 0)
        reports.left((client, 1))
    assert list(reports._gone.items()) == [(("b", 1), ClientCounts(published=5)), (("c", 1), ClientCounts(published=5))]
    again = msgspec.structs.replace(report(ClientCounts(published=7)), first=False)
    for client, total in (("c", 17), ("a", 17), ("c", 17)):  # nobody knows what was counted of "a"
        reports.take((client, 1), again, 0)
        assert reports.totals.published == total
