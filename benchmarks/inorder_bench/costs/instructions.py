"""What recording costs in instructions, which valgrind counts: of an event without recording, and of its records.

Counts depend neither on what else the machine does nor on its caches. A part's own count is the difference between two
processes, one of which does more of it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from inorder.testing.services import WorkerServer
from inorder_bench.costs.traces import AIM
from inorder_bench.costs.valgrind import instructions, look
from inorder_bench.job import Job
from inorder_bench.match import WARM_UP
from inorder_bench.rows import Row, Say, spread

TITLE = "recording, in-process broker, all clients in one process"
BURST = 2_000


def measure(events: int, say: Say) -> list[Row]:
    """Count both. Raises SystemExit where there is no valgrind."""
    look()
    bursts = max(1, events // BURST)
    with WorkerServer() as worker, TemporaryDirectory(prefix="inorder-traces-") as folder:
        say(f"{TITLE}: counting instructions of {bursts * BURST:,} events")
        plain = _difference(bursts * BURST, *(_bursts(worker.url, each) for each in (0, bursts)))
        recording = _difference(events, *(_recording(Path(folder), events, each) for each in (0, events)))
    ratio = plain / (plain + recording)
    return [
        Row(workload=TITLE, name="an event without traces", unit="instructions", value=spread([plain])),
        Row(
            workload=TITLE,
            name="its records, written",
            unit="instructions",
            value=spread([recording]),
            ratio=spread([ratio]),
            yardstick="left",
            aim=f">= {AIM}",
            reached=ratio >= AIM,
        ),
    ]


def _difference(events: int, few: int, many: int) -> float:
    return (many - few) / events


def _bursts(worker: str, bursts: int) -> int:
    job = Job(
        client="inorder_bench.costs.bursts", role="bursts", url="memory://bench", workers=[worker], events=BURST,
        warm_up=WARM_UP, pairs=bursts, name=str(bursts),
    )  # fmt: skip
    return instructions("inorder_bench.role", msgspec.json.encode(job).decode(), given="go\n")


def _recording(folder: Path, events: int, recorded: int) -> int:
    return instructions("inorder_bench.costs.recording", str(events), str(recorded), str(folder / str(recorded)))
