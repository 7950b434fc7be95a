"""Events and numbers that hold subscribers up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field

from inorder.protocol.wire import NumberState
from inorder_controlplane.models.common import Answer, Body, Moment, Number, body_example, example
from inorder_controlplane.models.numbers import GivenNumber, SignedNumber
from inorder_controlplane.models.topics import NAME, SPACE, Dependency, Space, TopicName, TopicRef

_TOPIC = {"id": "3", "space": SPACE, "name": NAME}

State = Literal["pending", "confirmed", "void", "abandoned", "expired", "unknown"]
"""What became of a number."""
STATES: Final[Mapping[NumberState, State]] = {
    NumberState.PENDING: "pending",
    NumberState.CONFIRMED: "confirmed",
    NumberState.VOID: "void",
    NumberState.ABANDONED: "abandoned",
    NumberState.EXPIRED: "expired",
    NumberState.UNKNOWN: "unknown",
}


class DependencyState(Dependency):
    """A number that an event waited for, with its outcome."""

    state: State = Field(description="expired: no longer known one by one")


class Happening(Answer):
    """One moment in the life of an event."""

    at: Moment | None = Field(description="null: the order is known, the time is not")
    what: str
    who: str | None = Field(description="the client")
    detail: str


class Event(Answer):
    """An event: its number, its dependencies, and the known moments of its life."""

    model_config = example(
        {
            "topic": _TOPIC,
            "number": "9007199254740993",
            "state": "confirmed",
            "dependencies": [
                {"topic": {"id": "1", "space": SPACE, "name": "plant/alarms"}, "number": "40", "state": "confirmed"}
            ],
            "client": "press-4",
            "incarnation": "-8138429374523",
            "counter": "117",
            "logged": True,
            "stored_at": "2026-03-01T09:30:00.125Z",
            "payload_base64": "b24=",
            "payload_text": "on",
            "life": [
                {"at": "2026-03-01T09:30:00.125Z", "what": "stamped", "who": "stage 1", "detail": "number 12"},
            ],
            "waiting": [],
        }
    )

    topic: TopicRef
    number: Number
    state: State
    dependencies: list[DependencyState]
    client: str | None = Field(description="its publisher; null: not known any more")
    incarnation: SignedNumber | None
    counter: Number | None
    logged: bool = Field(description="the event log has it")
    stored_at: Moment | None = Field(description="when the event log stored it; null: it did not")
    payload_base64: str | None = Field(description="null: it is not in an event log")
    payload_text: str | None = Field(description="the same as text, where it is one")
    life: list[Happening]
    waiting: list[str] = Field(description="clients that say that they hold it back, or wait for it")


class NewEvent(Body):
    """An event to publish."""

    model_config = body_example({"space": SPACE, "topic": NAME, "payload": "on", "qos": 0})

    space: Space
    topic: TopicName
    payload: str = Field(default="", max_length=256 * 1024, description="a text")
    qos: int = Field(default=0, ge=0, le=2)


class Published(Answer):
    """The receipt of an event that the broker accepted."""

    model_config = example({"topic": _TOPIC, "number": "12"})

    topic: TopicRef
    number: Number


class Gap(Answer):
    """Numbers of a topic that hold subscribers up."""

    model_config = example(
        {
            "topic": _TOPIC,
            "first": "12",
            "last": "14",
            "state": "pending",
            "reason": "publisher away",
            "client": "press-4",
            "away_s": 12.5,
            "age_s": 14.0,
            "logged": False,
            "waiting": ["desk-1"],
            "holds": {"topic": _TOPIC, "number": "15"},
        }
    )

    topic: TopicRef
    first: Number
    last: Number
    state: State
    reason: str
    client: str | None = Field(description="their publisher; null: nothing is open, but clients wait for them")
    away_s: float | None = Field(description="for how long it has been gone; null: it is connected")
    age_s: float = Field(description="since the first of them was made")
    logged: bool = Field(description="the event log has them: they can be repaired")
    waiting: list[str] = Field(description="clients that say that they hold events back for them")
    holds: Dependency | None = Field(description="the event that waits longest of these; null: no client says so")


class Numbers(Body):
    """Numbers of a topic."""

    model_config = body_example({"topic": "3", "first": "12", "last": "14"})

    topic: GivenNumber
    first: GivenNumber
    last: GivenNumber


class Release(Numbers):
    """Numbers for which subscribers shall not wait any more."""

    model_config = body_example({"topic": "3", "first": "12", "last": "14", "as": "abandoned"})

    as_: Literal["void", "abandoned"] = Field(
        alias="as",
        description="void: they were certainly not published, and are skipped silently; abandoned: they may have been, "
        "and are reported as a gap",
    )


class NumbersChanged(Answer):
    """The numbers that were settled."""

    model_config = example({"changed": ["12", "13"], "unchanged": 1})

    changed: list[Number]
    unchanged: int = Field(description="numbers of the range that were settled before, or never made")
