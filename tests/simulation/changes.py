"""How clients change their subscriptions: at random, or in one of the ways that counter-examples of the rules need."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.endpoints import text_of

from inorder.protocol.names import Filter

Filters = set[Filter]
Change = Callable[[random.Random, Filters, Filters], Filters]
"""Draws a client's next filters, from those it has and those there are."""


def _one_of(rng: random.Random, filters: Filters) -> Filter:
    return rng.choice(sorted(filters, key=text_of))


def anything(rng: random.Random, had: Filters, there_are: Filters) -> Filters:
    """Drop a filter, take some, or both."""
    wanted = set(had)
    if wanted and rng.random() < 0.4:
        wanted.remove(_one_of(rng, wanted))
    if rng.random() < 0.8:
        wanted |= set(rng.sample(sorted(there_are, key=text_of), rng.randint(1, 2)))
    return wanted


def toggle(rng: random.Random, had: Filters, there_are: Filters) -> Filters:
    """Drop one of all topics, or take all again; who has nothing only publishes."""
    if not had:
        return had
    return there_are - {_one_of(rng, there_are)} if had == there_are else set(there_are)


def shed(rng: random.Random, had: Filters, there_are: Filters) -> Filters:
    """Drop all topics but one or two, or take all again; who has nothing only publishes."""
    if not had:
        return had
    kept = rng.sample(sorted(there_are, key=text_of), rng.randint(1, 2))
    return set(kept) if had == there_are else set(there_are)


def swap(rng: random.Random, had: Filters, there_are: Filters) -> Filters:
    """Who has all topics keeps them; the others have one or none at a time."""
    if had == there_are:
        return had
    return rng.choice((set(), {_one_of(rng, there_are)}, {_one_of(rng, there_are)}))


def retake(rng: random.Random, had: Filters, there_are: Filters) -> Filters:
    """Drop the topic there is, and take it again, or another one."""
    first, second, *_ = sorted(there_are, key=text_of)
    return set() if had else rng.choice(({first}, {first}, {second}))


def grow(rng: random.Random, had: Filters, there_are: Filters) -> Filters:
    """Take one topic more, and never drop one; who has nothing only publishes."""
    missing = there_are - had
    return had | {_one_of(rng, missing)} if had and missing else had
