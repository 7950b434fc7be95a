"""``inorder backup`` and ``inorder restore``: a whole store as one file, and back; ``inorder renew``: a new domain id
for a store restored in another way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from inorder.errors import BackupError
from inorder_cli import options, output
from inorder_cli.failures import CommandFailed, ExitCode, needs
from inorder_cli.stores import WHO

Timeout = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long a lock is waited for.")]


@contextmanager
def _hinting(command: str) -> Iterator[None]:
    """Let errors about the file name the help of the present command."""
    try:
        yield
    except BackupError as error:
        raise CommandFailed(f"{error} (see inorder {command} --help)") from error


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; it must not exist yet.")],
    store: options.Store = None,
    timeout: Timeout = 10.0,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Write a store's present state into a file. Workers go on meanwhile.

    The file is the same from SQLite and PostgreSQL, and can be put back into either. It has a checksum, and the store
    is checked as by inorder verify. Exit codes: 0 done, 1 not (the store is damaged or not there, the file cannot be
    written or exists), 2 wrong usage. Nothing is left behind by one that failed.
    """
    with needs("worker", "a backup of the store"):
        from inorder_worker.store.backup import back_up
    loaded = options.settings(config, store={"url": store})
    with loaded.located("store"), _hinting("backup"):
        header, rows = back_up(loaded.settings.store.url, file, timeout=timeout)
    size = file.stat().st_size
    facts = {"file": str(file), "bytes": size, "rows": rows, "stages": header.stages, "domain": header.domain}
    if json:
        output.emit({**facts, "made": header.made})
    else:
        output.console().print(
            f"{file}: {rows} rows, {size} bytes, {header.stages} stage(s), domain {header.domain}", markup=False
        )
    return ExitCode.OK


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What inorder backup wrote.")],
    store: options.Store = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what the store holds; it is lost.")] = False,
    timeout: Timeout = 10.0,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Make a store from a backup. Stop all its workers first; never done under a running one, whatever is forced.

    File and rows are checked before anything is changed, and all of it is one transaction. The store gets a new domain
    id: numbers given after the backup was made would be given again, so clients that have seen them begin anew, with
    one gap for each topic. Exit codes: 0 done, 1 not, 2 wrong usage.
    """
    with needs("worker", "a restore of the store"):
        from inorder_worker.store.restoring import restore as restore_store
    loaded = options.settings(config, store={"url": store})
    beat = loaded.settings.worker.beat_interval or 1.0
    with loaded.located("store"), _hinting("restore"):
        done = restore_store(loaded.settings.store.url, file, force=force, beat_interval=beat, timeout=timeout, who=WHO)
    if json:
        facts = {"store": done.url, "rows": done.rows, "stages": done.stages, "domain": done.domain}
        output.emit({**facts, "former_domain": done.former, "made": done.made})
    else:
        output.console().print(
            f"{done.url}: {done.rows} rows, {done.stages} stage(s) as of {done.made}; domain {done.domain}, "
            f"before {done.former}",
            markup=False,
        )
    return ExitCode.OK


def renew(
    store: options.Store = None,
    timeout: Timeout = 10.0,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Give a store a new domain id, after an older copy of it was put back (a file, a disk image, a dump).

    Stop all its workers first. Numbers that were given since the copy was made would be given again; under the new
    domain id clients that have seen them begin anew, with one gap for each topic. A worker that finds out by what its
    clients show that its store is an older copy numbers nothing until this was done. A copy that is to live beside the
    store it was made of needs it, too. Exit codes: 0 done, 1 not, 2 wrong usage.
    """
    with needs("worker", "a renewal of the store"):
        from inorder_worker.store.restoring import renew as renew_store
    loaded = options.settings(config, store={"url": store})
    beat = loaded.settings.worker.beat_interval or 1.0
    with loaded.located("store"):
        done = renew_store(loaded.settings.store.url, beat_interval=beat, timeout=timeout, who=WHO)
    if json:
        output.emit({"store": done.url, "domain": done.domain, "former_domain": done.former})
    else:
        output.console().print(f"{done.url}: domain {done.domain}, before {done.former}", markup=False)
    return ExitCode.OK
