"""Answers to complete subscription changes: clocks (R7), bases (R8), resumes (R18), and what is left (R22)."""

from __future__ import annotations

from collections.abc import Container

import msgspec
from msgspec.structs import replace

from inorder.protocol.pairs import pairs
from inorder.protocol.wire import SharedBase, Subscribed, TopicStart
from inorder_worker.sequencer.bases import shared_bases
from inorder_worker.sequencer.ending import tell_ends
from inorder_worker.sequencer.resuming import begun_by, keep_clock, saved_ticks, start_of
from inorder_worker.sequencer.rides import SubscribedRide
from inorder_worker.sequencer.sequencing import Subscription
from inorder_worker.sequencer.state import MAX_ENTRIES, Outbox, StageState

PARTS_OF_A_START = 20
"""What a topic's start without base and name is reckoned at, against ``MAX_ENTRIES``."""
PART_BYTES = 9
"""Bytes of a name that count for one: as many as an entry takes at most."""

_ENCODER = msgspec.msgpack.Encoder()
_ANSWERED = msgspec.msgpack.Decoder(tuple[SubscribedRide, list[SharedBase]])


class Answers:
    """The part of the bottom stage that tells clients where the topics of their subscriptions begin."""

    def __init__(self, state: StageState, outbox: Outbox) -> None:
        self._state, self._outbox = state, outbox

    def completed(self, ride: SubscribedRide) -> None:
        """The completed clock is back at the bottom stage: answer the client (R7).

        A client that goes on with some topics, and begins or leaves others, gets the same answer whenever it asks
        again. Up to the change events of topics that it leaves stand for others, also when their linger is over; since
        then events of topics that it begins do, for it has counted as a reader of these (R22). *Counter-example:* s
        has T and u, and begins v. The answer is lost. Now y on v follows x on u, and z on T follows y: z need not name
        x. If s began v behind y then, it might see z, x.
        """
        state, known = self._state, self._state.overlaps.get(ride.client_id)
        ride = _without_ended(ride, state.topics)
        is_current = known is not None and (known.incarnation, known.version) == (ride.incarnation, ride.version)
        if known is not None and is_current and known.answered:
            return  # it was asked for twice while it rode, and whoever asks from now on gets the same answer
        topics, bases = self._starts(ride), shared_bases(state, begun_by(ride), ride.kept)
        keep_clock(state, ride)
        if known is not None and is_current:
            self._remember(known, ride, bases)
        self._answer(ride, topics, bases)

    @staticmethod
    def _remember(known: Subscription, ride: SubscribedRide, bases: list[SharedBase]) -> None:
        if ride.left or 0 < len(ride.fresh) < len(ride.topics):
            known.answered = _ENCODER.encode((ride, bases))

    def again(self, known: Subscription) -> None:
        """Answer a change as before (R11)."""
        ride, bases = _ANSWERED.decode(known.answered)
        ride = _without_ended(ride, self._state.topics)
        self._answer(ride, self._starts(ride), bases)

    def _starts(self, ride: SubscribedRide) -> list[TopicStart]:
        state, clocks, bases = self._state, dict(pairs(ride.starts)), ride.bases
        starts = [TopicStart(state.info(topic), clocks[topic], bases.get(topic) or []) for topic in ride.topics]
        if not ride.resumed:
            return starts
        found = {each.topic: each for each in ride.resumed}
        return [start_of(state, ride, start, found.get(start.topic.id)) for start in starts]

    def _answer(self, ride: SubscribedRide, topics: list[TopicStart], bases: list[SharedBase]) -> None:
        state, clocks = self._state, dict(pairs(ride.starts)) if ride.left else {}
        left = [TopicStart(state.info(topic), clocks[topic], []) for topic in ride.left]
        reached = saved_ticks(state, ride)
        answer, room = Subscribed(ride.version, [], more=True, left=[], reached=reached, bases=[]), MAX_ENTRIES
        for at, start in enumerate([*topics, *left]):
            if room < 0:
                self._outbox.reply(ride.client_id, ride.incarnation, answer)
                answer, room = Subscribed(ride.version, [], more=True, left=[], bases=[]), MAX_ENTRIES
            (answer.topics if at < len(topics) else answer.left).append(start)
            room -= PARTS_OF_A_START + len(start.base) + len(start.topic.name.encode()) // PART_BYTES
        for base in bases:
            if room < 0:
                self._outbox.reply(ride.client_id, ride.incarnation, answer)
                answer, room = Subscribed(ride.version, [], more=True, left=[], bases=[]), MAX_ENTRIES
            answer.bases.append(base)
            room -= len(base.topics) + len(base.numbers)
        answer.more = False
        self._outbox.reply(ride.client_id, ride.incarnation, answer)
        tell_ends(state, self._outbox, ride.client_id, ride.topics)


def _without_ended(ride: SubscribedRide, topics: Container[int]) -> SubscribedRide:
    """Return a ride without the topics that have ended since it began."""
    lists = ([each for each in every if each in topics] for every in (ride.topics, ride.left, ride.fresh))
    return replace(ride, **dict(zip(("topics", "left", "fresh"), lists, strict=True)))
