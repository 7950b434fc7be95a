"""A worker whose tokens are in its store: who comes in, what each may do, and until when."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.worker.helpers import settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import InvalidOption
from inorder.protocol.access import MAY_SEND, ROLES
from inorder.protocol.filters import MAX_WILDCARDS, filter_of
from inorder.protocol.names import exact
from inorder.protocol.wire import (
    AskDurable,
    AskNumbers,
    ChangeLog,
    ChangeOrder,
    ClientCounts,
    CreateTimestamps,
    Done,
    Durable,
    EndSubscription,
    EventLife,
    Failure,
    Frame,
    LoggedEvents,
    LogRule,
    Logs,
    NameTopics,
    NewEvent,
    Numbers,
    OrderChanged,
    PinTopics,
    ReadLog,
    Renew,
    Renewed,
    Report,
    Reported,
    Reports,
    Resolve,
    ShowLogs,
    ShowOrder,
    ShowReports,
    ShowSubscriptions,
    SpaceFilter,
    Subscribe,
    Subscribed,
    Subscriptions,
    Timestamps,
    TopicOrder,
    Topics,
    Wait,
)
from inorder_worker.service import Worker
from inorder_worker.store import records, schema
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import PREFIX, TokenStore


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/inorder.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    journal = SqlJournal(url)
    journal.open(1)
    journal.close()
    opened = Store(url)
    yield opened
    opened.close()


@pytest.fixture
def tokens(store: Store) -> TokenStore:
    return TokenStore(store)


def worker(url: str, **changes: Any) -> Worker:
    return Worker(settings(store=url, beat_interval=0.05, **{"require_token": True, **changes}))


async def refusal(client: RawClient, *frames: Frame) -> Failure:
    """Say hello, and these; return what the worker ends the connection with."""
    await client.connect()
    client.send(client.hello, *frames)
    failure = await client.failure()
    await client.close()
    return failure


# -- coming in -------------------------------------------------------------------------------------------------------


async def test_only_who_shows_a_good_token_comes_in(url: str, tokens: TokenStore) -> None:
    _, secret = tokens.issue("desk", "client", publish=["s:a"], subscribe=["s:#"], max_unconfirmed=3)
    gone, ended = tokens.issue("gone", "client")
    tokens.revoke(gone.id)
    _, expired = tokens.issue("old", "client", expires_s=0.001)
    async with worker(url) as running:
        async with RawClient(running.address, token=secret) as client:
            access = client.welcome.access
            assert (access.role, access.publish, access.subscribe) == ("client", ["s:a"], ["s:#"])
            assert access.max_unconfirmed == 3
        reasons = [
            (await refusal(RawClient(running.address, token=each))).message
            for each in ("", "x", PREFIX + "x", ended, expired)
        ]
    assert reasons[:-1] == [
        "a token is needed here, and none was given", "the token is wrong", "the token is wrong",
        "the token 'gone' was revoked",
    ]  # fmt: skip
    assert re.fullmatch("the token 'old' has expired at 20[^,]+Z, and the worker's clock says 20[^,]+Z", reasons[-1])


async def test_without_a_need_for_tokens_those_that_are_shown_count(url: str, tokens: TokenStore) -> None:
    gone, ended = tokens.issue("gone", "client")
    _, secret = tokens.issue("desk", "viewer")
    tokens.revoke(gone.id)
    async with worker(url, require_token=False) as running:
        async with RawClient(running.address) as client:
            assert client.welcome.access.role == "admin"
        async with RawClient(running.address, token=secret) as client:
            assert client.welcome.access.role == "viewer"
        assert (await refusal(RawClient(running.address, token=ended))).code == "unauthorized"


async def test_the_workers_own_token_counts_as_admin(url: str, tokens: TokenStore) -> None:
    _, secret = tokens.issue("desk", "client")
    async with worker(url, token="hunter2", require_token=False) as running:
        async with RawClient(running.address, token="hunter2") as client:
            assert client.welcome.access.role == "admin"
            failure = await refusal(RawClient(running.address, "raw", 2, token=secret))  # throws nobody out
            assert (failure.code, failure.message.split(" (")[0]) == (
                "forbidden", "the client id 'raw' is connected by the workers' own token",
            )  # fmt: skip
            await client.ping()
        await until(lambda: not running._host.stage(0).inspection.figures().sessions)
        async with RawClient(running.address, "raw", 2, token=secret) as client:  # it has moved to the token
            assert client.welcome.access.role == "client"
        assert (await refusal(RawClient(running.address))).code == "unauthorized"


def test_addresses_that_others_reach_need_tokens(url: str) -> None:
    with pytest.raises(InvalidOption, match="require_token"):
        settings(store=url, host="0.0.0.0")
    settings(store=url, host="0.0.0.0", require_token=True)


async def test_what_comes_behind_the_hello_waits_for_it(url: str, tokens: TokenStore) -> None:
    """The token is looked up beside everything else; frames that do not wait for the welcome are not lost."""
    _, secret = tokens.issue("desk", "client")
    async with worker(url) as running:
        client = RawClient(running.address, token=secret)
        await client.connect()
        client.send(client.hello, Resolve(7, [("s", "a")]))
        assert (await client.next(Topics)).request == 7
        await client.close()


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_an_open_connection_ends_with_its_token(url: str, tokens: TokenStore, how: str) -> None:
    """Within about a second; others are not touched."""
    token, secret = tokens.issue("desk", "client", expires_s=3600)
    _, others = tokens.issue("other", "client")
    async with worker(url) as running, RawClient(running.address, "other", token=others) as other:
        client = RawClient(running.address, "desk", token=secret)
        async with client:
            if how == "revoked":
                tokens.revoke(token.id)
            else:
                update = {"expires_ms": token.created_ms}
                tokens._store.write(lambda connection: records.change(connection, schema.tokens, token.id, update))
            failure = await client.failure()
        assert (failure.code, failure.message.split("'")[1]) == ("unauthorized", "desk")
        await other.ping()


# -- roles -----------------------------------------------------------------------------------------------------------

RULE = LogRule("s", filter_of("s", "x"), 1000, 10, 1000)
ASKED: dict[type[Frame], tuple[Frame, type[Frame]]] = {
    ShowOrder: (ShowOrder(1), TopicOrder),
    ShowLogs: (ShowLogs(2), Logs),
    ShowSubscriptions: (ShowSubscriptions(3), Subscriptions),
    ChangeOrder: (ChangeOrder(4, 99, [[]]), OrderChanged),
    PinTopics: (PinTopics(5, [99]), OrderChanged),
    ChangeLog: (ChangeLog(6, RULE), Done),
    EndSubscription: (EndSubscription(7, "nobody"), Done),
    Resolve: (Resolve(8, [("s", "a")]), Topics),
    Subscribe: (Subscribe(1, [SpaceFilter("s", exact("a"))]), Subscribed),
    CreateTimestamps: (CreateTimestamps(0, 1, [NewEvent(1, 1)]), Timestamps),
    NameTopics: (NameTopics(9, [1]), Topics),
    AskNumbers: (AskNumbers(10, 0, 1, [1, 1]), Numbers),
    ReadLog: (ReadLog(11, 0, 1, [1, 1]), LoggedEvents),
    Renew: (Renew(12), Renewed),
}


@pytest.mark.parametrize("role", ROLES)
async def test_every_frame_of_every_role(url: str, tokens: TokenStore, role: str) -> None:
    _, secret = tokens.issue(role, role)
    _, admins = tokens.issue("admin", "admin")
    async with worker(url) as running:
        async with RawClient(running.address, "first", token=admins) as client:
            await client.resolve("a")
        for kind, (frame, answer) in ASKED.items():
            client = RawClient(running.address, "x", token=secret)
            if role in MAY_SEND[kind]:
                async with client:
                    client.send(frame)
                    await client.next(answer)
            else:
                failure = await refusal(client, frame)
                assert failure.code == "forbidden", kind
                assert f"role {role} may not send {kind.__name__}" in failure.message
                assert f"(token: {role})" in failure.message


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_topics_that_a_token_does_not_cover(url: str, tokens: TokenStore) -> None:
    """Nothing happens for them: no topic is made, no number given, no subscription begun."""
    _, secret = tokens.issue("desk", "client", publish=["s:in/#"], subscribe=["s:out/#"])
    _, admins = tokens.issue("admin", "admin")
    async with worker(url) as running, RawClient(running.address, "admin", token=admins) as admin:
        (inside, outside) = await admin.resolve("in/1", "other")
        async with RawClient(running.address, "desk", token=secret) as client:
            assert [each.id for each in await client.resolve("in/1")] == [inside.id]
            await client.create(inside, 1)
            await client.subscribe("out/1")
        refused = [
            Resolve(1, [("s", "in/2"), ("s", "forbidden")]),
            CreateTimestamps(0, 1, [NewEvent(2, inside.id), NewEvent(3, outside.id)]),
            CreateTimestamps(0, 1, [NewEvent(2, 4711)]),
            CreateTimestamps(0, 1, [NewEvent(2, inside.id, [outside.id, 10**9])]),
            Subscribe(2, [SpaceFilter("s", exact("out/1")), SpaceFilter("s", filter_of("s", "#"))]),
            ReadLog(1, 0, inside.id, [1, 1]),
            ReadLog(1, 0, 4711, [1, 1]),
        ]
        for frame in refused:
            client = RawClient(running.address, "desk", 2, token=secret)
            assert (await refusal(client, frame)).code == "forbidden", frame
        # more than are allowed at all are not held against what the token has
        many = [SpaceFilter("s", filter_of("s", f"{each}/#")) for each in range(MAX_WILDCARDS + 1)]
        assert (
            await refusal(RawClient(running.address, "desk", 2, token=secret), Subscribe(2, many))
        ).code == "protocol"
        admin.send(ShowOrder(1))
        assert {each.name for each in (await admin.next(TopicOrder)).topics} == {"in/1", "other", "out/1"}
        assert [event.number for event in await admin.create(inside, 1)] == [2]
        assert [event.number for event in await admin.create(outside, 2)] == [1]


async def test_names_beyond_its_limits_are_not_told_to_a_token(url: str, tokens: TokenStore) -> None:
    """Neither by id, nor with the rules for event logs, nor unasked, nor in a refusal."""
    _, secret = tokens.issue("desk", "client", publish=["s:in/#"], subscribe=["s:out/#"])
    _, admins = tokens.issue("admin", "admin")
    shown = {"s:in/1", "s:out/1"}
    async with worker(url) as running, RawClient(running.address, "admin", token=admins) as admin:
        topics = await admin.resolve("in/1", "out/1", "secret/1", "secret/2")
        async with RawClient(running.address, "desk", token=secret) as client:
            client.send(NameTopics(1, [each.id for each in topics]))
            assert {each.label for each in (await client.next(Topics)).topics} == shown
            for text in ("secret/#", "out/#", "#"):
                admin.send(ChangeLog(1, LogRule("s", filter_of("s", text), 1000, 10, 1000)))
                await admin.next(Done)
            client.send(ShowLogs(2))
            logs = await client.next(Logs)
            assert [each.filter.text for each in logs.rules] == ["out/#", "#"]
            assert {each.label for each in logs.topics} == shown
            unasked = [each for each in client.skipped if isinstance(each, Topics)]
            assert {info.label for each in unasked for info in each.topics} == shown
        hidden = topics[2].id
        asked = [AskNumbers(1, 0, hidden, [1, 9]), ReadLog(1, 0, hidden, [1, 9])]
        for frame in (*asked, CreateTimestamps(0, 1, [NewEvent(1, hidden)])):
            failure = await refusal(RawClient(running.address, "desk", 2, token=secret), frame)
            assert (failure.code, f"topic {hidden}" in failure.message) == ("forbidden", True), failure
            assert "secret" not in failure.message


async def test_a_session_has_so_many_numbers_open_and_no_more(url: str, tokens: TokenStore) -> None:
    """R17: what waits for a number waits as long as it is open. Others are not kept back."""
    _, secret = tokens.issue("desk", "client", max_unconfirmed=2)
    async with worker(url) as running, RawClient(running.address, "desk", token=secret) as client:
        (topic,) = await client.resolve("a")
        events = await client.create(topic, 1, 2)
        client.send(CreateTimestamps(0, 1, [NewEvent(3, topic.id), NewEvent(4, topic.id)]))
        assert (await client.next(Timestamps)).refused == [3, 4]
        assert await client.create(topic, 1, 2) == events  # what has a number is answered again
        await client.confirm(events[0])
        client.send(CreateTimestamps(0, 1, [NewEvent(3, topic.id), NewEvent(4, topic.id)]))
        answer = await client.next(Timestamps)
        assert ([event.number for event in answer.events], answer.refused) == ([3], [4])


async def test_the_tokens_of_a_name_have_so_many_numbers_open_together(url: str, tokens: TokenStore) -> None:
    """A million of them would fill the worker's memory for ``confirm_timeout``. Admins have no such bound."""
    secrets = [tokens.issue(name, role)[1] for name, role in (("a", "client"), ("a", "client"), ("boss", "admin"))]
    async with worker(url, max_token_unconfirmed=2) as running, AsyncExitStack() as stack:
        one, same, admin = [
            await stack.enter_async_context(RawClient(running.address, f"c{at}", token=secret))
            for at, secret in enumerate(secrets)
        ]
        assert [each.welcome.access.max_owned for each in (one, same, admin)] == [2, 2, 0]
        (topic,) = await one.resolve("a")
        await admin.create(topic, 1, 2, 3)
        await same.create(topic, 1)
        (event,) = await one.create(topic, 1)
        one.send_create(topic, NewEvent(2, topic.id), NewEvent(3, topic.id))
        answer = await one.next(Timestamps)
        assert (answer.events, answer.refused, answer.owned) == ([], [2, 3], 2)
        await one.confirm(event)
        await same.create(topic, 2)


