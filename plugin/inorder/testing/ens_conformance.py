"""The contract of adapters as tests: inherit :class:`EnsConformance` in a class named ``Test...`` that makes an ENS.

The suite needs pytest and pytest-asyncio. A minimal use::

    class TestMyBroker(EnsConformance):
        @pytest.fixture
        def make_ens(self):
            return ens_maker(open_ens, "mybroker://localhost")
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from inorder.errors import (
    LinkError,
)
from inorder.ports import BarrierEns, Ens, Outgoing
from inorder.protocol.names import Filter, FilterKind, exact
from inorder.testing.ens_life import EnsLifeConformance
from inorder.testing.ens_recorder import (
    EnsMaker,
    Recorder,
    StoppableBroker,
    connected,
    ens_maker,
    look_alikes,
    unique,
)

__all__ = ["EnsConformance", "EnsMaker", "Recorder", "StoppableBroker", "connected", "ens_maker", "unique"]


@pytest.mark.asyncio
class EnsConformance(EnsLifeConformance):
    """The suite that every adapter must pass."""

    # -- messages ----------------------------------------------------------------------------------------------

    async def test_every_byte_value_arrives_unchanged(self, make_ens: EnsMaker) -> None:
        """B28."""
        every_byte = bytes(range(256))
        sent = [every_byte, b"", b"\n", every_byte[::-1] * 20, b"text", bytes(1)]
        for options in ({}, {"stamp": b"aZ0_-"}, {"stamp": b"s", "in_payload": True}):
            assert (await _round_trip(make_ens, sent, options)) == sent

    async def test_a_large_payload_arrives(self, make_ens: EnsMaker) -> None:
        """A megabyte takes many reads and writes."""
        payload = bytes(range(256)) * (self.largest_payload // 256)
        assert await _round_trip(make_ens, [payload, b"after"], {"stamp": b"s" * 100}) == [payload, b"after"]

    @pytest.mark.parametrize("in_payload", [False, True])
    async def test_the_stamp_arrives_beside_the_payload(self, make_ens: EnsMaker, in_payload: bool) -> None:
        """Short and long stamps arrive in either form."""
        stamps = [b"x", b"AZaz09_-", b"s" * 4_000, b"0" * 60_000]
        topic = unique()
        ens = make_ens()
        async with connected(ens) as recorder:
            await ens.subscribe(ens.parse_filter(topic))
            for token, stamp in enumerate(stamps):
                ens.publish(Outgoing(topic, b"payload", stamp, in_payload), token)
            arrivals = await recorder.until_arrived(len(stamps))
        assert [arrival.stamp for arrival in arrivals] == stamps
        assert {arrival.payload for arrival in arrivals} == {b"payload"}
        assert {arrival.properties for arrival in arrivals} == {()}

    @pytest.mark.parametrize("options", [{}, {"stamp": b"own"}, {"stamp": b"own", "in_payload": True}])
    async def test_a_payload_that_looks_stamped_is_not_stripped(
        self, make_ens: EnsMaker, options: dict[str, Any]
    ) -> None:
        """B28."""
        topic, ens = unique(), make_ens()
        async with connected(ens) as recorder:
            await ens.subscribe(ens.parse_filter(topic))
            for token, payload in enumerate(look_alikes()):
                ens.publish(Outgoing(topic, payload, **options), token)
            arrivals = await recorder.until_arrived(len(look_alikes()))
        assert [arrival.payload for arrival in arrivals] == look_alikes()
        assert {arrival.stamp for arrival in arrivals} == {options.get("stamp")}

    async def test_the_users_properties_keep_their_order_and_repetitions(self, make_ens: EnsMaker) -> None:
        """B12."""
        own = (("b", "1"), ("a", "\u00e9"), ("b", "2"), ("", ""))
        topic, ens = unique(), make_ens()
        async with connected(ens) as recorder:
            if not ens.capabilities.properties:
                pytest.skip("the broker carries no properties")
            await ens.subscribe(ens.parse_filter(topic))
            ens.publish(Outgoing(topic, b"x", b"s", properties=own), 0)
            ens.publish(Outgoing(topic, b"x", None, properties=own), 1)
            ens.publish(Outgoing(topic, b"x", b"s", in_payload=True, properties=own), 2)
            arrivals = await recorder.until_arrived(3)
        assert [arrival.properties for arrival in arrivals] == [own] * 3
        assert [arrival.stamp for arrival in arrivals] == [b"s", None, b"s"]

    async def test_the_order_of_one_connection_is_kept_across_topics(self, make_ens: EnsMaker) -> None:
        """The broker itself keeps the order, and the adapter must not lose it."""
        topics = [unique() for _ in range(3)]
        publisher, subscriber = make_ens(), make_ens()
        async with connected(publisher), connected(subscriber) as recorder:
            for topic in topics:
                await subscriber.subscribe(subscriber.parse_filter(topic))
            for number in range(300):
                publisher.publish(Outgoing(topics[number % 3], b"%d" % number, b"s"), number)
            await recorder.until_arrived(300)
        assert recorder.payloads == [b"%d" % number for number in range(300)]

    async def test_a_burst_arrives_in_order_and_each_is_accepted_once(self, make_ens: EnsMaker) -> None:
        """Each token has exactly one outcome (R16)."""
        count, topic = 2_000, unique()
        publisher, subscriber = make_ens(), make_ens()
        async with connected(publisher) as sent, connected(subscriber) as recorder:
            await subscriber.subscribe(subscriber.parse_filter(topic))
            for number in range(count):
                publisher.publish(Outgoing(topic, b"%d" % number, b"stamp"), number)
            await recorder.until_arrived(count)
            await sent.until_accepted(count)
        assert recorder.payloads == [b"%d" % number for number in range(count)]
        assert sorted(sent.accepted_tokens) == list(range(count))
        assert sent.refusals == []

    async def test_every_quality_is_accepted_and_delivered_once(self, make_ens: EnsMaker) -> None:
        """Acceptance is the write, PUBACK or PUBCOMP (R16)."""
        topic, ens = unique(), make_ens()
        async with connected(ens) as recorder:
            qualities = ens.capabilities.qos
            await ens.subscribe(ens.parse_filter(topic), qos=qualities[-1])
            for qos in qualities:
                for number in range(50):
                    ens.publish(Outgoing(topic, b"%d" % number, b"s", qos=qos), qos * 50 + number)
            await recorder.until_arrived(50 * len(qualities))
            await recorder.until_accepted(50 * len(qualities))
        for qos in qualities:
            mine = [arrival.payload for arrival in recorder.arrivals if arrival.qos == qos]
            assert mine == [b"%d" % number for number in range(50)]
        assert sorted(recorder.accepted_tokens) == list(range(50 * len(qualities)))

    async def test_what_was_published_leaves_before_close_ends(self, make_ens: EnsMaker) -> None:
        """Closing right after publishing loses nothing."""
        topic = unique()
        publisher, subscriber = make_ens(), make_ens()
        async with connected(subscriber) as recorder:
            await subscriber.subscribe(subscriber.parse_filter(topic))
            async with connected(publisher):
                for number in range(100):
                    publisher.publish(Outgoing(topic, b"%d" % number), number)
            await recorder.until_arrived(100)
        assert len(recorder.arrivals) == 100

    async def test_a_barrier_comes_back_behind_all_that_the_broker_had(self, make_ens: EnsMaker) -> None:
        """A barrier covers every quality, also beyond the broker's window (R24)."""
        ens = make_ens()
        assert isinstance(ens, BarrierEns) == self.has_barrier
        if not isinstance(ens, BarrierEns):
            pytest.skip("the adapter has no barriers")
        with pytest.raises(LinkError):
            await ens.barrier()
        async with connected(ens) as recorder:
            await ens.barrier()
            for count, qos in enumerate(ens.capabilities.qos, start=1):
                topic = unique()
                await ens.subscribe(ens.parse_filter(topic), qos=qos)
                await self._publish_unread(make_ens, topic, 200, qos)
                await ens.barrier()
                assert len(recorder.arrivals) == count * 200

    async def _publish_unread(self, make_ens: EnsMaker, topic: str, count: int, qos: int) -> None:
        """Make a broker accept messages while the loop of this test reads nothing."""

        async def publish() -> None:
            publisher = make_ens()
            async with connected(publisher) as sent:
                for number in range(count):
                    publisher.publish(Outgoing(topic, b"%d" % number, b"s", qos=qos), number)
                # the broker has dealt with what it accepts, not only received it
                publisher.publish(Outgoing(unique("last"), b"", qos=publisher.capabilities.qos[-1]), count)
                await sent.until_accepted(count + 1)

        if self.is_in_process:
            await publish()
            return
        thread = threading.Thread(target=lambda: asyncio.run(publish()))
        thread.start()
        thread.join()

    # -- subscriptions -----------------------------------------------------------------------------------------

    async def test_a_subscription_counts_from_its_return_and_ends_with_its_end(self, make_ens: EnsMaker) -> None:
        """A subscription may also be made again at once (B48)."""
        topic, last = unique(), unique("last")
        publisher, subscriber = make_ens(), make_ens()
        async with connected(publisher) as sent, connected(subscriber) as recorder:
            qos = publisher.capabilities.qos[-1]  # the broker has dealt with what it accepts, not only received it
            await subscriber.subscribe(subscriber.parse_filter(last))
            for number in range(10):
                await subscriber.subscribe(subscriber.parse_filter(topic))
                publisher.publish(Outgoing(topic, b"seen %d" % number, qos=qos), number)
                await recorder.until_arrived(number + 1)
                await subscriber.unsubscribe(subscriber.parse_filter(topic))
                publisher.publish(Outgoing(topic, b"not seen", qos=qos), 100 + number)
                await sent.until_accepted(2 * number + 2)
            publisher.publish(Outgoing(last, b"last"), 200)
            await recorder.until(lambda: b"last" in recorder.payloads)
        assert recorder.payloads == [*(b"seen %d" % number for number in range(10)), b"last"]

    async def test_odd_topics_arrive_unchanged(self, make_ens: EnsMaker) -> None:
        """B27."""
        ens = make_ens()
        async with connected(ens) as recorder:
            for token, topic in enumerate(self.odd_topics):
                await ens.subscribe(_literal(ens, topic))
                ens.publish(Outgoing(ens.check_topic(topic), b"x", b"s"), token)
            arrivals = await recorder.until_arrived(len(self.odd_topics))
        assert [arrival.topic for arrival in arrivals] == self.odd_topics

    async def test_the_broker_and_covers_agree(self, make_ens: EnsMaker) -> None:
        """Topic managers resolve filters as the broker does (R13, B27)."""
        publisher, last = make_ens(), unique("last")
        topics = [topic for topic in self.odd_topics if len(topic) < 100]
        async with connected(publisher):
            for text in self.wildcard_filters:
                subscriber = make_ens()
                async with connected(subscriber) as recorder:
                    wanted = subscriber.parse_filter(text)
                    assert wanted.text == text
                    await subscriber.subscribe(wanted)
                    await subscriber.subscribe(_literal(subscriber, last))
                    for token, topic in enumerate([*topics, last]):
                        publisher.publish(Outgoing(topic, b"x"), token)
                    await recorder.until_topic(last)
                    seen = {arrival.topic for arrival in recorder.arrivals} - {last}
                assert seen == {topic for topic in topics if wanted.covers(topic)}, text

    async def test_copies_for_overlapping_filters_say_what_they_came_for(self, make_ens: EnsMaker) -> None:
        """B08."""
        topic, last = unique(), unique("last")
        ens = make_ens()
        filters = [text for text in self.wildcard_filters if ens.parse_filter(text).covers(topic)][:2]
        assert filters, "wildcard_filters has none that covers a plain name"
        async with connected(ens) as recorder:
            for text in (topic, *filters):
                await ens.subscribe(ens.parse_filter(text))
            ens.publish(Outgoing(topic, b"x", b"s"), 0)
            ens.publish(Outgoing(last, b"x"), 1)
            await ens.subscribe(_literal(ens, last))
            ens.publish(Outgoing(last, b"end"), 2)
            await recorder.until(lambda: b"end" in recorder.payloads)
        copies = [arrival for arrival in recorder.arrivals if arrival.topic == topic]
        assert {copy.stamp for copy in copies} == {b"s"}
        via = [text for copy in copies for text in copy.via]
        if via:
            assert sorted(via) == sorted((topic, *filters))
        else:
            assert len(copies) in (1, 1 + len(filters))

    async def test_a_kept_message_is_marked_and_its_stamp_is_readable(self, make_ens: EnsMaker) -> None:
        """B18."""
        topic, publisher = unique(), make_ens()
        async with connected(publisher) as sent:
            if not publisher.capabilities.retain:
                pytest.skip("the broker keeps no messages")
            await publisher.subscribe(publisher.parse_filter(topic))
            publisher.publish(Outgoing(topic, b"kept", b"stamp10", retain=True), 0)
            live = await sent.until_arrived(1)
            subscriber = make_ens()
            async with connected(subscriber) as recorder:
                for count in (1, 2):
                    await subscriber.subscribe(subscriber.parse_filter(topic))
                    await recorder.until_arrived(count)
            publisher.publish(Outgoing(topic, b"", b"stamp11", retain=True), 1)
            await sent.until_accepted(2)
        assert not live[0].retained
        kept = {(copy.retained, copy.payload, copy.stamp) for copy in recorder.arrivals}
        assert kept == {(True, b"kept", b"stamp10")}

    @pytest.mark.parametrize("stamp", [None, b"stamp"])
    @pytest.mark.parametrize("in_payload", [False, True])
    async def test_an_empty_kept_message_clears_the_topic(
        self, make_ens: EnsMaker, stamp: bytes | None, in_payload: bool
    ) -> None:
        """B19."""
        topic, last, publisher = unique(), unique("last"), make_ens()
        async with connected(publisher) as sent:
            if not publisher.capabilities.retain:
                pytest.skip("the broker keeps no messages")
            publisher.publish(Outgoing(topic, b"kept", b"s", retain=True), 0)
            publisher.publish(Outgoing(topic, b"", stamp, in_payload, retain=True), 1)
            await sent.until_accepted(2)
            await publisher.subscribe(publisher.parse_filter(last))
            publisher.publish(Outgoing(last, b"processed"), 2)
            await sent.until_arrived(1)
            subscriber = make_ens()
            async with connected(subscriber) as recorder:
                await subscriber.subscribe(subscriber.parse_filter(topic))
                await subscriber.subscribe(subscriber.parse_filter(last))
                publisher.publish(Outgoing(last, b"end"), 3)
                await recorder.until_arrived(1)
        assert recorder.payloads == [b"end"]


def _literal(ens: Ens, topic: str) -> Filter:
    """Return the filter for just this topic, with all filter characters escaped."""
    parsed = ens.parse_filter(topic)
    return parsed if parsed.kind is FilterKind.EXACT and parsed.name == topic else exact(topic)


async def _round_trip(make_ens: EnsMaker, payloads: list[bytes], options: Mapping[str, Any]) -> list[bytes]:
    topic = unique()
    publisher, subscriber = make_ens(), make_ens()
    async with connected(publisher), connected(subscriber) as recorder:
        await subscriber.subscribe(subscriber.parse_filter(topic))
        for token, payload in enumerate(payloads):
            publisher.publish(Outgoing(topic, payload, **options), token)
        await recorder.until_arrived(len(payloads))
    assert {arrival.stamp for arrival in recorder.arrivals} == {options.get("stamp")}
    return recorder.payloads
