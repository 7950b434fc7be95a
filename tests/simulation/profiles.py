"""What runs are full of. A rare combination needs a run in which little else happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from inorder.core.notifications import Bounded
from inorder.core.ordering import Mode

STRICT: tuple[Mode, ...] = ("strict",)
MIXED: tuple[Mode, ...] = ("strict", "strict", "tag", Bounded(buffer=3), Bounded(max_wait=2.0))


@dataclass(frozen=True)
class Profile:
    """The ranges a run draws from. Each field that is a tuple holds equally likely choices.

    Attributes:
        stages, topics, new_topics, clients: how many; ``new_topics`` do not exist at the beginning.
        one_each: topics are spread over the stages evenly, else at random.
        first: filters of each client's first subscription.
        adds: the share of subscription changes that add filters.
        toggles: subscribers drop one topic and take all again, in turn; nothing else.
        slow: the share of topics whose events are slow to reach a client. deaf: of clients slow to hear answers.
        modes: how its clients wait, one group of modes for the run, one mode of it for each client.
        wildcards: the share of runs with wildcard filters.
        loss, reordering: shares of the broker's messages.
        retention: numbers that a topic manager remembers one by one.
        linger: s. popularity_window_ms, publisher_grace_ms, session_timeout_ms: see StageSettings.
        actions: how many there are before faults stop (from, to).
        weights: factors of actions, by name (see ``world``).
        spread: factors of all actions' weights, drawn one by one.
    """

    name: str
    stages: tuple[int, ...] = (1, 2, 3, 3, 4)
    topics: tuple[int, ...] = (2, 3, 3, 4, 6)
    new_topics: tuple[int, ...] = (0, 0, 2)
    clients: tuple[int, ...] = (2, 3, 4, 5)
    modes: tuple[tuple[Mode, ...], ...] = (STRICT, MIXED)
    one_each: bool = False
    first: tuple[int, ...] = (1, 2)
    adds: float = 0.8
    toggles: bool = False
    slow: float = 0.2
    deaf: float = 0.0
    wildcards: float = 0.5
    loss: tuple[float, ...] = (0.0, 0.02, 0.1)
    reordering: tuple[float, ...] = (0.0, 0.5, 1.0)
    retention: tuple[int, ...] = (10_000, 10_000, 4)
    linger: float = 20.0
    popularity_window_ms: tuple[int, ...] = (0, 0, 3_000)
    publisher_grace_ms: tuple[int, ...] = (10_000, 2_000)
    session_timeout_ms: tuple[int, ...] = (30_000, 4_000)
    actions: tuple[int, int] = (200, 800)
    weights: Mapping[str, float] = field(default_factory=dict)
    spread: tuple[float, ...] = (0.2, 1.0, 1.0, 4.0)


CALM = {"jump": 0.1, "crash": 0.0, "disconnect": 0.0, "restart": 0.0, "cancel": 0.0}
"""Factors for runs without faults of clients and stages."""

ANY = Profile("any", weights={"reorder": 1.0})
CHURN = Profile("churn", weights={"change": 5.0, "reorder": 1.0, **CALM})
BRISK = {
    **CALM,
    "flow": 12.0,
    "step": 0.2,
    "commit": 0.2,
    "hand_over": 0.0,
    "accept": 0.0,
    "receive": 0.3,
    "pump": 0.0,
    "arrive": 3.0,
    "time": 0.1,
}
"""Factors for runs that are about what the broker delivers when, and about subscriptions."""
_STILL = Profile(
    "still", modes=(STRICT,), new_topics=(0,), wildcards=0.0, loss=(0.0,), retention=(10_000,),
    weights=CALM, actions=(300, 600), session_timeout_ms=(3_600_000,), popularity_window_ms=(0,),
    reordering=(1.0,)
)  # fmt: skip
"""No faults, strict readers: for what order alone shows."""

BELT = replace(
    _STILL, name="belt", stages=(4,), topics=(4,), clients=(4, 5, 6), one_each=True, first=(2, 3, 3, 4),
    weights={**CALM, "change": 0.0, "step": 0.6, "arrive": 0.5}, slow=0.0
)  # fmt: skip
PENDING = replace(
    _STILL, name="pending", stages=(1, 2), topics=(2,), clients=(3, 4), deaf=0.4, slow=0.0,
    weights={**BRISK, "change": 2.0}, spread=(0.7, 1.0, 1.5), actions=(600, 1200)
)  # fmt: skip
FORCED = replace(PENDING, name="forced", modes=(("tag", "tag", "strict"),))
BASE = replace(
    _STILL, name="base", stages=(1, 2, 3), topics=(3, 4), clients=(3, 4), one_each=True, slow=0.4,
    weights={**BRISK, "change": 3.0}
)  # fmt: skip
LINGER = replace(
    _STILL, name="linger", stages=(1, 2), topics=(2,), clients=(3, 4), first=(0, 2, 2), toggles=True, slow=0.5,
    linger=60.0, weights={**BRISK, "publish": 0.5, "arrive": 5.0, "change": 0.7}, spread=(0.7, 1.0, 1.5),
    actions=(600, 900)
)  # fmt: skip
LINGERED = replace(LINGER, name="lingered", linger=0.05, weights={**LINGER.weights, "tick": 6.0, "time": 0.5})
RETAKEN = replace(
    LINGER, name="retaken", linger=1.0, weights={**LINGER.weights, "change": 3.0, "tick": 6.0, "time": 0.5}
)  # fmt: skip
PATH = replace(
    _STILL, name="path", stages=(2, 3), topics=(4, 6), clients=(2, 3), one_each=True, first=(3, 4),
    weights={**CALM, "publish": 2.0, "change": 0.3}
)  # fmt: skip
HOLES = Profile(
    "holes", modes=(STRICT,), stages=(1, 2, 3), first=(2, 3), loss=(0.0, 0.1, 0.3), retention=(10_000,),
    weights={"cancel": 12.0, "hand_over": 1.5, "jump": 2.0, "disconnect": 2.0, "crash": 0.0, "change": 0.4}
)  # fmt: skip
RETRIES = Profile(
    "retries", stages=(1, 2, 3), loss=(0.0,), new_topics=(0,), wildcards=0.0, first=(2, 3),
    weights={"disconnect": 8.0, "crash": 5.0, "snapshot": 2.0, "cancel": 0.0, "jump": 0.2, "change": 0.5}
)  # fmt: skip
COMPACT = replace(
    _STILL, name="compact", modes=(("tag", Bounded(buffer=1), "strict"),), stages=(1, 2), topics=(3, 4), clients=(3, 4),
    first=(3, 4), loss=(0.0, 0.05), weights={**CALM, "change": 0.2}, slow=0.3
)  # fmt: skip
JOINED = replace(
    _STILL, name="joined", stages=(1, 2), topics=(3,), clients=(3,), slow=0.4, deaf=0.0,
    weights={**BRISK, "change": 3.0}, spread=(0.5, 1.0, 2.0)
)  # fmt: skip
CREATED = replace(
    _STILL, name="created", stages=(1, 2, 3), topics=(2,), new_topics=(4, 6), wildcards=1.0, clients=(3, 4), slow=0.3,
    weights={**CALM, "change": 0.5}
)  # fmt: skip
EXPIRY = Profile(
    "expiry", modes=(STRICT, STRICT, MIXED), stages=(1, 2), topics=(2, 3), new_topics=(0,), wildcards=0.0, linger=4.0,
    loss=(0.0,), first=(2,), session_timeout_ms=(2_000,), reordering=(1.0,), retention=(10_000,), spread=(1.0,),
    weights={**BRISK, "disconnect": 3.0, "connect": 0.05, "tick": 6.0, "change": 0.1, "time": 1.0}
)  # fmt: skip
ORDER = replace(
    _STILL, name="order", stages=(2, 3, 3, 4), topics=(3, 4, 6), clients=(3, 4), first=(2, 3, 4),
    weights={**CALM, "change": 0.5, "reorder": 12.0, "publish": 1.5}
)  # fmt: skip
REORDERED = Profile(
    "reordered", stages=(2, 3, 4), first=(2, 3, 4),
    weights={"reorder": 6.0, "crash": 4.0, "snapshot": 2.0, "disconnect": 3.0, "publish": 2.0, "change": 0.5}
)  # fmt: skip
"""The topic order changes while everything else goes wrong."""

PROFILES = {
    each.name: each
    for each in (
        ANY,
        CHURN,
        BELT,
        PENDING,
        FORCED,
        BASE,
        LINGER,
        LINGERED,
        RETAKEN,
        PATH,
        HOLES,
        RETRIES,
        COMPACT,
        JOINED,
        CREATED,
        EXPIRY,
        ORDER,
        REORDERED,
    )
}


def of_seed(seed: int) -> Profile:
    """Return the profile of a seed where none is asked for: half of all runs are of any kind."""
    if seed % 2:
        return ANY
    return list(PROFILES.values())[seed // 2 % len(PROFILES)]
