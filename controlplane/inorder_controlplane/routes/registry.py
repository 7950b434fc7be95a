"""Which modules of routes there are. One line for each, so that new ones do not meet."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from inorder_controlplane.routes import audit, definitions, health, problems, session, tokens

API: Final[tuple[APIRouter, ...]] = (
    # below /api/v1
    session.router,
    tokens.router,
    audit.router,
    definitions.router,
)
ROOT: Final[tuple[APIRouter, ...]] = (
    health.router,
    problems.router,
)
