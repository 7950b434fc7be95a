"""What several steps do: a column for the tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from inorder_worker.store.chain import seal


def add_to_tokens(column: str, before: tuple[str, ...], *, at: int) -> None:
    """Add a column of whole numbers, null for all, as the one with that index of those that are sealed; rows get the
    seal that it needs, but for those that were damaged."""
    after = (*before[:at], column, *before[at:])
    op.add_column("tokens", sa.Column(column, sa.BigInteger, nullable=True))
    types = {"internal": sa.Boolean}
    tokens = sa.table("tokens", *(sa.column(name, types.get(name)) for name in (*after, "seal")))
    for row in op.get_bind().execute(sa.select(tokens)).mappings().all():
        if row["seal"] == seal("tokens", *(row[name] for name in before)):
            sealed = seal("tokens", *(row[name] for name in after))
            op.execute(tokens.update().where(tokens.c.id == row["id"]).values(seal=sealed))
