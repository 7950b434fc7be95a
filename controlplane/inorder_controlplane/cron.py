"""Times of schedules: cron expressions of five fields in a time zone."""

from __future__ import annotations

import datetime
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from inorder.errors import InvalidOption

ALLOWED: Final = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, or L for the last one",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7 (0 and 7: Sunday), or SUN to SAT",
}
"""By field of an expression, as cronsim names it."""
FIELDS: Final = "five fields: minute, hour, day of month, month, day of week, as in 30 3 * * *"
ZONES: Final = "a time zone of the IANA's, such as UTC or Europe/Berlin"
_MOST_STEPS: Final = 200
"""Of cronsim for one time; only the repeated hour of a zone's clock change takes more than one."""


class Cron:
    """A cron expression in a time zone. Raises InvalidOption for ``cron`` (its field) or ``timezone``."""

    def __init__(self, text: str, timezone: str = "UTC") -> None:
        self.text, self.timezone = text, timezone
        self._zone = _zone(timezone)
        self._fields = text.split()
        if len(self._fields) != len(ALLOWED):
            raise InvalidOption("cron", text, FIELDS)
        if self.next(0) is None:
            raise InvalidOption("cron", text, "times that there are: this is none within 50 years")

    def next(self, after_ms: int) -> int | None:
        """Return the first time after a given one (both ms since 1970); ``None`` if there is none within 50 years."""
        after = datetime.datetime.fromtimestamp(after_ms // 1000, self._zone)
        times = self._times(after)
        for _ in range(_MOST_STEPS):
            found = next(times, None)
            if found is None:
                return None
            # Where a clock is set back, cronsim may name the first of two equal hours while we are in the second.
            at_ms = round(found.timestamp() * 1000)
            if at_ms > after_ms:
                return at_ms
        return None

    def upcoming(self, after_ms: int, count: int) -> list[int]:
        """Return the first times after a given one."""
        found: list[int] = []
        while len(found) < count and (at_ms := self.next(found[-1] if found else after_ms)) is not None:
            found.append(at_ms)
        return found

    def _times(self, after: datetime.datetime) -> CronSim:
        try:
            return CronSim(self.text, after)
        except CronSimError as error:
            name = str(error).removeprefix("Bad ")
            value = self._fields[list(ALLOWED).index(name)] if name in ALLOWED else self.text
            allowed = f"{ALLOWED.get(name, FIELDS)}, *, lists (1,2), ranges (1-5) and steps (*/5)"
            raise InvalidOption(f"cron ({name})", value, allowed) from None
        except (AssertionError, TypeError, ValueError, RecursionError):  # of texts that its parser did not foresee
            raise InvalidOption("cron", self.text, FIELDS) from None


def _zone(name: str) -> datetime.tzinfo:
    if name == "UTC":
        return datetime.UTC  # needs no database of zones
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        known = "" if available_timezones() else " (this machine has no database of zones: pip install tzdata)"
        raise InvalidOption("timezone", name, f"{ZONES}{known}") from None
