"""What order costs a program of redis-py: ``python -m benchmarks.redis_py [--events 2000] [--repeats 3]``.

One process publishes, another reads with ``get_message(timeout=...)``; both with the library itself and with
``inorder.redis``, in turn, on one server and one worker. Publishes one by one wait for each reply, as programs do; in
pipelines a hundred share it. Prints events a second and processor time per event (µs) of the two processes, and ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from inorder.testing.services import RedisServer, WorkerServer

CHANNEL, PAYLOAD, BATCH = "benchmark", b"x" * 100, 100
LIBRARIES = ("redis", "inorder.redis")
Figures = dict[str, float]


def library_of(name: str) -> Any:
    """Import what is measured."""
    import importlib

    return importlib.import_module(name)


def read(name: str, port: int, events: int) -> None:
    """The reading process: says when it has subscribed, and what it took."""
    with library_of(name).Redis(port=port) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(CHANNEL)
        print("subscribed", flush=True)
        seen, cpu = 0, time.process_time()
        while seen < events:
            seen += pubsub.get_message(timeout=60) is not None
        print(json.dumps({"cpu": (time.process_time() - cpu) / events * 1e6, "end": time.monotonic()}), flush=True)


def measure(name: str, port: int, events: int, batch: int) -> Figures:
    """Publish, with a process that reads, and return the figures of both."""
    command = [sys.executable, "-m", "benchmarks.redis_py", "--role", name, str(port), "--events", str(events)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "subscribed\n"
        with library_of(name).Redis(port=port) as client:
            client.publish("warm-up", b"")
            begin, cpu = time.monotonic(), time.process_time()
            if batch == 1:
                for _ in range(events):
                    client.publish(CHANNEL, PAYLOAD)
            else:
                for _ in range(events // batch):
                    with client.pipeline(transaction=False) as pipeline:
                        for _ in range(batch):
                            pipeline.publish(CHANNEL, PAYLOAD)
                        pipeline.execute()
            used = (time.process_time() - cpu) / events * 1e6
        told = json.loads(reader.stdout.readline())
    return {"events/s": events / (told["end"] - begin), "publish cpu us": used, "receive cpu us": told["cpu"]}


def main() -> None:
    """Measure all in turn."""
    parser = argparse.ArgumentParser(prog="benchmarks.redis_py", description=__doc__)
    parser.add_argument("--events", type=int, default=2000, help="in one measurement, a multiple of 100")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--role", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role:
        return read(given.role[0], int(given.role[1]), given.events)
    with RedisServer() as server, WorkerServer() as worker:
        os.environ["INORDER_CLIENT__WORKERS"] = worker.url
        for how, batch in (("one by one", 1), (f"pipelines of {BATCH}", BATCH)):
            found: dict[str, list[Figures]] = {name: [] for name in LIBRARIES}
            for _ in range(given.repeats):
                for name in LIBRARIES:
                    found[name].append(measure(name, server.port, given.events, batch))
            for name in LIBRARIES:
                middle = {key: statistics.median(each[key] for each in found[name]) for key in found[name][0]}
                print(f"{how}: {name}: " + ", ".join(f"{key} {value:,.0f}" for key, value in middle.items()))
            ratios = [b["events/s"] / a["events/s"] for a, b in zip(*found.values(), strict=True)]
            print(f"{how}: {statistics.median(ratios):.3f} of the library's ({min(ratios):.3f} to {max(ratios):.3f})")
    return None


if __name__ == "__main__":
    main()
