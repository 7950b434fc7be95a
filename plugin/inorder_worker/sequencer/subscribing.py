"""Topics and subscriptions riding the belt: R7 (subscribe), R8 (bases), R10 (linger), R11 (versions), R12 (expiry),
R13 (filters).

Every change enters at the bottom stage and passes every stage to the top, so that each stage sees topics,
subscriptions and timestamps in one order.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec.structs import replace

from inorder.protocol.covering import Coverage
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import Failure, TopicInfo, Topics
from inorder_worker.sequencer.answers import Answers
from inorder_worker.sequencer.bases import add_reached, kept_by
from inorder_worker.sequencer.bits import bit_set
from inorder_worker.sequencer.commands import ChangeSubscription, CreateTopics, Place
from inorder_worker.sequencer.ending import let_follow
from inorder_worker.sequencer.filling import owed_by
from inorder_worker.sequencer.lingers import Linger, Lingers
from inorder_worker.sequencer.partings import Parting
from inorder_worker.sequencer.quotas import subscription_refusal, topics_made, topics_refusal
from inorder_worker.sequencer.resuming import (
    resume,
    saved_for,
    topics_created,
)
from inorder_worker.sequencer.rides import ExpireRide, LingerEndRide, SubscribedRide, SubscriptionRide, TopicRide
from inorder_worker.sequencer.sequencing import Subscription
from inorder_worker.sequencer.state import Outbox, StageState
from inorder_worker.sequencer.telling import hear, places
from inorder_worker.sequencer.ticks import announced
from inorder_worker.sequencer.topic_manager import Session

LINGERS_UNCHECKED = 1_000
"""So many of them may be over before that is looked at."""
LINGER_COST = 500
"""Of the end of a linger, where each of its topics costs 1."""
LINGER_PAUSE_MS = 50
"""Between two ticks that end lingers, so that commands of clients come between them."""


class Subscribing:
    """The department of a stage that keeps topics and subscriptions."""

    def __init__(self, state: StageState, outbox: Outbox) -> None:
        self._state, self._outbox, self.answers = state, outbox, Answers(state, outbox)
        # when the next tick goes on, and what this one has done: no part of the state, as each does what it finds
        self._resume_at = self._worked = 0

    def command(self, command: CreateTopics | ChangeSubscription | Place) -> None:
        """A command of this department."""
        match command:
            case CreateTopics():
                self.create_topics(command)
            case ChangeSubscription():
                self.change(command)
            case Place():
                self.place(command.topics)

    # -- topics (R13) ------------------------------------------------------------------------------------------

    def place(self, topics: list[TopicInfo]) -> None:
        """Take the topic order that a new store begins with."""
        for info in topics:
            self._state.add_topic(info)

    def create_topics(self, command: CreateTopics) -> None:
        """Answer with the ids of topics, creating those that are new; or refuse to create any."""
        session = self._state.sessions.get((command.client_id, command.incarnation))
        if self._is_refused(session, topics_refusal(self._state, session, command.topics)):
            return
        ids = self._resolve(command.topics, session)
        answer = Topics(command.request, [self._state.info(topic) for topic in ids], self._state.order_epoch)
        self._outbox.reply(command.client_id, command.incarnation, answer)

    def _is_refused(self, session: Session | None, why: str) -> bool:
        """Tell a session's client why nothing of what it asked for is done, if there is a reason."""
        if session is not None and why:
            self._outbox.reply(session.client_id, session.incarnation, Failure("forbidden", why))
        return bool(why)

    def _resolve(self, names: Iterable[tuple[str, str]], session: Session | None) -> list[int]:
        state = self._state
        ids: list[int] = []
        new: list[TopicInfo] = []
        for space, name in names:
            topic = state.by_name.get((space, name))
            if topic is None or topic in state.endings:
                before, topic = state.topics.get(topic or 0), state.last_topic + 1
                info = TopicInfo(topic, space, name, state.index)
                let_follow(state.add_topic(info), before)
                new.append(info)
            ids.append(topic)
        if new:
            owner = topics_made(state, session, ((each.space, each.name) for each in new))
            for each in new:
                state.topics[each.id].owner = owner
            self.topics_created(new)
        return ids

    def topics_ride(self, ride: TopicRide) -> None:
        """New topics come up the belt."""
        for info in ride.topics:
            self._state.add_topic(info)
        self.topics_created(ride.topics)

    def topics_created(self, topics: list[TopicInfo]) -> None:
        """Add new topics, with clock 0, to the subscriptions with a filter that covers them, and send the topics up."""
        state = self._state
        alike: dict[Coverage, list[Subscription]] = {}
        for subscription, coverage in state.overlaps.with_wildcards():
            alike.setdefault(coverage, []).append(subscription)
        for coverage, subscriptions in alike.items():
            gained, plain = coverage.of(topics)
            if gained:
                for subscription in subscriptions:
                    subscription.active |= gained
                    subscription.plain |= plain
                    topics_created(state, subscription, gained)
                state.overlaps.gained(subscriptions, bit_set(gained), bit_set(plain))
        if self._state.index > 0:
            self._outbox.up(TopicRide(topics))

    # -- subscriptions (R7) ------------------------------------------------------------------------------------

    def change(self, command: ChangeSubscription) -> None:
        """A client's whole new subscription arrives at the bottom stage (R11: a lower version is ignored, an equal
        one is answered again)."""
        state = self._state
        known = state.overlaps.get(command.client_id)
        same = known is not None and known.incarnation == command.incarnation
        if known is not None and same and command.version < known.version:
            return
        names = [(each.space, each.filter.name) for each in command.filters if each.filter.kind == "exact"]
        session = state.sessions.get((command.client_id, command.incarnation))
        why = topics_refusal(state, session, names) or subscription_refusal(state, session, command)
        if self._is_refused(session, why):
            return
        if known is not None and same and command.version == known.version and known.answered:
            self.answers.again(known)
            return
        self._resolve(names, session)
        coverage = state.overlaps.coverage_of(command.filters)
        topics, plain = self._covered(command, coverage)
        fresh = topics
        saved, is_new = saved_for(state, command, topics)
        if known is not None and same and command.version > known.version and not command.anew:
            fresh = topics - known.active
        self.ride(
            SubscriptionRide(
                client_id=command.client_id,
                incarnation=command.incarnation,
                version=command.version,
                filters=command.filters,
                bounded=command.bounded,
                topics=sorted(topics),
                plain=sorted(plain),
                fresh=sorted(fresh),
                starts=[],
                bases={},
                durable=command.durable,
                saved=saved,
                is_new=is_new,
                owner="" if session is None else session.owner,
                left=_left_by(command, known, topics) if same else [],
                goes_on=known is not None and ((known.durable and command.durable) or (same and not command.anew)),
                lets_go=command.lets_go,
            )
        )

    def _covered(self, command: ChangeSubscription, coverage: Coverage | None) -> tuple[set[int], set[int]]:
        """Return the covered topics, and the topics among them whose stamps must be in the payload."""
        topics: set[int] = set()
        plain: set[int] = set()
        exact = {(each.space, each.filter.name): each for each in command.filters if each.filter.kind == "exact"}
        for key, each in exact.items():
            topic = self._state.by_name[key]
            topics.add(topic)
            if not each.reads_properties:
                plain.add(topic)
        if coverage is not None:
            state = self._state
            covered, covered_plain = state.overlaps.covered(coverage, state.topics, state.last_topic)
            topics |= covered
            plain |= covered_plain
        return topics, plain

    def ride(self, ride: SubscriptionRide) -> None:
        """A subscription passes this stage: remember it, add clocks and bases, send it on or answer (R7)."""
        state = self._state
        # a copy: the stage below keeps this ride until it is durable here, and may send it again
        ride = replace(ride, starts=list(ride.starts), bases=dict(ride.bases), resumed=list(ride.resumed))
        ride.kept, ride.passed = list(ride.kept), list(ride.passed)
        self._announce(ride)
        self._resume(ride)
        kept = kept_by(ride, state.overlaps.get(ride.client_id))
        add_reached(state, ride, kept)
        # lingering topics form pairs with the new ones (R10), so stages above must know their numbers as well
        lingering = self._remember(ride, kept)
        for topic in [*ride.topics, *lingering]:
            if state.topics[topic].stage == state.index:
                ride.starts += (topic, state.topics[topic].number)
        if state.index > 0:
            self._outbox.up(ride)
            return
        done = SubscribedRide(
            ride.client_id,
            ride.incarnation,
            ride.version,
            ride.topics,
            ride.starts,
            ride.bases,
            ride.resumed,
            ride.left,
            ride.fresh,
            ride.kept,
        )
        if state.is_bottom:
            self.answers.completed(done)
        else:
            self._outbox.send(state.count - 1, done)

    def _resume(self, ride: SubscriptionRide) -> None:
        """R18: a durable subscription finds out where it resumes in topics of this stage."""
        topics, known = self._state.topics, self._state.overlaps.get(ride.client_id)
        for topic, number in pairs(ride.saved):
            if topics[topic].stage == self._state.index:
                ride.resumed.append(resume(topics[topic], number, known, is_new=ride.is_new))

    def _announce(self, ride: SubscriptionRide) -> None:
        """R7: ``LLC = max(LLC, clock)`` for topics of the subscription on stages below. What passes here from now on is
        behind that (R23). Stages above are told where the last events of those on this one passed, before the
        subscription itself begins any (R22)."""
        state, known = self._state, self._state.overlaps.get(ride.client_id)
        hear(state, (each for each in pairs(ride.starts) if each[1] > state.topics[each[0]].number), ride.passed)
        if state.index > 0:
            topics = set(ride.topics) if known is None else {*ride.topics, *known.active, *known.lingering}
            here = (its for topic in sorted(topics) if (its := state.topics[topic]).stage == state.index)
            ride.passed += places(state, here)
        ride.ticks = announced(state, ride.ticks)

    def _remember(self, ride: SubscriptionRide, kept: set[int]) -> Iterable[int]:
        """Store the changed subscription; return its lingering topics."""
        state = self._state
        state.begun = state.tick
        known = state.overlaps.get(ride.client_id)
        lingering: dict[int, tuple[int, int]] = {}
        if known is not None:
            wanted = set(ride.topics)
            lingering = {topic: at for topic, at in known.lingering.items() if topic not in wanted}
            dropped = known.active - wanted
            if dropped:
                lingering |= dict.fromkeys(dropped, (ride.incarnation, ride.version))
                self._linger(ride.client_id, ride.incarnation, ride.version)
            self._begin(known, wanted - known.active, kept.union(lingering))
            if known.incarnation not in (ride.incarnation, 0) and known.active:
                self._replace(known)
        state.overlaps.put(
            Subscription(
                ride.client_id,
                ride.incarnation,
                ride.version,
                ride.filters,
                ride.bounded,
                set(ride.topics),
                set(ride.plain),
                lingering,
                ride.durable,
                owner=ride.owner,
                lets_go=ride.lets_go,
            )
        )
        self._forget_lingers()
        return lingering

    def _begin(self, known: Subscription, begun: set[int], kept: set[int]) -> None:
        """Note that a subscriber with other topics begins some. The next timestamp of each must tell all that he was
        notified of (R21), and an event that he does not get stands for none that he gets (R22)."""
        state = self._state
        if known.active or known.lingering:
            for topic in begun:
                state.topics[topic].filled = 0
            state.growths.note(state.tick, bit_set(kept), bit_set(begun))

    def _replace(self, known: Subscription) -> None:
        """An earlier incarnation that does not know of its successor goes on notifying while its lease lasts (R12). So
        long its topics linger as those of a subscriber of its own."""
        change = known.incarnation, known.version
        former = f"{known.client_id}\n{known.incarnation}"
        lingering = dict.fromkeys(known.active, change)
        self._state.overlaps.put(
            Subscription(former, *change, [], known.bounded, set(), known.plain, lingering, is_former=True)
        )
        self._linger(former, *change, self._state.settings.session_timeout_ms)

    def _linger(self, client_id: str, incarnation: int, version: int, at_least: int = 0) -> None:
        """Topics that a change dropped linger from now on (R10)."""
        state = self._state
        if state.is_bottom:
            due = state.now + max(state.settings.linger_ms, at_least)
            state.lingers.add(Linger(due, client_id, incarnation, version))

    # -- linger (R10) ------------------------------------------------------------------------------------------

    def _forget_lingers(self) -> None:
        """Forget the lingers of topics that were taken again, so that a client's lingers are bounded by its topics."""
        state = self._state
        if len(state.lingers) > LINGERS_UNCHECKED + 2 * state.lingering:
            alive = {(known.client_id, *change) for known in state.overlaps for change in known.lingering.values()}
            state.lingers = Lingers(
                each for each in state.lingers if (each.client_id, each.incarnation, each.version) in alive
            )
            state.lingering = len(state.lingers)

    def end_lingers(self) -> None:
        """Send the due ends of lingers up the belt, as many as one tick may do; at the bottom stage only. The others
        linger longer, which is always safe (R10): clients that leave ten thousand topics must not stop a stage."""
        state = self._state
        self._resume_at = self._worked = 0
        while (ended := state.lingers.take_due(state.now)) is not None:
            self.linger_ended(LingerEndRide(ended.client_id, ended.incarnation, ended.version))
            if self._worked > state.settings.linger_work:
                self._resume_at = state.now + LINGER_PAUSE_MS
                break

    def next_deadline(self) -> int | None:
        """Return the stage time at which lingers end next."""
        due = self._state.lingers.next_deadline()
        return None if due is None else max(due, self._resume_at)

    def linger_ended(self, ride: LingerEndRide) -> None:
        """Dropped topics stop counting; what leaves a sequencing group by it is carried once more."""
        state = self._state
        known, change = state.overlaps.get(ride.client_id), (ride.incarnation, ride.version)
        self._worked += LINGER_COST
        if known is not None and (ended := [topic for topic, at in known.lingering.items() if at == change]):
            self._worked += len(ended)
            for topic in ended:
                del known.lingering[topic]
            dropped = bit_set(ended)
            bare, owed = owed_by(state, state.overlaps.had(known) & ~dropped)
            self._worked += len(owed) * LINGER_COST
            state.partings.note(Parting(state.tick, state.overlaps.lost(known, dropped), dropped, bare, owed))
        if state.index > 0:
            self._outbox.up(ride)

    # -- expiry (R12) ------------------------------------------------------------------------------------------

    def expired(self, ride: ExpireRide) -> None:
        """A subscription ends with all its topics; they linger (R10), because its client has notified of events up to
        here, and may come back for other topics: it is the same subscriber. *Counter-example:* A={a}, B={a,b}; x on a
        reaches A; A expires and comes back with b; y on b; A: x, y; B may see y, x.

        What is left is nobody's subscription: no session has incarnation 0.
        """
        state = self._state
        known, change = state.overlaps.get(ride.client_id), (ride.incarnation, ride.version)
        if known is not None and (known.incarnation, known.version) == change:
            if known.active:
                self._linger(ride.client_id, *change)
            state.clocks.pop(ride.client_id, None)
            lingering = known.lingering | dict.fromkeys(known.active, change)
            state.overlaps.put(
                Subscription(ride.client_id, 0, 0, [], known.bounded, active=set(), plain=set(), lingering=lingering)
            )
        if state.index > 0:
            self._outbox.up(ride)


def _left_by(command: ChangeSubscription, known: Subscription | None, topics: Container[int]) -> list[int]:
    """Return the topics that a client leaves with this change (R22). Where the client begins anew these are also the
    topics of earlier changes, whose answers may never reach it."""
    if known is None:
        return []
    lingering = known.lingering if command.anew else ()
    return sorted(each for each in {*known.active, *lingering} if each not in topics)
