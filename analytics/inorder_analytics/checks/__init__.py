"""The protocol's checks, which turn a recorded run into violations. Standard library only, and nothing of the core, so
that tests, simulation and jobs over traces judge by the same rules."""

from inorder_analytics.checks.history import (
    EventId,
    History,
    Notified,
    Outcome,
    Place,
    Publish,
    Report,
    Resume,
    Session,
    Span,
    Stamped,
    SubscriberHistory,
    Unfinished,
    highest,
)
from inorder_analytics.checks.judge import CHECKS, Check, violations
from inorder_analytics.checks.order import check_dependencies
from inorder_analytics.checks.total_order import count_opposite
from inorder_analytics.checks.violation import Violation, Witness

__all__ = [
    "CHECKS",
    "Check",
    "EventId",
    "History",
    "Notified",
    "Outcome",
    "Place",
    "Publish",
    "Report",
    "Resume",
    "Session",
    "Span",
    "Stamped",
    "SubscriberHistory",
    "Unfinished",
    "Violation",
    "Witness",
    "check_dependencies",
    "count_opposite",
    "highest",
    "violations",
]
