"""Brings the schema of an older store up to date. Alembic is imported only when there is something to do.

Everything happens inside the caller's transaction, on both databases: a crash leaves the store as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from inorder.errors import MissingExtra
from inorder_worker.store import schema

FOLDER: Final = Path(__file__).parent / "migrations"


def migrate(connection: sa.Connection, target: int | None = None) -> None:
    """Run the steps from the store's version (none: no tables) to ``target`` or this release's. Raises MissingExtra."""
    revision = schema.revision(target or schema.SCHEMA_VERSION)
    try:
        from alembic.config import Config
        from alembic.runtime.environment import EnvironmentContext
        from alembic.script import ScriptDirectory
    except ImportError:
        raise MissingExtra("upgrading the store", "worker") from None
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    steps: Callable[..., Any] = lambda current, _: script._upgrade_revs(revision, current)  # noqa: E731
    with EnvironmentContext(config, script, fn=steps) as environment:
        # The connection is inside a transaction, so Alembic begins and commits none of its own.
        environment.configure(connection=connection)
        environment.run_migrations()
