"""Publishers by hand: what they ask for, and answers."""

from __future__ import annotations

from inorder.endpoint.publications import Publication
from inorder.endpoint.publisher import Publisher
from inorder.protocol.wire import CreateTimestamps, StampedEvent, Timestamps, TopicInfo

SPACE = "m"
STAGES = {"top": 0, "middle": 1, "low": 2}


def new_publisher() -> Publisher:
    publisher = Publisher()
    publisher.named(TopicInfo(number, SPACE, name, stage) for number, (name, stage) in enumerate(STAGES.items(), 1))
    return publisher


def publish(publisher: Publisher, *names: str) -> list[Publication]:
    return [publisher.publish((SPACE, name), name) for name in names]


def asked(frames: list[CreateTimestamps]) -> list[tuple[int, list[int]]]:
    return [(frame.stage, [event.counter for event in frame.events]) for frame in frames]


def answer(publisher: Publisher, each: Publication, number: int, epoch: int = 1) -> list[Publication]:
    frame = Timestamps(each.entry, epoch, [StampedEvent(each.counter, each.topic_id, number, [])])
    return publisher.answered(frame).ready


def stamped(publisher: Publisher, name: str, number: int = 1) -> Publication:
    (each,) = publish(publisher, name)
    publisher.requests()
    assert answer(publisher, each, number) == [each]
    return each


def follows(publisher: Publisher, name: str) -> list[list[int]]:
    publish(publisher, name)
    return [each.after for frame in publisher.requests() for each in frame.events]
