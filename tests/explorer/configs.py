"""Small systems to explore: topics on stages, clients, and what each of them does."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import Mode


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish an event. ``label`` names it in traces."""

    label: str
    topic: str

    def __str__(self) -> str:
        return f"publishes {self.label} on {self.topic}"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give an event up; if it is not handed over yet, its number becomes void (R16)."""

    label: str

    def __str__(self) -> str:
        return f"cancels {self.label}"


@dataclass(frozen=True, slots=True)
class Again:
    """Ask again for every timestamp not answered, as after a broken connection; the first requests arrive, too."""

    def __str__(self) -> str:
        return "asks for everything again"


@dataclass(frozen=True, slots=True)
class Hold:
    """Change the whole subscription to these topics; ``n/+`` is a filter."""

    topics: str

    def __str__(self) -> str:
        return f"asks for {self.topics or 'nothing'}"


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the stages about what is missing now (R17)."""

    def __str__(self) -> str:
        return "asks about what is missing"


@dataclass(frozen=True, slots=True)
class Cut:
    """Lose the connection to the stages, and the lease (R12). ``expires``: the subscription ends at the stages."""

    expires: bool = True

    def __str__(self) -> str:
        return "is cut from the stages, and its subscription expires" if self.expires else "is cut from the stages"


@dataclass(frozen=True, slots=True)
class Back:
    """Connect to the stages again."""

    def __str__(self) -> str:
        return "connects to the stages again"


@dataclass(frozen=True, slots=True)
class Reader:
    """A subscriber: what it holds at the beginning (complete, everywhere known), and what it does."""

    holds: str
    does: tuple[Hold | Ask | Cut | Back, ...] = ()
    mode: Mode = "strict"


@dataclass(frozen=True, slots=True)
class Config:
    """One system.

    Attributes:
        shows: what it is for.
        order: topics from the top, stages separated by bars, as in the scenarios; others are created when they are
            first used (R13).
        readers: by name.
        writers: by name, what each publishes, in this order; requests are pipelined as R19 lets them.
        lingers_end: the clock passes the linger once, at any moment.
        reorders: changes of the topic order, one after the other (R14).
        rule: the rule (:mod:`tests.core.without`) without which a violation is found here.
        long: too many states for every test run.
    """

    shows: str
    order: str
    readers: dict[str, Reader]
    writers: dict[str, tuple[Publish | Cancel | Again, ...]]
    lingers_end: bool = False
    reorders: tuple[str, ...] = ()
    rule: str | None = None
    long: bool = field(default=False, kw_only=True)

    @property
    def topics(self) -> dict[str, int]:
        """Topics with their stages."""
        return {name: stage for stage, group in enumerate(self.order.split("|")) for name in group.split()}


