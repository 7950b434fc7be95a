"""The journal's contract, on all three stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inorder.testing.journal_conformance import JournalConformance, MakeJournal
from inorder.testing.services import PostgresServer
from inorder_worker.store.journal import MemoryJournal, MemoryStore
from inorder_worker.store.sql_journal import SqlJournal


class Opened:
    """Makes SQL journals and closes them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.journals: list[SqlJournal] = []

    def __call__(self) -> SqlJournal:
        journal = SqlJournal(self.url, timeout=10)
        self.journals.append(journal)
        return journal

    def close(self) -> None:
        for journal in self.journals:
            journal.close()


class TestMemoryJournal(JournalConformance):
    @pytest.fixture
    def make_journal(self) -> MakeJournal:
        store = MemoryStore()
        return lambda: MemoryJournal(store)

    # Stepping two threads through a plain dictionary is no promise of this journal.
    test_two_owners_in_a_race_never_share_an_epoch = None  # type: ignore[assignment]


class TestSqliteJournal(JournalConformance):
    @pytest.fixture
    def make_journal(self, tmp_path: Path) -> Iterator[MakeJournal]:
        opened = Opened(f"sqlite:///{tmp_path}/inorder.db")
        yield opened
        opened.close()


class TestPostgresJournal(JournalConformance):
    @pytest.fixture
    def make_journal(self, postgres: PostgresServer) -> Iterator[MakeJournal]:
        opened = Opened(postgres.database())
        yield opened
        opened.close()
