"""Stages move from worker to worker by hand, while everything runs."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect
from tests.webui.site import Standby, UpServer
from tests.webui.traffic import Traffic


def stage(page: Page, number: int) -> Locator:
    heading = page.get_by_role("heading", name=f"Stage {number}", exact=True)
    return page.locator(".stage-card").filter(has=heading)


def row(page: Page, worker: str) -> Locator:
    return page.get_by_role("table", name="workers").get_by_role("row").filter(has_text=worker)


def test_a_stage_is_moved_and_its_worker_drained(page: Page, site: UpServer, traffic: Traffic) -> None:
    """The top stage goes to a worker that was started just now; drained, that one gives back what it has."""
    with Standby(site):
        page.goto("/workers")
        expect(row(page, "standby")).to_be_visible()
        stage(page, 0).get_by_role("button", name="Move stage 0").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Move the stage").click()
        expect(dialog).to_have_count(0)
        expect(stage(page, 0).locator(".stage-owner")).to_contain_text("standby")
        traffic.progress()

        row(page, "standby").get_by_role("button", name="Drain standby").click()
        dialog.get_by_role("button", name="Drain the worker").click()
        expect(dialog).to_have_count(0)
        expect(row(page, "standby")).to_contain_text("drained")
        for number in range(3):
            expect(stage(page, number).locator(".stage-owner")).not_to_contain_text("standby")
        traffic.progress()
    expect(page.get_by_role("table", name="take-overs")).to_contain_text("handover")
    assert traffic.violations() == []
