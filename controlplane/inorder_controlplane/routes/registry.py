"""Which modules of routes there are. One line for each, so that new ones do not meet."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from inorder_controlplane.routes import health, problems

API: Final[tuple[APIRouter, ...]] = (
    # below /api/v1
)
ROOT: Final[tuple[APIRouter, ...]] = (
    health.router,
    problems.router,
)
