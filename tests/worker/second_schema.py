"""A second version of the store's schema, as the next release might have: one more table, and the step to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inorder_worker.store import schema, sql_journal, upgrading

SECOND = schema.SCHEMA_VERSION + 1
TABLE = "planted"
STEP = f'''
import sqlalchemy as sa
from alembic import op

revision = "{schema.revision(SECOND)}"
down_revision = "{schema.revision(schema.SCHEMA_VERSION)}"


def upgrade():
    op.create_table("{TABLE}", sa.Column("id", sa.Integer, primary_key=True))
'''


def plant(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make this process the next release: it knows the second schema, and how to get there from the first."""
    steps = folder / "migrations"
    shutil.copytree(upgrading.FOLDER, steps)
    (steps / "versions" / f"v{schema.revision(SECOND)}_planted.py").write_text(STEP)
    patch.setattr(upgrading, "FOLDER", steps)
    patch.setattr(schema, "SCHEMA_VERSION", SECOND)
    patch.setattr(sql_journal, "SCHEMA_VERSION", SECOND)
