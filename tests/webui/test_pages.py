"""What is true of every page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.webui.browser import DESKTOP, PHONE, Watched, has_sideways_scrolling, watched_page
from tests.webui.site import PAGES, UpServer, log_in
from tests.webui.traffic import Traffic

# A control without a name stands in a snapshot of what screen readers see as its bare role.
NAMELESS = re.compile(r"^\s*- (?:button|link|textbox|combobox|searchbox|checkbox|radio)(?: \[.*\])?:?$", re.MULTILINE)

LOADED_BYTES = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""
"""The bodies of the page and of all it has loaded, as they came over the wire."""


def has_settled(page: Page) -> bool:
    """Whether nothing is loading any more, and nothing failed."""
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    return page.locator(".notice-bad").count() == 0


@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_every_page_fits_and_breaks_no_rule(
    browser: Browser, site: UpServer, traffic: Traffic, size: tuple[int, int], theme: str
) -> None:
    """No error, no violation of the security policy, no request to another host (``watched_page`` checks), and no
    sideways scrolling."""
    with watched_page(browser, site.url, size=size, theme=theme) as watched:
        log_in(watched.page, site)
        expect(watched.page.locator("html")).to_have_attribute("data-theme", theme)
        for path, title in PAGES.items():
            watched.page.goto(path)
            expect(watched.page.get_by_role("heading", level=1, name=title)).to_be_visible()
            assert has_settled(watched.page), f"{title}: {watched.page.locator('main').inner_text()}"
            assert not has_sideways_scrolling(watched.page), title


def test_the_token_of_the_link_does_not_stay_in_the_address(page: Page) -> None:
    assert "token" not in page.url
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()


def test_a_wrong_token_is_refused_in_words(browser: Browser, site: UpServer) -> None:
    with watched_page(browser, site.url) as watched:
        watched.expected.append("401")
        page = watched.page
        page.goto("/topics")
        page.get_by_label("Token").fill("ino_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("wrong, expired or revoked")
        expect(page.get_by_role("navigation")).to_have_count(0)


def test_the_first_load_is_small(browser: Browser, site: UpServer) -> None:
    """Under 500 kB over the wire, in the form in which the server sends it."""
    with watched_page(browser, site.url) as watched:
        log_in(watched.page, site)
        watched.page.wait_for_load_state("load")
        assert 50_000 < watched.page.evaluate(LOADED_BYTES) < 500_000


def test_pages_are_reached_by_keyboard(page: Page) -> None:
    """The first stop skips to the content; each page takes the focus when it opens."""
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=re.compile("Gaps")).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Gaps")).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()


def test_every_control_has_a_name(page: Page, watched: Watched) -> None:
    """What a screen reader would read out for each button, link and field."""
    for path in PAGES:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert has_settled(page)
        tree = page.get_by_role("main").aria_snapshot()
        # A nameless control stands there as its bare role.
        nameless = re.findall(
            r"^\s*- (?:button|link|textbox|combobox|searchbox|checkbox|radio)(?: \[.*\])?:?$", tree, re.M
        )
        assert nameless == [], f"{path}: {tree}"
