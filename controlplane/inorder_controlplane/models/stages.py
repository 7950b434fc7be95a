"""Stages and workers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from inorder_controlplane.models.common import Answer, Body, Moment, Number, body_example, example

_OWNER = "press-1/9f0c3a5e7b21/4711-882910/5b0d6c7e8f901234"


class Stage(Answer):
    """A stage of the sequencer with its worker."""

    model_config = example(
        {
            "stage": 0,
            "epoch": "3",
            "owner": _OWNER,
            "address": "10.0.0.7:7401",
            "state": "active",
            "row": "8812",
            "topics": 12,
            "rate": 240.5,
        }
    )

    stage: int = Field(description="0 is the top")
    epoch: Number = Field(description="rises with each take-over")
    owner: str | None = Field(description="one start of a worker; null: nobody has the stage")
    address: str | None
    state: Literal["active", "standby", "suspect", "dead", "free"] = Field(
        description="of its owner: suspect shows no sign of life; free: it has none"
    )
    row: Number = Field(description="the last row of its journal")
    topics: int | None = Field(description="topics whose home it is; null: the workers do not answer")
    rate: float | None = Field(description="timestamps per second of its topics; null: not known")


class Takeover(Answer):
    """One change of a stage's worker."""

    model_config = example(
        {
            "stage": 0,
            "epoch": "3",
            "owner": _OWNER,
            "address": "10.0.0.7:7401",
            "at": "2026-03-01T09:30:00.125Z",
            "kind": "takeover",
        }
    )

    stage: int
    epoch: Number = Field(description="the one that began with it")
    owner: str
    address: str
    at: Moment
    kind: Literal["claim", "takeover", "handover"] = Field(
        description="claim: nobody had it; takeover: its owner was silent or gone; handover: its owner let it go"
    )


class StageMove(Body):
    """The worker to which a stage shall move."""

    model_config = body_example({"to": _OWNER})

    to: str = Field(min_length=1, max_length=512, description="a worker's owner name, as GET /workers lists it")


class Worker(Answer):
    """A worker that lives, or that went a short time ago."""

    model_config = example(
        {
            "owner": _OWNER,
            "name": "press-1",
            "address": "10.0.0.7:7401",
            "state": "standby",
            "stages": [],
            "pins": [],
            "drained": False,
            "lag": {"0": "3"},
        }
    )

    owner: str = Field(description="one start of it")
    name: str = Field(description="the beginning of its owner's name")
    address: str
    state: Literal["active", "standby", "suspect", "dead"]
    stages: list[int] = Field(description="those that it has")
    pins: list[int] = Field(description="the stages that it may have; empty: all")
    drained: bool = Field(description="it takes no stage until it is started again or told so")
    lag: dict[str, Number] = Field(description="by stage that it follows: rows that it has not read yet")
