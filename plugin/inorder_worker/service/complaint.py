"""What is wrong, said once: who looks again and again fails again and again."""

from __future__ import annotations


class Complaint:
    """What is wrong at present. Attribute ``text``: in words; empty while nothing is."""

    def __init__(self) -> None:
        self.text = ""

    def is_news(self, error: object) -> bool:
        """Take note of an error; tell whether it is another one than that before."""
        before, self.text = self.text, str(error)
        return self.text != before

    def clear(self) -> None:
        """All is well again."""
        self.text = ""
