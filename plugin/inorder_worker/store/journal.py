"""The journal port: a stage host's requests to a store. (``chain`` has the hash chain that both sides agree on.)

Contract, shown by ``inorder.testing.journal_conformance``:

1. ``claim`` raises a stage's epoch by a conditional update; from its return on, no other owner's append succeeds. Of
   several that saw the same epoch exactly one gets the stage.
2. ``append`` writes all its batches or none, and only if no batch's stage has a higher epoch (Fenced), and each row
   behind the one that it follows (StoreOutdated): a journal that lost its end must not go on with a hole.
3. An append that returned is durable. One that raised may or may not be; the caller claims again and replays.
4. ``replay`` and ``read_on`` yield rows in order, and never one whose chain or numbering was not checked.
5. ``claim``, ``read_map`` and ``beat`` of a journal that was opened find out whether the store is still the same one
   (StoreReplaced): a restored store has another domain id. It has higher epochs too, so no claim slips in between. Nor
   does anybody go on with one that was found to be an older copy (StoreOutdated).
6. Changes of event logs (R18) are written with the rows that caused them, or not at all.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from inorder.errors import Fenced, StoreOutdated, StoreReplaced
from inorder_worker.store import memory_log
from inorder_worker.store.chain import EMPTY_TAIL, NO_HASH, Row, Tail, checked, row_hash
from inorder_worker.store.log_rows import LogReader, LogWrite
from inorder_worker.store.store_info import StoreInfo, TopicOrder, frozen_order, new_domain, new_key

if TYPE_CHECKING:
    from inorder_worker.store.sqlite_file import Room
    from inorder_worker.store.store import Store


@dataclass(frozen=True, slots=True)
class Batch:
    """One group commit of one stage; ``seq`` is one more than in the row before."""

    stage: int
    epoch: int
    seq: int
    entries: bytes


class Holder(NamedTuple):
    """A stage's last owner, with its address; ``beat`` rises while it lives. ``owner`` is empty after a release."""

    stage: int
    owner: str
    epoch: int
    beat: int
    address: str = ""


DRAINED: Final = (-1,)
"""As the pins of a worker: it may have no stage at all."""


class Member(NamedTuple):
    """A worker, with stages or without.

    Attributes:
        owner: as in Holder.
        address: where it is reached.
        beat: rises while it lives.
        pins: the stages that it may have; empty: all; DRAINED: none.
        rows: stage that it follows -> the last row that it has read.
    """

    owner: str
    address: str
    beat: int = 0
    pins: tuple[int, ...] = ()
    rows: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stage's state after the journal row ``seq``, whose hash is ``hash``."""

    stage: int
    seq: int
    hash: bytes
    state: bytes