async def test_numbers_that_a_client_only_says_there_are_stop_nobody(url: str, tokens: TokenStore) -> None:
    """R19: neither of a topic here, nor of one further down, whose numbers this stage does not know."""
    journal = SqlJournal(f"{url}2")
    journal.open(2, [["s:a/top"], ["s:a/low"]])
    journal.close()
    opened = Store(f"{url}2")
    _, secret = TokenStore(opened).issue("desk", "client", publish=["s:a/#"])
    opened.close()
    async with worker(f"{url}2", stages=2) as running, RawClient(running.address, "desk", token=secret) as client:
        (top, low) = await client.resolve("a/top", "a/low")
        lies = [NewEvent(1, top.id, [low.id, 10**9]), NewEvent(2, top.id, [top.id, 10**9])]
        client.send_create(top, *lies)
        assert (await client.next(Timestamps)).forgotten == [1, 2]
        assert [event.number for event in await client.create(top, 3)] == [1]


async def test_also_where_the_request_enters_below_its_topics_stage(url: str) -> None:
    """R19: it rides to the stage of its topic, which counts what the session has open there."""
    journal = SqlJournal(url)
    journal.open(2, [["s:top"], ["s:low"]])
    journal.close()
    opened = Store(url)
    _, secret = TokenStore(opened).issue("desk", "client", max_unconfirmed=1)
    opened.close()
    async with worker(url, stages=2) as running, RawClient(running.address, "desk", token=secret) as client:
        (top,) = await client.resolve("top")
        events = [NewEvent(counter, top.id) for counter in (1, 2)]
        client.send(CreateTimestamps(1, 1, events))
        stamped, refused = list[int](), list[int]()
        while len(stamped) + len(refused) < 2:
            answer = await client.next(Timestamps)
            stamped += [event.counter for event in answer.events]
            refused += answer.refused
        assert (stamped, refused) == ([1], [2])


