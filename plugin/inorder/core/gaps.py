"""Numbers that are known and missing: when to ask for them, and what the answers mean (R17).

A number is known missing by a higher one, by a dependency or by a head. ``gap_timeout`` later its stage is asked;
``loss_timeout`` after it was known missing, a confirmed number that still did not arrive is lost. While lower numbers
of its topic still come in, a number that none has overtaken yet is not late but on its way: a subscriber with more
than ``loss_timeout`` of backlog at its broker would else give up, and then drop, events that do arrive.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Container

MAX_ASKED = 5_000
"""Numbers in one question; the rest is asked when these are settled."""
MAX_FETCHED = 1_000
"""Numbers in one question to the event log; the lowest first, so that what they hold back can go (R18)."""
HEADS_SECONDS = 1.0
"""Stages tell heads that often, as a rule: the end of a burst is known in steps that far apart."""
MAX_MOMENTS = 10_000
"""Moments at which numbers became known that are told apart; of those beyond the last one counts, so none is early."""
MAX_UNANSWERED = 16
"""Questions of one topic whose answers are told apart; each lost answer delays the next verdicts by one question."""
MAX_PASSED = 1_000
"""Ranges of numbers in one topic that were passed over and may still come late; beyond, the lowest are forgotten."""


class MissingNumbers:
    """What is known to be missing in one topic.

    Attributes:
        known: the highest number known to exist.
        vouched: the highest number that a worker told to exist, by a head or an answer.
        highest, highest_at: the highest number that arrived since something is missing, and when it did (s).
        unstamped_at: when a message without a stamp last arrived on the topic, s.
        confirmed: missing numbers that the ENS accepted, with their dependencies. They are lost when overdue;
            kept, because by then the stage may know them no longer.
        wanted: missing numbers that the event log has (R18), with their dependencies, where the stage still told them.
    """

    def __init__(self, clock: int) -> None:
        self.known = clock
        self.vouched = clock
        self.highest = 0
        self.highest_at = 0.0
        self.unstamped_at: float | None = None
        self.confirmed: dict[int, list[int]] = {}
        self.wanted: dict[int, list[int] | None] = {}
        self._fetch_at: float | None = None  # a question to the log is on its way until then
        self._learned: deque[tuple[int, float]] = deque()
        self._next_ask: float | None = None
        self._asked: deque[float] = deque(maxlen=MAX_UNANSWERED)
        self._run_start = self._run_end = 0

    def learn(self, number: int, now: float) -> bool:
        """Take note that ``number`` exists; return whether that is news."""
        if number <= self.known:
            return False
        self.known = number
        if self._learned and (self._learned[-1][1] == now or len(self._learned) >= MAX_MOMENTS):
            self._learned.pop()  # one entry for what one moment taught
        self._learned.append((number, now))
        return True

    def arrived(self, number: int, now: float) -> None:
        """A number arrived while others are missing."""
        if number > self.highest:
            self.highest, self.highest_at = number, now

    def forget_from(self, number: int, now: float) -> None:
        """``number`` and higher ones were never issued. The lower ones were: those that only a forged number made
        known count as known from now on, so that none is given up early."""
        forgot = False
        while self._learned and self._learned[-1][0] >= number:
            self._learned.pop()
            forgot = True
        self.known = min(self.known, number - 1)
        if forgot and (not self._learned or self._learned[-1][0] < number - 1):
            self._learned.append((number - 1, now))
        if self.highest >= number:
            self.highest, self.highest_at = 0, 0.0

    def asked(self, now: float) -> None:
        """A question about this topic leaves."""
        self._asked.append(now)

    def answered(self) -> float | None:
        """An answer came; return when its question left at the earliest (s), or ``None`` for an answer to none."""
        return self._asked.popleft() if self._asked else None

    def learned_at(self, number: int) -> float | None:
        """Return when the number was first known to exist (s), or ``None``."""
        at = bisect_right(self._learned, number - 1, key=lambda each: each[0])
        return self._learned[at][1] if at < len(self._learned) else None

    def due(self, clock: int, gap_timeout: float) -> float | None:
        """Return when to ask next (s), or ``None`` while nothing is missing."""
        learned = self._learned
        while learned and learned[0][0] <= clock:
            learned.popleft()
        if not learned:
            self._next_ask = None
            return None
        first = learned[0][1] + gap_timeout
        return first if self._next_ask is None else max(first, self._next_ask)

    def ask_again_at(self, when: float | None) -> None:
        """Do not ask before ``when`` (s); ``None``: as soon as the timeout allows."""
        self._next_ask = when

    def confirm(self, number: int, deps: list[int]) -> None:
        """The ENS accepted this missing number."""
        confirmed = self.confirmed
        is_higher = not confirmed or number > next(reversed(confirmed))
        confirmed[number] = deps
        if not is_higher:
            self.confirmed = dict(sorted(confirmed.items()))

    def next_loss(self, clock: int, loss_timeout: float, patience: float = 0.0) -> float | None:
        """Return when the next confirmed number is to be given up (s), or ``None``.

        A whole run of them goes together if its last one is overdue within ``patience`` (s) of its first: the end of a
        burst that heads told in several steps is one gap."""
        while self.confirmed:
            lowest = next(iter(self.confirmed))
            known = self.learned_at(lowest)
            if lowest > clock and known is not None:
                due = self._overdue_at(lowest, known)
                last = self._end_of_run(lowest)
                its_known = self.learned_at(last)
                if its_known is not None:
                    due = min(due + patience, max(due, self._overdue_at(last, its_known)))
                return due + loss_timeout
            del self.confirmed[lowest]
        return None

    def _overdue_at(self, number: int, known: float) -> float:
        """Return from when on a number is waited for (s)."""
        return known if number < self.highest else max(known, self.highest_at)

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
        return lowest, self.confirmed.pop(lowest)

    def ranges(self, clock: int, present: Container[int], now: float, gap_timeout: float) -> list[int]:
        """Return what to ask for now, as flat pairs ``first, last``: missing at least ``gap_timeout``."""
        through = clock
        for number, when in self._learned:
            if when + gap_timeout > now:
                break
            through = number
        through = min(through, clock + MAX_ASKED)
        missing = (each for each in range(clock + 1, through + 1) if each not in present)
        return _as_ranges([each for each in missing if each not in self.confirmed and each not in self.wanted])

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
        pairs = list(zip(ranges[::2], ranges[1::2], strict=True))
        asked = [
            number for number in sorted(self.wanted)
            if number <= through and any(first <= number <= last for first, last in pairs)
        ]  # fmt: skip
        return {number: self.wanted.pop(number) for number in asked}


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

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

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
        del self._ranges[: max(0, len(self._ranges) - most)]

    def _at(self, number: int) -> int:
        """Return the range that begins at or below a number, -1 if none does."""
        return bisect_right(self._ranges, number, key=lambda each: each[0]) - 1


class JumpedNumbers:
    """Numbers of one topic that forced delivery passed over (R6), until they arrive or are reported."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, float]] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self._ranges)

    def add(self, first: int, last: int, now: float) -> None:
        """Numbers ``first`` to ``last`` were jumped; later jumps are always of higher numbers."""
        self._ranges.append((first, last, now))

    def take(self, number: int) -> bool:
        """Return whether the number was jumped and not yet seen or reported; from now on it is seen."""
        at = bisect_right(self._ranges, number, key=lambda each: each[0]) - 1
        if at < 0 or self._ranges[at][1] < number:
            return False
        first, last, when = self._ranges[at]
        rest = [(first, number - 1, when), (number + 1, last, when)]
        self._ranges[at : at + 1] = [each for each in rest if each[0] <= each[1]]
        return True

    def due(self, loss_timeout: float) -> float | None:
        """Return when the oldest of them is to be reported (s)."""
        return self._ranges[0][2] + loss_timeout if self._ranges else None

    def overdue(self, now: float, loss_timeout: float) -> list[tuple[int, int]]:
        """Return and forget the ranges that did not arrive in time."""
        late = [each for each in self._ranges if each[2] + loss_timeout <= now]
        self._ranges = self._ranges[len(late) :]
        return [(first, last) for first, last, _ in late]

    def oldest(self) -> tuple[int, int]:
        """Return and forget the oldest range."""
        first, last, _ = self._ranges.pop(0)
        return first, last
