"""Ticks: the order in which events passed the stages, for readers that take events out of turn (R23).

A stage counts what it numbers and what passes it. While a bounded or tag reader has the topic, a timestamp takes along
the order epoch, the event's home with whether the event is *grouped* (its group has members, or it carries what has
left that), and one tick for each stage, the bottom one first. Up to below the home these are *announced*: the ticks at
which the last subscription to pass the home had passed these stages. What was announced by it comes before this event,
though it never rode up. From the home to the top one that it visits they are the event's own.
"""

from __future__ import annotations

from itertools import zip_longest

from inorder_worker.sequencer.state import StageState

Ticks = tuple[int, ...]
"""``(order epoch, 2 * the home's height + is_grouped, tick, tick, ...)``, see docs/PROTOCOL.md; empty where no reader
needs them. The height is that above the bottom stage."""


def first_ticks(state: StageState, *, is_grouped: bool) -> Ticks:
    """Return the ticks of an event that was numbered here just now."""
    height = _height(state)
    announced = state.announced[:height]
    missing = (0,) * (height - len(announced))
    return (state.homes_epoch, 2 * height + is_grouped, *announced, *missing, state.tick)


def passed(state: StageState, ticks: Ticks) -> Ticks:
    """Return the ticks of an event from below that has just passed this stage. None are begun here: those of its home
    would lack."""
    return (*ticks, state.tick) if ticks else ticks


def announced(state: StageState, ticks: Ticks) -> Ticks:
    """Take note of a subscription that passes with its ticks at the stages below, and return its ticks for the stages
    above. Events that pass from now on come behind everything that it has announced."""
    height = _height(state)
    below = ticks[:height] + (0,) * (height - len(ticks))
    state.announced = [max(each) for each in zip_longest(state.announced, below, fillvalue=0)]
    return (*below, state.tick)


def _height(state: StageState) -> int:
    return state.count - 1 - state.index