async def test_a_durable_subscription_is_of_the_tokens_of_one_name(url: str, tokens: TokenStore) -> None:
    """Another one neither reads its filters, nor ends it, nor throws its client out; nor after a restart."""
    _, secret = tokens.issue("desk", "client", subscribe=["s:a"])
    _, same = tokens.issue("desk", "client", subscribe=["s:a"])
    _, other = tokens.issue("other", "client", subscribe=["s:#"])
    _, viewer = tokens.issue("eve", "viewer")
    filters = [SpaceFilter("s", exact("a"))]
    async with worker(url) as running, RawClient(running.address, "d", token=secret) as client:
        client.send(Subscribe(1, filters, durable=True))
        await client.next(Subscribed)
        for stranger in (other, viewer):
            failure = await refusal(RawClient(running.address, "d", 2, token=stranger))
            assert (failure.code, failure.message.split(" (")[0]) == (
                "forbidden", "the client id 'd' is another token's",
            )  # fmt: skip
        await client.ping()
    async with worker(url) as running:
        assert (await refusal(RawClient(running.address, "d", 2, token=other))).code == "forbidden"
        async with RawClient(running.address, "d", 3, token=same) as client:
            client.send(AskDurable(1))
            assert (await client.next(Durable)).filters == filters


async def test_who_lost_the_connection_finds_its_client_id_again(url: str, tokens: TokenStore) -> None:
    """Else whoever is quicker would keep it out for good, as long as the session is there; nor after a restart."""
    secret, other = (tokens.issue(name, "client")[1] for name in ("desk", "other"))
    async with worker(url) as running:
        async with RawClient(running.address, "d", token=secret) as client:
            await client.subscribe("a")
        await until(lambda: not running._host.stage(0).inspection.figures().sessions)
        assert "another token's" in (await refusal(RawClient(running.address, "d", 2, token=other))).message
    async with worker(url, session_timeout=0.2, publisher_grace=0.1) as running:
        assert (await refusal(RawClient(running.address, "d", 2, token=other))).code == "forbidden"
        async with RawClient(running.address, "d", token=secret) as client:
            assert client.opened[0].known
        await until(lambda: not running._host.stage(0)._state.sessions)
        async with RawClient(running.address, "d", 2, token=other) as client:
            assert not client.opened[0].known


