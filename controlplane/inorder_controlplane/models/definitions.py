"""Definitions: an operator's setup as a document that can be kept and imported into another store."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, FailFast, Field

from inorder.protocol.names import MAX_NAME_BYTES, MAX_SPACE_BYTES
from inorder.protocol.stamp import MAX_STAGES
from inorder.protocol.wire import MAX_NUMBER
from inorder_controlplane.models.analytics import NewSchedule
from inorder_controlplane.models.common import Answer, Body, body_example, example
from inorder_worker.admin.checks import MOST_SECONDS

MAX_TOPICS: Final = 100_000

_EXAMPLE: Final[dict[str, Any]] = {
    "version": 1,
    "order": [[{"space": "mqtt", "name": "orders"}], [{"space": "mqtt", "name": "plant/line4"}]],
    "pinned": [{"space": "mqtt", "name": "orders"}],
    "logs": [
        {
            "space": "mqtt",
            "filter": "orders/#",
            "glob": False,
            "max_age_s": 604800.0,
            "max_count": 100000,
            "max_bytes": 268435456,
        }
    ],
    "automatic": {"on": True, "window_s": 10.0, "alpha": 0.1, "beta": 0.2},
    "schedules": [
        {
            "name": "every night",
            "cron": "0 3 * * *",
            "timezone": "UTC",
            "job": {
                "source": "/var/lib/inorder/traces",
                "out": None,
                "window_s": 60.0,
                "max_pairs": 200,
                "master": "local[*]",
            },
            "is_on": True,
        }
    ],
}


def _sized(most: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text.encode()) > most:
            raise ValueError(f"more than {most} bytes of UTF-8")
        return text

    return AfterValidator(check)


Space = Annotated[str, Field(min_length=1, max_length=MAX_SPACE_BYTES), _sized(MAX_SPACE_BYTES)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_BYTES), _sized(MAX_NAME_BYTES)]


class TopicName(Body):
    """A topic's name, the same in every store, where its id differs."""

    space: Space
    name: Name


class LogDefinition(Body):
    """A rule that gives topics an event log, with bounds for each topic; 0: no such bound."""

    space: Space
    filter: Name
    glob: bool = Field(description="read as a Redis glob, else as an MQTT filter")
    max_age_s: float = Field(ge=0, le=MAX_NUMBER / 1000 - 1)
    max_count: int = Field(ge=0, le=MAX_NUMBER)
    max_bytes: int = Field(ge=0, le=MAX_NUMBER)


class AutomaticOrder(Body):
    """The automatic change of topics' places by popularity."""

    on: bool
    window_s: float = Field(ge=0, le=MOST_SECONDS, description="over which events are counted; 0 where it is off")
    alpha: float = Field(gt=0, description="the greater, the fewer topics are popular")
    beta: float = Field(ge=0, lt=1, description="how much more popular a topic must be to change places")


class Definitions(Body):
    """An operator's whole setup."""

    model_config = body_example(_EXAMPLE)

    version: Literal[1]
    order: list[Annotated[list[TopicName], FailFast(), Field(max_length=MAX_TOPICS)]] = Field(
        max_length=MAX_STAGES, description="topics of each stage, the top one first"
    )
    pinned: Annotated[list[TopicName], FailFast()] = Field(max_length=MAX_TOPICS)
    logs: Annotated[list[LogDefinition], FailFast()] = Field(max_length=10_000)
    automatic: AutomaticOrder | None = Field(default=None, description="null: left as it is")
    schedules: Annotated[list[NewSchedule], FailFast()] = Field(
        default=[],
        max_length=1_000,
        description="of analyses; where they read and write is looked at when they run",
    )


class ImportPlan(Answer):
    """The changes of an import."""

    model_config = example(
        {
            "dry_run": True,
            "creates": [{"space": "mqtt", "name": "orders"}],
            "reorders": True,
            "moves": 1,
            "pins": [],
            "lets_go": [],
            "logs": 1,
            "automatic": False,
            "schedules": 1,
        }
    )

    dry_run: bool
    creates: list[TopicName] = Field(description="topics that are new")
    reorders: bool = Field(description="the topic order changes")
    moves: int = Field(description="topics that change their stage", ge=0)
    pins: list[TopicName]
    lets_go: list[TopicName] = Field(description="topics that are pinned no longer")
    logs: int = Field(description="rules of event logs that are new or have other bounds", ge=0)
    automatic: bool = Field(description="whether and how topics change places by themselves changes")
    schedules: int = Field(description="schedules of analyses that are new or other ones", ge=0)
