"""The adapters' contract for their life and for bad input, a part of :mod:`inorder.testing.ens_conformance`."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from inorder.errors import (
    BrokerUnreachable,
    Closed,
    InorderError,
    InvalidFilter,
    InvalidOption,
    InvalidPayload,
    InvalidTopic,
    LinkError,
)
from inorder.ports import BarrierEns, Ens, Outgoing
from inorder.protocol.names import FilterKind
from inorder.testing.ens_recorder import (
    TIMEOUT_SECONDS,
    EnsMaker,
    Recorder,
    StoppableBroker,
    connected,
    unique,
    until_connected,
)


@pytest.mark.asyncio
class EnsLifeConformance:
    """Tests of connecting, closing and losing, and of bad input. Class attributes describe the broker; the defaults are
    MQTT's."""

    odd_topics: ClassVar[list[str]] = [
        "/lead",
        "trail/",
        "a//b",
        "sp ace/ x",
        "caf\u00e9/na\u00efve",
        "emoji/\U0001f600",
        "$custom/x",
        "a*b?[c]",
        "x" * 65_535,
    ]
    wildcard_filters: ClassVar[list[str]] = ["#", "+", "/+", "+/+", "a//b", "a/#", "a/+/b", "+/\U0001f600", "$custom/#"]
    bad_topics: ClassVar[list[object]] = [
        "",
        "a/+",
        "a/#",
        "#",
        "a+b",
        "nul\0",
        "\ud800",
        "x" * 65_536,
        b"bytes",
        None,
        5,
    ]
    bad_filters: ClassVar[list[object]] = [
        "",
        "a+",
        "a/b#",
        "#/a",
        "nul\0",
        "\ud800",
        "x" * 65_536,
        b"bytes",
        None,
        "$share/g/t",
    ]
    good_payloads: ClassVar[list[tuple[object, bytes]]] = [
        (None, b""),
        ("", b""),
        (b"", b""),
        ("caf\u00e9", b"caf\xc3\xa9"),
        (bytearray(b"ab"), b"ab"),
        (1, b"1"),
        (1.5, b"1.5"),
        (True, b"True"),
    ]
    bad_payloads: ClassVar[list[object]] = [memoryview(b"x"), {"a": 1}, ["a"], ("a",), object(), "\ud800"]
    largest_payload: ClassVar[int] = 1_000_000
    has_barrier: ClassVar[bool] = True
    """The adapter is of version 2 of the port; clients of others wait longer before they say that an event is lost."""
    is_in_process: ClassVar[bool] = False
    """The broker lives in the test's own event loop."""

    @pytest.fixture
    def make_ens(self) -> EnsMaker:
        """Return a maker of clients of the broker; to be overridden."""
        raise NotImplementedError("override the fixture make_ens")

    @pytest.fixture
    def stoppable(self) -> StoppableBroker:
        """Return a broker that can be stopped; override it to run the tests with such a broker."""
        pytest.skip("no broker that may be stopped")

    # -- bad input ---------------------------------------------------------------------------------------------

    async def test_bad_topics_are_refused(self, make_ens: EnsMaker) -> None:
        """B27."""
        ens = make_ens()
        for topic in self.bad_topics:
            with pytest.raises(InvalidTopic) as caught:
                ens.check_topic(topic)
            assert caught.value.topic is topic
            assert isinstance(caught.value, ValueError)
        for good in self.odd_topics:
            assert ens.check_topic(good) == good

    async def test_bad_filters_are_refused(self, make_ens: EnsMaker) -> None:
        """A bad filter is refused before anything leaves; a good one keeps its text."""
        ens = make_ens()
        for text in self.bad_filters:
            with pytest.raises(InvalidFilter) as caught:
                ens.parse_filter(text)
            assert caught.value.filter is text
        for text in self.wildcard_filters:
            parsed = ens.parse_filter(text)
            assert (parsed.text, parsed.name if parsed.kind is not FilterKind.EXACT else text) == (text, text)

    async def test_payloads_are_taken_as_the_library_takes_them(self, make_ens: EnsMaker) -> None:
        """B28."""
        ens = make_ens()
        for payload, encoded in self.good_payloads:
            got = ens.encode_payload(payload)
            assert (type(got), got) == (bytes, encoded)
        for bad in self.bad_payloads:
            with pytest.raises(InvalidPayload):
                ens.encode_payload(bad)

    async def test_an_unknown_option_is_refused_with_the_known_ones(self, make_ens: EnsMaker) -> None:
        """A typing mistake must not be ignored."""
        with pytest.raises(InvalidOption, match="space") as caught:
            make_ens(no_such_option=1)
        assert caught.value.value == "no_such_option"

    async def test_the_space_can_be_set(self, make_ens: EnsMaker) -> None:
        """Clustered brokers share one."""
        assert make_ens(space="plant").space == "plant"
        assert make_ens().space

    # -- life --------------------------------------------------------------------------------------------------

    async def test_before_connect(self, make_ens: EnsMaker) -> None:
        """A client queues nothing in secret before its connection (B30)."""
        ens = make_ens()
        assert isinstance(ens, Ens)
        with pytest.raises(Closed):
            ens.publish(Outgoing("t", b""), 0)
        with pytest.raises(LinkError):
            await ens.subscribe(ens.parse_filter("t"))
        with pytest.raises(LinkError):
            await ens.unsubscribe(ens.parse_filter("t"))
        await ens.close()

    async def test_after_close(self, make_ens: EnsMaker) -> None:
        """A closed client reports and does nothing, and may be closed again."""
        topic, ens, other = unique(), make_ens(), make_ens()
        async with connected(other) as seen:
            recorder = Recorder()
            await ens.connect(recorder)
            await ens.subscribe(ens.parse_filter(topic))
            await other.subscribe(other.parse_filter(topic))
            await ens.close()
            await ens.close()
            with pytest.raises(Closed):
                ens.publish(Outgoing(topic, b""), 0)
            with pytest.raises(Closed):
                await ens.connect(recorder)
            with pytest.raises(LinkError):
                await ens.subscribe(ens.parse_filter(topic))
            other.publish(Outgoing(topic, b"x"), 0)
            await seen.until_arrived(1)
        assert recorder == Recorder()

    async def test_a_lost_connection_is_reported_once_and_can_be_made_anew(self, stoppable: StoppableBroker) -> None:
        """A publish meanwhile is refused, not kept."""
        topic, ens = unique(), stoppable.make_ens()
        recorder = Recorder()
        await ens.connect(recorder)
        try:
            await ens.subscribe(ens.parse_filter(topic))
            ens.publish(Outgoing(topic, b"before"), 0)
            await recorder.until_arrived(1)
            barrier = asyncio.create_task(ens.barrier()) if isinstance(ens, BarrierEns) else None
            await stoppable.stop()
            await recorder.until(lambda: bool(recorder.losses))
            if barrier is not None:  # it came back before that, or ends with the connection
                await asyncio.wait([barrier], timeout=TIMEOUT_SECONDS)
                assert isinstance(barrier.exception(), LinkError | None)
            assert isinstance(recorder.losses[0], LinkError)
            ens.publish(Outgoing(topic, b"between"), 1)
            await recorder.until(lambda: bool(recorder.refusals))
            with pytest.raises(LinkError):
                await ens.subscribe(ens.parse_filter(topic))
            if isinstance(ens, BarrierEns):
                with pytest.raises(LinkError):
                    await ens.barrier()
            with pytest.raises(BrokerUnreachable):
                await ens.connect(recorder)
            await stoppable.start()
            await until_connected(ens, recorder)
            await ens.subscribe(ens.parse_filter(topic))
            ens.publish(Outgoing(topic, b"after"), 2)
            await recorder.until_arrived(2)
            await recorder.until(lambda: 2 in recorder.accepted_tokens)
        finally:
            await ens.close()
        assert recorder.payloads == [b"before", b"after"]
        assert [token for token, _ in recorder.refusals] == [1]
        assert isinstance(recorder.refusals[0][1], InorderError)
        assert len(recorder.losses) == 1

    async def test_what_was_not_accepted_is_not_sent_again_after_a_reconnect(self, stoppable: StoppableBroker) -> None:
        """Only the owner hands such a message over again (B54)."""
        topic, ens = unique(), stoppable.make_ens()
        recorder = Recorder()
        await ens.connect(recorder)
        try:
            qos = ens.capabilities.qos[-1]
            await stoppable.stop()
            for number in range(10):
                ens.publish(Outgoing(topic, b"old", qos=qos), number)
            await recorder.until(lambda: bool(recorder.losses))
            await stoppable.start()
            await until_connected(ens, recorder)
            await ens.subscribe(ens.parse_filter(topic), qos=qos)
            ens.publish(Outgoing(topic, b"new", qos=qos), 100)
            await recorder.until_arrived(1)
            await recorder.until(lambda: 100 in recorder.accepted_tokens)
        finally:
            await ens.close()
        assert recorder.payloads == [b"new"]

    async def test_close_works_in_the_middle_of_a_loss(self, stoppable: StoppableBroker) -> None:
        """Close and loss may come in either order."""
        ens, recorder = stoppable.make_ens(), Recorder()
        await ens.connect(recorder)
        await stoppable.stop()
        ens.publish(Outgoing(unique(), b"x"), 0)
        await ens.close()
        losses = len(recorder.losses)
        assert losses <= 1
        assert recorder.arrivals == []
