"""All checks of inorder's promises together (R20)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from inorder_analytics.checks.completeness import check_completeness, check_convergence, check_gaps, check_publishes
from inorder_analytics.checks.history import History
from inorder_analytics.checks.numbers import check_forgotten, check_phantoms, check_unique_numbers
from inorder_analytics.checks.order import (
    check_dependencies,
    check_fifo,
    check_publisher_order,
    check_topic_order,
)
from inorder_analytics.checks.total_order import check_total_order
from inorder_analytics.checks.verdicts import (
    check_late,
    check_lease,
    check_lost,
    check_repetition,
    check_resumes,
    check_verdicts,
)
from inorder_analytics.checks.violation import Violation

Check = Callable[[History], Iterator[Violation]]

CHECKS: tuple[Check, ...] = (
    check_convergence,
    check_unique_numbers,
    check_forgotten,
    check_phantoms,
    check_verdicts,
    check_late,
    check_lost,
    check_lease,
    check_topic_order,
    check_repetition,
    check_resumes,
    check_dependencies,
    check_gaps,
    check_completeness,
    check_publishes,
    check_publisher_order,
    check_fifo,
    check_total_order,
)
"""Each reads a history and returns what breaks its rule; their docstrings are the list of what is promised."""


def violations(history: History, checks: Iterable[Check] = CHECKS) -> list[Violation]:
    """Return every rule that a run broke, with its witnesses."""
    return [found for check in checks for found in check(history)]
