"""The report of an analysis, as browsers show it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.webui.analyses import EVIL, sample
from tests.webui.browser import DESKTOP, PHONE, has_sideways_scrolling, watched_page

from inorder_analytics.report import render


@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_a_report_fits_and_breaks_no_rule(browser: Browser, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    """No error, no violation of its own policy, nothing fetched (``watched_page`` checks); names stay text."""
    file = tmp_path / "report.html"
    file.write_text(render(sample(5, disorder_ms=200, broken=True, runs=2), EVIL), encoding="utf-8")
    with watched_page(browser, file.as_uri(), size=size, theme=theme) as watched:
        page = watched.page
        page.goto(file.as_uri())
        expect(page.get_by_role("heading", level=1, name=EVIL)).to_be_visible()
        expect(page.get_by_role("heading", name="The order was broken")).to_be_visible()
        assert page.locator("img, script").count() == 0
        assert not has_sideways_scrolling(page)
        is_dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 27)"
        assert is_dark == (theme == "dark")
        charts = page.get_by_role("img")
        assert charts.count() == 8
        box = charts.first.bounding_box()
        assert box is not None
        assert 300 < box["width"] <= size[0]
