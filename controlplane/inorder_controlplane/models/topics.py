"""Topics."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from inorder_controlplane.models.common import Answer, Body, Moment, Number, body_example, example

SPACE = "mqtt"
NAME = "plant/line-1/state"


def _plain(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL character is not allowed")
    return text


def _short(text: str) -> str:
    if len(text.encode()) > 255:
        raise ValueError("more than 255 bytes of UTF-8 are not allowed")
    return text


def _named(text: str) -> str:
    if len(text.encode()) > 65_535:
        raise ValueError("more than 65535 bytes of UTF-8 are not allowed")
    return text


Space = Annotated[
    str, Field(min_length=1, max_length=255, examples=[SPACE]), AfterValidator(_plain), AfterValidator(_short)
]
TopicName = Annotated[
    str, Field(min_length=1, max_length=65_535, examples=[NAME]), AfterValidator(_plain), AfterValidator(_named)
]


class TopicRef(Answer):
    """A topic."""

    id: Number
    space: str = Field(examples=[SPACE])
    name: str = Field(examples=[NAME])


class LogBounds(Answer):
    """The bounds of a topic's event log; 0: no such bound."""

    max_age_s: float
    max_count: int
    max_bytes: int


_TOPIC = {
    "id": "3",
    "space": SPACE,
    "name": NAME,
    "stage": 1,
    "rank": 4,
    "rate": 12.5,
    "number": "9007199254740993",
    "head": "9007199254740991",
    "confirmed": "812",
    "pending": "2",
    "void": "0",
    "abandoned": "1",
    "late": "0",
    "subscribers": 5,
    "group_size": 3,
    "pinned": False,
    "log": {"max_age_s": 604800.0, "max_count": 100000, "max_bytes": 0},
}


class Topic(TopicRef):
    """A topic, its place in the order and its numbers."""

    model_config = example(_TOPIC)

    stage: int = Field(description="0 is the top")
    rank: int = Field(description="its place in the topic order; 1 is the highest")
    rate: float | None = Field(description="timestamps per second, over the last seconds; null: not known")
    number: Number = Field(description="its last sequence number")
    head: Number = Field(description="the highest number whose event the broker accepted")
    confirmed: Number = Field(description="how many numbers' events the broker accepted")
    pending: Number = Field(description="how many numbers are neither confirmed nor given up")
    void: Number = Field(description="how many numbers' events were never handed to the broker")
    abandoned: Number = Field(description="how many numbers were given up")
    late: Number = Field(description="how many of them were confirmed afterwards")
    subscribers: int = Field(description="clients that subscribe to it with total order")
    group_size: int = Field(description="topics that must be sequenced with it: two or more clients have both")
    pinned: bool = Field(description="it stays on its stage, whatever its popularity")
    log: LogBounds | None = Field(description="its event log; null: it has none")


class GroupMember(TopicRef):
    """A topic of a sequencing group."""

    stage: int


class TopicDetail(Topic):
    """A topic with its sequencing group."""

    model_config = example({**_TOPIC, "group": [{"id": "1", "space": SPACE, "name": "plant/alarms", "stage": 0}]})

    group: list[GroupMember] = Field(description="topics that two or more clients have together with it")


class NewTopic(Body):
    """A topic to create."""

    model_config = body_example({"space": SPACE, "name": NAME})

    space: Space
    name: TopicName


class NewLogBounds(Body):
    """New bounds of a topic's event log, which drops its oldest events; 0: no such bound."""

    max_age_s: float = Field(default=604_800.0, ge=0, le=1e9)
    max_count: int = Field(default=100_000, ge=0, lt=2**53)
    max_bytes: int = Field(default=256 * 1024 * 1024, ge=0, lt=2**53)


class TopicPatch(Body):
    """Changes of a topic; fields that are left out stay."""

    model_config = body_example({"pinned": True, "log": {"max_age_s": 86400, "max_count": 1000, "max_bytes": 0}})

    pinned: bool = Field(default=False, description="it stays on its stage, whatever its popularity")
    log: NewLogBounds | None = Field(default=None, description="null ends the log, with all that it holds")


class Dependency(Answer):
    """A dependency of an event: everything in the topic up to the number comes before the event."""

    topic: TopicRef
    number: Number


class LoggedEvent(Answer):
    """An event of a topic's event log."""

    number: Number
    stored_at: Moment
    dependencies: list[Dependency]
    payload_base64: str | None = Field(description="null: its publisher did not know of the log yet")
    payload_text: str | None = Field(description="the same as text, where it is one")
    qos: int | None


class LogPage(Answer):
    """A part of a topic's event log."""

    model_config = example(
        {
            "items": [
                {
                    "number": "12",
                    "stored_at": "2026-03-01T09:30:00.125Z",
                    "dependencies": [
                        {"topic": {"id": "1", "space": SPACE, "name": "plant/alarms"}, "number": "40"},
                    ],
                    "payload_base64": "b24=",
                    "payload_text": "on",
                    "qos": 1,
                }
            ],
            "next": "13",
            "first": "5",
            "last": "99",
        }
    )

    items: list[LoggedEvent]
    next: Number | None = Field(description="`from` of the next part; null: there is no more now")
    first: Number | None = Field(description="the lowest number that the log has; null: none")
    last: Number | None = Field(description="the highest number that the log has; null: none")
