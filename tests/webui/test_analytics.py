"""Analyses: their runs, what they found, two side by side, schedules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Locator, Page, expect
from tests.analytics.traces import write
from tests.webui.analyses import EVIL, Seeds, sample, seeds, trace
from tests.webui.browser import DESKTOP, PHONE, Watched, has_sideways_scrolling, watched_page
from tests.webui.site import UpServer, log_in
from tests.webui.test_pages import NAMELESS, has_settled

from inorder.testing.ens_recorder import unique
from inorder_analytics.plain import measure
from inorder_analytics.reading import Traces
from inorder_analytics.results import Result
from inorder_worker.store.analyses import Progress
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import TokenStore

SPARK_MS = 420_000.0
"""Spark alone takes a while to start, and the machine may be busy."""


@pytest.fixture(scope="module")
def seed(site: UpServer) -> Iterator[Seeds]:
    with seeds(site) as open_:
        yield open_


@pytest.fixture(scope="module")
def held() -> Result:
    """What was analysed where the order held."""
    return sample(1)


@pytest.fixture(scope="module")
def broken() -> Result:
    """Two recorded runs, names that would run as script, and a violation in what was delivered."""
    return sample(5, disorder_ms=200, broken=True, runs=2)


def row_of(page: Page, table: str, text: str) -> Locator:
    return page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


def cells(page: Page, table: str, first: str) -> list[str]:
    """The cells of a row, but for the first one."""
    begins = re.compile("^" + re.escape(first).replace("/", "."))  # Playwright takes no slash here
    row = page.get_by_role("table", name=table, exact=True).get_by_role("row", name=begins)
    return [each.strip() for each in row.get_by_role("cell").all_inner_texts()][1:]


def test_figures_stand_raw_beside_delivered(page: Page, seed: Seeds, held: Result) -> None:
    source = f"/srv/{unique('traces')}"
    seed.ended(source, result=held)
    page.goto("/analytics")
    page.get_by_role("link", name=source.removeprefix("/")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(source.rsplit("/", 1)[-1])
    main = page.get_by_role("main")
    expect(main).to_contain_text("The order held.")
    assert held.tno_violations_raw > 1
    expect(main).to_contain_text(f"{held.tno_violations_raw:,} pairs of events in opposite orders")
    assert cells(page, "Order", "TNO violations") == [f"{held.tno_violations_raw:,}", "0"]
    raw, delivered = cells(page, "Order", "Ordering degree")
    assert (delivered, 0 < float(raw) < 1) == ("1", True)
    assert held.ordering_degree_raw is not None
    assert abs(float(raw) - held.ordering_degree_raw) < 1e-6
    assert cells(page, "topics of the analysis", "mqtt:stocks/ACME")[0] == str(held.by_topic[2].events)
    charts = page.get_by_role("img", name=re.compile("over time"))
    assert charts.count() == 3
    expect(page.get_by_role("img", name=re.compile(r"Latency over time\. Median .* ms to .* ms; 90 %"))).to_be_visible()
    expect(main).to_contain_text("17 rows were not recorded")
    expect(main).to_contain_text("it is empty (zero bytes)")
    page.get_by_role("link", name="Change the order").click()
    expect(page.get_by_role("heading", level=1, name="Topics")).to_be_visible()
    assert "view=order" in page.url


def test_tables_are_sorted_and_reached_by_keyboard(page: Page, seed: Seeds, held: Result) -> None:
    page.goto(f"/analytics/{seed.ended('/srv/traces', result=held)}")
    tab = page.get_by_role("tab", name="Topics")
    tab.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Subscribers")).to_be_focused()
    table = page.get_by_role("table", name="subscribers of the analysis")
    expect(table).to_contain_text(EVIL)
    clients = table.get_by_role("row").get_by_role("cell").nth(0)
    head = table.get_by_role("button", name="Client")
    head.focus()
    page.keyboard.press("Enter")
    expect(clients).to_have_text(EVIL)
    page.keyboard.press("Enter")
    expect(clients).to_have_text("desk-3")


def test_a_violation_is_named_with_every_digit(page: Page, seed: Seeds, broken: Result) -> None:
    opened: list[str] = []

    def note(dialog: Dialog) -> None:
        opened.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    page.goto(f"/analytics/{seed.ended('/srv/traces', result=broken)}?by=pairs")
    main = page.get_by_role("main")
    expect(main).to_contain_text("The order was broken.")
    # Less than 1 also where it is shown with six digits.
    assert cells(page, "Order", "Ordering degree")[1] == "0.999999"
    said = f"desk-1 had mqtt:{EVIL} number 9,007,199,254,740,993 before mqtt:orders/eu number 7"
    expect(row_of(page, "worst pairs", "9,007,199,254,740,993").first).to_contain_text(said)
    page.get_by_label("Recorded run").select_option(f"{EVIL} 1")
    expect(main).to_contain_text("The order held.")
    expect(row_of(page, "worst pairs", "9,007,199,254,740,993")).to_have_count(0)
    for tab in ("Topics", "Subscribers", "Popularity", "Stages"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel")).to_be_visible()
    assert page.locator("main img").count() == 0
    assert opened == []


def test_two_runs_are_compared(page: Page, seed: Seeds, held: Result, broken: Result) -> None:
    name = unique("compared")
    first, second = seed.ended(f"/srv/{name}", result=held), seed.ended(f"/srv/{name}", result=broken)
    page.goto("/analytics")
    page.get_by_label("Filter runs").fill(name)
    compare = page.get_by_role("button", name="Compare (")
    expect(compare).to_be_disabled()
    for run in (first, second):
        page.get_by_role("checkbox", name=f"Compare /srv/{name}, run {run}").check()
    expect(compare).to_have_text("Compare (2 of 2)")
    compare.click()
    expect(page).to_have_url(re.compile(f"compare\\?a={first}&b={second}"))
    more = broken.tno_violations_raw - held.tno_violations_raw
    assert more > 0
    order = page.get_by_role("table", name="Order")
    row = order.get_by_role("row").filter(has_text="TNO violations, broker alone")
    expect(row.get_by_role("cell").last).to_have_text(f"+{more:,}")
    assert page.get_by_role("img", name=re.compile(r"Latency, 99 %\. A .* ms; B .* ms")).count() == 1
    page.get_by_role("button", name="Swap A and B").click()
    expect(row.get_by_role("cell").last).to_have_text(f"−{more:,}")  # noqa: RUF001


def test_a_run_is_watched_and_cancelled(page: Page, seed: Seeds) -> None:
    source = f"/srv/{unique('slow')}"
    run = seed.running(source, log="1/6 reading\n")
    page.goto("/analytics")
    row = row_of(page, "runs", source.rsplit("/", 1)[-1])
    expect(row).to_contain_text("starting Spark")
    seed.goes_on(run, Progress(3, 6, "pairs"), "1/6 reading\n3/6 pairs\n")
    expect(row).to_contain_text("step 3 of 6: pairs")
    row.get_by_role("button", name="Log of").click()
    log = page.get_by_role("dialog").get_by_label("Log")
    expect(log).to_contain_text("3/6 pairs")
    assert seed.goes_on(run, Progress(4, 6, "latency"), "3/6 pairs\n4/6 latency\n") == "go on"
    expect(log).to_contain_text("4/6 latency")
    page.keyboard.press("Escape")
    row.get_by_role("link").click()
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "4")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_role("main")).to_contain_text("being cancelled by first admin")
    assert seed.goes_on(run, Progress(4, 6, "latency"), "4/6 latency\n") == "cancel"
    seed.ends(run, "cancelled")
    expect(page.get_by_role("main")).to_contain_text("The analysis was cancelled by first admin.")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_failed_run_says_why_and_is_deleted(page: Page, seed: Seeds) -> None:
    source = f"/srv/{unique('failed')}"
    run = seed.ended(source, "failed", reason="Java 17 or newer is missing", log="error: no java\n")
    page.goto(f"/analytics/{run}")
    expect(page.get_by_role("alert")).to_contain_text("Java 17 or newer is missing")
    expect(page.get_by_role("region", name="Log", exact=True)).to_contain_text("error: no java")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the run").click()
    expect(page.get_by_role("heading", level=1, name="Analytics")).to_be_visible()
    expect(row_of(page, "runs", source.rsplit("/", 1)[-1])).to_have_count(0)


def test_a_result_is_downloaded(page: Page, seed: Seeds, broken: Result, tmp_path: Path) -> None:
    page.goto(f"/analytics/{seed.ended('/srv/traces', result=broken)}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Result", exact=True).click()
    download.value.save_as(tmp_path / "result.json")
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["worst_pairs"][0]["witness"]["first"]["number"] == "9007199254740993"
    assert kept["ordering_degree_delivered"] == broken.ordering_degree_delivered
    with page.expect_download() as download:
        page.get_by_role("link", name="topics", exact=True).click()
    download.value.save_as(tmp_path / "topics.csv")
    lines = (tmp_path / "topics.csv").read_text().splitlines()
    assert len(lines) == 1 + len(broken.by_topic)


def test_what_may_not_be_read_is_refused_at_its_field(page: Page, watched: Watched, site: UpServer) -> None:
    watched.expected.append("403")
    page.goto("/analytics")
    page.get_by_role("button", name="New analysis").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(str(site.traces))
    dialog.get_by_label("Traces").fill("/etc")
    dialog.get_by_role("button", name="Start").click()
    expect(dialog.get_by_label("Traces")).to_have_attribute("aria-invalid", "true")
    expect(dialog).to_contain_text("'/etc' is not in a place that controlplane.traces allows")
    dialog.get_by_label("Window (s)").fill("0")
    dialog.get_by_role("button", name="Start").click()
    expect(dialog).to_contain_text("Seconds, from 1 to a year.")


def test_a_schedule_is_made_changed_and_deleted(page: Page, watched: Watched, site: UpServer) -> None:
    watched.expected.append("422")
    name = unique("night")
    page.goto("/analytics")
    page.get_by_role("button", name="New schedule").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Traces").fill(str(site.traces))
    cron = dialog.get_by_label("When (cron)")
    cron.fill("0 25 * * *")
    expect(dialog).to_contain_text("Not understood as times.")
    dialog.get_by_role("button", name="Make the schedule").click()
    expect(cron).to_have_attribute("aria-invalid", "true")
    expect(dialog).to_contain_text("0 to 23")
    cron.fill("30 3 * * *")
    dialog.get_by_label("Time zone").fill("UTC")
    expect(dialog).to_contain_text(re.compile(r"Next: .* \(\S*\s?03:30 UTC\)"))
    dialog.get_by_role("button", name="Make the schedule").click()
    expect(dialog).to_have_count(0)
    row = row_of(page, "schedules", name)
    expect(row).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:30 \(.*03:30 UTC\)"))

    row.get_by_role("button", name=f"Turn {name} off").click()
    expect(row.get_by_role("button", name=f"Turn {name} on")).to_be_visible()
    row.get_by_role("button", name=f"Change {name}").click()
    expect(dialog.get_by_label("It is on")).not_to_be_checked()
    dialog.get_by_label("When (cron)").fill("45 4 * * 1")
    dialog.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("45 4 * * 1")
    row.get_by_role("button", name=f"Delete {name}").click()
    dialog.get_by_role("button", name="Delete the schedule").click()
    expect(row).to_have_count(0)


def test_viewers_see_no_button_that_changes_anything(
    browser: Browser, site: UpServer, seed: Seeds, held: Result
) -> None:
    name = unique("seen")
    run = seed.ended(f"/srv/{name}", result=held)
    seed.schedule(name, "0 3 * * *", "/srv/traces")
    store = Store(site.store)
    _, secret = TokenStore(store).issue(name, "viewer")
    store.close()
    with watched_page(browser, site.url) as watched:
        page = watched.page
        page.goto(f"{site.url}/analytics#token={secret}")
        expect(row_of(page, "schedules", name)).to_be_visible()
        expect(page.get_by_role("button", name=f"Log of /srv/{name}")).to_be_visible()
        writes = page.get_by_role("main").get_by_role(
            "button", name=re.compile("New analysis|New schedule|Cancel|Delete|Run |Turn|Change")
        )
        expect(writes).to_have_count(0)
        page.get_by_role("link", name=f"srv/{name}").click()
        expect(page.get_by_role("main")).to_contain_text("The order held.")
        assert run in page.url
        expect(page.get_by_role("link", name="Result", exact=True)).to_be_visible()
        expect(writes).to_have_count(0)


@pytest.mark.long
def test_an_analysis_is_started_and_finishes(page: Page, site: UpServer) -> None:
    """Of real trace files, by Spark, in a process that the control plane starts."""
    folder = site.traces / unique("plant")
    write(folder, trace(3).rows)
    plain = measure(Traces(folder), window_s=2)
    assert plain.tno_violations_raw > 0
    page.goto("/analytics")
    page.get_by_role("button", name="New analysis").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Traces").fill(str(folder))
    dialog.get_by_label("Window (s)").fill("2")
    dialog.get_by_role("button", name="Start").click()
    expect(dialog).to_have_count(0)
    main = page.get_by_role("main")
    expect(main).to_contain_text("The order held.", timeout=SPARK_MS)
    assert cells(page, "Order", "TNO violations") == [f"{plain.tno_violations_raw:,}", "0"]
    expect(page.get_by_role("region", name="The run")).to_contain_text(f"{plain.rows:,}")
    expect(page.get_by_role("region", name="Log", exact=True)).not_to_contain_text("It logged nothing")


def test_a_schedule_is_run_at_once_and_its_run_cancelled(page: Page, site: UpServer, seed: Seeds) -> None:
    """The process that would do it is a real one."""
    folder = site.traces / unique("plant")
    write(folder, trace(3).rows)
    name = unique("again")
    seed.schedule(name, "0 3 * * *", str(folder), is_on=False)
    page.goto("/analytics")
    page.get_by_role("button", name=f"Run {name} now").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    main = page.get_by_role("main")
    expect(main).to_contain_text("The analysis was cancelled by first admin.", timeout=SPARK_MS)
    page.goto("/analytics")
    expect(row_of(page, "schedules", name).get_by_role("link", name="cancelled")).to_be_visible()


@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_every_view_fits_and_has_names_for_its_controls(
    browser: Browser, site: UpServer, seed: Seeds, held: Result, broken: Result, size: tuple[int, int], theme: str
) -> None:
    first, second = seed.ended("/srv/traces", result=held), seed.ended("/srv/traces", result=broken)
    going = seed.running("/srv/traces", Progress(1, 6, "reading"))
    views = [
        "/analytics",
        *(f"/analytics/{second}?by={tab}" for tab in ("topics", "subscribers", "pairs", "popularity", "stages")),
        f"/analytics/{going}",
        f"/analytics/compare?a={first}&b={second}",
    ]
    with watched_page(browser, site.url, size=size, theme=theme) as watched:
        page = watched.page
        log_in(page, site)
        for view in views:
            page.goto(view)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert has_settled(page), view
            assert not has_sideways_scrolling(page), view
            tree = page.get_by_role("main").aria_snapshot()
            assert NAMELESS.findall(tree) == [], f"{view}: {tree}"
    seed.ends(going, "failed")