class Journal(Protocol):
    """The store of the stages' commands. Synchronous; all calls come from one thread."""

    url: str
    """For messages; its password is masked."""

    def open(self, stages: int, topic_order: TopicOrder = ()) -> StoreInfo:
        """Open the store; a new one is made with this many stages and this order, an existing one keeps its own.

        Raises StoreUnreachable, StoreReadOnly, StoreVersionMismatch, StoreCorrupt.
        """

    def claim(self, stage: int, owner: str, seen: int | None = None, address: str = "", beat: int | None = None) -> int:
        """Claim a stage and return its new epoch. ``seen``: claim only if the epoch still is this one (or was raised by
        this very owner). ``address``: where the owner is reached. ``beat``: claim only if the owner has shown no life
        since this one. Raises Fenced where that is not so."""

    def read_map(self) -> list[Holder]:
        """Return every stage, in order, with its last owner, dead or alive."""

    def release(self, owned: Sequence[tuple[int, int]]) -> None:
        """Release these (stage, epoch) pairs of an owner; pairs with another owner are left alone. The epochs stay."""

    def append(self, batches: Sequence[Batch], log: Sequence[LogWrite] = ()) -> None:
        """Write one row per batch, and changes of logs, in one transaction. Raises Fenced (without effect),
        StoreError."""

    def log_reader(self) -> LogReader:
        """Return a reader of the event logs for another thread."""

    def replay(self, stage: int, after_seq: int) -> Iterator[Row]:
        """Yield the rows after ``after_seq`` (0, or that of a snapshot), checked. Raises StoreCorrupt, and
        StoreVersionMismatch for a row of a newer release."""

    def read_on(self, stage: int, tail: Tail) -> Iterator[Row]:
        """Yield the rows after the last one read, checked, while others write. Raises StoreCorrupt also where the next
        one was forgotten (see ``save_snapshot``), and StoreVersionMismatch."""

    def save_snapshot(self, stage: int, epoch: int, seq: int, state: bytes) -> None:
        """Store a stage's state after row ``seq``; then delete older snapshots but one, and the rows that it covers."""

    def load_snapshot(self, stage: int) -> Snapshot | None:
        """Return the newest undamaged snapshot, or ``None``. Raises StoreCorrupt if all are damaged and the rows they
        replaced are gone, StoreVersionMismatch for one of a newer release."""

    def last_row(self, stage: int) -> int:
        """Return the number of the last row of a stage, 0 if it has none."""

    def mark_outdated(self, reason: str) -> None:
        """Mark this store as an older copy, with the reason, so that nobody goes on with it. Raises StoreReplaced where
        it has got another domain id meanwhile."""

    def beat(self, owned: Sequence[tuple[int, int]], member: Member | None = None) -> None:
        """Show that the owner of these (stage, epoch) pairs lives, with the facts about it (its own ``beat`` is not
        taken). Raises Fenced if one is not owned any more."""

    def read_members(self) -> list[Member]:
        """Return all workers that have shown themselves by a beat, dead or alive."""

    def forget_members(self, owners: Collection[str], *, are_silent: bool = False) -> bool:
        """Delete workers that are gone or leave; a living one shows itself again. ``are_silent``: that is all that is
        known of them, so raise StoreOutdated in an older copy, where those that live show nothing either; and do not
        wait for a lock, which one of them may have. Return whether that was done."""

    def unblock(self, owner: str) -> bool:
        """End an owner that was silent for a whole lease if it is stopped in the middle of a write and so blocks
        others; return whether this was done."""

    def sibling(self) -> Journal:
        """Return another journal over the same store, for another thread."""

    def room(self) -> Room | None:
        """Return an SQLite store's log size and free room, as last measured; ``None`` for others. On any thread."""

    def records(self) -> Store | None:
        """Return another connection to the store, for tokens and the audit log; ``None`` if there are none."""

    def close(self) -> None:
        """Close the store. No error."""

    def interrupt(self) -> None:
        """Make a call in another thread that waits for a lock give up soon."""


def require_same(url: str, before: int, domain: int, outdated: str) -> None:
    """Raise StoreReplaced for another domain id than at the opening, StoreOutdated for a store marked as a copy."""
    if domain != before:
        raise StoreReplaced(url, before, domain)
    if outdated:
        raise StoreOutdated(url, outdated)


def require_tail(url: str, row: Row, last: Tail) -> None:
    """Raise StoreOutdated for a row that does not follow its stage's last row."""
    if last.seq < row.seq and last != (row.seq - 1, row.prev_hash):
        what = f"row {row.seq} of stage {row.stage} follows row {row.seq - 1} that this worker wrote or read"
        raise StoreOutdated(url, f"{what}, and the journal ends with another one, {last.seq}")


