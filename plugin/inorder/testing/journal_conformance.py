"""The contract of every Journal, as tests. Inherit the suite and give it two ways into one and the same store.

class TestMyJournal(JournalConformance):
    @pytest.fixture
    def make_journal(self): ...
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from inorder.errors import Fenced, StoreCorrupt, StoreOutdated
from inorder_worker.sequencer.commands import LogDeps, LogTrim
from inorder_worker.store.chain import EMPTY_TAIL, NO_HASH, Row, Tail, row_hash
from inorder_worker.store.journal import Batch, Journal, Member
from inorder_worker.store.log_rows import LogRow, LogTotals, Oldest

MakeJournal = Callable[[], Journal]


class LogConformance:
    """The contract of event logs (R18), a part of the journal's."""

    def test_a_log_is_written_with_the_rows_that_caused_it(self, make_journal: MakeJournal, journal: Journal) -> None:
        """A log gets an event, its complete timestamp and its end in the order of their rows."""
        epoch = journal.claim(0, "a")
        whole, rides = LogRow(7, 1, 1000, [2, 9], bytes(256), (1, 1, 5)), LogRow(7, 2, 1001, None, b"two")
        journal.append([Batch(0, epoch, 1, b"x")], [whole, rides, LogRow(8, 1, 1002, [], None)])
        reader = make_journal().log_reader()
        assert reader.read(7, [1, 9], 0, 10, 100).rows == [whole], "2 is on its way up"
        journal.append([Batch(0, epoch, 2, b"x")], [LogDeps(7, 2, [2, 10], (1, 3, 5)), LogRow(7, 3, 1003, [], b"3")])
        page = reader.read(7, [1, 9], 0, 10, 1000)
        assert (page.rows[0], page.rows[1].ticks, page.first, page.last, page.through) == (whole, (1, 3, 5), 1, 3, 9)
        assert (reader.totals([7, 9]), len(reader.oldest(7, 2, 9))) == ([LogTotals(7, 3, 260, 1000, 3)], 2)
        with_ticks = [Oldest(1, 1000, 256, [2, 9], has_ticks=True), Oldest(2, 1001, 3, [2, 10], has_ticks=True)]
        assert reader.oldest(7, 1, 3) == [*with_ticks, Oldest(3, 1003, 1, [])]
        journal.append([Batch(0, epoch, 3, b"x")], [LogTrim(7, 2)])
        page = reader.read(7, [1, 9], 0, 10, 1000)
        assert ([row.number for row in page.rows], page.first, page.last) == ([3], 3, 3)
        reader.close()

    def test_an_old_owner_logs_nothing(self, make_journal: MakeJournal, journal: Journal) -> None:
        """The fence also holds for the changes of logs that come with rows."""
        epoch = _fill(journal, 1)
        other = make_journal()
        other.open(3)
        other.claim(0, "b")
        with pytest.raises(Fenced):
            journal.append([Batch(0, epoch, 2, b"x")], [LogRow(7, 1, 1000, [], b"x")])
        reader = other.log_reader()
        assert reader.read(7, [1, 9], 0, 10, 100).rows == []
        reader.close()

    def test_a_log_is_read_in_pages(self, journal: Journal) -> None:
        """A page is bounded by events and by bytes, but never empty; ``through`` tells where the next one begins."""
        epoch = journal.claim(0, "a")
        journal.append([Batch(0, epoch, 1, b"x")], [LogRow(7, n, 1000 + n, [], b"x" * 10) for n in range(1, 21)])
        reader = journal.log_reader()

        def read(ranges: list[int], since: int = 0, rows: int = 100, size: int = 1000) -> tuple[list[int], int]:
            page = reader.read(7, ranges, since, rows, size)
            return [row.number for row in page.rows], page.through

        assert read([3, 5, 9, 9, 19, 30]) == ([3, 4, 5, 9, 19, 20], 30)
        assert read([3, 5, 9, 9], rows=2) == ([3, 4], 4)
        assert read([3, 5, 9, 9], rows=3) == ([3, 4, 5], 8)
        assert read([1, 20], size=25) == ([1, 2], 2)
        assert read([2, 20], size=1) == ([2], 2)
        assert read([1, 20], since=1018) == ([18, 19, 20], 20)
        assert read([30, 40]) == ([], 40)
        reader.close()


