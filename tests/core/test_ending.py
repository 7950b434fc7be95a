"""Topics under wildcards end when they got no number for long, and nothing is left of them, at stages and clients."""

from __future__ import annotations

import gc
from collections.abc import Iterable

import pytest
from tests.core.cluster import wild
from tests.core.table import Table

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import Mode
from inorder.protocol.names import exact
from inorder.protocol.wire import Frame, Moved, NewEvent, Timestamps
from inorder_worker.sequencer.commands import Create, SaveNumbers, StageSettings
from inorder_worker.sequencer.ending import Ending
from inorder_worker.sequencer.retiring import LOOKS, PAUSE_MS
from inorder_worker.sequencer.stage import Stage

TTL, LINGER = 8.0, 1.0
SETTINGS = StageSettings(
    topic_ttl_ms=int(TTL * 1000), linger_ms=int(LINGER * 1000), confirm_timeout_ms=3_600_000, session_timeout_ms=60_000
)


class Plant(Table):
    """A publisher ``p``, readers of everything, and topics that come and go."""

    def __init__(self, *readers: str, stages: int = 1, modes: Iterable[Mode] = ()) -> None:
        super().__init__({"kept": stages - 1}, SETTINGS)
        self.bottom._state.pins.add(1)
        self.join("p")
        given = iter(modes)
        for reader in readers:
            self.join(reader, next(given, "strict"))
            self.clients[reader].change({wild("#")})
        self.talk()

    @property
    def bottom(self) -> Stage:
        return self.stages[-1]

    def talk(self) -> None:
        """All that is to be said between clients and stages is said."""
        for _ in range(2):
            self.collect()
            self.settle_down()
            for client in self.clients.keys() - self.away:
                self.put_questions(client)
            self.collect()
            self.settle_down()

    def publish(self, label: str, topic: str, *readers: str, by: str = "p") -> None:
        """Publish an event that the broker accepts and these readers get."""
        self.clients[by].publish(label, topic)
        self.talk()
        self.clients[by].accepted(label)
        for reader in readers:
            self.deliver(label, reader)
        self.talk()

    def idle(self, seconds: float = TTL * (1 + 2 / LOOKS)) -> None:
        """Let so much time pass that what may end does, as far as all readers have heard of it and said so."""
        for _ in range(round(seconds * LOOKS / TTL) + 1):
            self.wait(TTL / LOOKS)
            self.talk()
        self.ids = {name: topic for name, topic in self.ids.items() if self.bottom.stage_of(topic) is not None}

    def known(self) -> list[set[str]]:
        """Return the topics of each stage, but for the one that is there from the beginning."""
        return [{each.name for each in stage._state.topics.values()} - {"kept"} for stage in self.stages]


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("modes", [("strict", "strict"), ("tag", Bounded(buffer=3))])
def test_a_topic_that_all_have_read_ends_though_wildcards_cover_it(stages: int, modes: tuple[Mode, ...]) -> None:
    plant = Plant("a", "b", stages=stages, modes=modes)
    plant.publish("x", "job/1", "a", "b")
    assert plant.known() == [{"job/1"}] * stages
    plant.idle()
    assert plant.known() == [set()] * stages
    for client in plant.clients.values():
        assert not any("job/1" in str(each) for each in (client.endpoint.describe(), client.publisher.describe()))
    plant.publish("y", "job/1", "a", "b")
    plant.publish("z", "job/1", "a", "b")
    assert [plant.clients[each].words for each in ("a", "b")] == [["x", "y", "z"]] * 2
    assert (plant.messages["y"].number, plant.messages["z"].number) == (1, 2)
    assert plant.messages["y"].topic != plant.messages["x"].topic


def test_it_ends_when_it_was_idle_for_long_enough_and_not_sooner() -> None:
    plant = Plant("a")
    for label in "xyz":
        plant.publish(label, "job/1", "a")
        plant.idle(TTL - 2 * TTL / LOOKS)
        assert plant.known() == [{"job/1"}]
    plant.idle(4 * TTL / LOOKS)
    assert plant.known() == [set()]


