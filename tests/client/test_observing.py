"""What clients tell operators of themselves: counts, and what some events went through."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.helpers import Site, gaps_of, published, take, times, until

from inorder import ClientTimes
from inorder.client.observing import SAMPLED, ClockOffset, LifeSample, mixed
from inorder.errors import InvalidOption
from inorder.protocol.wire import EventLife, Reports, ShowReports
from inorder_worker.admin import Cluster

REPORTING: dict[str, float] = {"report_interval": 0.02}


def shown(site: Site, topic: int = 0, number: int = 0) -> Reports:
    return site.worker._server.reports.show(ShowReports(1, 0, topic, number), 2**50)


async def test_a_client_tells_what_it_has_published_and_seen(site: Site) -> None:
    async with (
        site.client("a", clock=times(**REPORTING)) as publisher,
        site.client("b", clock=times(**REPORTING)) as subscriber,
    ):
        await subscriber.subscribe("t")
        await published(publisher, "t", 20)
        await take(subscriber, 20)
        await until(lambda: shown(site).totals.in_order == 20 and shown(site).totals.published == 20)
        await site.lose(subscriber, published(publisher, "t", 3))
        await published(publisher, "t", 1)
        assert len(gaps_of(await take(subscriber, 2))) == 1
        await until(lambda: shown(site).totals.in_order == 21)
        clients = {each.client_id: each for each in shown(site).clients}
        assert (clients["a"].counts.published, clients["a"].counts.in_order) == (24, 0)
        assert (clients["b"].counts.gaps, clients["b"].counts.missed) == (1, 3)
    await until(lambda: not shown(site).clients)
    totals = shown(site).totals
    assert (totals.published, totals.in_order, totals.gaps, totals.missed, totals.waiting) == (24, 21, 1, 3, 0)


async def test_the_life_of_an_event_is_told_by_its_publisher_and_its_subscribers(site: Site) -> None:
    async with (
        site.client("a", clock=times(**REPORTING)) as publisher,
        site.client("b", clock=times(**REPORTING, gap_timeout=5.0)) as subscriber,
    ):
        await subscriber.subscribe("t", "u")
        await published(publisher, "t", 1)
        await until(lambda: len(shown(site, 1, 1).lives) == 2)
        by_client = {each.client_id: each for each in shown(site, 1, 1).lives}
        made, seen = by_client["a"].life, by_client["b"].life
        assert (made.verdict, seen.verdict) == ("", "in_order")
        assert made.times == sorted(made.times), "published, timestamp, accepted"
        assert seen.times == sorted(seen.times), "arrived, notified"
        assert made.times[0] <= seen.times[1]
        await published(publisher, "t", 1)
        await until(lambda: by_offset(shown(site, 1, 2)) == {"a", "b"})


def by_offset(reports: Reports) -> set[str]:
    """Return the clients in whose lives the clock's offset is known: in one process it is smaller than its error."""
    return {each.client_id for each in reports.lives if 0 <= abs(each.offset_us) <= each.error_us + 2_000}


async def test_what_an_event_waited_for_is_told(site: Site) -> None:
    async with (
        site.client("a", clock=times(**REPORTING)) as publisher,
        site.client("b", clock=times(**REPORTING, loss_timeout=0.1)) as subscriber,
    ):
        await subscriber.subscribe("t", "u")
        await published(publisher, "t", 1)
        await site.lose(subscriber, published(publisher, "t", 1))
        await published(publisher, "u", 1)
        await take(subscriber, 3)
        await until(lambda: any(each.life.waited_topic for each in shown(site).lives))
        (waited,) = [each.life for each in shown(site).lives if each.life.waited_topic]
        assert (waited.topic, waited.waited_topic, waited.waited_number) == (2, 1, 2)


async def test_a_client_may_keep_silent(site: Site) -> None:
    async with site.client("a", clock=times(report_interval=0.0)) as publisher:
        await published(publisher, "t", 5)
        await publisher.close()
    assert shown(site).totals.published == 0
    assert not shown(site).lives


@pytest.mark.parametrize("value", [-1.0, True, "1", float("nan")])
def test_an_interval_is_checked(value: Any) -> None:
    with pytest.raises(InvalidOption, match=r"report_interval .* or 0 for never"):
        ClientTimes(report_interval=value)


async def test_operators_are_shown_it(site: Site) -> None:
    async with site.client("a", clock=times(**REPORTING)) as publisher, Cluster([site.address]) as cluster:
        await published(publisher, "t", 3)
        await until(lambda: shown(site).totals.published == 3)
        reports = await cluster.reports()
        assert ([each.client_id for each in reports.clients], reports.totals.published) == (["a"], 3)
        assert {(each.life.topic, each.life.number) for each in reports.lives} == {(1, 1), (1, 2), (1, 3)}
        assert (await cluster.reports(reports.at_us)).lives == []
        (life,) = await cluster.lives(1, 2)
        assert (life.client_id, life.life.number, len(life.life.times)) == ("a", 2, 3)
        assert await cluster.lives(1, 4) == []


