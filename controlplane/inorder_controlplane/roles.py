"""Principals and their roles."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final, Literal

Role = Literal["viewer", "operator", "admin"]

ROLES: Final = ("viewer", "operator", "admin")
"""Each may do what those before it may. Tokens of the role ``client`` are for workers only."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The user, or program, behind a request.

    Attributes:
        name, role: of the token.
        token_id: the token's id.
        expires_ms: when this login or token ends; ``None``: never.
        csrf: of a browser session, what its changes must show; else ``None``.
        session_hash: of a browser session.
        address: from where.
        found_at: when the store was asked for the token last, s, monotonic.
    """

    name: str
    role: str
    token_id: str
    expires_ms: int | None = None
    csrf: str | None = None
    session_hash: str | None = None
    address: str = ""
    found_at: float = -inf

    def may(self, role: str) -> bool:
        """Tell whether a role's rights are among the principal's."""
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)
