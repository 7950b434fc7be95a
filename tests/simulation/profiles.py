"""What runs are full of. A rare combination needs a run in which little else happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.simulation.changes import Change, anything, grow, retake, shed, swap, toggle

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import Mode

STRICT: tuple[Mode, ...] = ("strict",)
MIXED: tuple[Mode, ...] = ("strict", "strict", "tag", Bounded(buffer=3), Bounded(max_wait=2.0))


@dataclass(frozen=True)
class Profile:
    """The ranges a run draws from. Each field that is a tuple holds equally likely choices.

    Attributes:
        stages, topics, new_topics, clients: how many; ``new_topics`` do not exist at the beginning.
        one_each: topics are spread over the stages evenly, else at random.
        one_topic: each client publishes to one topic only, so publisher order (R19) hides nothing.
        first: filters of each client's first subscription. roles: the same client by client, where given.
        changes: how clients change their subscriptions. changer: the only client that does, and that disconnects.
        slow: the share of topics whose events are slow to reach a client.
        slow_reader: all events are slow to reach the first client, and no other one.
        deaf: of clients slow to hear answers.
        modes: how its clients wait, one group of modes for the run, one mode of it for each client.
        wildcards: the share of runs with wildcard filters. all_wild: there are no others.
        loss, reordering: shares of the broker's messages.
        retention: numbers that a topic manager remembers one by one.
        linger, topic_ttl: s. popularity_window_ms, publisher_grace_ms, session_timeout_ms: see StageSettings.
        actions: how many there are before faults stop (from, to).
        weights: factors of actions, by name (see ``world``).
        spread: factors of all actions' weights, drawn one by one.
        paces: of the stages' clocks, against those of clients.
        commits: the share of steps that are committed at once. returns: of clients that are back at once after a crash.
        gradual: the share of runs in which clients connect to each stage when they need it, and not to all at once.
        ended_kept: how long stages know which sessions they have dropped, s.
        answers_kept: see StageSettings; so few that runs meet the bound, of which a client hears by ``forgotten``.
        logged: all topics have an event log (R18): nothing may be lost or abandoned.
        some_logs: some topics have an event log, which is trimmed; the second client is not durable.
        durable: all clients are durable subscribers (R18), and read some of what they are notified of.
        lies: the share of the first client's requests that name a number of another topic which is not given yet.
    """

    name: str
    stages: tuple[int, ...] = (1, 2, 3, 3, 4)
    topics: tuple[int, ...] = (2, 3, 3, 4, 6)
    new_topics: tuple[int, ...] = (0, 0, 2)
    clients: tuple[int, ...] = (2, 3, 4, 5)
    modes: tuple[tuple[Mode, ...], ...] = (STRICT, MIXED)
    one_each: bool = False
    one_topic: bool = False
    first: tuple[int, ...] = (1, 2)
    roles: tuple[int, ...] = ()
    changes: Change = anything
    changer: str | None = None
    slow: float = 0.2
    slow_reader: bool = False
    deaf: float = 0.0
    wildcards: float = 0.5
    all_wild: bool = False
    loss: tuple[float, ...] = (0.0, 0.02, 0.1)
    reordering: tuple[float, ...] = (0.0, 0.5, 1.0)
    retention: tuple[int, ...] = (10_000, 10_000, 4)
    linger: float = 20.0
    topic_ttl: float = 0.0
    popularity_window_ms: tuple[int, ...] = (0, 0, 3_000)
    publisher_grace_ms: tuple[int, ...] = (10_000, 2_000)
    session_timeout_ms: tuple[int, ...] = (30_000, 4_000)
    actions: tuple[int, int] = (200, 800)
    weights: Mapping[str, float] = field(default_factory=dict)
    spread: tuple[float, ...] = (0.2, 1.0, 1.0, 4.0)
    paces: tuple[float, ...] = (1.0, 1.0, 0.5, 1.875)
    commits: float = 0.6
    returns: float = 0.0
    gradual: float = 0.0
    ended_kept: tuple[float, ...] = (3_600.0,)
    answers_kept: int = 40
    logged: bool = False
    some_logs: bool = False
    lies: float = 0.0
    durable: bool = False

    @property
    def has_logs(self) -> bool:
        """Topics have an event log, all or some."""
        return self.logged or self.some_logs


_FAULTS = ("crash", "disconnect", "restart", "cancel", "partition", "suspend", "set_back")
CALM = {"jump": 0.1, **dict.fromkeys(_FAULTS, 0.0)}
"""Factors for runs without faults of clients and stages."""

ANY = Profile("any", weights={"reorder": 1.0}, gradual=0.5)
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
    reordering=(1.0,), paces=(1.0,)
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
_CLOCKWORK = (
    *("step", "commit", "receive", "pump", "hand_over", "accept", "tick", "heads"),
    *("connect", "snapshot", "jump", *_FAULTS),
)
"""What ``flow`` does at once, and faults."""
_PAIR = replace(
    _STILL, stages=(1, 2), topics=(2,), one_topic=True, slow_reader=True, spread=(0.7, 1.0, 1.5), actions=(60, 300),
    weights={**dict.fromkeys(_CLOCKWORK, 0.0), "flow": 15.0, "publish": 0.8, "arrive": 1.0, "change": 1.5, "time": 0.1}
)  # fmt: skip
"""A slow reader, a quick one, and two publishers: who is notified first in another order."""
LINGER = replace(_PAIR, name="linger", roles=(2, 1, 0, 0), changes=swap, changer="c1", linger=60.0)
SHRINK = replace(
    _PAIR, name="shrink", roles=(2, 2, 0, 0), changes=toggle, changer="c1", linger=0.05,
    weights={**_PAIR.weights, "change": 1.0, "tick": 6.0, "time": 2.0}, actions=(100, 300)
)  # fmt: skip
SHED = replace(
    SHRINK, name="shed", stages=(1, 2, 3), topics=(3,), clients=(4,), roles=(3, 3, 0, 0), changes=shed, one_each=True,
    weights={**SHRINK.weights, "arrive": 0.5, "reorder": 0.3}
)  # fmt: skip
"""The quick reader leaves most topics and takes them again; the topic order changes now and then."""
RETAKE = replace(
    _PAIR, name="retake", roles=(2, 1, 0, 0), changes=retake, changer="c1", linger=2.0,
    weights={**_PAIR.weights, "flow": 20.0, "publish": 1.0, "arrive": 0.3, "change": 1.0, "tick": 4.0, "time": 1.0},
    actions=(200, 400)
)  # fmt: skip
_GROWING = replace(
    _PAIR, changes=grow, changer="c1", weights={**_PAIR.weights, "change": 0.5}, actions=(30, 100)
)  # fmt: skip
GROW = replace(_GROWING, name="grow", stages=(2,), one_each=True, roles=(2, 1, 0, 0))
GAIN = replace(_GROWING, name="gain", stages=(1,), roles=(2, 1, 0, 0))
TICKS = replace(
    GROW, name="ticks", modes=(("tag",), ("tag", "strict")), topics=(4,), roles=(4, 1, 1, 0), clients=(4,),
    changer=None, slow_reader=False, slow=0.4, actions=(40, 120),
    weights={**_PAIR.weights, "arrive": 0.4, "change": 0.6, "publish": 1.5}
)  # fmt: skip
"""Readers that take events out of turn begin topics (R23)."""
BASE = replace(_GROWING, name="base", roles=(1, 2, 2, 0), changer="c0", actions=(20, 80))
BEGUN = replace(
    _PAIR, name="begun", stages=(1, 1, 2), topics=(3, 4), clients=(2, 3), roles=(1, 0, 0), one_topic=False,
    changes=grow, weights={**_PAIR.weights, "change": 0.5, "publish": 1.5, "arrive": 0.7}, actions=(40, 120)
)  # fmt: skip
"""Publishers of many topics, and one slow reader that begins these one after the other."""
LEFT = replace(
    BEGUN, name="left", stages=(1,), topics=(2,), clients=(2,), session_timeout_ms=(1_000,),
    publisher_grace_ms=(1_000,), spread=(1.0,), actions=(60, 200),
    weights={
        **BEGUN.weights, "disconnect": 0.5, "connect": 0.5, "time": 1.5, "tick": 6.0, "arrive": 0.3, "publish": 2.0,
        "change": 0.4
    }
)  # fmt: skip
"""As with ``BEGUN``; but the publisher is away until its session was dropped, and then goes on."""
PARTED = replace(
    BEGUN, name="parted", stages=(2,), topics=(3,), clients=(2,), spread=(1.0,),
    weights={**BEGUN.weights, "reorder": 2.0, "arrive": 0.3, "publish": 2.0, "change": 0.3}
)  # fmt: skip
"""As with ``BEGUN``, while topics change their stages."""
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
RESEND = replace(
    _STILL, name="resend", stages=(2,), topics=(2,), one_each=True, roles=(2, 2), one_topic=True,
    weights={
        **CALM, "publish": 3.0, "step": 2.0, "commit": 0.3, "receive": 3.0, "hand_over": 0.5, "crash": 3.0,
        "change": 0.0
    },
    commits=0.2, returns=1.0, spread=(0.5, 1.0, 2.0)
)  # fmt: skip
"""Much is under way and not committed when a stage crashes."""
COMPACT = replace(
    _STILL, name="compact", modes=(("tag", Bounded(buffer=1), "strict"),), stages=(1, 2), topics=(3, 4), clients=(3, 4),
    first=(3, 4), loss=(0.0, 0.05), weights={**CALM, "change": 0.2}, slow=0.3
)  # fmt: skip
CREATED = replace(
    _STILL, name="created", stages=(1, 2, 3), topics=(2,), new_topics=(4, 6), wildcards=1.0, clients=(3, 4), slow=0.3,
    weights={**CALM, "change": 0.5}
)  # fmt: skip
UNHEARD = replace(
    CREATED, name="unheard", clients=(4,), one_topic=True, loss=(0.9,), actions=(200, 400),
    weights={**CALM, "change": 0.1, "publish": 0.1, "step": 2.0, "hand_over": 3.0, "receive": 2.0, "reorder": 1.0}
)  # fmt: skip
"""The broker loses nearly all that there is of new topics."""
EXPIRY = Profile(
    "expiry", modes=(STRICT, STRICT, MIXED), stages=(1, 2), topics=(2, 3), new_topics=(0,), wildcards=0.0, linger=4.0,
    loss=(0.0,), first=(2,), session_timeout_ms=(2_000,), reordering=(1.0,), retention=(10_000,), spread=(1.0,),
    weights={
        **BRISK, "disconnect": 3.0, "connect": 0.05, "tick": 6.0, "change": 0.1, "time": 1.0, "partition": 1.0,
        "suspend": 1.0
    }
)  # fmt: skip
AWAY = replace(
    EXPIRY, name="away", deaf=0.6,
    weights={**EXPIRY.weights, "disconnect": 4.0, "connect": 0.6, "change": 1.0, "time": 2.0}
)  # fmt: skip
"""Connections break again before much is heard on them; sessions are dropped meanwhile."""
LEASE = replace(
    EXPIRY, name="lease", paces=(1.875,), session_timeout_ms=(4_000,), publisher_grace_ms=(1_000,),
    weights={**EXPIRY.weights, "time": 2.0, "tick": 10.0, "suspend": 3.0}
)  # fmt: skip
"""The stages' clocks are nearly twice as fast as those of clients, which sleep often."""
GONE = replace(
    LINGER, name="gone", session_timeout_ms=(1_000,), publisher_grace_ms=(1_000,), actions=(150, 400),
    weights={**LINGER.weights, "disconnect": 8.0, "connect": 1.5, "tick": 6.0, "time": 2.0, "change": 0.7}
)  # fmt: skip
"""As with ``LINGER``; but the quick reader is away until its subscription has expired, and then comes back."""
MOVED = replace(
    _PAIR, name="moved", stages=(3,), topics=(3,), one_each=True, roles=(3, 3, 0),
    weights={**_PAIR.weights, "reorder": 2.0, "change": 0.0}, actions=(200, 500)
)  # fmt: skip
EPOCHS = replace(
    MOVED, name="epochs", modes=(("tag",),), topics=(4,), roles=(4, 4, 4, 0), clients=(4,), slow_reader=False, slow=0.3,
    weights={**MOVED.weights, "arrive": 0.3, "reorder": 3.0, "publish": 3.0}, actions=(80, 200)
)  # fmt: skip
"""The same for readers that take events out of turn (R23)."""
TOLD = replace(
    MOVED, name="told", stages=(2, 3), topics=(4,), roles=(4, 4, 3, 0, 0, 0), clients=(6,), changes=toggle,
    changer=None, slow_reader=False, slow=0.3, actions=(150, 400),
    weights={**MOVED.weights, "arrive": 0.5, "change": 0.5, "reorder": 3.0, "publish": 2.0}
)  # fmt: skip
"""Readers leave topics and take them again while these change their stages, where they are told of (R22)."""
REROUTED = replace(
    PATH, name="rerouted", weights={**PATH.weights, "reorder": 8.0, "publish": 3.0}
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
IDLE = Profile(
    "idle", stages=(1, 2, 3), topics=(2, 3, 4), new_topics=(0,), wildcards=0.1, linger=1.0, topic_ttl=1.0, first=(1, 2),
    weights={"change": 3.0, "reorder": 1.0, "time": 3.0, "tick": 4.0, "publish": 1.5, "crash": 2.0, "snapshot": 2.0},
    session_timeout_ms=(30_000,), popularity_window_ms=(0,)
)  # fmt: skip
"""Topics are left by all, retire, and are taken again."""
ENDED = Profile(
    "ended", stages=(1, 1, 2, 3), topics=(2, 3), new_topics=(2, 3), wildcards=1.0, all_wild=True, topic_ttl=0.5,
    weights={
        "change": 0.5, "reorder": 0.3, "time": 3.0, "tick": 6.0, "publish": 1.5, "crash": 2.0, "snapshot": 2.0,
        "flow": 3.0, "jump": 0.5, "arrive": 0.4
    },
    popularity_window_ms=(0,), slow=0.5
)  # fmt: skip
"""Topics end under wildcards, and their names are used again, while clients and stages come and go."""
LOGGED = Profile(
    "logged", modes=(STRICT, STRICT, MIXED), stages=(1, 1, 2, 3), loss=(0.1, 0.3, 0.6), first=(2, 3), logged=True,
    session_timeout_ms=(3_600_000,), publisher_grace_ms=(2_000,), retention=(10_000, 10_000, 40),
    weights={
        "cancel": 2.0, "disconnect": 2.0, "crash": 2.0, "snapshot": 2.0, "change": 0.5, "heads": 4.0, "reorder": 0.5
    }
)  # fmt: skip
"""The broker loses much, and event logs have it."""
DURABLE = replace(
    LOGGED, name="durable", durable=True, modes=(STRICT,), retention=(10_000, 40), first=(9,), new_topics=(0,),
    weights={**LOGGED.weights, "restart": 3.0, "disconnect": 2.0, "crash": 0.5, "flow": 4.0, "change": 0.0}
)  # fmt: skip
"""Durable subscribers come back as other processes, and go on where their clocks were saved. All have all topics: of a
pair that one alone has nothing tells in which order its events come again. All are strict: what others passed over
since their clocks were saved comes in its turn when they resume (R18)."""
RESUMED = replace(
    DURABLE, name="resumed", logged=False, some_logs=True, clients=(2, 3), topics=(3, 4), loss=(0.0, 0.1),
    weights={**DURABLE.weights, "trim": 6.0, "restart": 6.0, "flow": 8.0, "cancel": 0.5, "reorder": 0.5, "heads": 2.0}
)  # fmt: skip
"""Durable subscribers come back, and much of what was published meanwhile is gone: not all topics have a log, and logs
are trimmed. Others beside them have read everything."""
RELEASED = replace(
    HOLES, name="released",
    weights={
        **HOLES.weights, "cancel": 0.5, "release": 20.0, "hand_over": 0.5, "jump": 0.3, "disconnect": 0.5, "crash": 0.3,
        "snapshot": 1.0, "reorder": 1.0
    }
)  # fmt: skip
"""Operators give up numbers, whatever became of their events, and sooner than timers do."""
STOPPED = replace(
    _STILL, name="stopped", stages=(1, 2), topics=(2, 3), clients=(3, 4), first=(2, 3), modes=(STRICT, MIXED), slow=0.4,
    loss=(0.0, 0.05), reordering=(0.0,),
    weights={**CALM, "change": 0.1, "heads": 8.0, "time": 4.0, "flow": 2.0, "arrive": 2.0}
)  # fmt: skip
"""The broker has much for clients, for long; and loses little."""
FRESH = Profile(
    "fresh", stages=(3, 3, 4), topics=(4, 6), first=(0, 0, 1, 3), gradual=1.0, retention=(10_000,),
    session_timeout_ms=(30_000,), spread=(0.5, 1.0, 2.0), actions=(60, 300),
    weights={
        "restart": 6.0, "publish": 4.0, "reorder": 4.0, "receive": 3.0, "step": 2.0, "hand_over": 3.0, "accept": 3.0,
        "change": 0.1, "jump": 0.1, "crash": 0.2, "disconnect": 0.2
    }
)  # fmt: skip
"""Publishers begin all the time, and connect to stages one after the other while their first requests ride."""
DROPPED = replace(
    RETRIES, name="dropped", stages=(1, 1, 2), first=(0, 1, 2), gradual=0.5, ended_kept=(3_600.0, 600.0),
    session_timeout_ms=(2_000,), publisher_grace_ms=(1_000,), spread=(1.0,),
    weights={
        "jump": 1.0, "connect": 0.3, "tick": 20.0, "time": 3.0, "disconnect": 6.0, "publish": 2.0, "receive": 0.2,
        "crash": 0.1, "partition": 0.2, "reorder": 2.0, "cancel": 0.0, "change": 0.5
    }
)  # fmt: skip
"""Publishers are away until stages have dropped their sessions, and then ask again for what has a number."""
OUTLIVED = replace(
    DROPPED, name="outlived", stages=(2, 3), topics=(3, 4), clients=(2, 3), one_each=True, first=(2, 3),
    session_timeout_ms=(400,), publisher_grace_ms=(300,),
    weights={
        **DROPPED.weights, "publish": 4.0, "receive": 0.1, "disconnect": 3.0, "reorder": 0.0, "change": 0.0,
        "connect": 1.0, "partition": 0.0
    }
)  # fmt: skip
"""What is asked for rides up for so long that stages above have dropped its publisher's session when it comes there."""
LIES = replace(
    PATH, name="lies", stages=(1, 1, 2, 3), topics=(2, 3), clients=(3,), first=(2, 3), lies=0.8,
    weights={**PATH.weights, "disconnect": 0.2, "reorder": 0.2}
)  # fmt: skip
"""A client says of its events that they follow others, which may not have been published."""

PROFILES = {
    each.name: each
    for each in (
        ANY,
        CHURN,
        BELT,
        PENDING,
        FORCED,
        BASE,
        BEGUN,
        LEFT,
        PARTED,
        LINGER,
        SHRINK,
        SHED,
        RETAKE,
        GROW,
        GAIN,
        PATH,
        HOLES,
        RETRIES,
        RESEND,
        COMPACT,
        TICKS,
        EPOCHS,
        CREATED,
        UNHEARD,
        EXPIRY,
        AWAY,
        LEASE,
        GONE,
        MOVED,
        TOLD,
        REROUTED,
        ORDER,
        REORDERED,
        IDLE,
        ENDED,
        LOGGED,
        DURABLE,
        RESUMED,
        RELEASED,
        STOPPED,
        FRESH,
        DROPPED,
        OUTLIVED,
        LIES,
    )
}


def of_seed(seed: int) -> Profile:
    """Return the profile of a seed where none is asked for: half of all runs are of any kind."""
    if seed % 2:
        return ANY
    return list(PROFILES.values())[seed // 2 % len(PROFILES)]
