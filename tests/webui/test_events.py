"""One event's life, the live tail, a test event."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from tests.webui.browser import Watched
from tests.webui.traffic import Traffic


def find(page: Page, topic: str, number: int) -> None:
    page.goto("/events")
    page.get_by_label("Topic", exact=True).fill(f"mqtt: {topic}")
    page.get_by_label("Number", exact=True).fill(str(number))
    page.get_by_role("button", name="Find").click()


def test_an_event_is_found_with_its_life_and_what_it_waited_for(page: Page, traffic: Traffic) -> None:
    receipt = next(each for each in reversed(traffic.receipts) if each.topic == "orders/us" and each.deps)
    find(page, receipt.topic, receipt.number or 0)
    expect(page.get_by_role("heading", name=f"mqtt: orders/us, number {receipt.number:,}")).to_be_visible()
    facts = page.locator(".facts").first
    expect(facts).to_contain_text("confirmed")
    expect(facts).to_contain_text(re.compile("writer-[01]"))
    expect(page.get_by_role("region", name="Its life").get_by_role("listitem").first).to_be_visible()
    dependencies = page.get_by_role("table", name="dependencies")
    for name, number in receipt.deps:
        row = dependencies.get_by_role("row").filter(has_text=f"mqtt: {name}")
        expect(row).to_contain_text(f"{number:,}")


def test_a_dependency_leads_to_the_event_before(page: Page, traffic: Traffic) -> None:
    receipt = next(each for each in reversed(traffic.receipts) if each.topic == "news/flash" and each.deps)
    find(page, receipt.topic, receipt.number or 0)
    name, number = receipt.deps[0]
    page.get_by_role("table", name="dependencies").get_by_role("link", name=f"{number:,}", exact=True).first.click()
    expect(page.get_by_role("heading", name=f"mqtt: {name}, number {number:,}")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name=f"mqtt: news/flash, number {receipt.number:,}")).to_be_visible()


def test_numbers_beyond_2_to_the_53_keep_their_digits(page: Page, watched: Watched, traffic: Traffic) -> None:
    """B71: what is asked for, to the last digit."""
    watched.expected.append("404")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    find(page, "orders/eu", 2**53 + 1)
    expect(page.get_by_role("alert")).to_contain_text("no such event")
    expect(page.get_by_label("Number", exact=True)).to_have_value("9007199254740993")
    assert [each for each in asked if "/api/v1/events?" in each and each.endswith("number=9007199254740993")]


def test_what_is_no_number_is_not_asked_for(page: Page) -> None:
    find(page, "orders/eu", -1)
    expect(page.get_by_text("A whole number from 1.")).to_be_visible()
    expect(page.get_by_label("Number", exact=True)).to_have_attribute("aria-invalid", "true")


def test_a_test_event_is_published_and_shown(page: Page, traffic: Traffic) -> None:
    page.goto("/events")
    page.get_by_role("button", name="Publish a test event").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Topic", exact=True).fill("bench/test")
    dialog.get_by_label("Payload").fill("hello")
    dialog.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("heading", name="mqtt: bench/test, number 1", exact=True)).to_be_visible()


def test_the_tail_runs_pauses_and_goes_on(page: Page, traffic: Traffic) -> None:
    page.goto("/events")
    page.get_by_label("Filter", exact=True).fill("orders/#")
    page.get_by_role("button", name="Start").click()
    rows = page.get_by_role("list", name="Events, the newest first").get_by_role("listitem")
    expect(rows.nth(3)).to_be_visible()
    assert set(rows.locator(".tail-topic").all_inner_texts()) <= {"orders/eu", "orders/us"}

    page.get_by_role("button", name="Pause").click()
    shown = rows.first.inner_text()
    expect(page.get_by_text(re.compile("passed while paused"))).to_be_visible()
    assert rows.first.inner_text() == shown

    page.get_by_role("button", name="Go on").click()
    expect(rows.first).not_to_have_text(shown)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Start")).to_be_visible()
