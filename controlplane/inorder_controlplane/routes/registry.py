"""The list of all modules with routes. One line for each, so that new ones do not meet."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from inorder_controlplane.routes import (
    analytics,
    audit,
    definitions,
    events,
    gaps,
    health,
    live,
    order,
    overview,
    problems,
    schedules,
    session,
    stages,
    subscriptions,
    tail,
    tokens,
    topics,
)

API: Final[tuple[APIRouter, ...]] = (
    # below /api/v1
    session.router,
    overview.router,
    topics.router,
    order.router,
    subscriptions.router,
    stages.router,
    events.router,
    gaps.router,
    analytics.router,
    schedules.router,
    tokens.router,
    audit.router,
    definitions.router,
    live.router,
    tail.router,
)
ROOT: Final[tuple[APIRouter, ...]] = (
    health.router,
    problems.router,
)
