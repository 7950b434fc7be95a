"""How long the parts of an event's way took, and its life, from what clients told."""

from __future__ import annotations

from inorder.protocol.wire import EventLife, SeenLife
from inorder_controlplane.lives import Moment, Percentiles, latencies, moments


def made(number: int, *times: int, client: str = "a", offset: int = 0, error: int = 0) -> SeenLife:
    return SeenLife(client, offset, error, EventLife(1, number, list(times)))


def seen(number: int, *times: int, client: str = "b", offset: int = 0, error: int = 0, verdict: str = "in_order",
         waited: tuple[int, int] = (0, 0)) -> SeenLife:  # fmt: skip
    return SeenLife(client, offset, error, EventLife(1, number, list(times), verdict, *waited))


def test_the_parts_add_up_to_the_whole() -> None:
    """published 1000, timestamp 3000, arrived 7000, notified 15000 µs: 2 + 4 + 8 = 14 ms."""
    found = latencies([made(1, 1000, 3000, 3500), seen(1, 7000, 15000)])
    assert found.timestamp == Percentiles(2.0, 2.0, 2.0, 1)
    assert found.ens == Percentiles(4.0, 4.0, 4.0, 1)
    assert found.wait == Percentiles(8.0, 8.0, 8.0, 1)
    assert found.total == Percentiles(14.0, 14.0, 14.0, 1)
    assert found.error_ms == 0.0


def test_clocks_that_differ_are_put_right_and_the_error_is_stated() -> None:
    """The subscriber's clock is 1 s ahead (offset -1 s), the publisher's 0.5 s behind."""
    found = latencies(
        [
            made(1, 1000, 3000, 3500, offset=500_000, error=200),
            seen(1, 1_507_000, 1_515_000, offset=-1_000_000, error=300),
        ]
    )
    assert (found.ens, found.total) == (Percentiles(4.0, 4.0, 4.0, 1), Percentiles(14.0, 14.0, 14.0, 1))
    assert found.error_ms == 0.5


def test_what_nobody_told_is_not_known() -> None:
    nothing = latencies([])
    assert (nothing.timestamp, nothing.ens, nothing.wait, nothing.total) == (None, None, None, None)
    one_side = latencies([made(1, 1000, 3000, 3500), seen(2, 7000, 15000)])
    assert one_side.timestamp is not None
    assert one_side.wait is not None
    assert (one_side.ens, one_side.total) == (None, None)


def test_percentiles_are_values_that_occurred() -> None:
    """Of 1..200 ms: the 100th, the 180th, the 198th."""
    found = latencies([seen(number, 0, number * 1000) for number in range(1, 201)])
    assert found.wait == Percentiles(100.0, 180.0, 198.0, 200)


def test_a_duration_is_never_negative() -> None:
    found = latencies([made(1, 1000, 9000, 9500), seen(1, 7000, 7500)])
    assert found.ens == Percentiles(0.0, 0.0, 0.0, 1)


def test_a_life_is_told_in_the_order_of_time() -> None:
    lives = [
        seen(1, 3000, 9000, client="c", verdict="late", waited=(2, 7)),
        seen(1, 3100, 3100, offset=100),
        made(1, 1000, 3000, 3400, error=50),
    ]
    assert moments(lives) == [
        Moment(1000, "published", "a", 50),
        Moment(3000, "stamped", "a", 50),
        Moment(3000, "arrived", "c", 0),
        Moment(3200, "arrived", "b", 0),
        Moment(3200, "notified", "b", 0, "in_order"),
        Moment(3400, "accepted", "a", 50),
        Moment(9000, "notified", "c", 0, "late", 2, 7),
    ]
