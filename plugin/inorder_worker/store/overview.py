"""The contents of a store and its workers, watched for a moment: for ``inorder status`` and the control plane.

Nothing is written, and no worker is asked: what is shown is what a standby would see.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from inorder_worker.store.identity import is_gone
from inorder_worker.store.journal import DRAINED, Holder, Member
from inorder_worker.store.journal_table import read_last_rows
from inorder_worker.store.sql_journal import read_workers
from inorder_worker.store.stage_table import read_holders
from inorder_worker.store.store import Store
from inorder_worker.store.store_info import StoreInfo
from inorder_worker.store.watch import State, Watch

LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage. ``row``: the last one of its journal. ``owner`` is empty where it has none; ``state`` is the owner's,
    or ``free``."""

    stage: int
    epoch: int
    row: int
    owner: str
    address: str
    state: State | Literal["free"]


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker. ``state``: active, standby, suspect or dead. ``lag``: by stage that it follows, the rows that it has
    not read yet. ``is_drained``: it takes no stage."""

    owner: str
    address: str
    state: State
    stages: list[int]
    pins: list[int]
    lag: dict[int, int]
    is_drained: bool = False


@dataclass(frozen=True, slots=True)
class Overview:
    """A store's stages and workers. ``outdated``: how the store was found to be an older copy; else empty."""

    domain: int
    stages: list[StageView]
    workers: list[WorkerView]
    outdated: str = ""


class StoreWatcher:
    """Looks at a store repeatedly, as a worker's silence shows only after a while.

    Args:
        lease: seconds of silence that make a worker suspect.
        longest_step: seconds between two looks that count at most.
    """

    def __init__(self, lease: float, longest_step: float) -> None:
        self._watch = Watch(lease, longest_step)
        self._names: set[str] = set()

    def look(self, store: Store, now: float) -> Overview:
        """Look at the store at ``now`` (s, by a monotonic clock). Blocks. Raises StoreErrors."""
        info = store.look()
        assert info is not None
        holders, members, rows = store.read(_read)
        self._watch.see(holders, members, rows, now)
        self._names = {each.owner for each in holders if each.owner} | {each.owner for each in members}
        return _view(info, holders, members, rows, self._watch)

    @property
    def is_sure(self) -> bool:
        """Tell whether every worker of the last look has shown life before, or is known to be gone."""
        return all(self._watch.has_shown_life(each) or is_gone(each) for each in self._names)


def overview(url: str, lease: float, timeout: float = 10.0) -> Overview:
    """Watch a store until every worker in it has shown life, for at most a lease (s). Blocks. Raises StoreErrors."""
    store = Store(url, timeout=timeout, is_read_only=True)
    try:
        store.run(store.require_current)
        watcher, until = StoreWatcher(lease - LOOK_SECONDS, lease), time.monotonic() + lease
        while True:
            found = watcher.look(store, time.monotonic())
            if watcher.is_sure or time.monotonic() >= until:
                return found
            time.sleep(LOOK_SECONDS)
    finally:
        store.close()


def _read(connection: sa.Connection) -> tuple[list[Holder], list[Member], dict[int, int]]:
    return read_holders(connection), read_workers(connection), read_last_rows(connection)


def _view(
    info: StoreInfo, holders: list[Holder], members: list[Member], rows: dict[int, int], watch: Watch
) -> Overview:
    def state(owner: str) -> State:
        return "dead" if is_gone(owner) else watch.state(owner)

    stages = [
        StageView(each.stage, each.epoch, rows.get(each.stage, 0), each.owner, each.address,
                  state(each.owner) if each.owner else "free")
        for each in holders
    ]  # fmt: skip
    workers = []
    for each in members:
        own = [holder.stage for holder in holders if holder.owner == each.owner]
        lag = {stage: max(0, rows.get(stage, 0) - row) for stage, row in each.rows.items()}
        is_drained = each.pins == DRAINED
        pins = [] if is_drained else list(each.pins)
        workers.append(WorkerView(each.owner, each.address, state(each.owner), own, pins, lag, is_drained))
    workers.sort(key=lambda each: (not each.stages, each.owner))
    return Overview(info.domain, stages, workers, info.outdated)