def test_a_reader_that_lacks_some_of_it_holds_it_up_and_so_does_one_that_is_away() -> None:
    plant = Plant("a", "b")
    plant.publish("x", "job/1", "a")
    plant.leave("b")
    plant.idle()
    assert plant.known() == [{"job/1"}]
    plant.reconnect("b")
    plant.talk()
    assert plant.known() == [{"job/1"}]
    plant.deliver("x", "b")
    plant.talk()
    assert plant.known() == [set()]
    assert plant.clients["b"].words == ["x"]


def test_a_lost_event_is_reported_before_its_topic_ends() -> None:
    plant = Plant("a")
    plant.publish("x", "job/1")
    plant.clients["a"].arriving.clear()
    plant.tell_heads("a")
    plant.talk()
    for _ in range(20):
        plant.wait(1.0)
        plant.put_questions("a")
        plant.talk()
    assert plant.clients["a"].words == ["gap job/1 1 lost"]
    plant.idle()
    assert plant.known() == [set()]


def test_who_is_told_the_end_twice_or_misses_it_forgets_the_topic_when_it_is_back() -> None:
    plant = Plant("a", "b")
    plant.publish("x", "job/1", "a", "b")
    for _ in range(LOOKS + 2):
        plant.wait(TTL / LOOKS)
    for client in "ab":
        plant.arrive_answer(0, client)  # it ends
        plant.arrive_request(client, 0)
    assert plant.known() == [set()]
    plant.leave("b")
    plant.talk()
    assert "job/1" in str(plant.clients["b"].endpoint.describe())
    plant.reconnect("b")
    plant.talk()
    for client in "ab":
        assert "job/1" not in str(plant.clients[client].endpoint.describe())


def test_what_has_the_name_again_follows_what_is_not_read_yet() -> None:
    """A alone reads: no group orders the two, which are of different publishers."""
    plant = Plant("a")
    plant.join("q")
    plant.publish("x", "job/1")
    plant.idle()
    assert plant.known() == [{"job/1"}]
    plant.publish("y", "job/1", "a", by="q")
    assert plant.clients["a"].words == []
    plant.deliver("x", "a")
    assert plant.clients["a"].words == ["x", "y"]


def test_r19_a_publisher_that_knows_the_old_topic_asks_anew_and_keeps_its_order() -> None:
    """Also what it published at once behind that, on another topic."""
    plant = Plant("a", "b")
    plant.join("q")
    plant.publish("x", "job/1", "a", "b")
    plant.publish("w", "job/2", "a", "b", by="q")
    plant.clients["p"].publish("v", "job/2")  # so p knows both
    plant.talk()
    plant.clients["p"].accepted("v")
    for reader in "ab":
        plant.deliver("v", reader)
    plant.clients["p"].lost()  # hears nothing of the end
    plant.leave("p")
    plant.idle()
    assert plant.known() == [set()]
    plant.reconnect("p")
    plant.talk()
    for label, topic in (("y", "job/1"), ("z", "job/2"), ("k", "kept")):
        plant.clients["p"].publish(label, topic)
    plant.talk()
    assert not plant.clients["p"].failed
    for reader in "ab":
        for label in ("k", "z", "y"):
            plant.deliver(label, reader)
    plant.talk()
    assert [plant.clients[each].words[-3:] for each in "ab"] == [["y", "z", "k"]] * 2


