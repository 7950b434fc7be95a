"""A survey of the workers for one answer: topics with their subscribers and logs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property

from inorder.protocol.wire import KnownSubscription, LogRule, TopicInfo, TopicOrder
from inorder_controlplane import sharing
from inorder_controlplane.models.common import answer
from inorder_controlplane.models.topics import TopicRef
from inorder_worker.admin import Cluster, TopicState
from inorder_worker.sequencer.log_rules import LogRules


class Survey:
    """The workers' answers, combined; :meth:`take` makes it.

    The workers are asked one question beside the other, so parts may be a moment apart.

    Attributes:
        states: of each topic, by id, in the topic order.
        subscriptions: with total order.
        rules: which topics have an event log.
    """

    def __init__(
        self, states: Sequence[TopicState], subscriptions: Sequence[KnownSubscription], rules: Sequence[LogRule]
    ) -> None:
        self.subscriptions, self.rules = subscriptions, rules
        self.states = {each.id: each for each in states}

    @classmethod
    async def take(cls, cluster: Cluster) -> Survey:
        """Ask the workers and return the survey. Raises what they raise."""
        found = await asyncio.gather(cluster.topics(groups=False), cluster.subscriptions(), cluster.log_rules())
        survey = cls(*found)
        await asyncio.to_thread(lambda: survey.subscribers)
        return survey

    @cached_property
    def subscribers(self) -> dict[int, int]:
        """The number of clients of each topic."""
        states = list(self.states.values())
        topics = [sharing.Topic(each.space, each.name, each.stage) for each in states]
        filters = [[(one.space, one.filter) for one in each.filters] for each in self.subscriptions]
        counts = sharing.subscribers(len(topics), sharing.subscribed(topics, filters))
        return {state.id: count for state, count in zip(states, counts, strict=True)}

    @cached_property
    def _by_topic(self) -> LogRules:
        return LogRules(self.rules)

    def log_of(self, state: TopicState) -> LogRule | None:
        """Return the widest bounds of a topic's rules for event logs; ``None`` without a rule."""
        return self._by_topic.widest(state.space, state.name)

    def ref(self, topic: int) -> TopicRef:
        """Return a topic in the API's form."""
        return ref_of(topic, self.states.get(topic))


def ref_of(topic: int, known: TopicInfo | TopicState | None) -> TopicRef:
    """Return a topic in the API's form; one made just now has no names yet."""
    return answer(TopicRef, known) if known else TopicRef(id=str(topic), space="", name="")


def refs_of(order: TopicOrder) -> dict[int, TopicRef]:
    """Return all topics in the API's form, by id."""
    return {each.id: ref_of(each.id, each) for each in order.topics}
