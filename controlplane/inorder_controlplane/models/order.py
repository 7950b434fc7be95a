"""The topic order."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, FailFast, Field, Tag

from inorder_controlplane.models.common import Answer, Body, Moment, Number, body_example, example
from inorder_controlplane.models.numbers import GivenNumber
from inorder_controlplane.models.topics import NAME, SPACE, TopicRef

MAX_MOVES: Final = 1000
"""Topics that one answer tells of at most."""

# -- what is sent ------------------------------------------------------------------------------------------------------


class WholeOrder(Body):
    """A whole topic order: the topic ids of each stage, the highest first. Every topic stands in it once."""

    model_config = body_example({"stages": [["3", "1"], ["2"]]})

    stages: list[Annotated[list[GivenNumber], FailFast()]] = Field(max_length=64)


class Swap(Body):
    """A change of the order in which two topics change places."""

    model_config = body_example({"swap": ["1", "2"]})

    swap: list[GivenNumber] = Field(min_length=2, max_length=2)


class Place(Body):
    """The new place of a topic: a stage (0 is the top), at its front or at a rank (1 is the highest of all)."""

    topic: GivenNumber
    stage: int = Field(ge=0, le=63)
    rank: int | None = Field(default=None, ge=1, lt=2**53)


class Move(Body):
    """A change of the order in which one topic goes to another place."""

    model_config = body_example({"move": {"topic": "2", "stage": 0, "rank": 1}})

    move: Place


class NewAutomatic(Body):
    """New settings for the automatic change of topics' places by popularity (R15)."""

    model_config = body_example({"on": True, "window_s": 60, "alpha": 0.1, "beta": 0.2})

    on: bool
    window_s: float = Field(default=60.0, ge=0, le=366 * 86_400, description="over 0 to be on")
    alpha: float = Field(default=0.1, gt=0, le=1e6)
    beta: float = Field(default=0.2, ge=0, lt=1)


_FORMS: Final = ("stages", "swap", "move")


def _form(value: Any) -> str | None:
    names = value if isinstance(value, dict) else [name for name in _FORMS if hasattr(value, name)]
    return next((name for name in _FORMS if name in names), None)


OrderChange = Annotated[
    Annotated[WholeOrder, Tag("stages")] | Annotated[Swap, Tag("swap")] | Annotated[Move, Tag("move")],
    Discriminator(
        _form,
        custom_error_type="no_change",
        custom_error_message="a change has one of: stages (the whole order), swap, move",
    ),
]

# -- what is answered --------------------------------------------------------------------------------------------------


class TopicOnStage(TopicRef):
    """A topic in the order."""

    pinned: bool
    rate: float | None = Field(description="timestamps per second, over the last seconds; null: not known")


class StageOrder(Answer):
    """The topics of a stage, the highest first."""

    stage: int
    topics: list[TopicOnStage]


class Automatic(Answer):
    """The settings of the automatic change of topics' places by popularity (R15)."""

    model_config = example({"on": True, "window_s": 60.0, "alpha": 0.1, "beta": 0.2})

    on: bool
    window_s: float = Field(description="seconds over which events are counted; 0 while it is off")
    alpha: float = Field(description="the greater, the fewer events make a topic popular")
    beta: float = Field(description="how much more popular a topic must be to change places")


class Order(Answer):
    """The topic order."""

    model_config = example(
        {
            "order_epoch": "7",
            "stages": [
                {"stage": 0, "topics": [{"id": "1", "space": SPACE, "name": NAME, "pinned": False, "rate": 12.5}]},
                {"stage": 1, "topics": []},
            ],
            "automatic": {"on": False, "window_s": 0.0, "alpha": 0.1, "beta": 0.2},
        }
    )

    order_epoch: Number
    stages: list[StageOrder]
    automatic: Automatic


class TopicMove(Answer):
    """The old and the new place of a topic; ranks count from 1, the highest, through all stages."""

    topic: TopicRef
    from_stage: int
    to_stage: int
    from_rank: int
    to_rank: int


class Visits(Answer):
    """The mean number of stages that a timestamp visits: the cost of a topic order."""

    now: float
    then: float


_MOVE = {
    "topic": {"id": "2", "space": SPACE, "name": NAME}, "from_stage": 1, "to_stage": 0, "from_rank": 5, "to_rank": 1,
}  # fmt: skip


class Preview(Answer):
    """The effects of a change of the topic order. Topics that merely make room for others are not among the moves."""

    model_config = example(
        {
            "order_epoch": "7",
            "moves": [_MOVE],
            "moves_total": 1,
            "expected_stages_per_event": {"now": 1.8, "then": 1.2},
            "rates_known": True,
            "warnings": ["topics change their stage: every publisher pauses for a moment while the order changes"],
        }
    )

    order_epoch: Number = Field(description="of the order that it was computed for")
    moves: list[TopicMove] = Field(description=f"{MAX_MOVES} at most")
    moves_total: int
    expected_stages_per_event: Visits
    rates_known: bool = Field(description="the mean is weighted by how much is published; else all topics count alike")
    warnings: list[str]


class OrderChanged(Answer):
    """The result of a change of the topic order."""

    model_config = example({"order_epoch": "8"})

    order_epoch: Number = Field(description="of the present order")


class PastOrder(Answer):
    """A former topic order, and the changes that it brought."""

    model_config = example(
        {
            "order_epoch": "8",
            "at": "2026-03-01T09:30:00.125Z",
            "kind": "manual",
            "who": "ann",
            "moves": [_MOVE],
            "moves_total": 1,
        }
    )

    order_epoch: Number
    at: Moment
    kind: Literal["start", "manual", "automatic"]
    who: str = Field(description="who asked for it; empty: nobody, or before there were tokens")
    moves: list[TopicMove] | None = Field(description="null: the order before it is not known")
    moves_total: int | None
