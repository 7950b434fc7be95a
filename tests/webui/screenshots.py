"""Takes a picture of every page in both themes, of a cluster with live traffic: ``python -m tests.webui.screenshots
FOLDER``, or ``make screenshots``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.webui.analyses import sample, seeds
from tests.webui.browser import DESKTOP, PHONE, chromium, watched_page
from tests.webui.conftest import ORDER, TOPICS
from tests.webui.site import PAGES, Standby, UpServer, log_in
from tests.webui.traffic import Traffic

from inorder.testing.services import Mosquitto
from inorder_worker.store.analyses import Progress

Shot = Callable[[Page, Traffic], None]


def main(folder: Path) -> None:
    """Start everything, look at everything, leave the pictures in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        Mosquitto(max_queued=0) as mosquitto,
        UpServer(mosquitto.url, ORDER) as site,
        Standby(site),
        Traffic(mosquitto.url, site.worker, TOPICS) as traffic,
        sync_playwright() as playwright,
        chromium(playwright) as browser,
    ):
        traffic.progress(200)
        traffic.run(traffic.lurk("archive", TOPICS[0]))
        traffic.stuck("plant/forklift")
        analyses = _analyses(site)
        for theme in ("light", "dark"):
            for size in (DESKTOP, PHONE):
                _take(browser, site, {**_views(traffic), **analyses}, traffic, folder, size, theme)


def _analyses(site: UpServer) -> dict[str, str]:
    """Put runs and schedules of analyses into the store; return the address of each picture, by its name."""
    with seeds(site) as seed:
        first = seed.ended(str(site.traces), result=sample(1), log="6/6 putting the runs together\n")
        second = seed.ended(str(site.traces), result=sample(5, disorder_ms=200, runs=2))
        seed.ended(str(site.traces), "failed", reason="Java 17 or newer is missing")
        seed.running(str(site.traces / "plant"), Progress(3, 6, "pairs of subscribers"))
        seed.schedule("every night", "0 3 * * *", str(site.traces))
    return {
        "analytics-run": f"/analytics/{first}",
        "analytics-compare": f"/analytics/compare?a={first}&b={second}",
        "analytics-schedule": "/analytics",
    }


def _take(
    browser: Browser,
    site: UpServer,
    views: Mapping[str, str],
    traffic: Traffic,
    folder: Path,
    size: tuple[int, int],
    theme: str,
) -> None:
    with watched_page(browser, site.url, size=size, theme=theme) as watched:
        page = watched.page
        log_in(page, site)
        whole = {*(title.lower() for title in PAGES.values()), "analytics-run", "analytics-compare"}
        for name, path in views.items():
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_role("status", name="Loading")).to_have_count(0)
            if prepare := _PREPARED.get(name):
                prepare(page, traffic)
            page.screenshot(path=folder / f"{name}-{theme}-{size[0]}.png", full_page=name in whole)


def _views(traffic: Traffic) -> dict[str, str]:
    """Return the address of each picture, by its name."""
    pages = {title.lower(): path for path, title in PAGES.items()}
    receipt = next(each for each in reversed(traffic.receipts) if each.topic == "orders/us")
    topic = TOPICS.index("orders/us") + 1
    return {
        **pages,
        "events": f"/events?topic={topic}&number={receipt.number}",
        "topics-order": "/topics?view=order",
        "topics-history": "/topics?view=history",
        "subscriptions-graph": "/subscriptions",
        "events-tail": "/events",
        "gaps-release": "/gaps",
        "settings-token": "/settings",
        "settings-audit": "/settings?tab=audit",
        "settings-definitions": "/settings?tab=definitions",
        "settings-appearance": "/settings?tab=appearance",
    }


def _show_graph(page: Page, traffic: Traffic) -> None:
    page.get_by_role("tab", name="Graph").click()
    page.get_by_role("group", name="Clients that share topics").scroll_into_view_if_needed()


def _name_topic(page: Page, traffic: Traffic) -> None:
    expect(page.get_by_label("Topic", exact=True)).to_have_value("mqtt: orders/us")


def _run_tail(page: Page, traffic: Traffic) -> None:
    page.get_by_role("button", name="Start").click()
    rows = page.get_by_role("list", name="Events, the newest first").get_by_role("listitem")
    expect(rows.nth(12)).to_be_visible()


def _release(page: Page, traffic: Traffic) -> None:
    page.get_by_role("button", name="Release").first.click()
    page.get_by_role("dialog").get_by_label("As void").check()


def _make_token(page: Page, traffic: Traffic) -> None:
    page.get_by_role("button", name="New token").click()
    page.get_by_role("dialog").get_by_label("client").check()


def _make_schedule(page: Page, traffic: Traffic) -> None:
    page.get_by_role("button", name="New schedule").click()
    expect(page.get_by_role("dialog").get_by_text("Next:")).to_be_visible()


_PREPARED: dict[str, Shot] = {
    "events": _name_topic,
    "subscriptions-graph": _show_graph,
    "events-tail": _run_tail,
    "gaps-release": _release,
    "settings-token": _make_token,
    "analytics-schedule": _make_schedule,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