async def test_what_no_token_has_made_is_for_one_that_may_read_all_of_it(url: str, tokens: TokenStore) -> None:
    """As what a release has made that did not know tokens."""
    _, secret = tokens.issue("desk", "client", subscribe=["s:a/#"])
    _, less = tokens.issue("other", "client", subscribe=["s:a/b"])
    filters = [SpaceFilter("s", filter_of("s", "a/+"))]
    async with worker(url, require_token=False) as running:
        async with RawClient(running.address, "d") as client:
            client.send(Subscribe(1, filters, durable=True))
            await client.next(Subscribed)
        assert (await refusal(RawClient(running.address, "d", 2, token=less))).code == "forbidden"
        async with RawClient(running.address, "d", 2, token=secret) as client:
            client.send(AskDurable(1), Subscribe(1, filters, durable=True))
            assert (await client.next(Durable)).filters == filters
            await client.next(Subscribed)
        assert "another token's" in (await refusal(RawClient(running.address, "d", 3, token=less))).message


async def test_tokens_of_one_name_make_so_many_topics_and_no_more(url: str, tokens: TokenStore) -> None:
    """Nothing of a frame beyond is done; what is there already counts for nobody, also after a restart."""
    secrets = [tokens.issue("desk", "client", max_topics=most)[1] for most in (None, 3, 0)]
    _, admins = tokens.issue("admin", "admin")
    async with worker(url, max_token_topics=3) as running, RawClient(running.address, "x", token=admins) as admin:
        await admin.resolve("old/1", "old/2", "old/3", "old/4")
        async with RawClient(running.address, "a", token=secrets[0]) as client:
            assert client.welcome.access.max_topics == 3
            await client.resolve("old/1", "new/1", "new/2")
            client.send(Resolve(1, [("s", f"new/{number}") for number in range(1, 100)]))
            assert (await client.failure_frame()).message == (
                "the token may make 3 topics; it has made 2, and 97 more are too many"
            )
    async with worker(url) as running, RawClient(running.address, "x", token=admins) as admin:
        async with RawClient(running.address, "b", token=secrets[1]) as client:
            client.send(Subscribe(1, [SpaceFilter("s", exact(name)) for name in ("old/2", "new/3", "new/4")]))
            assert (await client.failure_frame()).code == "forbidden"
            await client.resolve("new/3", "old/4")
        async with RawClient(running.address, "c", token=secrets[2]) as client:
            await client.resolve("new/4", "new/5")
        admin.send(ShowOrder(1))
        names = [each.name for each in (await admin.next(TopicOrder)).topics]
    assert names == ["old/1", "old/2", "old/3", "old/4", "new/1", "new/2", "new/3", "new/4", "new/5"]


