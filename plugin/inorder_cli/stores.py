"""Opening of an existing store, for commands that work on it directly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inorder.errors import StoreError, UsageError
from inorder_cli import options, output
from inorder_cli.failures import CommandFailed, needs

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


@contextmanager
def audited(
    store: Store, action: str, target: str, detail: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Record a change in the audit log before the block, where the change is made, and the outcome after the block. Its
    result may be put into the yielded dictionary. An outcome that cannot be recorded is told: the change was made."""
    from inorder_worker.store.audit import AuditLog
    from inorder_worker.store.store_errors import Conflict

    log, result = AuditLog(store), dict[str, Any]()
    entry = log.begin(WHO, "admin", "store", action, target, detail)

    def end(outcome: str) -> None:
        try:
            log.end(entry, outcome, result)
        except StoreError as error:
            output.say(output.printable(f"note: entry {entry} of the audit log stays started: {error}"))

    try:
        yield result
    except (CommandFailed, UsageError, Conflict) as error:
        result["why"] = str(error)
        end("refused")
        raise
    except BaseException as error:
        result["why"] = type(error).__name__
        end("unknown")
        raise
    end("done")


def utc_text(milliseconds: int | None) -> str | None:
    """Return a time (ms since 1970) in the API's form."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
