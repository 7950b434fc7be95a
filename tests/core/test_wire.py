"""Frames: each one whole, byte by byte, with trailing data, damaged and oversized; and random round trips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from inorder.errors import ProtocolError
from inorder.protocol.filters import MAX_FILTERS
from inorder.protocol.names import Filter, FilterKind, exact
from inorder.protocol.wire import (
    HEADER_BYTES,
    MAX_FRAME_BYTES,
    MAX_LISTED,
    AskDurable,
    AskHeads,
    AskNumbers,
    AutomaticShown,
    ChangeAutomatic,
    ChangeLog,
    ChangeOrder,
    ClientCounts,
    ClientFrame,
    ClientReport,
    ClusterMap,
    CreateTimestamps,
    Done,
    DrainWorker,
    Durable,
    EndSubscription,
    EventFound,
    EventLife,
    Failure,
    FindEvent,
    FindNumber,
    Frame,
    FrameSplitter,
    Heads,
    Hello,
    KnownNumber,
    KnownSubscription,
    Logged,
    LoggedEvent,
    LoggedEvents,
    LogRule,
    Logs,
    Moved,
    MoveStage,
    NameTopics,
    NewEvent,
    NumberAnswer,
    NumberFound,
    Numbers,
    NumberState,
    Opened,
    OpenNumbers,
    OpenNumbersFound,
    OrderChanged,
    Ping,
    PinTopics,
    Pong,
    Position,
    Positions,
    ReadLog,
    Released,
    ReleaseNumbers,
    Renew,
    Renewed,
    Report,
    Reported,
    Reports,
    Resolve,
    SaveClock,
    SeenLife,
    Settle,
    Settled,
    ShowAutomatic,
    ShowLogs,
    ShowOpenNumbers,
    ShowOrder,
    ShowReports,
    ShowSubscriptions,
    ShowTopics,
    ShowWorker,
    SpaceFilter,
    StageInfo,
    StampedEvent,
    Subscribe,
    Subscribed,
    Subscriptions,
    Timestamps,
    TopicFigures,
    TopicInfo,
    TopicOrder,
    Topics,
    TopicsShown,
    TopicStart,
    Welcome,
    WorkerFrame,
    WorkerShown,
    decode_client_frame,
    decode_logged,
    decode_worker_frame,
    encode_frame,
    encode_logged,
)
from inorder.protocol.wire.parts import MAX_EVENTS, MAX_FLAT, MAX_RANGES
from inorder_worker.sequencer.link_wire import (
    LinkHello,
    decode_hello,
    decode_receiver_frame,
    decode_ride,
    decode_sender_frame,
)

_TOPIC = TopicInfo(7, "m", "a/ü", 2)
_RULE = LogRule("m", Filter("a/#", FilterKind.MQTT, "a/#"), 1, 2, 3)
CLIENT_FRAMES: list[ClientFrame] = [
    Ping(1),
    Pong(2**63 - 1),
    Failure("protocol", "why", [1, 2]),
    Hello(1, 1, "token", "c1", -(2**63), "agent", [0, 17], positions=[Position(0, 5, 2**40, 2**63 - 1, b"16 bytes")]),
    Resolve(1, [("m", "a"), ("r", "b")]),
    NameTopics(2, [1, 2]),
    CreateTimestamps(0, 3, [NewEvent(3, 1), NewEvent(4, 2, [1, 9])], 2),
    Settle(1, 5, [1, 2, 3], [4, 5, 5]),
    Subscribe(1, [SpaceFilter("m", Filter("#", FilterKind.MQTT, "#"), False)], True),
    AskNumbers(1, 0, 7, [1, 5, 9, 9]),
    AskHeads(),
    Renew(3),
    ChangeOrder(1, 4, [[1, 2], []]),
    ShowOrder(2),
    PinTopics(3, [7], False),
    ReadLog(4, 0, 7, [1, 5, 9, 9], 1_700_000_000_000),
    ChangeLog(5, _RULE, False),
    ShowLogs(6),
    SaveClock(7, [7, 12], [3, 0, 9]),
    AskDurable(8),
    ShowSubscriptions(9),
    EndSubscription(10, "desk"),
    Report(11, True, ClientCounts(3, 2, 1), 40, 7, [EventLife(1, 2, [10, 20], "in_order", 3, 4)]),
    ShowReports(12, 99, 1, 2),
    ReleaseNumbers(13, 0, 7, 3, 9, NumberState.ABANDONED),
    ShowTopics(14, 1, 99, True, [1, 2]),
    ShowOpenNumbers(15, 1, 2_500),
    FindNumber(16, 0, 7, 12),
    FindEvent(17, 0, "desk", -(2**63), 5, 99),
    ShowAutomatic(18),
    ChangeAutomatic(19, 60_000, 0.1, 0.25),
    ShowWorker(20),
    DrainWorker(21, "one/1/x", False),
    MoveStage(22, 1, "one/1/x"),
]
WORKER_FRAMES: list[WorkerFrame] = [
    Ping(),
    Pong(),
    Failure("stopping", ""),
    Welcome(1, 2**62, "w1", 3, [StageInfo(0, 1, ""), StageInfo(1, 4, "host:7401")], 10_000),
    Topics(1, [_TOPIC], 2),
    Timestamps(0, 1, [StampedEvent(3, 7, 1, [1, 2], True)], [4], [5, 7, 2], ticks=[(3, 1, 3, 0, 9)]),
    Settled(0, 1, 2, [7, 1]),
    Subscribed(1, [TopicStart(_TOPIC, 5, [1, 2])], reached=[3, 0, 9]),
    Numbers(1, 7, [NumberAnswer(1, NumberState.VOID, [2, 3])], 9, 4),
    Heads([7, 12]),
    ClusterMap([StageInfo(0, 3, "one.example:7401"), StageInfo(1, 0, "")]),
    Renewed(3, [0, 7, 1, 2]),
    Opened(0, 7, True, 2, 30_000),
    Moved(1, 2, 4, 3, [7, 0]),
    TopicOrder(2, 4, 3, [_TOPIC], [7], True),
    OrderChanged(3, 4, "why not"),
    Positions([Position(0, 5, 2**40, 2**63 - 1, b"16 bytes"), Position(1, 1, 1, 0, b"")]),
    LoggedEvents(
        4, 7, [1, 9], 5, [LoggedEvent(1, 1_700_000_000_000, [2, 3], b"x", (1, 1, 9)), LoggedEvent(2, 0, [], None)], 1, 9
    ),
    Done(5, "why not"),
    Logs(6, [_RULE], [_TOPIC]),
    Durable(8, [SpaceFilter("m", Filter("a", FilterKind.EXACT, "a"), True, 1)]),
    Subscriptions(9, [KnownSubscription("desk", True, -1, [], 3)], True),
    Reported(11, 2**50),
    Reports(
        12,
        2**50,
        5,
        ClientCounts(3),
        [ClientReport("desk", 40, ClientCounts(3), 40, 7)],
        [SeenLife("desk", 40, 7, EventLife(1, 2, [10, 20, 30]))],
    ),
    Released(13, 7, [3, 4, 9, 9], "why not"),
    TopicsShown(14, [TopicFigures(7, "m", "a/ü", 1, 12, 9, 8, 1, 2, 1, 1, True, False, 2.5, 2, [1, 3])], 7),
    OpenNumbersFound(15, [OpenNumbers(7, 3, 9, NumberState.VOID, False, "desk", -1, 5_000, True)], [7, 3, 0], True),
    NumberFound(16, KnownNumber(NumberState.PENDING, None, "desk", -7, 5, True, 40)),
    EventFound(17, 7, 12, 0),
    AutomaticShown(18, 60_000, 0.1, 0.25),
    WorkerShown(20, "one/1/x", "one", [0, 1], [1], True),
]


def _decode(frame: Frame, body: bytes) -> Frame:
    return decode_client_frame(body) if any(frame is each for each in CLIENT_FRAMES) else decode_worker_frame(body)


@pytest.mark.parametrize("frame", [*CLIENT_FRAMES, *WORKER_FRAMES], ids=lambda frame: type(frame).__name__)
def test_a_frame_whole_byte_by_byte_and_with_trailing_data(frame: Frame) -> None:
    data = encode_frame(frame)
    assert int.from_bytes(data[:HEADER_BYTES], "big") == len(data) - HEADER_BYTES
    (whole,) = FrameSplitter().feed(data)
    assert _decode(frame, whole) == frame
    splitter = FrameSplitter()
    bodies = [body for at in range(len(data)) for body in splitter.feed(data[at : at + 1])]
    assert bodies == [whole]
    splitter = FrameSplitter()
    assert [*splitter.feed(data + data[:3])] == [whole]
    assert [*splitter.feed(data[3:] + data)] == [whole, whole]
    with pytest.raises(ProtocolError):
        _decode(frame, whole + b"\x00")


def test_every_frame_is_tested() -> None:
    assert {type(each) for each in CLIENT_FRAMES} == set(get_args(ClientFrame))
    assert {type(each) for each in WORKER_FRAMES} == set(get_args(WorkerFrame))


def test_an_applications_own_types_are_plain_on_the_wire() -> None:
    class Text(str): ...

    class Bytes(bytes): ...

    class Number(int): ...

    own = Logged(Bytes(b"x"), Number(1), [(Text("a"), Text("b"))])
    assert encode_logged(own) == encode_logged(Logged(b"x", 1, [("a", "b")]))
    with pytest.raises(TypeError, match="object cannot be in a frame"):
        encode_frame(Failure("refused", object()))  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", b"\x90", b"\x91\xcd\x03\xe7", b"hello", b"\x92\x10\x01"])
def test_garbage_is_a_protocol_error(body: bytes) -> None:
    for decode in (decode_client_frame, decode_worker_frame):
        with pytest.raises(ProtocolError, match="not a frame of a"):
            decode(body)


def test_frames_of_the_other_side_are_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_client_frame(encode_frame(Heads([1, 1]))[HEADER_BYTES:])
    with pytest.raises(ProtocolError):
        decode_worker_frame(encode_frame(Resolve(1, []))[HEADER_BYTES:])


def _unbounded(kind: inspect.Type, where: str, seen: set[type]) -> Iterator[str]:
    """Yield the lists in a type that may be of any length."""
    if isinstance(kind, inspect.ListType):
        if kind.max_length is None:
            yield where
        yield from _unbounded(kind.item_type, f"{where}[]", seen)
    elif isinstance(kind, inspect.StructType) and kind.cls not in seen:
        for field in kind.fields:
            yield from _unbounded(field.type, f"{kind.cls.__name__}.{field.name}", {*seen, kind.cls})
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _unbounded(each, where, seen)


def test_no_list_in_a_clients_frame_may_be_of_any_length() -> None:
    """A frame of 8 MiB has room for millions of events, ids or names: its decoding alone would stop the worker for
    seconds, and it would be some hundred times as large in memory."""
    assert [*_unbounded(inspect.type_info(ClientFrame | LinkHello), "", set())] == []


@pytest.mark.parametrize(
    "frame",
    [
        CreateTimestamps(0, 1, [NewEvent(1, 1)] * (MAX_EVENTS + 1)),
        CreateTimestamps(0, 1, [NewEvent(1, 1, [1] * (MAX_FLAT + 1))]),
        Settle(0, 1, [1] * (MAX_RANGES + 1)),
        Resolve(1, [("s", "t")] * (MAX_LISTED + 1)),
        ChangeOrder(1, 1, [[]] * (MAX_LISTED + 1)),
    ],
)
def test_a_list_that_is_too_long_is_not_decoded(frame: Frame) -> None:
    with pytest.raises(ProtocolError, match="Expected `array` of length <= "):
        decode_client_frame(encode_frame(frame)[HEADER_BYTES:])


def test_as_many_as_allowed_are_decoded() -> None:
    for frame in (
        CreateTimestamps(0, 1, [NewEvent(1, 1)] * MAX_EVENTS),
        Settle(0, 1, [1] * MAX_RANGES),
        Subscribe(1, [SpaceFilter("s", exact("t"))] * MAX_FILTERS),
        SaveClock(1, [1] * MAX_FLAT),
    ):
        assert decode_client_frame(encode_frame(frame)[HEADER_BYTES:]) == frame


def test_elements_of_a_later_version_are_ignored() -> None:
    body = msgspec.msgpack.encode([1, 5, "a later field"])
    assert decode_client_frame(body) == Ping(5)


def test_an_oversized_frame_is_refused_as_soon_as_its_length_is_read() -> None:
    splitter = FrameSplitter(max_bytes=10)
    assert [*splitter.feed((10).to_bytes(4, "big") + b"x" * 10)] == [b"x" * 10]
    with pytest.raises(ProtocolError, match="11 bytes is over the limit of 10"):
        next(splitter.feed((11).to_bytes(4, "big")))
    with pytest.raises(ProtocolError):
        next(FrameSplitter().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big")))


def test_the_limit_is_that_of_the_moment() -> None:
    """Behind a hello that is good there may be longer frames, in what was read together with it, too."""
    splitter = FrameSplitter(max_bytes=10)
    bodies = splitter.feed(b"".join(size.to_bytes(4, "big") + b"x" * size for size in (10, 11, 12)))
    assert len(next(bodies)) == 10
    splitter.max_bytes = 11
    assert len(next(bodies)) == 11
    with pytest.raises(ProtocolError, match="12 bytes is over the limit of 11"):
        next(bodies)


DEEP = b"\x91" * 100_000
"""Lists in lists, where a later version might have a field."""


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (decode_client_frame, b"\x93\x01\x05" + DEEP),
        (decode_worker_frame, b"\x93\x01\x05" + DEEP),
        (decode_hello, b"\x97\x10\x01\x01\xa0\xa1x\x01" + DEEP),
        (decode_sender_frame, b"\x94\x32\x00\x01" + DEEP),
        (decode_receiver_frame, b"\x93\x33\x90" + DEEP),
        (decode_ride, b"\x93\x11\x01" + DEEP),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
def test_nesting_without_an_end_is_a_protocol_error(decode: Callable[[Any], object], body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(body)


def test_nesting_without_an_end_is_no_content_of_a_log() -> None:
    assert decode_logged(b"\x94\xc4\x00\x00\x90" + DEEP) is None


@pytest.mark.parametrize("qos", [-1, 3, 2**64 - 1])
def test_a_log_has_no_event_of_a_qos_that_there_is_not(qos: int) -> None:
    assert decode_logged(encode_logged(Logged(b"x", 2))) == Logged(b"x", 2)
    assert decode_logged(msgspec.msgpack.encode([b"x", qos])) is None


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), max_size=40))
def test_the_splitter_finds_the_same_frames_however_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(body).to_bytes(HEADER_BYTES, "big") + body for body in bodies)
    splitter, found, at = FrameSplitter(), list[bytes](), 0
    for cut in [*cuts, len(stream)]:
        found += splitter.feed(stream[at : at + cut])
        at += cut
    assert found == bodies


_number = st.integers(0, 2**63 - 1)
_pairs = st.lists(_number, max_size=8)


@given(st.builds(StampedEvent, _number, _number, _number, _pairs, st.booleans()), _pairs)
def test_random_timestamps_survive_the_wire(event: StampedEvent, forgotten: list[int]) -> None:
    frame = Timestamps(1, 2, [event, event], forgotten)
    assert decode_worker_frame(encode_frame(frame)[HEADER_BYTES:]) == frame


@given(st.binary(max_size=60))
def test_random_bytes_are_a_frame_or_a_protocol_error(body: bytes) -> None:
    for decode in (decode_client_frame, decode_worker_frame):
        try:
            decode(body)
        except ProtocolError:
            continue
