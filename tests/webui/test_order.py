"""The topic order changes by hand while everything runs."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.webui.traffic import Traffic


def order_epoch(page: Page) -> int:
    epoch: str = page.request.get("/api/v1/order").json()["order_epoch"]
    return int(epoch)


def stage_of(page: Page, topic: str) -> int:
    stages = page.request.get("/api/v1/order").json()["stages"]
    found: int = next(each["stage"] for each in stages if any(topic == one["name"] for one in each["topics"]))
    return found


def handle(page: Page, topic: str) -> Locator:
    return page.get_by_role("button", name=f"Move mqtt: {topic}, rank ")


def open_order(page: Page) -> None:
    page.goto("/topics?view=order")
    expect(handle(page, "news/flash")).to_be_visible()


def apply(page: Page) -> None:
    page.get_by_role("button", name="Preview and apply").click()
    dialog = page.get_by_role("dialog", name="Apply this order?")
    expect(dialog).to_contain_text("1 topic moves")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog).to_have_count(0)


def drag(page: Page, topic: str, stage: int) -> None:
    """With the mouse, in steps as a hand makes them."""
    target = page.get_by_role("region", name=f"Stage {stage}").get_by_role("listitem").last
    source = handle(page, topic)
    source.scroll_into_view_if_needed()
    at, to = source.bounding_box(), target.bounding_box()
    assert at is not None
    assert to is not None
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    page.mouse.down()
    page.mouse.move(to["x"] + to["width"] / 3, to["y"] + to["height"] / 2, steps=15)
    page.mouse.up()


def lift(page: Page, topic: str, stage: int) -> None:
    """By keyboard: space lifts the first topic of a stage, an arrow carries it over the edge, space drops it. Each step
    is told to screen readers."""
    told = page.locator("[id^=DndLiveRegion]")
    handle(page, topic).focus()
    page.keyboard.press("Space")
    expect(told).to_contain_text(f"mqtt: {topic}")
    page.keyboard.press("ArrowUp")
    above = page.get_by_role("region", name=f"Stage {stage}").locator("[data-topic]")
    expect(above.filter(has_text=topic)).to_be_visible()
    page.keyboard.press("Space")
    expect(told).to_contain_text(f"mqtt: {topic} dropped")


@pytest.mark.parametrize("move", [drag, lift], ids=["by drag", "by keyboard"])
def test_a_topic_moves_under_load(page: Page, traffic: Traffic, move: object) -> None:
    """To the stage above. Events go on being published meanwhile; the whole run is judged by the fixture, and here so
    far: no promise was broken."""
    assert callable(move)
    topic = {drag: "plant/line-1/temperature", lift: "news/flash"}[move]
    open_order(page)
    before, stage = order_epoch(page), stage_of(page, topic)
    traffic.progress()
    move(page, topic, stage - 1)
    expect(page.get_by_text("1 topic moved, not applied yet")).to_be_visible()
    apply(page)
    assert stage_of(page, topic) == stage - 1
    assert order_epoch(page) == before + 1
    traffic.progress(100)
    assert traffic.violations() == []
