"""Known missing numbers: the times for questions about them, and the meaning of the answers (R17, R24).

A number is known missing by a higher one, by a dependency or by a head. ``gap_timeout`` later its stage is asked;
sparingly, while the client may merely not have read it, because no barrier has come back that began after that. A
confirmed number that has not arrived is lost when a barrier has come back that began after that was known, and
``loss_timeout`` after it was known missing (or was last told to be pending), counted in time in which the client was
caught up (see ``barriers``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Container
from copy import copy
from math import inf
from typing import Any, NamedTuple, cast

from inorder.endpoint.barriers import PRECISION, CaughtUp, Sparing
from inorder.protocol.pairs import pairs

MAX_ASKED = 5_000
"""Numbers in one question; the rest is asked when these are settled."""
MAX_UNREAD = 100
"""Numbers that are asked within ``gap_timeout``, in all topics, though they may merely not be read yet (R24)."""
MAX_FETCHED = 1_000
"""Numbers in one question to the event log; the lowest first, so that what they hold back can go (R18)."""
HEADS_SECONDS = 1.0
"""Stages tell heads that often, as a rule: the end of a burst is known in steps that far apart."""
TOGETHER_SECONDS = 1.25 * HEADS_SECONDS
"""A run of numbers that is overdue within so long is given up as one, when its last number is overdue."""
MAX_MOMENTS = 10_000
"""Moments at which numbers became known that are told apart; of those beyond the last one counts, so none is early."""
MAX_UNANSWERED = 16
"""Questions of one topic whose answers are told apart; each lost answer delays the next verdicts by one question."""
MAX_PASSED = 1_000
"""Ranges of numbers in one topic that were passed over and may still come late; beyond, the lowest are forgotten."""

_NOTHING: deque[Any] = deque(maxlen=0)
"""Of all topics of which nothing was missing yet. Most never get one of their own, which takes 600 bytes."""
_NO_RANGES = cast("list[Any]", ())
"""The same: whoever adds some makes a list."""


class Confirmed(NamedTuple):
    """A missing number that the ENS accepted.

    Attributes:
        deps: its dependencies, flat.
        known_at: when that was known, by its broker's time; what is lost is proven by a barrier that begins later.
        pending_at: when a number of its topic was last told to be pending, by the same time.
    """

    deps: list[int]
    known_at: float
    pending_at: float


class MissingNumbers:
    """The known missing numbers of one topic.

    Args:
        broker: the topic's.

    Attributes:
        known: the highest number known to exist.
        vouched: the highest number that a worker told to exist, by a head or an answer.
        unstamped_at: when a message without a stamp last arrived on the topic, s.
        confirmed: missing numbers that the ENS accepted. They are lost when overdue; what they depend on is kept,
            because by then the stage may know them no longer.
        wanted: missing numbers that the event log has (R18), with their dependencies, where the stage still told them.
        unasked_at: when some were not asked for because they may not be read yet, by the broker's time.
    """

    __slots__ = (
        "_asked",
        "_fetch_at",
        "_learned",
        "_next_ask",
        "_pending_at",
        "_run_end",
        "_run_start",
        "broker",
        "confirmed",
        "known",
        "unasked_at",
        "unstamped_at",
        "vouched",
        "wanted",
    )

    def __init__(self, clock: int, broker: CaughtUp) -> None:
        self.known = clock
        self.vouched = clock
        self.broker = broker
        self.unstamped_at: float | None = None
        self.confirmed: dict[int, Confirmed] = {}
        self.wanted: dict[int, list[int] | None] = {}
        self._fetch_at: float | None = None  # a question to the log is on its way until then
        self._learned: deque[tuple[int, float, float]] = _NOTHING  # number, when, when by the broker's time
        self._pending_at = -inf  # by the broker's time
        self._next_ask: float | None = None
        self.unasked_at: float | None = None
        self._asked: deque[float] = _NOTHING
        self._run_start = self._run_end = 0

    def learn(self, number: int, now: float) -> bool:
        """Take note that ``number`` exists; return whether that is news."""
        if number <= self.known:
            return False
        self.known = number
        if self._learned and (self._learned[-1][1] == now or len(self._learned) >= MAX_MOMENTS):
            self._learned.pop()  # one entry for what one moment taught
        if self._learned.maxlen == 0:
            self._learned = deque()
        self._learned.append((number, now, self.broker.at(now)))
        return True

    def vouch(self, number: int) -> None:
        """A worker told that ``number`` exists."""
        if number > self.vouched:
            self.vouched = number

    def forget_from(self, number: int, now: float) -> None:
        """``number`` and higher ones were never issued. The lower ones were: those that only a forged number made
        known count as known from now on, so that none is given up early."""
        forgot = False
        while self._learned and self._learned[-1][0] >= number:
            self._learned.pop()
            forgot = True
        self.known = min(self.known, number - 1)
        if forgot and (not self._learned or self._learned[-1][0] < number - 1):
            self._learned.append((number - 1, now, self.broker.at(now)))

    def asked(self, now: float) -> None:
        """A question about this topic leaves."""
        if self._asked.maxlen == 0:
            self._asked = deque(maxlen=MAX_UNANSWERED)
        self._asked.append(now)

    def answered(self) -> float | None:
        """An answer came; return when its question left at the earliest (s), or ``None`` for an answer to none."""
        return self._asked.popleft() if self._asked else None

    def learned_at(self, number: int) -> float | None:
        """Return when the number was first known to exist (s), or ``None``."""
        known = self._moment_of(number)
        return None if known is None else known[1]

    def _moment_of(self, number: int) -> tuple[int, float, float] | None:
        at = bisect_right(self._learned, number - 1, key=lambda each: each[0])
        return self._learned[at] if at < len(self._learned) else None

    def due(self, clock: int, gap_timeout: float) -> float | None:
        """Return when to ask next (s), or ``None`` while nothing is missing."""
        learned = self._learned
        while learned and learned[0][0] <= clock:
            learned.popleft()
        if not learned:
            self._next_ask = self.unasked_at = None
            return None
        first = learned[0][1] + gap_timeout
        return first if self._next_ask is None else max(first, self._next_ask)

    def ask_again_at(self, when: float | None) -> None:
        """Do not ask before ``when`` (s); ``None``: as soon as the timeout allows."""
        self._next_ask = when

    def pending(self, now: float) -> None:
        """A stage told that some number was not confirmed yet."""
        self._pending_at = self.broker.at(now)

    def confirm(self, number: int, deps: list[int], now: float) -> None:
        """The ENS accepted this missing number."""
        confirmed = self.confirmed
        is_higher = not confirmed or number > next(reversed(confirmed))
        confirmed[number] = Confirmed(deps, self.broker.at(now), self._pending_at)
        if not is_higher:
            self.confirmed = dict(sorted(confirmed.items()))

    def next_loss(self, clock: int, loss_timeout: float) -> float | None:
        """Return when, by the broker's time, the next confirmed number is to be given up, or ``None``.

        A whole run of them goes together if its last one is overdue soon after its first (``TOGETHER_SECONDS``): the
        end of a burst that two heads told is one gap. In a longer one nobody waits for what else is lost."""
        while self.confirmed:
            lowest = next(iter(self.confirmed))
            if lowest > clock and (due := self._lost_at(lowest, loss_timeout)) is not None:
                last = self._lost_at(self._end_of_run(lowest), loss_timeout)
                return last if last is not None and due < last <= due + TOGETHER_SECONDS else due
            del self.confirmed[lowest]
        return None

    def _lost_at(self, number: int, loss_timeout: float) -> float | None:
        learned = self._moment_of(number)
        if learned is None:
            return None
        confirmed = self.confirmed[number]
        return max(confirmed.known_at, max(learned[2], confirmed.pending_at) + loss_timeout - PRECISION)

    def _end_of_run(self, lowest: int) -> int:
        """Return the last of the confirmed numbers that follow one another from ``lowest`` on."""
        end = max(self._run_end, lowest) if lowest >= self._run_start else lowest
        while end + 1 in self.confirmed:
            end += 1
        self._run_start, self._run_end = lowest, end
        return end

    def next_lost(self) -> tuple[int, list[int]]:
        """Return and forget the lowest confirmed number, with its dependencies."""
        lowest = next(iter(self.confirmed))
        return lowest, self.confirmed.pop(lowest).deps

    @property
    def since(self) -> float:
        """The time (s) since when the oldest number is known; :meth:`due` has returned when to ask for it."""
        return self._learned[0][1]

    @property
    def known_at(self) -> float:
        """The same by the broker's time."""
        return self._learned[0][2]

    @property
    def is_unread(self) -> bool:
        """The oldest number may merely not be read yet (R24); :meth:`due` has returned when to ask for it."""
        return not self.broker.has_read(self.known_at)

    def ranges(
        self, clock: int, present: Container[int], now: float, gap_timeout: float, sparing: Sparing | None = None
    ) -> list[int]:
        """Return what to ask for now, as flat pairs ``first, last``: missing at least ``gap_timeout``; of what may not
        be read yet the lowest, so many as ``sparing`` allows."""
        through = read = clock
        for number, when, known_at in self._learned:
            if when + gap_timeout > now:
                break
            through = number
            if self.broker.has_read(known_at):
                read = number
        through = min(through, clock + MAX_ASKED)
        missing = (each for each in range(clock + 1, through + 1) if each not in present)
        asked = [each for each in missing if each not in self.confirmed and each not in self.wanted]
        self.unasked_at = None
        if sparing is not None:
            unread = len(asked) - bisect_right(asked, read)
            allowed = min(unread, sparing.left(now))
            sparing.spend(allowed)
            if allowed < unread:
                self.unasked_at = self.broker.at(now)
                del asked[allowed - unread :]
        return _as_ranges(asked)

    def ask_unread(self) -> bool:
        """A barrier has come back, or will not: ask for what was not asked for until then. Return whether there is such
        a number."""
        if self.unasked_at is None or not self.broker.has_read(self.unasked_at):
            return False
        self._next_ask = self.unasked_at = None
        return True

    # -- repair from the event log (R18) ---------------------------------------------------------------------------

    def want(self, number: int, deps: list[int] | None) -> None:
        """The event log has this missing number: it is to be fetched from there."""
        self.wanted[number] = deps

    def fetch_due(self, clock: int) -> float | None:
        """Return when the log is to be asked (s; in the past: now), or ``None``."""
        for number in [each for each in self.wanted if each <= clock]:
            del self.wanted[number]
        if not self.wanted:
            return None
        return 0.0 if self._fetch_at is None else self._fetch_at

    def fetch(self, present: Container[int], again_at: float) -> list[int]:
        """Return what to ask the log for now, as flat pairs; without an answer once more at ``again_at`` (s)."""
        for number in [each for each in self.wanted if each in present]:
            del self.wanted[number]
        self._fetch_at = again_at
        return _as_ranges(sorted(self.wanted)[:MAX_FETCHED])

    def hold_fetch(self, until: float) -> None:
        """Do not ask the log before ``until`` (s)."""
        self._fetch_at = until

    def fetched(self, ranges: list[int], through: int) -> dict[int, list[int] | None]:
        """The log answered for numbers of these ranges up to ``through``: return (and forget) those still wanted."""
        self._fetch_at = None
        spans = list(pairs(ranges))
        asked = [
            number for number in sorted(self.wanted)
            if number <= through and any(first <= number <= last for first, last in spans)
        ]  # fmt: skip
        return {number: self.wanted.pop(number) for number in asked}

    def describe(self) -> dict[str, Any]:
        """Return everything that is known, without the broker."""
        known = {name.lstrip("_"): getattr(self, name) for name in self.__slots__ if name != "broker"}
        return {name: copy(each) for name, each in known.items()}