class Tails:
    """The last row of every stage of this process, from which the next rows are made."""

    def __init__(self) -> None:
        self._tails: dict[int, Tail] = {}

    def __getitem__(self, stage: int) -> Tail:
        return self._tails[stage]

    def __setitem__(self, stage: int, tail: Tail) -> None:
        self._tails[stage] = tail

    def make_rows(self, batches: Sequence[Batch]) -> list[Row]:
        """Turn batches into rows. Raises ValueError for a number that does not follow (a mistake of the caller)."""
        rows = []
        for batch in batches:
            tail = self._tails[batch.stage]
            if batch.seq != tail.seq + 1:
                raise ValueError(f"stage {batch.stage}: row {batch.seq} does not follow row {tail.seq}")
            digest = row_hash(batch.stage, batch.seq, batch.epoch, tail.hash, batch.entries)
            rows.append(Row(batch.stage, batch.seq, batch.epoch, tail.hash, digest, batch.entries))
        return rows

    def advance(self, rows: Iterable[Row]) -> None:
        """Remember these rows as written."""
        for row in rows:
            self._tails[row.stage] = Tail(row.seq, row.hash)


def fenced(url: str, stage: int, ours: int | None, found: int, holder: str = "") -> Fenced:
    """Return the error for a stage that another owner, ``holder``, took over."""
    before = f"this worker holds epoch {ours}, " if ours is not None else ""
    name = f" ({holder})" if holder else ""
    return Fenced(url, f"stage {stage} was taken over by another worker{name}: {before}the store has epoch {found}")


def alive(url: str, stage: int, holder: str) -> Fenced:
    """Return the error for a stage that is not taken over because its owner has shown life meanwhile."""
    return Fenced(url, f"stage {stage} stays where it is: its owner ({holder}) has shown life")


@dataclass(slots=True)
class MemoryStore:
    """The contents of a store in memory, which several journals share."""

    info: StoreInfo | None = None
    outdated: str = ""
    epochs: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    owners: dict[int, str] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    beats: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    members: dict[str, Member] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    rows: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    snapshots: dict[int, list[Snapshot]] = field(default_factory=lambda: defaultdict(list))
    log: memory_log.Rows = field(default_factory=dict)


