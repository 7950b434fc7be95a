"""A number that hangs, and the operator who lets it go."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from playwright.sync_api import Page, expect
from tests.webui.traffic import Traffic

from inorder.testing.ens_recorder import unique


def test_a_stuck_number_is_released(page: Page, traffic: Traffic) -> None:
    """Its publisher hangs on the way to the broker. A subscriber waits at the number, and goes on when it is void."""
    topic = unique("depot")
    stuck = traffic.stuck(topic)
    page.goto("/gaps")
    row = page.get_by_role("table", name="stuck numbers").get_by_role("row").filter(has_text=topic)
    expect(row).to_contain_text("forklift-4")
    expect(row).to_contain_text("publisher connected")
    expect(row).to_contain_text("1 subscriber")
    expect(row.locator("td[data-label=For]")).to_have_css("white-space", "nowrap")  # a duration stays with its unit
    expect(row.get_by_role("link", name=str(stuck.number), exact=True)).to_be_visible()
    assert not stuck.is_passed()

    row.get_by_role("button", name="Release").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("As void").check()
    expect(dialog).to_contain_text("certainly not on the way")
    dialog.get_by_role("button", name="Release as void").click()
    expect(dialog).to_have_count(0)
    expect(row).to_have_count(0)
    stuck.wait_passed()


def test_tables_are_exported(page: Page, traffic: Traffic, tmp_path: Path) -> None:
    """All topics, with their names as they are."""
    page.goto("/topics")
    expect(page.get_by_role("table", name="topics")).to_contain_text("orders/eu")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").first.click()
    assert download.value.suggested_filename.startswith("inorder-topics-")
    download.value.save_as(tmp_path / "topics.csv")
    text = (tmp_path / "topics.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows[0]) > 3
    assert all(len(each) == len(rows[0]) for each in rows)
    cells = {cell for row in rows[1:] for cell in row}
    for name in traffic.topics:
        assert any(name in cell for cell in cells), name