async def test_tokens_of_one_name_have_so_many_durable_subscriptions_and_no_more(url: str, tokens: TokenStore) -> None:
    """Whose client is away counts, too, also after a restart; one that is there may change and end, and makes room."""
    secrets = [tokens.issue("desk", "client", max_subscriptions=most)[1] for most in (None, 1, 0)]

    async def asks(running: Worker, client_id: str, secret: str, *, durable: bool = True, version: int = 1) -> Frame:
        async with RawClient(running.address, client_id, token=secret) as client:
            filters = [SpaceFilter("s", exact(f"a/{client_id}"))] if durable or version == 1 else []
            client.send(Subscribe(version, filters, durable=durable))
            while not isinstance(frame := await client.read(), Subscribed | Failure):
                pass
            return frame

    def names(running: Worker) -> list[str]:
        return [manager.name for manager in running._host.stage(0)._state.topics.values()]

    async with worker(url, max_token_subscriptions=2) as running:
        for client_id in ("a", "b"):
            assert isinstance(await asks(running, client_id, secrets[0]), Subscribed)
        refused = await asks(running, "c", secrets[0])
        assert isinstance(refused, Failure)
        assert (refused.code, refused.message) == (
            "forbidden", "the token may have 2 durable subscriptions; it has 2, and one more is too many",
        )  # fmt: skip
        assert names(running) == ["a/a", "a/b"], "nothing of it is done"
        assert isinstance(await asks(running, "c", secrets[0], durable=False), Subscribed)
    async with worker(url) as running:
        assert isinstance(await asks(running, "d", secrets[1]), Failure)
        assert isinstance(await asks(running, "a", secrets[1], version=2), Subscribed), "it is there"
        assert isinstance(await asks(running, "d", secrets[2]), Subscribed)
        for client_id in ("a", "b", "d"):
            assert isinstance(await asks(running, client_id, secrets[1], durable=False, version=3), Subscribed)
        assert isinstance(await asks(running, "e", secrets[1]), Subscribed)


