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


def migrate(connection: sa.Connection, version: int, target: int = schema.SCHEMA_VERSION) -> None:
    """Run the steps from ``version`` (0: no tables yet) to ``target``. Raises MissingExtra."""
    try:
        from alembic.config import Config
        from alembic.runtime.environment import EnvironmentContext
        from alembic.script import ScriptDirectory
    except ImportError:
        raise MissingExtra("upgrading the store", "worker") from None
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    # Stores from before Alembic say their version in meta only.
    schema.alembic_version.create(connection, checkfirst=True)
    if version and connection.execute(sa.select(schema.alembic_version)).first() is None:
        connection.execute(schema.alembic_version.insert(), {"version_num": schema.revision(version)})
    steps: Callable[..., Any] = lambda current, _: script._upgrade_revs(schema.revision(target), current)  # noqa: E731
    with EnvironmentContext(config, script, fn=steps) as environment:
        # The connection is inside a transaction, so Alembic begins and commits none of its own.
        environment.configure(connection=connection)
        environment.run_migrations()