CONFIGS: dict[str, Config] = {
    "r2-belt": Config(
        "R2's counter-example, with one event a topic",
        "t1 | t2 | t3 | t4",
        {"s1": Reader("t1 t2 t4"), "s2": Reader("t1 t2 t3 t4"), "s3": Reader("t1 t3"), "s4": Reader("t3 t4")},
        {"p4": (Publish("e4", "t4"),), "p3": (Publish("e3", "t3"),), "p1": (Publish("e1", "t1"),)},
        rule="belt",
    ),
    "c7-circle": Config(
        "Case C7b: a circle of pairs and one reader of all",
        "t1 | t2 | t3 | t4",
        {
            "s0": Reader("t1 t2 t3 t4"),
            "s12": Reader("t1 t2"),
            "s23": Reader("t2 t3"),
            "s34": Reader("t3 t4"),
            "s14": Reader("t1 t4"),
        },
        {f"p{at}": (Publish(f"e{at}", f"t{at}"),) for at in (1, 2, 3, 4)},
        rule="belt",
        long=True,
    ),
    "r6-floor": Config(
        "R6's counter-example: a reader that tags, and subscribes",
        "a b",
        {"A": Reader("a", (Hold("a b"),), "tag"), "B": Reader("a b"), "C": Reader("a b")},
        {"p": (Publish("x", "b"),), "q": (Publish("y", "a"),)},
    ),
    "r6-buffer": Config(
        "R6: a reader that waits with one event",
        "a | b",
        {"A": Reader("a b", mode=Bounded(buffer=1)), "B": Reader("a b")},
        {"p": (Publish("x1", "a"), Publish("x2", "a")), "q": (Publish("y1", "b"),)},
    ),
    "r6-buffer-two": Config(
        "R6: the same with two events in each topic",
        "a | b",
        {"A": Reader("a b", mode=Bounded(buffer=1)), "B": Reader("a b")},
        {"p": (Publish("x1", "a"), Publish("x2", "a")), "q": (Publish("y1", "b"), Publish("y2", "b"))},
        long=True,
    ),
    "r7-announcement": Config(
        "Case C21: a reader that joins makes a pair that the stage above did not know",
        "a | b",
        {"A": Reader("a b"), "B": Reader("b", (Hold("a b"),))},
        {"p": (Publish("x", "b"),), "q": (Publish("y", "a"),)},
        rule="announcement",
    ),
    "r8-base": Config(
        "R8: a reader joins a topic whose events say no more what came before them",
        "a b",
        {"A": Reader("a", (Hold("a b"),)), "B": Reader("a")},
        {"p": (Publish("x", "a"), Publish("y1", "b"), Publish("y2", "b"))},
        rule="base",
    ),
    "r8-clocks": Config(
        "Case C9: a reader extends its subscription while an event is in flight",
        "a | b",
        {"A": Reader("a", (Hold("a b"),)), "B": Reader("a b")},
        {"p": (Publish("x", "a"), Publish("x2", "a")), "q": (Publish("y", "b"),)},
        rule="kept_clocks",
    ),
    "r9-hold": Config(
        "R9's counter-example",
        "a | b",
        {"A": Reader("a", (Hold("a b"),)), "B": Reader("a b"), "C": Reader("a b")},
        {"p": (Publish("x", "b"),), "q": (Publish("y", "a"),)},
        rule="hold",
    ),
    "r10-linger": Config(
        "R10, counter-example 1: a reader leaves a topic",
        "a | b",
        {"A": Reader("a b", (Hold("b"),)), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"),)},
        rule="linger",
    ),
    "r10-later-topic": Config(
        "R10, counter-example 2: a reader leaves a topic for another one",
        "a | b",
        {"A": Reader("a", (Hold("b"),)), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"),)},
        rule="linger",
    ),
    "r10-end": Config(
        "R10: the linger ends while everything is on its way; what left is carried once more",
        "a | b",
        {"A": Reader("a b", (Hold("b"),)), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"), Publish("z", "b"))},
        lingers_end=True,
        rule="carried_once",
    ),
    "r1-again": Config(
        "R1: requests are asked again at any moment; each event has one number",
        "a | b",
        {"A": Reader("a b"), "B": Reader("a b")},
        {"p": (Publish("x", "b"), Publish("y", "a"), Again()), "q": (Publish("z", "a"),)},
        rule="one_timestamp",
    ),
    "r12-expiry": Config(
        "R12: a subscription expires while its client hears the broker only, and is made anew",
        "a b",
        {"A": Reader("a b", (Cut(), Back())), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("v", "b"), Publish("y", "b"))},
        rule="lease",
        lingers_end=True,
        long=True,
    ),
    "r12-expiry-once": Config(
        "R12: the same with one event in each topic",
        "a b",
        {"A": Reader("a b", (Cut(), Back())), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"),)},
        lingers_end=True,
    ),
    "r12-linger": Config(
        "R10, R12: a reader is away until its subscription expires, and comes back for another topic",
        "a b",
        {"A": Reader("a", (Cut(), Hold("b"), Back())), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"),)},
        rule="expired_linger",
    ),
    "r12-in-time": Config(
        "R12: a client is back in time",
        "a | b",
        {"A": Reader("a b", (Cut(expires=False), Back())), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"),)},
    ),
    "r13-new-topic": Config(
        "R13: a topic that is created by its first publish, readers with a filter",
        "a | b",
        {"A": Reader("a n/+"), "B": Reader("a n/+")},
        {"p": (Publish("x", "n/1"),), "q": (Publish("y", "a"),)},
        rule="filters",
    ),
    "r13-joiner": Config(
        "R13: a reader adds a filter while a topic of it is created",
        "a | b",
        {"A": Reader("a", (Hold("a n/+"),)), "B": Reader("a n/+"), "C": Reader("a n/+")},
        {"p": (Publish("x", "n/1"),), "q": (Publish("y", "a"),)},
    ),
    "r14-order": Config(
        "R14: two topics change places, one writer uses both",
        "a | b",
        {"A": Reader("a b"), "B": Reader("a b")},
        {"p": (Publish("x", "b"), Publish("y", "a"))},
        reorders=("b | a",),
    ),
    "r14-swap": Config(
        "R14: two topics change places under two writers",
        "a | b",
        {"A": Reader("a b"), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"), Publish("z", "a"))},
        reorders=("b | a",),
        long=True,
    ),
    "r14-hand-over": Config(
        "Case E1: topics come to stages that never saw each other's numbers",
        "a | c | b",
        {"A": Reader("a b"), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"),)},
        reorders=("c | b | a",),
        rule="hand_over",
        long=True,
    ),
    "r17-void": Config(
        "R17: a void number's own dependencies hold back what follows it",
        "a | b",
        {"A": Reader("a b", (Ask(),)), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("v", "b"), Cancel("v"), Publish("y", "b"))},
        rule="void_dependencies",
    ),
    "r19-dependencies": Config(
        "R19: one writer, two topics, one reader that alone holds both",
        "a | b",
        {"A": Reader("a b"), "B": Reader("a"), "C": Reader("b")},
        {"p": (Publish("x", "b"), Publish("y", "a"), Publish("z", "b")), "q": (Publish("w", "a"),)},
        rule="publisher_order",
    ),
    "r19-path": Config(
        "R19's counter-example to leaving out the path",
        "t6 | t2 t4",
        {"A": Reader("t2 t4 t6"), "B": Reader("t2 t6")},
        {"p": (Publish("x", "t2"), Publish("y", "t4"), Publish("z", "t6")), "q": (Publish("w", "t2"),)},
        rule="path",
    ),
    "r19-behind": Config(
        "R19: below unanswered requests of its writer, which add to its timestamp where they are created",
        "a | b",
        {"A": Reader("a b"), "B": Reader("b")},
        {"p": (Publish("w", "b"), Publish("x", "a"), Publish("y", "b"), Publish("z", "a")), "q": (Publish("v", "a"),)},
        rule="added_above",
    ),
    "r19-behind-three": Config(
        "the same over three stages, with a group besides",
        "a | b | c",
        {"A": Reader("a b"), "B": Reader("b c"), "C": Reader("b c")},
        {"p": (Publish("w", "c"), Publish("x", "a"), Publish("y", "b")), "q": (Publish("v", "b"),)},
        rule="passed_above",
    ),
    "r21-gained": Config(
        "R21: a topic that joins a group is carried although it did not rise",
        "a b",
        {"A": Reader("a b"), "B": Reader("a", (Hold("a b"),))},
        {"p": (Publish("x", "a"),), "q": (Publish("y1", "b"), Publish("y2", "b"))},
        rule="gained",
    ),
    "r23-ticks": Config(
        "R23: a reader that tags goes by ticks",
        "a | b",
        {"A": Reader("a b", mode="tag"), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y1", "b"), Publish("y2", "b"))},
        rule="ticks",
    ),
    "r23-announced": Config(
        "R23: a reader that tags begins a topic, which announces an event that does not ride up",
        "b | a",
        {"T": Reader("a", (Hold("a b"),), mode="tag"), "A": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y1", "b"), Publish("y2", "b"))},
        long=True,
        rule="announced_ticks",
    ),
    "r23-group": Config(
        "R23: a reader that tags begins a topic, which shares two with another one from then on",
        "a b",
        {"T": Reader("a", (Hold("a b"),), mode="tag"), "A": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y1", "b"), Publish("y2", "b"))},
        long=True,
        rule="events_alone",
    ),
    "r23-epoch": Config(
        "R23: two readers that tag compare events of two topic orders",
        "c | a b",
        {"T": Reader("a b", mode="tag"), "U": Reader("a b", mode="tag")},
        {"p": (Publish("x", "a"),), "q": (Publish("y1", "b"), Publish("y2", "b"))},
        reorders=("b c | a",),
        long=True,
        rule="order_epoch",
    ),
    "three-stages": Config(
        "three stages, three overlapping readers, one of which leaves a topic for another one",
        "a | b | c",
        {"A": Reader("a b c"), "B": Reader("a c", (Hold("b c"),)), "C": Reader("a b")},
        {"p": (Publish("x", "a"), Publish("z", "c")), "q": (Publish("y", "b"),)},
    ),
    "back-and-forth": Config(
        "a reader leaves a topic and takes it again, while lingers end",
        "a | b",
        {"A": Reader("a b", (Hold("b"), Hold("a b"))), "B": Reader("a b")},
        {"p": (Publish("x", "a"),), "q": (Publish("y", "b"),)},
        lingers_end=True,
    ),
    "expiry": Config(
        "a subscription of two stages expires while two writers publish",
        "a | b",
        {"A": Reader("a b", (Cut(), Back())), "B": Reader("a b")},
        {"p": (Publish("w", "a"), Publish("x", "a")), "q": (Publish("v", "b"), Publish("y", "b"))},
        long=True,
    ),
    "expiry-while-joining": Config(
        "a subscription expires while a change of it is under way",
        "a | b",
        {"A": Reader("a", (Cut(), Back(), Hold("a b"), Cut(), Back())), "B": Reader("a b"), "C": Reader("a b")},
        {"p": (Publish("x", "b"),), "q": (Publish("y", "a"),)},
        long=True,
    ),
    "swap-while-joining": Config(
        "a reader joins while topics change places",
        "a | b",
        {"A": Reader("a", (Hold("a b"),)), "B": Reader("a b"), "C": Reader("a b")},
        {"p": (Publish("x", "b"),), "q": (Publish("y", "a"),)},
        reorders=("b | a",),
        long=True,
    ),
    "two-joiners": Config(
        "two readers change at once",
        "a | b",
        {"A": Reader("a", (Hold("a b"),)), "B": Reader("b", (Hold("a b"),)), "C": Reader("a b")},
        {"p": (Publish("x", "a"), Publish("y", "b")), "q": (Publish("z", "b"),)},
        long=True,
    ),
    "writers": Config(
        "two writers that use all topics, requests pipelined",
        "a | b | c",
        {"A": Reader("a b c"), "B": Reader("a b c"), "C": Reader("a c")},
        {
            "p": (Publish("p1", "c"), Publish("p2", "a"), Publish("p3", "b")),
            "q": (Publish("q1", "b"), Publish("q2", "c")),
        },
        long=True,
    ),
    "swaps": Config(
        "two readers exchange topics, one stage each, while two writers publish across them",
        "a | b | c",
        {"A": Reader("a b", (Hold("b c"),)), "B": Reader("b c", (Hold("a b"),)), "C": Reader("a b c")},
        {"p": (Publish("x", "a"), Publish("y", "c")), "q": (Publish("z", "b"),)},
        long=True,
    ),
    "voids": Config(
        "two events may become void while a reader joins and another asks",
        "a | b",
        {"A": Reader("a b", (Ask(),)), "B": Reader("a", (Hold("a b"),))},
        {"p": (Publish("x", "a"), Cancel("x"), Publish("z", "b")), "q": (Publish("v", "b"), Cancel("v"))},
        long=True,
    ),
    "tagging": Config(
        "a reader that tags leaves a topic and takes it again",
        "a | b",
        {"A": Reader("a b", (Hold("b"), Hold("a b")), "tag"), "B": Reader("a b"), "C": Reader("a b")},
        {"p": (Publish("x1", "a"), Publish("x2", "a")), "q": (Publish("y", "b"),)},
        long=True,
    ),
}


def random_config(seed: int) -> Config:
    """Return a system made by chance; the same for the same seed."""
    rng = random.Random(seed)
    names = ["a", "b", "c", "d"][: rng.randint(2, 4)]
    order = names[0] + "".join(rng.choice((" ", " | ")) + name for name in names[1:])
    subjects = [*names, "n/1"] if rng.random() < 0.2 else names

    def some() -> str:
        held = rng.sample(names, rng.randint(1, len(names)))
        return " ".join(sorted(held) + (["n/+"] if subjects is not names and rng.random() < 0.6 else []))

    readers: dict[str, Reader] = {}
    changes = rng.randint(0, 3)
    for name in "ABCD"[: rng.randint(2, 4)]:
        does: list[Hold | Ask | Cut | Back] = [Hold(some()) for _ in range(min(changes, rng.randint(0, 2)))]
        changes -= len(does)
        if rng.random() < 0.1:
            does.insert(rng.randint(0, len(does)), Ask())
        if rng.random() < 0.1:
            at = rng.randint(0, len(does))
            does[at:at] = [Cut(expires=rng.random() < 0.7), Back()]
        mode: Mode = rng.choice(("tag", Bounded(buffer=1))) if rng.random() < 0.15 else "strict"
        readers[name] = Reader(some(), tuple(does), mode)
    labels = iter("uvwxyz")
    writers: dict[str, tuple[Publish | Cancel | Again, ...]] = {}
    for name in ("p", "q", "r")[: rng.randint(1, 3)]:
        script: list[Publish | Cancel | Again] = []
        for _ in range(rng.randint(1, 2)):
            event = Publish(next(labels), rng.choice(subjects))
            script.append(event)
            if rng.random() < 0.1:
                script.append(Cancel(event.label) if rng.random() < 0.5 else Again())
        writers[name] = tuple(script)
    reorders: tuple[str, ...] = ()
    if rng.random() < 0.15:
        stages: list[list[str]] = [[] for _ in order.split("|")]
        for name in names:
            rng.choice(stages).append(name)
        reorders = (" | ".join(" ".join(each) for each in stages),)
    return Config(f"made by chance, seed {seed}", order, readers, writers, reorders=reorders)
