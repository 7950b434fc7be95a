"""The whole page: its head, with a policy that allows only its own style, and its sections."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from inorder_analytics.report.markup import Markup, joined, name, tag
from inorder_analytics.report.sections import headline, sections
from inorder_analytics.report.style import STYLE
from inorder_analytics.report.words import instant
from inorder_analytics.results import Result

DEFAULT_TITLE: Final = "Order of events"


def render(result: Result, title: str = DEFAULT_TITLE) -> str:
    """Return the report of an analysis as one HTML file that loads nothing else.

    Nothing in it runs or is fetched: there is no script, and its policy allows its own style only. Whatever users named
    is text. The same result and title give the same bytes.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    body = tag(
        "body",
        tag(
            "header",
            tag("h1", title),
            tag("p", "Analysis of ", name(result.path), f", made at {instant(result.made_at)}", class_="about"),
        ),
        tag("main", headline(result), *sections(result)),
        tag("footer", tag("p", "Made by inorder report.")),
    )
    return joined([Markup("<!doctype html>\n"), tag("html", head, body, lang="en"), Markup("\n")])


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
