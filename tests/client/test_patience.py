"""A process that stood still gives nobody up for that. In virtual time."""

from __future__ import annotations

import asyncio

import pytest
from tests import virtual_time

from inorder.patience import PARTS, Patience


def test_who_does_not_answer_in_time_is_given_up() -> None:
    async def wait() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with Patience(5.0):
                await asyncio.Event().wait()
        assert loop.time() == pytest.approx(5.0)

    virtual_time.run(wait())


@pytest.mark.parametrize("turns", range(1, PARTS))
def test_an_answer_counts_however_long_each_turn_took(turns: int) -> None:
    """A machine with a thousand clients needs seconds for a turn, in each of which some of the answer is there."""

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with Patience(5.0):
            for _ in range(turns):
                virtual_time.stand_still(60.0)
                await asyncio.sleep(0)
        assert loop.time() - began == 60.0 * turns

    virtual_time.run(wait())


@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError])
def test_what_is_raised_inside_is_raised(error: type[BaseException]) -> None:
    async def wait() -> None:
        with pytest.raises(error):
            async with Patience(5.0):
                raise error
        await asyncio.sleep(60.0)  # nothing is left that would end this

    virtual_time.run(wait())
