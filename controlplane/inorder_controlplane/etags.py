"""ETags of editable objects: a change names the version that was read, so no update is lost."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from fastapi import Request

from inorder_controlplane.problems import Problem


def etag(*parts: Any) -> str:
    """Return the ETag of a version that these plain values determine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'


def require_match(request: Request, current: str) -> None:
    """Compare If-Match with the present ETag. Raises Problem: ``precondition-required`` without the header, ``stale``
    where it names another version."""
    given = request.headers.get("if-match")
    if given is None:
        allowed = "If-Match with the ETag of your last GET"
        raise Problem("precondition-required", f"a change needs {allowed}", allowed=allowed)
    names = [name.strip() for name in given.split(",")]
    if "*" not in names and current not in names:
        detail = "it was changed since you read it: read it again, and see whether your change still fits"
        raise Problem("stale", detail, headers={"ETag": current})
