"""The seals of the rows of ``meta`` and ``stages``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inorder_worker.store.chain import Problem, seal

_META_SEALED: Final = ("schema_version", "domain", "stages", "created", "topic_order", "witness_key", "outdated")
_STAGE_SEALED: Final = ("stage", "epoch", "owner", "address", "beat")


def meta_seal(row: Mapping[Any, Any]) -> str:
    """Return the seal of the row of ``meta``."""
    return seal("meta", *(row[name] for name in _META_SEALED))


def stage_seal(row: Mapping[Any, Any]) -> str:
    """Return the seal of a row of ``stages``."""
    return seal("stages", *(row[name] for name in _STAGE_SEALED))


def meta_problem(row: Mapping[Any, Any]) -> Problem | None:
    """Return the fault of the row of ``meta``, or ``None``."""
    if row["seal"] == meta_seal(row) and row["id"] == 1:
        return None
    return Problem("meta", None, None, "meta is damaged (its seal does not fit)")


def stage_problem(row: Mapping[Any, Any]) -> Problem | None:
    """Return the fault of a row of ``stages``, or ``None``."""
    if row["seal"] == stage_seal(row):
        return None
    return Problem("stages", row["stage"], None, f"row of stage {row['stage']} is damaged (its seal does not fit)")
