"""Who asks for a new observation gets one that begins after the question."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from inorder_controlplane.watching import Picture, Watching


async def test_a_new_picture_is_no_look_that_was_under_way_before_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = SimpleNamespace(settings=SimpleNamespace(lease=1.0))
    watching = Watching(context)
    looks: list[int] = []
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def look() -> Picture:
        looks.append(len(looks) + 1)
        ident = looks[-1]
        has_begun.set()
        await may_end.wait()
        return Picture(ident)

    monkeypatch.setattr(watching, "_look", look)
    earlier = asyncio.ensure_future(watching.picture())
    await has_begun.wait()
    new = asyncio.ensure_future(watching.picture(is_new=True))
    await asyncio.sleep(0)  # it has asked
    may_end.set()
    assert ((await earlier).at_ms, (await new).at_ms) == (1, 2)
    assert (await watching.picture()).at_ms == 2
