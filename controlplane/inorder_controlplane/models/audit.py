"""The audit log."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from inorder_controlplane.models.common import Answer, Moment, Number, example


class AuditEntry(Answer):
    """One change, and who made it."""

    model_config = example(
        {
            "id": "17",
            "at": "2026-03-01T09:30:00.125Z",
            "who": "ann",
            "role": "operator",
            "via": "rest",
            "action": "order.change",
            "target": "",
            "detail": {"order_epoch": "4"},
            "outcome": "done",
        }
    )

    id: Number
    at: Moment
    who: str = Field(description="name of the token")
    role: str
    via: Literal["rest", "worker", "store"] = Field(
        description="this API, a worker that was asked by somebody else, or the store itself (inorder tokens)"
    )
    action: str
    target: str
    detail: dict[str, Any]
    outcome: Literal["started", "done", "refused", "unknown"] = Field(
        description="started: it is under way, or whoever made it ended meanwhile"
    )
