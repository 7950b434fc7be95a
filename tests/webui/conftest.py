"""One ``inorder up`` with mosquitto and live traffic for all browser tests, and Chromium.

Playwright's loop occupies the main thread while it runs, so it ends with this package; no test here is a coroutine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.webui.browser import Watched, chromium, watched_page
from tests.webui.site import UpServer, log_in
from tests.webui.traffic import Traffic

from inorder.testing.services import Mosquitto
from inorder_webui import static_path

SCRIPT = "<img src=x onerror=alert(1)>"
"""A topic whose name would run as script, where it is not shown as text (B73)."""

ORDER = [
    ["stocks/ACME", "stocks/GLOBEX"],
    ["orders/eu", "orders/us"],
    ["news/flash", "plant/line-1/temperature", SCRIPT],
]
TOPICS = [topic for stage in ORDER for topic in stage]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, chromium(playwright) as running:
        yield running


@pytest.fixture(scope="package")
def site(mosquitto: Mosquitto) -> Iterator[UpServer]:
    assert static_path() is not None, "the web UI is not built; build it with: make webui"
    with UpServer(mosquitto.url, ORDER) as server:
        yield server


@pytest.fixture(scope="package")
def traffic(site: UpServer, mosquitto: Mosquitto) -> Iterator[Traffic]:
    """Events on all topics. At the end of the package the whole run is judged: no promise may have been broken."""
    with Traffic(mosquitto.url, site.worker, TOPICS) as running:
        running.progress()
        yield running
    assert running.recorder.violations() == []


@pytest.fixture
def watched(browser: Browser, site: UpServer, traffic: Traffic) -> Iterator[Watched]:
    """A page that is logged in; the test fails if the page does what it must not."""
    with watched_page(browser, site.url) as opened:
        log_in(opened.page, site)
        yield opened


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page