async def test_of_what_clients_report_that_counts_which_their_token_lets_them_see(url: str, tokens: TokenStore) -> None:
    """Operators are shown lives and waits of events beside what others tell of them."""
    _, secret = tokens.issue("desk", "client", publish=["s:mine"], subscribe=["s:read"])
    _, looking = tokens.issue("eve", "viewer")
    _, admins = tokens.issue("admin", "admin")
    async with worker(url) as running, RawClient(running.address, "x", token=admins) as admin:
        mine, read, theirs = [each.id for each in await admin.resolve("mine", "read", "theirs")]
        lives = [EventLife(topic, 1, [1, 2, 3]) for topic in (mine, read, theirs, 99)]
        lives += [EventLife(topic, 1, [1, 2], "late") for topic in (mine, read, theirs, 99)]
        lives += [EventLife(read, 2, [1, 2], "in_order", topic, 1) for topic in (read, theirs)]
        waits = [Wait(topic, 1, first, 1, 1, 1) for topic in (read, theirs) for first in (read, theirs)]
        waits.append(Wait(99, 0, read, 1, 1, 1))
        for client_id, token in (("a", secret), ("b", looking)):
            async with RawClient(running.address, client_id, token=token) as client:
                client.send(Report(1, True, ClientCounts(published=7), lives=lives, waits=waits))
                await client.next(Reported)
                admin.send(ShowReports(1))
                shown = await admin.next(Reports)
                told = next(each for each in shown.clients if each.client_id == client_id)
                assert (told.counts.published, told.waits) == (7, [waits[0], waits[4]] if token == secret else [])
        assert {each.client_id for each in shown.lives} == {"a"}
        seen = [(each.life.topic, each.life.verdict, each.life.waited_topic) for each in shown.lives]
    assert seen == [(mine, "", 0), (read, "late", 0), (read, "in_order", read)]