# -- samples -----------------------------------------------------------------------------------------------------------


def sample(events: list[tuple[int, int]]) -> set[tuple[int, int]]:
    chosen = LifeSample()
    for topic, number in events:
        if mixed(topic, number) < chosen.bound:
            chosen.add(mixed(topic, number), EventLife(topic, number, [0, 0]))
    return {(each.topic, each.number) for each in chosen.take()}


def test_who_sees_more_chooses_among_the_shared_events_the_same_ones_or_fewer() -> None:
    mine = [(1, number) for number in range(1, 400)]
    others = [(2, number) for number in range(1, 400)]
    of_mine, of_all = sample(mine), sample([*mine, *others])
    assert len(of_mine) == len(of_all) == SAMPLED
    assert of_all & set(mine) <= of_mine
    assert 4 <= len(of_all & of_mine) <= SAMPLED - 4, "topics are not treated differently"


def test_few_events_are_all_in_the_sample_and_the_next_interval_begins_empty() -> None:
    chosen = LifeSample(4)
    for number in (9, 3, 7):
        assert mixed(1, number) < chosen.bound
        chosen.add(mixed(1, number), EventLife(1, number, [0, 0]))
    assert [each.number for each in chosen.take()] == [9, 3, 7]
    assert chosen.take() == []


def test_the_quickest_answer_tells_the_clocks_offset() -> None:
    offset = ClockOffset()
    assert offset.best == (0, -1)
    for request, sent, at, back in ((1, 1000, 6100, 1400), (2, 2000, 7010, 2020), (3, 3000, 8600, 3900)):
        offset.asked(request, sent)
        offset.answered(request, at, back)
    assert offset.best == (5000, 11), "it is a little older"
    offset.answered(2, 99, 3000)
    assert offset.best == (5000, 11), "answered already"
    offset.forget()
    assert offset.best == (0, -1)


S = 1_000_000
HOUR = 3_600 * S


def test_a_clock_that_is_set_is_known_by_the_next_answer() -> None:
    """Not by the quickest of those before, whose offset is hours off then. One that was set between question and answer
    says nothing, or that it says nothing; after it there is nothing to go by."""
    offset = ClockOffset()

    def answered(sent: int, at: int, back: int) -> tuple[int, int]:
        offset.asked(sent, sent)
        offset.answered(sent, at, back)
        return offset.best

    assert answered(0, 5_100, 200) == (5_000, 100)
    assert answered(HOUR, 5_000 + 5_000, HOUR + 10_000) == (5_000 - HOUR, 5_000)
    assert offset.at_us == HOUR + 10_000
    assert answered(HOUR + S, S + 5_500, HOUR + S + 1_000) == (5_000 - HOUR, 500)
    assert answered(HOUR + 2 * S, 2 * S + 5_000, 2 * S) == (0, -1)
    assert answered(10 * S, 10 * S + 100, 3 * HOUR)[1] > HOUR
    assert answered(3 * HOUR, 12 * S, 3 * HOUR + 200) == (12 * S - 3 * HOUR - 100, 100)


def test_a_quick_answer_that_a_later_one_contradicts_counts_no_more() -> None:
    """A clock was set by a second; so little that the older answer's error has not grown beyond the later one's."""
    offset = ClockOffset()
    for sent, at, back in ((0, 5_100, 200), (S, 10_000, S + 10_000)):
        offset.asked(sent, sent)
        offset.answered(sent, at, back)
    assert offset.best == (5_000 - S, 5_000)


def test_an_older_answer_is_as_good_as_a_clock_may_have_drifted_since() -> None:
    offset = ClockOffset()
    for sent, error in ((0, 100), (1 * S, 1_000), (2 * S, 5_000), (20 * S, 8_000)):
        offset.asked(sent, sent)
        offset.answered(sent, sent + error, sent + 2 * error)
        assert offset.best == (0, {0: 100, S: 100 + 501, 2 * S: 100 + 1_005, 20 * S: 8_000}[sent])


async def test_what_was_told_to_a_former_worker_is_not_counted_again(site: Site) -> None:
    async with site.client("a", clock=times(**REPORTING)) as publisher:
        await published(publisher, "t", 5)
        await until(lambda: shown(site).totals.published == 5)
        await site.stop()
        await site.start()
        async with asyncio.timeout(60):
            await publisher.publish("t", b"x")
        await until(lambda: [each.counts.published for each in shown(site).clients] == [6])
        before = shown(site).totals.published
        await published(publisher, "t", 2)
        await until(lambda: shown(site).totals.published == before + 2)
        assert before <= 1
