"""Complaints that are logged once, however often a check fails again."""

from __future__ import annotations


class Complaint:
    """The present fault of something. Attribute ``text``: in words; empty while nothing is."""

    def __init__(self) -> None:
        self.text = ""

    def is_news(self, error: object) -> bool:
        """Take note of an error; tell whether it is another one than that before."""
        before, self.text = self.text, str(error)
        return self.text != before

    def clear(self) -> None:
        """All is well again."""
        self.text = ""
