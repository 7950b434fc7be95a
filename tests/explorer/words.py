"""What goes between actors, in words for a trace."""

from __future__ import annotations

from typing import Any

from tests.explorer.configs import Config, Publish

from inorder.protocol.pairs import pairs
from inorder.protocol.wire import AskNumbers, Moved, NameTopics, Numbers, Opened, Subscribed, Timestamps, Topics
from inorder_worker.sequencer.commands import (
    ChangeSubscription,
    Create,
    CreateTopics,
    Deliver,
    LeaveSession,
    OpenSession,
    Reorder,
    SettleNumbers,
)
from inorder_worker.sequencer.rides import (
    CompleteRide,
    FlushRide,
    LingerEndRide,
    MarkRide,
    StampRide,
    SubscribedRide,
    SubscriptionRide,
    SwitchRide,
    TopicRide,
)


class Words:
    """The names of a configuration's topics and events."""

    def __init__(self, config: Config) -> None:
        used = [each.topic for script in config.writers.values() for each in script if isinstance(each, Publish)]
        self._topics = list(dict.fromkeys([*config.topics, *used]))
        self._events = {
            (name, counter): each.label
            for name, script in config.writers.items()
            for counter, each in enumerate((each for each in script if isinstance(each, Publish)), start=1)
        }

    @property
    def topics(self) -> dict[int, str]:
        """The topics' names by id."""
        return dict(enumerate(self._topics, start=1))

    def of(self, item: Any, client: str) -> str:
        """Return a message in words; ``client`` is the one that it comes from or goes to, where there is one."""
        match item:
            case Deliver():
                return self.of(item.ride, client)
            case Create():
                return "request for " + ", ".join(self._events[client, each.counter] for each in item.events)
            case StampRide():
                event = self._events[item.client_id, item.counter]
                return f"{event} on its way up, " + self._stamp(item.topic, item.number, item.deps or item.after)
            case CompleteRide():
                event = self._events[item.client_id, item.counter]
                return f"{event} complete, " + self._stamp(item.topic, item.number, item.deps)
            case Timestamps():
                stamps = [(self._events[client, each.counter], each) for each in item.events]
                words = [f"{event}, {self._stamp(each.topic, each.number, each.deps)}" for event, each in stamps]
                return "timestamp of " + "; ".join(words)
            case SettleNumbers():
                return f"settled: {self._entries(item.confirmed[:2])} accepted, {self._entries(item.void[:2])} void"
            case CreateTopics():
                return "which topics are " + " ".join(name for _, name in item.topics)
            case TopicRide() | Topics():
                return "topics " + " ".join(each.name for each in item.topics)
            case NameTopics():
                return f"which topics have the ids {item.ids}"
            case AskNumbers():
                return f"what about {self._topics[item.topic - 1]} {item.ranges}"
            case Numbers():
                words = [
                    f"{each.state.name.lower()} {self._stamp(item.topic, each.number, each.deps)}"
                    for each in item.answers
                ]
                return "; ".join(words)
        return self._subscription(item)

    def _subscription(self, item: Any) -> str:
        match item:
            case ChangeSubscription():
                return f"{item.client_id} asks for " + " ".join(each.filter.name for each in item.filters)
            case SubscriptionRide() | SubscribedRide():
                topics = " ".join(self._topics[each - 1] for each in item.topics)
                return f"{item.client_id} has {topics}, clocks so far: {self._entries(item.starts)}"
            case Subscribed():
                words = [
                    f"{each.topic.name} from {each.start}" + (f" after {self._entries(each.base)}" if each.base else "")
                    for each in item.topics
                ]
                return "subscribed, " + ", ".join(words)
            case LingerEndRide():
                return f"{item.client_id}'s linger since change {item.version} is over"
            case LeaveSession():
                return f"{item.client_id} is gone"
            case OpenSession():
                return f"{item.client_id} is here"
            case Opened():
                return f"known: {item.known}, version {item.version}"
            case Reorder() | FlushRide():
                groups = [" ".join(self._topics[each - 1] for each in stage) for stage in item.stages]
                kind = "flush for the" if isinstance(item, FlushRide) else "new"
                return f"{kind} topic order {' | '.join(groups)}"
            case MarkRide():
                return "nothing older follows"
            case SwitchRide():
                moved = " ".join(self._topics[each.id - 1] for each in item.topics)
                return f"hands over {self._entries(item.numbers)}" + (f", state of {moved}" if moved else "")
            case Moved():
                return f"homes from order {item.order_epoch} on: {self._entries(item.homes)}"
        return f"time passes, {item}"

    def _stamp(self, topic: int, number: int, deps: list[int]) -> str:
        own = f"{self._topics[topic - 1]} {number or '?'}"
        return f"{own} after {self._entries(deps)}" if deps else own

    def _entries(self, parts: list[int]) -> str:
        named = [f"{self._topics[topic - 1]} {number}" for topic, number in pairs(parts)]
        return ", ".join(named) or "nothing"