class JournalConformance(LogConformance):
    """The contract of inorder_worker.store.journal, rule by rule.

    The fixture ``make_journal`` returns a function that makes journals; all that it makes in one test share one
    store, which is new for the test.
    """

    @pytest.fixture
    def make_journal(self) -> MakeJournal:
        """Return a new journal; to be overridden."""
        raise NotImplementedError

    @pytest.fixture
    def journal(self, make_journal: MakeJournal) -> Journal:
        """A journal over a new store of three stages."""
        journal = make_journal()
        journal.open(3)
        return journal

    # -- the store ---------------------------------------------------------------------------------------------

    def test_opened_again_it_is_the_same_store(self, make_journal: MakeJournal) -> None:
        """The domain is fixed when the store is made, the number of stages when a worker has had one of them."""
        journal = make_journal()
        first = journal.open(3)
        journal.claim(0, "a")
        assert make_journal().open(5, [["s:b"]]) == first
        assert (first.stages, first.topic_order) == (3, ())
        assert 0 < first.domain < 2**32

    def test_the_first_topic_order_is_kept(self, make_journal: MakeJournal) -> None:
        """Workers that share a store begin with the same one, whatever each was told."""
        journal = make_journal()
        first = journal.open(2, [["s:a"], ["s:b", "t:c"]])
        journal.claim(0, "a")
        assert first.topic_order == (("s:a",), ("s:b", "t:c"))
        assert make_journal().open(2, [["s:x"]]) == first

    # -- claim -------------------------------------------------------------------------------------------------

    def test_a_claim_raises_the_epoch(self, make_journal: MakeJournal, journal: Journal) -> None:
        """Epochs rise by take-over and never repeat."""
        other = make_journal()
        other.open(3)
        epochs = [journal.claim(0, "a"), other.claim(0, "b"), journal.claim(0, "a")]
        assert epochs == [1, 2, 3]
        assert journal.claim(1, "a") == 1

    def test_a_claim_may_depend_on_the_epoch(self, make_journal: MakeJournal, journal: Journal) -> None:
        """Conditional update: whoever saw an older epoch does not get the stage."""
        other = make_journal()
        other.open(3)
        seen = journal.claim(0, "a")
        assert other.claim(0, "b", seen) == seen + 1
        with pytest.raises(Fenced):
            journal.claim(0, "a", seen)
        with pytest.raises(Fenced):
            journal.append([Batch(0, seen, 1, b"x")])

    def test_of_several_that_saw_the_same_epoch_one_gets_the_stage(
        self, make_journal: MakeJournal, journal: Journal
    ) -> None:
        """Several standbys may see the same silence at the same time."""
        owner = journal.claim(0, "owner")
        seen = journal.read_map()[0]
        start, won, lost = threading.Barrier(4), list[int](), list[BaseException]()

        def take(name: str) -> None:
            mine = make_journal()
            mine.open(3)
            start.wait()
            try:
                won.append(mine.claim(0, name, seen.epoch, beat=seen.beat))
            except BaseException as error:
                lost.append(error)
            mine.close()

        threads = [threading.Thread(target=take, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == [owner + 1]
        assert [type(error) for error in lost] == [Fenced] * 3
        assert journal.read_map()[0].epoch == owner + 1

    def test_a_claim_may_depend_on_the_beat(self, make_journal: MakeJournal, journal: Journal) -> None:
        """An owner that shows life at the last moment keeps the stage, unless the owner has released it."""
        other = make_journal()
        other.open(3)
        epoch = journal.claim(0, "a")
        seen = other.read_map()[0]
        journal.beat([(0, epoch)])
        with pytest.raises(Fenced, match="shown life"):
            other.claim(0, "b", seen.epoch, beat=seen.beat)
        journal.append([Batch(0, epoch, 1, b"still mine")])
        journal.release([(0, epoch)])
        assert other.claim(0, "b", epoch, beat=seen.beat) == epoch + 1

    def test_workers_show_themselves(self, make_journal: MakeJournal, journal: Journal) -> None:
        """Each beat of a worker counts, and the last report is read; a worker that left is forgotten, but not in an
        older copy for mere silence."""
        other = make_journal()
        other.open(3)
        epoch = journal.claim(1, "a")
        for row in (3, 5):
            journal.beat([(1, epoch)], Member("a", "a.example:1", 7, (), {0: row}))
            other.beat([], Member("b", "b.example:1", 0, (1, 2)))
        found = sorted(other.read_members())
        assert found == [Member("a", "a.example:1", 2, (), {0: 5}), Member("b", "b.example:1", 2, (1, 2), {})]
        assert journal.read_map()[1].beat == 2
        other.forget_members(["a", "nobody"])
        assert [each.owner for each in journal.read_members()] == ["b"]
        journal.beat([(1, epoch)], Member("a", "a.example:1"))
        journal.mark_outdated("row 9 is missing")
        with pytest.raises(StoreOutdated, match="row 9 is missing"):
            other.forget_members(["a"], are_silent=True)
        assert sorted(each.owner for each in other.read_members()) == ["a", "b"]

    def test_an_owner_that_was_fenced_does_not_show_itself(self, make_journal: MakeJournal, journal: Journal) -> None:
        """A beat is all or nothing."""
        other = make_journal()
        other.open(3)
        epoch = journal.claim(0, "a")
        other.claim(0, "b")
        with pytest.raises(Fenced):
            journal.beat([(0, epoch)], Member("a", "a.example:1"))
        assert other.read_members() == []

    def test_a_claim_whose_answer_was_lost_can_be_repeated(self, journal: Journal) -> None:
        """The owner finds the epoch raised by itself, and takes it."""
        seen = journal.claim(0, "a")
        journal.claim(0, "a", seen)
        assert journal.claim(0, "a", seen) == seen + 2

    def test_everybody_reads_who_has_a_stage_and_where(self, make_journal: MakeJournal, journal: Journal) -> None:
        """Every stage is listed; one that was let go keeps its epoch and the address it had."""
        other = make_journal()
        other.open(3)
        epoch = journal.claim(1, "a", address="one.example:7401")
        other.claim(2, "b", address="two.example:7402")
        journal.release([(1, epoch)])
        found = [(each.stage, each.owner, each.epoch, each.address) for each in other.read_map()]
        assert found == [(0, "", 0, ""), (1, "", 1, "one.example:7401"), (2, "b", 1, "two.example:7402")]

    # -- append and replay -------------------------------------------------------------------------------------

    def test_rows_come_back_in_order(self, make_journal: MakeJournal, journal: Journal) -> None:
        """Bytes are kept as they are, each stage has its own numbers."""
        entries = [bytes([index]) * index * 100 for index in range(200)]
        epochs = [journal.claim(stage, "a") for stage in range(3)]
        for seq, data in enumerate(entries, start=1):
            journal.append([Batch(0, epochs[0], seq, data), Batch(2, epochs[2], seq, data[::-1] + b"!")])
        again = make_journal()
        again.open(3)
        assert [(row.seq, row.entries) for row in again.replay(0, 0)] == list(enumerate(entries, start=1))
        assert [row.entries for row in again.replay(2, 150)] == [data[::-1] + b"!" for data in entries[150:]]
        assert list(again.replay(1, 0)) == []

    def test_rows_are_chained(self, journal: Journal) -> None:
        """Each row's hash covers the row before it and all its own fields."""
        epoch = _fill(journal, 3)
        previous = NO_HASH
        for row in journal.replay(0, 0):
            assert row == Row(
                0, row.seq, epoch, previous, row_hash(0, row.seq, epoch, previous, row.entries), row.entries
            )
            previous = row.hash

    def test_a_wrong_number_is_a_mistake(self, journal: Journal) -> None:
        """Rows have no holes, and none is written twice."""
        epoch = _fill(journal, 2)
        for seq in (2, 4):
            with pytest.raises(ValueError, match="does not follow"):
                journal.append([Batch(0, epoch, seq, b"x")])
        assert [row.seq for row in journal.replay(0, 0)] == [1, 2]

    def test_a_new_owner_continues_the_chain(self, make_journal: MakeJournal, journal: Journal) -> None:
        """The tail is read by the claim."""
        _fill(journal, 3)
        other = make_journal()
        other.open(3)
        epoch = other.claim(0, "b")
        other.append([Batch(0, epoch, 4, b"four")])
        assert [(row.seq, row.epoch) for row in journal.replay(0, 0)] == [(1, 1), (2, 1), (3, 1), (4, 2)]

    # -- fence -------------------------------------------------------------------------------------------------

    def test_an_old_owner_writes_nothing(self, make_journal: MakeJournal, journal: Journal) -> None:
        """An old owner's append writes no stage's rows: one transaction, all or none."""
        epochs = [journal.claim(stage, "a") for stage in range(2)]
        journal.append([Batch(0, epochs[0], 1, b"x"), Batch(1, epochs[1], 1, b"y")])
        other = make_journal()
        other.open(3)
        other.claim(1, "b")
        with pytest.raises(Fenced, match="stage 1"):
            journal.append([Batch(0, epochs[0], 2, b"x"), Batch(1, epochs[1], 2, b"y")])
        assert [row.seq for row in other.replay(0, 0)] == [1]
        assert [row.seq for row in other.replay(1, 0)] == [1]
        journal.append([Batch(0, epochs[0], 2, b"z")])
        assert [row.entries for row in other.replay(0, 0)] == [b"x", b"z"]

    def test_an_old_owner_neither_beats_nor_saves(self, make_journal: MakeJournal, journal: Journal) -> None:
        """The fence holds for everything an owner writes."""
        epoch = _fill(journal, 1)
        journal.beat([(0, epoch)])
        other = make_journal()
        other.open(3)
        other.claim(0, "b")
        with pytest.raises(Fenced):
            journal.beat([(0, epoch)])
        with pytest.raises(Fenced):
            journal.save_snapshot(0, epoch, 1, b"state")
        assert other.load_snapshot(0) is None

    def test_two_owners_in_a_race_never_share_an_epoch(self, make_journal: MakeJournal, journal: Journal) -> None:
        """Two threads take a stage from each other; every row is of the epoch that was highest when it was written,
        and the chain stays whole."""
        rounds = 30
        failures: list[BaseException] = []

        def own(name: str) -> None:
            try:
                mine = make_journal()
                mine.open(3)
                for _ in range(rounds):
                    epoch = mine.claim(0, name)
                    seq = sum(1 for _ in mine.replay(0, 0))
                    try:
                        for step in range(3):
                            mine.append([Batch(0, epoch, seq + 1 + step, name.encode())])
                    except (Fenced, ValueError):  # ValueError: replay saw rows of the next owner
                        continue
                mine.close()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=own, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        rows = list(journal.replay(0, 0))  # checks chain, numbering and rising epochs
        by_epoch: dict[int, set[bytes]] = {}
        for row in rows:
            by_epoch.setdefault(row.epoch, set()).add(row.entries)
        assert rows
        assert all(len(owners) == 1 for owners in by_epoch.values())

    # -- snapshots ---------------------------------------------------------------------------------------------

    def test_without_a_snapshot(self, journal: Journal) -> None:
        """A new stage has no snapshot."""
        assert journal.load_snapshot(0) is None

    def test_a_snapshot_shortens_the_replay(self, make_journal: MakeJournal, journal: Journal) -> None:
        """The newest snapshot is loaded, and replay goes on behind it with the chain unbroken."""
        epoch = _fill(journal, 10)
        journal.save_snapshot(0, epoch, 10, b"ten")
        journal.append([Batch(0, epoch, 11, b"x")])
        other = make_journal()
        other.open(3)
        other.claim(0, "b")
        found = other.load_snapshot(0)
        assert found is not None
        assert (found.seq, found.state) == (10, b"ten")
        assert [row.seq for row in other.replay(0, found.seq)] == [11]
        assert len(list(other.replay(0, 0))) == 11

    def test_the_last_snapshot_but_one_keeps_its_rows(self, make_journal: MakeJournal, journal: Journal) -> None:
        """Rows that the older snapshot covers are forgotten, later ones stay."""
        epoch = _fill(journal, 3)
        for seq in range(3, 10):
            journal.save_snapshot(0, epoch, seq, b"state")
            journal.append([Batch(0, epoch, seq + 1, b"x")])
        assert [row.seq for row in journal.replay(0, 8)] == [9, 10]
        assert [row.seq for row in journal.replay(0, 9)] == [10]
        other = make_journal()
        other.open(3)
        assert other.claim(0, "b") == epoch + 1
        other.append([Batch(0, epoch + 1, 11, b"y")])

    def test_a_reader_goes_on_where_it_was(self, make_journal: MakeJournal, journal: Journal) -> None:
        """A reader follows other writers, with the chain unbroken, and is told when the next row was forgotten."""
        epoch = _fill(journal, 3)
        reader = make_journal().sibling()
        tail = EMPTY_TAIL
        for seq in range(3, 9):
            rows = list(reader.read_on(0, tail))
            assert [row.seq for row in rows] == list(range(tail.seq + 1, seq + 1))
            tail = Tail(rows[-1].seq, rows[-1].hash)
            journal.append([Batch(0, epoch, seq + 1, b"x")])
        with pytest.raises(StoreCorrupt):
            list(reader.read_on(0, tail._replace(hash=NO_HASH)))
        for seq in (8, 9):
            journal.save_snapshot(0, epoch, seq, b"state")
            journal.append([Batch(0, epoch, seq + 2, b"y")])
        with pytest.raises(StoreCorrupt, match="missing"):
            list(reader.read_on(0, Tail(2, NO_HASH)))
        reader.close()

    def test_a_snapshot_may_be_the_whole_journal(self, make_journal: MakeJournal, journal: Journal) -> None:
        """A new owner continues right behind the newest snapshot."""
        epoch = _fill(journal, 2)
        journal.save_snapshot(0, epoch, 2, b"")
        other = make_journal()
        other.open(3)
        epoch = other.claim(0, "b")
        assert list(other.replay(0, 2)) == []
        other.append([Batch(0, epoch, 3, b"")])
        assert [row.seq for row in other.replay(0, 2)] == [3]


def _fill(journal: Journal, count: int) -> int:
    """Claim stage 0 and append rows 1 to ``count``; return the epoch."""
    epoch = journal.claim(0, "a")
    for seq in range(1, count + 1):
        journal.append([Batch(0, epoch, seq, b"row %d" % seq)])
    return epoch
