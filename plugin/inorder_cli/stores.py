"""Opening of an existing store, for commands that work on it directly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inorder_cli import options, output
from inorder_cli.failures import needs

if TYPE_CHECKING:
    from inorder.settings.reading import Loaded
    from inorder_worker.store.store import Store

WHO = "command line"
"""As the audit log names whoever can write to the store."""


@contextmanager
def opened_store(config: Path | None, url: str | None, what: str, *, makes: bool = False) -> Iterator[Store]:
    """Open an existing store of this release's schema; with ``makes`` make a missing one, by the settings of workers.
    Raises MissingExtra, which says ``what`` needs it, and StoreErrors."""
    with needs("worker", what):
        from inorder_worker.store.store import Store
    loaded = options.settings(config, store={"url": url})
    if makes:
        _make(loaded)
    with loaded.located("store"):
        reading = Store(loaded.settings.store.url, is_read_only=True)  # which makes no file where there is none
        try:
            reading.run(reading.require_current)
        finally:
            reading.close()
        opened = Store(loaded.settings.store.url)
    try:
        yield opened
    finally:
        opened.close()


def _make(loaded: Loaded) -> None:
    from inorder_worker.service import WorkerSettings
    from inorder_worker.store.store import Store

    section, url = loaded.settings.worker, loaded.settings.store.url
    with loaded.located("worker"):
        own = WorkerSettings(store=url, stages=section.stages, topic_order=section.topic_order)
    with loaded.located("store"):
        store = Store(url)
        try:
            if store.make(own.stages, own.topic_order):
                output.say(f"made the store {store.url}, as there was none")
        finally:
            store.close()


def note(store: Store, action: str, target: str, detail: Mapping[str, Any] | None = None) -> None:
    """Record an action in the audit log."""
    from inorder_worker.store.audit import AuditLog

    AuditLog(store).begin(WHO, "admin", "store", action, target, detail, outcome="done")


def utc_text(milliseconds: int | None) -> str | None:
    """Return a time (ms since 1970) in the API's form."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
