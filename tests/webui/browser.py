"""Debian's Chromium under Playwright, and a page that remembers everything a careful page must not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect

from inorder.testing.services import find_binary

ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE_MS = 30_000.0
"""How long a condition is waited for before a test fails."""

DESKTOP, PHONE = (1280, 800), (390, 844)

# Reported by the page itself, also where the console says nothing.
_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => console.error(
  `security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


@contextmanager
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """Run the system's Chromium. Raises MissingBinary, which says how to install it."""
    expect.set_options(timeout=PATIENCE_MS)
    browser = playwright.chromium.launch(executable_path=find_binary("chromium", "chromium"), args=ARGS)
    try:
        yield browser
    finally:
        browser.close()


@dataclass
class Watched:
    """What pages of one context did.

    Attributes:
        page: the first page.
        errors: what the console and uncaught exceptions said, violations of the security policy included.
        hosts: all that was asked for anything, WebSockets included.
        expected: parts of errors that the test provokes itself, such as the browser's line on a refused request.
    """

    page: Page
    errors: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    expected: list[str] = field(default_factory=list)

    def attach(self, context: BrowserContext) -> None:
        """Begin to watch."""
        context.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        context.on("console", self._said)
        context.on("weberror", lambda error: self.errors.append(f"uncaught: {error.error}"))
        self.page.on("websocket", lambda socket: self.hosts.add(urlsplit(socket.url).netloc))

    def assert_clean(self, host: str) -> None:
        """Check that nothing was wrong, and that nobody but ``host`` was asked for anything."""
        unexpected = [each for each in self.errors if not any(part in each for part in self.expected)]
        assert not unexpected, unexpected
        # The host of data: URLs is empty.
        assert self.hosts <= {host, ""}, self.hosts

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")


@contextmanager
def watched_page(
    browser: Browser, url: str, *, size: tuple[int, int] = DESKTOP, theme: str = "light", reduced_motion: bool = True
) -> Iterator[Watched]:
    """Open a page in a context of its own; at the end, check that it behaved."""
    context = browser.new_context(
        base_url=url,
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce" if reduced_motion else "no-preference",
        accept_downloads=True,
    )
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(_REPORT_VIOLATIONS)
    try:
        watched = Watched(context.new_page())
        watched.attach(context)
        yield watched
        watched.assert_clean(urlsplit(url).netloc)
    finally:
        context.close()


def has_sideways_scrolling(page: Page) -> bool:
    """Whether the page as a whole is wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
