"""Publishing within a window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inorder_bench.clocks import within


@pytest.mark.parametrize("window", [1, 3, 10, 100])
def test_never_more_than_the_window_are_open_and_each_is_waited_for_once(window: int) -> None:
    opened: list[int] = []
    waited: list[int] = []
    most = 0

    def publishes() -> Iterator[int]:
        nonlocal most
        for number in range(10):
            opened.append(number)
            most = max(most, len(opened) - len(waited))
            yield number

    for oldest in within(window, publishes()):
        waited += (oldest,)
    assert waited == opened == list(range(10))
    assert most == min(window, 10), "as many are open as may be"