def test_a_release_of_the_client_that_does_not_know_of_ends_keeps_its_topics() -> None:
    """As reader and as publisher; of one that it has not used it is told ``forgotten``, and is never left waiting."""
    plant = Plant("a")
    plant.publish("x", "job/1", "a")
    for session in plant.bottom._state.sessions.values():
        session.refusals = -1
    plant.idle()
    assert plant.known() == [{"job/1"}]
    del plant.bottom._state.sessions["p", 1].used[plant.messages["x"].topic]
    plant.idle()
    assert plant.known() == [set()]
    plant.open("old")
    frames = plant.step(0, Create("old", 1, 1, [NewEvent(1, plant.messages["x"].topic), NewEvent(2, 1)]))
    assert [
        (each.forgotten, [it.counter for it in each.events]) for each in frames if isinstance(each, Timestamps)
    ] == [
        ([1], []),
        ([], [2]),
    ]
    assert not any(isinstance(each, Moved) for each in frames)
    plant.change("old", wild("#"), version=1)
    plant.publish("y", "job/1", "a")
    plant.idle()
    assert plant.known() == [{"job/1"}]


def test_r19_of_a_frame_what_is_behind_the_first_request_of_an_ended_topic_gets_no_number() -> None:
    """Nor does a later frame, until its client has heard of that; a frame without requests is no such frame."""
    plant = Plant("a")
    plant.publish("x", "job/1", "a")
    plant.idle()
    assert plant.known() == [set()]
    plant.open("q")
    over, kept = plant.messages["x"].topic, 1

    def asked(*topics: int, first: int, refusals: int) -> list[Frame]:
        events = [NewEvent(first + at, topic) for at, topic in enumerate(topics)]
        return plant.step(0, Create("q", 1, 1, events, refusals=refusals))

    made, refused = asked(kept, over, kept, over, first=1, refusals=0)
    assert isinstance(made, Timestamps)
    assert [each.counter for each in made.events] == [1]
    assert isinstance(refused, Moved)
    assert (refused.ended, refused.refusals, refused.first) == ([over], 1, 2)
    (refused,) = asked(kept, first=5, refusals=0)
    assert isinstance(refused, Moved)
    assert (refused.ended, refused.refusals, refused.first) == ([], 1, 5)
    assert asked(first=6, refusals=0) == []
    (made,) = asked(kept, kept, first=2, refusals=1)
    assert isinstance(made, Timestamps)
    assert [each.counter for each in made.events] == [2, 3]


def test_a_topic_that_is_named_pinned_or_lingers_stays() -> None:
    plant = Plant("a")
    for label, topic in (("x", "job/1"), ("y", "job/2"), ("z", "job/3")):
        plant.publish(label, topic, "a")
    plant.join("n")
    plant.clients["n"].change({exact("job/1")})
    plant.talk()
    plant.bottom._state.pins.add(plant.messages["y"].topic)
    plant.idle()
    assert plant.known() == [{"job/1", "job/2"}]
    plant.clients["n"].change(set())
    plant.bottom._state.pins.clear()
    plant.talk()
    assert plant.known() == [{"job/1", "job/2"}]
    plant.idle()
    plant.idle()
    assert plant.known() == [set()]


def test_a_late_copy_of_a_topic_that_has_ended_is_from_before() -> None:
    """A stored one is shown as such (R5): whoever subscribes asked the broker for it."""
    plant = Plant("a")
    plant.publish("x", "job/1", "a")
    plant.idle()
    plant.join("b")
    plant.clients["b"].change({wild("#")})
    plant.talk()
    for kept in (False, True):
        plant.deliver("x", "b", kept=kept)
        plant.put_questions("b")
    assert plant.clients["b"].words == ["x retained"]
    assert plant.clients["b"].module.counts.before == 1


def test_r13_an_owner_may_make_as_many_topics_again() -> None:
    plant = Plant()
    plant.bottom._state.sessions["p", 1].owner = "o"
    plant.publish("x", "job/1")
    assert (plant.bottom._state.made, plant.bottom._state.made_bytes) == ({"o": 1}, {"o": 5})
    plant.idle()
    assert (plant.bottom._state.made, plant.bottom._state.made_bytes) == ({"o": 0}, {"o": 0})