class MemoryJournal:
    """A journal in memory: as durable as the process. For tests and demonstrations."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.url = "memory"
        self.store = store or MemoryStore()
        self._tails = Tails()
        self._domain = 0

    def open(self, stages: int, topic_order: TopicOrder = ()) -> StoreInfo:
        """See Journal."""
        if self.store.info is None:
            self.store.info = StoreInfo(new_domain(), stages, frozen_order(topic_order), new_key())
        self._domain = self.store.info.domain
        return self.store.info

    def claim(self, stage: int, owner: str, seen: int | None = None, address: str = "", beat: int | None = None) -> int:
        """See Journal."""
        store = self.store
        with store.lock:
            self._check_domain()
            epoch, holder = store.epochs[stage], store.owners.get(stage, "")
            if seen is not None and epoch != seen and holder != owner:
                raise fenced(self.url, stage, seen, epoch, holder)
            if beat is not None and store.beats[stage] != beat and holder:
                raise alive(self.url, stage, holder)
            store.epochs[stage] = epoch + 1
            store.owners[stage], store.addresses[stage] = owner, address
            self._tails[stage] = self._tail(stage)
        return epoch + 1

    def read_map(self) -> list[Holder]:
        """See Journal."""
        store = self.store
        self._check_domain()
        return [
            Holder(
                stage,
                store.owners.get(stage, ""),
                store.epochs[stage],
                store.beats[stage],
                store.addresses.get(stage, ""),
            )
            for stage in range(store.info.stages if store.info else 0)
        ]

    def release(self, owned: Sequence[tuple[int, int]]) -> None:
        """See Journal."""
        with self.store.lock:
            for stage, epoch in owned:
                if self.store.epochs[stage] == epoch:
                    self.store.owners[stage] = ""

    def append(self, batches: Sequence[Batch], log: Sequence[LogWrite] = ()) -> None:
        """See Journal."""
        with self.store.lock:
            self._check_epochs((batch.stage, batch.epoch) for batch in batches)
            rows = self._tails.make_rows(batches)
            for row in rows:
                require_tail(self.url, row, self._tail(row.stage))
            for row in rows:
                self.store.rows[row.stage].append(row)
            memory_log.write(self.store.log, log)
        self._tails.advance(rows)

    def room(self) -> None:
        """See Journal."""

    def records(self) -> None:
        """See Journal."""

    def log_reader(self) -> LogReader:
        """See Journal."""
        return memory_log.MemoryLogReader(self.store.log)

    def replay(self, stage: int, after_seq: int) -> Iterator[Row]:
        """See Journal."""
        known: list[Row | Snapshot] = [*self.store.rows[stage], *self.store.snapshots[stage]]
        start = Tail(after_seq, next((one.hash for one in known if one.seq == after_seq), NO_HASH))
        return self.read_on(stage, start)

    def read_on(self, stage: int, tail: Tail) -> Iterator[Row]:
        """See Journal."""
        rows = [row for row in list(self.store.rows[stage]) if row.seq > tail.seq]
        return checked(rows, self.url, stage, tail)

    def save_snapshot(self, stage: int, epoch: int, seq: int, state: bytes) -> None:
        """See Journal."""
        self._check_epochs([(stage, epoch)])
        rows, kept = self.store.rows[stage], self.store.snapshots[stage]
        covered = next(row.hash for row in rows if row.seq == seq)
        kept[:] = [*kept[-1:], Snapshot(stage, seq, covered, state)]
        if len(kept) > 1:
            rows[:] = [row for row in rows if row.seq > kept[0].seq]

    def load_snapshot(self, stage: int) -> Snapshot | None:
        """See Journal."""
        kept = self.store.snapshots[stage]
        return kept[-1] if kept else None

    def last_row(self, stage: int) -> int:
        """See Journal."""
        return self._tail(stage).seq

    def mark_outdated(self, reason: str) -> None:
        """See Journal."""
        if self.store.info is not None:
            require_same(self.url, self._domain, self.store.info.domain, "")
        self.store.outdated = reason

    def beat(self, owned: Sequence[tuple[int, int]], member: Member | None = None) -> None:
        """See Journal."""
        members = self.store.members
        with self.store.lock:
            self._check_domain()
            self._check_epochs(owned)
            for stage, _ in owned:
                self.store.beats[stage] += 1
            if member is not None:
                before = members.get(member.owner)
                members[member.owner] = member._replace(beat=before.beat + 1 if before else 1)

    def read_members(self) -> list[Member]:
        """See Journal."""
        with self.store.lock:
            return list(self.store.members.values())

    def forget_members(self, owners: Collection[str], *, are_silent: bool = False) -> bool:
        """See Journal."""
        with self.store.lock:
            if are_silent and self.store.outdated:
                raise StoreOutdated(self.url, self.store.outdated)
            for owner in owners:
                self.store.members.pop(owner, None)
        return True

    def unblock(self, owner: str) -> bool:
        """See Journal. Nobody stands still in there."""
        return False

    def sibling(self) -> Journal:
        """See Journal."""
        return MemoryJournal(self.store)

    def close(self) -> None:
        """See Journal."""

    def interrupt(self) -> None:
        """See Journal."""

    def _check_domain(self) -> None:
        if self._domain and self.store.info is not None:
            require_same(self.url, self._domain, self.store.info.domain, self.store.outdated)

    def _check_epochs(self, owned: Iterable[tuple[int, int]]) -> None:
        for stage, epoch in owned:
            if self.store.epochs[stage] != epoch:
                raise fenced(self.url, stage, epoch, self.store.epochs[stage], self.store.owners.get(stage, ""))

    def _tail(self, stage: int) -> Tail:
        rows, kept = self.store.rows[stage], self.store.snapshots[stage]
        if rows:
            return Tail(rows[-1].seq, rows[-1].hash)
        return Tail(kept[-1].seq, kept[-1].hash) if kept else EMPTY_TAIL
