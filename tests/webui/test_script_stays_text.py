"""B73: nothing that comes from outside runs as script, wherever it is shown."""

from __future__ import annotations

from playwright.sync_api import Dialog, Page, expect
from tests.webui.conftest import SCRIPT
from tests.webui.traffic import Traffic

EVIL = "<script>document.title = 'run'</script><img src=x onerror=alert(2)>"


def assert_is_text(page: Page, text: str) -> None:
    expect(page.get_by_role("main").get_by_text(text).first).to_be_visible()
    assert page.locator("main img").count() == 0
    assert page.locator("main script").count() == 0
    assert "run" not in page.title()


def test_script_in_names_and_payloads_stays_text(page: Page, traffic: Traffic) -> None:
    """As a topic, a filter, a client, a payload, in errors and in tooltips. That nothing ran shows in that no dialog
    opened; the page's own check finds errors and violations of the security policy."""
    opened: list[str] = []

    def note(dialog: Dialog) -> None:
        opened.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    traffic.run(traffic.lurk(EVIL, SCRIPT))

    page.goto("/topics")
    assert_is_text(page, SCRIPT)
    page.goto("/subscriptions")
    assert_is_text(page, EVIL)
    page.goto("/events")
    page.get_by_label("Filter", exact=True).fill(f"{SCRIPT}/test")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("Waiting for the first event")).to_be_visible()
    page.get_by_role("button", name="Publish a test event").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Topic", exact=True).fill(f"{SCRIPT}/test")
    dialog.get_by_label("Payload").fill(EVIL)
    dialog.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("heading", name=f"mqtt: {SCRIPT}/test, number 1")).to_be_visible()
    assert_is_text(page, SCRIPT)
    expect(page.get_by_role("list", name="Events, the newest first")).to_contain_text(f"{SCRIPT}/test")
    assert_is_text(page, EVIL)
    assert opened == []