@pytest.mark.parametrize("cut", range(0, 14, 2))
def test_a_stage_that_recovers_at_any_moment_goes_on(cut: int) -> None:
    plant = Plant("a", "b", stages=2)
    plant.publish("x", "job/1", "a", "b")
    plant.publish("y", "job/2", "a")
    for at in range(14):
        plant.wait(TTL / LOOKS)
        if at == cut:
            plant.restore(1)
            for client in plant.clients:
                plant.reconnect(client)
        plant.talk()
    assert plant.known() == [{"job/2"}] * 2
    plant.deliver("y", "b")
    plant.talk()
    assert plant.known() == [set()] * 2
    assert [plant.clients[each].words for each in "ab"] == [["x", "y"]] * 2


def _objects_after(jobs: int, plant: Plant, done: int) -> int:
    """Return how many objects there are after so many more jobs, of three events each."""
    for at in range(done, done + jobs):
        for step in range(3):
            plant.publish(f"{at}.{step}", f"job/{at}/done", "a")
        if at % 50 == 49:
            plant.idle()
            for client in plant.clients.values():  # what only this test keeps
                client.words, client.stamped, client.publications, client.labels = [], [], {}, {}
                client.history.notified.clear()
                client.history.spans.clear()
            plant.messages.clear()
            plant.bottom.changed_heads()
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize("jobs", [50, pytest.param(12_500, marks=pytest.mark.long)])
def test_short_lived_topics_under_a_wildcard_leave_nothing_behind(jobs: int) -> None:
    """At the stage, the reader and the publisher together: not one object for five topics."""
    plant = Plant("a")
    before = _objects_after(jobs, plant, 0)
    after = _objects_after(3 * jobs, plant, jobs)
    assert plant.known() == [set()]
    assert after - before < 3 * jobs / 5
    assert len(plant.bottom.snapshot()) < 2_000


def test_one_reader_that_says_nothing_keeps_no_topics_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own topics end first, and are more than may end at once."""
    monkeypatch.setattr(Ending, "at_once", 2)
    plant = Plant("b")
    plant.join("mute")
    for client, text in (("b", "job/#"), ("mute", "x/#")):
        plant.clients[client].change({wild(text)})
    plant.talk()
    plant.idle(4 * LINGER)  # what has begun by # lingers no more
    for name in ("x/1", "x/2", "x/3"):
        plant.publish(name, name)
    plant.idle()
    plant.publish("y", "job/1")
    plant.idle()
    plant.clients["b"].change(set())
    plant.talk()
    plant.idle()
    assert plant.known() == [{"x/1", "x/2", "x/3"}]


def test_of_clients_that_came_and_left_nothing_is_kept_with_a_topic_that_ends() -> None:
    plant = Plant("mute")
    plant.publish("x", "job/1")
    plant.idle()
    topic = plant.ids["job/1"]
    for client in map(str, range(9)):
        plant.join(client)
        plant.clients[client].change({wild("job/#")})
        plant.talk()
        plant.step(0, SaveNumbers(client, plant.clients[client].incarnation, 7, [topic, 1]))
        assert client in plant.bottom._state.endings[topic]
        plant.clients[client].change(set())
        plant.talk()
        plant.idle(2 * LINGER)
    assert len(plant.bottom._state.endings[topic]) <= 2


def test_a_stage_knows_which_topics_have_ended() -> None:
    """From their ids alone, which are given once, the first one, too."""
    plant = Plant("a")
    plant.bottom._state.pins.clear()
    plant.idle()
    assert [plant.bottom._state.has_ended(topic) for topic in (0, 1, 2)] == [False, True, False]


def test_more_topics_than_may_end_with_one_look_end_a_little_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inorder_worker.sequencer.ending.WORK", 0)
    plant = Plant("a")
    for at in range(17):
        plant.publish(f"x{at}", f"job/{at}", "a")
    state = plant.bottom._state
    while not state.endings:
        plant.wait(TTL / LOOKS)
    assert len(state.endings) == 16
    assert plant.bottom.next_deadline() == state.now + PAUSE_MS
    plant.wait(PAUSE_MS / 1000)
    assert len(state.endings) == 17
