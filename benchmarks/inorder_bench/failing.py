"""Take-over under load: the worker that has the stage ends or stands still, and another one goes on."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from inorder.testing.services import WorkerServer, wait_until
from inorder_bench.match import Aim, Contender, Match, Played, Size, longest
from inorder_bench.processes import Run, RunFailed, run
from inorder_bench.rows import Result, Say
from inorder_bench.servers import Servers
from inorder_bench.throughput import stamp_bytes
from inorder_worker.store.sql_journal import SqlJournal

RATE = 200.0
SHARE = 0.06
LEAST = 400
"""Two seconds."""
LEASE_S = 2.0
AIM_MS = Aim("<=", (LEASE_S + 1.0) * 1e3)
KILLED, STOPPED, NOTHING = (
    "inorder, its worker is killed",
    "inorder, its worker stands still",
    "inorder, nothing happens",
)
MATCH = Match(
    Contender(KILLED, "ordered"),
    (
        Contender(STOPPED, "ordered"),
        Contender(NOTHING, "ordered"),
        Contender("paho, one property, nothing happens", "paho_threads", envelope="property"),
    ),
    aim=AIM_MS,
)
FAULTS = {KILLED: signal.SIGKILL, STOPPED: signal.SIGSTOP}


def taken_over(size: Size, say: Say) -> Result:
    """W8: the longest that an event was on its way at 200 events/s, in a run in whose middle something happens."""
    contenders = [MATCH.ours, *MATCH.others]
    runs: dict[str, list[Run]] = {each.name: [] for each in contenders}
    with Servers() as servers:
        for repeat in range(size.repeats):
            for each in contenders if repeat % 2 == 0 else contenders[::-1]:
                done = _run(each, servers, size, repeat)
                runs[each.name].append(done)
                say(f"repeat {repeat + 1} of {size.repeats}: {each.name}: {done.percentile_ms(100):,.0f} ms at most")
    return longest("W8", Played(MATCH, runs, {}))


def _run(contender: Contender, servers: Servers, size: Size, repeat: int) -> Run:
    events = size.share(SHARE, LEAST)
    changes = {"events": events, "warm_up": size.warm_up // 10, "rate": RATE}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        store = f"sqlite:///{folder / 'inorder.db'}"
        workers = _workers(stack, store) if contender.client == "ordered" else []
        job = contender.job(servers, repeat, stamp_bytes(), changes, workers=[each.url for each in workers])
        if contender.name not in FAULTS:
            return run(job)
        hit: list[WorkerServer] = []
        fault = threading.Timer(job.expected / RATE / 2, _hit, [store, workers, FAULTS[contender.name], hit])
        stack.callback(_kill, hit)
        stack.callback(fault.cancel)
        done = run(job, fault.start)
        fault.join()
        if not hit:
            raise RunFailed(f"{contender.name}: no worker had the stage when one should have been hit")
        return done


def _kill(workers: list[WorkerServer]) -> None:
    """End what stands still, and would not hear that it should end."""
    for each in workers:
        each.kill()


def _hit(store: str, workers: list[WorkerServer], fault: signal.Signals, hit: list[WorkerServer]) -> None:
    """Send a signal to the worker that has the stage now."""
    journal = SqlJournal(store)
    try:
        address = journal.read_map()[0].address
    finally:
        journal.close()
    for worker in workers:
        if worker.url == address:
            os.kill(worker.pid, fault)
            hit.append(worker)


def _workers(stack: ExitStack, store: str) -> list[WorkerServer]:
    """Start two workers of a stage: one has it, the other one follows."""
    workers = []
    for number in range(2):
        workers.append(WorkerServer(store=store, args=["--lease", f"{LEASE_S:g}", "--name", f"worker-{number}"]))
        stack.enter_context(workers[-1])
    journal = SqlJournal(store)
    try:
        wait_until(lambda: bool(journal.read_map()[0].owner), what="a worker has the stage")
        wait_until(lambda: len(journal.read_members()) == 2, what="another worker follows")
    finally:
        journal.close()
    return workers