def _as_ranges(numbers: list[int]) -> list[int]:
    pairs: list[int] = []
    for number in numbers:
        if pairs and pairs[-1] == number - 1:
            pairs[-1] = number
        else:
            pairs += (number, number)
    return pairs


class NumberSet:
    """A set of numbers that mostly follow one another, kept as ranges: what was given up at a limit may be millions."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = _NO_RANGES

    def __contains__(self, number: int) -> bool:
        at = self._at(number)
        return at >= 0 and number <= self._ranges[at][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._ranges)

    @property
    def highest(self) -> int:
        """The highest number, 0 while there is none."""
        return self._ranges[-1][1] if self._ranges else 0

    def add(self, number: int, last: int | None = None) -> None:
        """Take a number into the set, or all up to ``last``."""
        first, last = number, number if last is None else last
        if not self._ranges:
            self._ranges = [(first, last)]
            return
        begin = self._at(first - 1)
        if begin < 0 or self._ranges[begin][1] < first - 1:
            begin += 1
        end = self._at(last + 1) + 1
        if begin < end:
            first, last = min(first, self._ranges[begin][0]), max(last, self._ranges[end - 1][1])
        self._ranges[begin:end] = [(first, last)]

    def discard(self, number: int) -> bool:
        """Take a number out of the set; return whether it was there."""
        at = self._at(number)
        if at < 0 or self._ranges[at][1] < number:
            return False
        first, last = self._ranges[at]
        rest = [(first, number - 1), (number + 1, last)]
        self._ranges[at : at + 1] = [each for each in rest if each[0] <= each[1]]
        return True

    def keep(self, most: int) -> None:
        """Forget the lowest ranges where there are more than so many."""
        if len(self._ranges) > most:
            del self._ranges[: len(self._ranges) - most]

    def describe(self) -> list[tuple[int, int]]:
        """Return the ranges, the lowest first."""
        return list(self._ranges)

    def _at(self, number: int) -> int:
        """Return the range that begins at or below a number, -1 if none does."""
        return bisect_right(self._ranges, number, key=lambda each: each[0]) - 1


class JumpedNumbers:
    """Numbers of one topic that forced delivery passed over (R6), until they arrive or are reported."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, float]] = _NO_RANGES

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._ranges)

    def add(self, first: int, last: int, skipped_at: float) -> None:
        """Numbers ``first`` to ``last`` were jumped; later jumps are always of higher numbers. They are reported if
        they have not arrived by then, in time in which the client was caught up (R24)."""
        if not self._ranges:
            self._ranges = []
        self._ranges.append((first, last, skipped_at))

    def take(self, number: int) -> bool:
        """Return whether the number was jumped and not yet seen or reported; from now on it is seen."""
        at = bisect_right(self._ranges, number, key=lambda each: each[0]) - 1
        if at < 0 or self._ranges[at][1] < number:
            return False
        first, last, when = self._ranges[at]
        rest = [(first, number - 1, when), (number + 1, last, when)]
        self._ranges[at : at + 1] = [each for each in rest if each[0] <= each[1]]
        return True

    def due(self) -> float | None:
        """Return when the oldest of them is to be reported, by the broker's time."""
        return self._ranges[0][2] if self._ranges else None

    def overdue(self, proven: float) -> list[tuple[int, int]]:
        """Return and forget the ranges that did not arrive in time."""
        late = [each for each in self._ranges if each[2] <= proven]
        self._ranges = self._ranges[len(late) :]
        return [(first, last) for first, last, _ in late]

    def oldest(self) -> tuple[int, int]:
        """Return and forget the oldest range."""
        first, last, _ = self._ranges.pop(0)
        return first, last

    def describe(self) -> list[tuple[int, int, float]]:
        """Return the ranges, the oldest first, each with when it is to be reported."""
        return list(self._ranges)
