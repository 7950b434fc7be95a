"""Recording alone, as a client calls it: ``python -m inorder_bench.costs.recording EVENTS RECORDED FOLDER``.

Makes so many events, with one publish and two notifications each, records so many of them, and writes the files.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from inorder import Traces
from inorder.client.publishing import Publish
from inorder.client.recording import Recording
from inorder.endpoint.notifications import Receipt
from inorder.endpoint.publications import Publication
from inorder.endpoint.waiting import Sequenced
from inorder.ports import Arrival, Outgoing
from inorder.protocol.wire import TopicInfo
from inorder.traces.recorder import Recorder
from inorder_bench.costs.bursts import PLAIN
from inorder_bench.job import SUBSCRIBERS

TURN = 100
"""Events in one turn of the event loop."""
TOPIC = TopicInfo(1, "memory", "bench/one", 0)
RECEIPT = Receipt("memory", "bench/one", 1)


def _published(number: int) -> tuple[Publish, Publication]:
    message = Outgoing(TOPIC.name, PLAIN, stamp=PLAIN[:40])
    link: Any = None
    publish = Publish(link, message, asyncio.get_running_loop())
    publication = Publication(number, (TOPIC.space, TOPIC.name), publish, None, len(PLAIN))
    publication.info, publication.number, publication.deps = TOPIC, number, [2, number]
    publish.accepted_at = publish.published_at
    return publish, publication


def _notified(number: int) -> Sequenced:
    content = TOPIC.space, Arrival(TOPIC.name, PLAIN), number
    return Sequenced(TOPIC.id, number, [2, number], content, len(PLAIN), time.monotonic())


async def _run(events: int, recorded: int, folder: str) -> None:
    clients = []
    for at in range(1 + SUBSCRIBERS):
        recorder = Recorder(Traces(folder), f"client-{at}", time.monotonic)
        recorder.prepare(at)
        clients.append(Recording(recorder, time.monotonic, lambda topic: TOPIC, lambda *name: 1, lambda: (0, -1, 0)))
        clients[-1].opened(at, 1, "strict")
    publisher, *subscribers = clients
    publishes = [_published(number) for number in range(1, events + 1)]
    notified = [[_notified(number) for number in range(1, events + 1)] for _ in subscribers]
    for start in range(0, recorded, TURN):
        for publish, publication in publishes[start : start + TURN]:
            publisher.publish_ended(publish, publication, RECEIPT)
        for subscriber, entries in zip(subscribers, notified, strict=True):
            for entry in entries[start : start + TURN]:
                subscriber.notified(entry)
        await asyncio.sleep(0)
    for client in clients:
        await client.close(60.0)


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
