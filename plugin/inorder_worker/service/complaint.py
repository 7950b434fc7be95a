"""Complaints that are logged once, however often a check fails again."""

from __future__ import annotations

import asyncio


class Complaint:
    """The present fault of something. Attribute ``text``: in words; empty while nothing is. On the event loop."""

    def __init__(self) -> None:
        self.text = ""
        self._since = 0.0

    @property
    def age(self) -> float:
        """The seconds since all was well; 0 while it is."""
        return asyncio.get_running_loop().time() - self._since if self.text else 0.0

    def is_news(self, error: object) -> bool:
        """Take note of an error; tell whether it is another one than that before."""
        before, self.text = self.text, str(error)
        if not before:
            self._since = asyncio.get_running_loop().time()
        return self.text != before

    def clear(self) -> None:
        """All is well again."""
        self.text = ""
