"""Numbers that move by themselves."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from tests.webui.traffic import Traffic


def test_the_figures_of_the_overview_move(page: Page, traffic: Traffic) -> None:
    expect(page.get_by_text("Live", exact=True).first).to_be_visible()
    figures = page.get_by_role("main")
    before = figures.inner_text()
    page.wait_for_function("(before) => document.querySelector('main').innerText !== before", arg=before)


def test_a_stage_counts_up_while_one_looks_on(page: Page, traffic: Traffic) -> None:
    """The row of a stage's journal, a number that only rises."""
    page.goto("/workers")
    row = page.locator(".stage-card").first.locator("dt", has_text="Journal row").locator("xpath=../dd")
    expect(row).to_be_visible()
    before = row.inner_text()
    traffic.progress()
    expect(row).not_to_have_text(before)
    assert int(row.inner_text().replace(",", "")) > int(before.replace(",", ""))
