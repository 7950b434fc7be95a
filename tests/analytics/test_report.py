"""The report: what it says is what the result says, whatever things are called, and it asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.analytics.traces import Trace, write

from inorder.errors import InvalidOption, UsageError
from inorder_analytics.plain import measure
from inorder_analytics.reading import Traces
from inorder_analytics.report import render, result_of
from inorder_analytics.report.charts import scale_of
from inorder_analytics.report.words import (
    COST,
    NOTIFICATION,
    ORDER,
    Figure,
    bytes_each,
    count,
    degree,
    ms,
    percent,
    size,
    verdict_of,
)
from inorder_analytics.results import (
    Damaged,
    Displacement,
    EventName,
    Files,
    PairFigures,
    Pairs,
    Percentiles,
    Result,
    RunFigures,
    StageOverhead,
    SubscriberFigures,
    TopicFigures,
    TopicOrder,
    TopicPopularity,
    WindowFigures,
    Witness,
    encode,
    to_plain,
)
from inorder_controlplane.tables import exact

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><style>*{display:none}</style>",
    "</title></style><b>",
    "&lt;b&gt; &amp;",
    "https://example.com/x",
    "url(http://example.com)",
)
VOID = {"meta", "line", "rect", "circle", "polyline", "br", "path"}


class Page(HTMLParser):
    """A report as a browser reads it: its elements, its text, its tables by the heading above them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self.style = ""
        self._heading = ""
        self.feed(html)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in VOID:
            return
        self.open.append(tag)
        if tag in ("h2", "h3"):
            self._heading = ""
        if tag == "tr":
            self.tables.setdefault(self._heading, []).append([])
        if tag in ("td", "th"):
            self.tables[self._heading][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            self.style += data
            return
        self.text += data
        if {"h2", "h3"} & set(self.open):
            self._heading += data
        if {"td", "th"} & set(self.open):
            self.tables[self._heading][-1][-1] += data

    def row(self, heading: str, first: str) -> list[str]:
        """Return the cells of the row whose first one begins so."""
        (found,) = (row for row in self.tables[heading] if row[0].startswith(first))
        return found


def sample(**changes: object) -> Result:
    """A result with something in each section."""
    figures = {"events": 1200, "late_percent": 0.004, "notified_1s_percent": 99.9999}
    latency = Percentiles(p50=2.14, p90=48.06, p99=1234.5)
    base = Result(
        path="/srv/traces",
        made_at=datetime(2026, 3, 1, 9, 30, 5, tzinfo=UTC),
        rows=8000,
        subscribers=3,
        publishers=2,
        topics=2,
        ordering_degree_raw=0.97125,
        ordering_degree_delivered=1.0,
        ordering_degree_raw_min=0.9,
        ordering_degree_delivered_min=1.0,
        tno_violations_raw=2**53 + 1,
        conflict_rate_raw=0.25,
        conflict_rate_delivered=0.0,
        displacement_raw=Displacement(mean=1.5, max=9),
        displacement_delivered=Displacement(mean=0.0, max=0),
        sequence_detection_raw_percent=82.5,
        sequence_detection_percent=100.0,
        latency_ms=latency,
        timestamp_ms=Percentiles(p50=0.42, p90=0.6, p99=2.0),
        ens_ms=Percentiles(p50=1.0, p90=2.0, p99=3.0),
        bytes_per_event=31.5,
        bytes_per_event_24=63.0,
        entries_per_event=2.625,
        stages_per_event=1.25,
        gaps={"lost": 3, "skipped": 0},
        files=Files(read=6, bytes=482_113),
        pairs=Pairs(total=3, used=3, limit=200, seed=0),
        by_topic=[TopicFigures(run="r", topic="mqtt:a", latency_ms=latency, **figures)],  # type: ignore[arg-type]
        by_subscriber=[SubscriberFigures(run="r", client="desk-1", latency_ms=latency, **figures)],  # type: ignore[arg-type]
        by_window=[
            WindowFigures(run="r", start=START + timedelta(minutes=at), events=10 + at, latency_ms=latency)
            for at in (0, 1, 2)
        ],
        worst_pairs=[PairFigures(run="r", a="desk-1", b="desk-2", length=600, ordering_degree_delivered=1.0)],
        message_overhead=[StageOverhead(run="r", stage=0, own=300, foreign=100, percent=25.0)],
        popularity=[TopicPopularity(run="r", topic="mqtt:a", events=900, per_1000=750.0)],
        topic_order=[TopicOrder(run="r", suggested=[["mqtt:a"], ["mqtt:b"]], swaps=[("mqtt:b", "mqtt:a")])],
        **figures,  # type: ignore[arg-type]
    )
    return replace(base, **changes)


# -- figures -----------------------------------------------------------------------------------------------------------


def test_figures_stand_raw_beside_delivered() -> None:
    page = Page(render(sample()))
    assert page.row("Order", "Ordering degree")[1:] == ["0.97125", "1"]
    assert page.row("Order", "Lowest ordering degree")[1:] == ["0.90", "1"]
    assert page.row("Order", "TNO violations")[1:] == ["9,007,199,254,740,993", "0"]
    assert page.row("Order", "Conflict rate")[1:] == ["0.25", "0"]
    assert page.row("Order", "Displacement, mean")[1:] == ["1.5", "0"]
    assert page.row("Order", "Displacement, greatest")[1:] == ["9", "0"]
    assert page.row("Order", "Sequences detected")[1:] == ["82.5 %", "100 %"]
    assert page.row("Notification and latency", "Late")[1:] == ["< 0.01 %"]
    assert page.row("Notification and latency", "Notified in 1 s")[1:] == ["99.99 %"]
    assert page.row("Notification and latency", "Timestamp")[1:4] == ["0.42 ms", "0.6 ms", "2 ms"]
    assert page.row("Notification and latency", "Waiting")[1:4] == ["–", "–", "–"]  # noqa: RUF001
    assert page.row("Notification and latency", "Together")[1:4] == ["2.14 ms", "48.1 ms", "1.23 s"]
    assert page.row("Cost", "Timestamp as it travelled")[1:] == ["31.5 B"]
    assert page.row("Cost", "Timestamp at 24 bytes")[1:] == ["63 B"]
    assert page.row("Cost", "Stages visited")[1:] == ["1.25"]
    assert page.row("Topics", "mqtt:a")[1] == "1,200"
    assert page.row("Subscribers", "desk-1")[3:] == ["< 0.01 %", "99.99 %", "2.14 ms", "48.1 ms", "1.23 s"]
    assert page.row("Message overhead by stage", "Stage 0")[1:4] == ["300", "100", "25 %"]
    assert page.row("Popularity and topic order", "mqtt:a")[1:3] == ["900", "750.0"]
    assert [row[0] for row in page.tables["Gaps"][1:]] == ["lostconfirmed, never arrived, and in no event log"]
    assert page.row("Gaps", "lost")[1] == "3"


@pytest.mark.parametrize(
    ("heading", "figures"), [("Order", ORDER), ("Notification and latency", NOTIFICATION), ("Cost", COST)]
)
def test_each_figure_has_a_line_that_explains_it(heading: str, figures: Sequence[Figure]) -> None:
    page = Page(render(sample()))
    for figure in figures:
        assert page.row(heading, f"{figure.label}{figure.meaning}")
        assert figure.meaning.endswith(".")
    assert "Method and definitions" in page.text


def test_the_headline_says_whether_the_order_held() -> None:
    held = verdict_of(sample(tno_violations_raw=381))
    assert (held.tone, held.headline) == ("good", "The order held")
    assert held.text == (
        "All subscribers saw one order. The broker alone would have shown 381 pairs of events in opposite orders "
        "(ordering degree 0.97125)."
    )
    broken = verdict_of(sample(tno_violations_delivered=1))
    assert (broken.tone, broken.headline) == ("bad", "The order was broken")
    assert "about 1 pair of events." in broken.text
    alone = verdict_of(sample(tno_violations_raw=0, ordering_degree_raw=1.0))
    assert alone.text.endswith("The broker alone brought the events in one order, too.")


def test_without_common_events_nothing_is_claimed() -> None:
    nobody = sample(ordering_degree_delivered=None, ordering_degree_raw=None, tno_violations_raw=0)
    assert verdict_of(nobody).tone == "open"
    page = Page(render(nobody))
    assert "There is no order to judge" in page.text
    assert "The order held" not in page.text
    assert page.row("Order", "Ordering degree")[1:] == ["–", "–"]  # noqa: RUF001


def test_a_violation_names_its_two_events() -> None:
    first, second = EventName(topic="mqtt:a", number=2**63 - 1), EventName(topic="mqtt:b", number=7)
    pair = PairFigures(
        run="r", a="desk-1", b="desk-2", tno_violations_delivered=1, witness=Witness(first=first, second=second)
    )
    page = Page(render(sample(worst_pairs=[pair], tno_violations_delivered=1)))
    said = page.row("Pairs that agreed least", "desk-1 and desk-2")[0].removeprefix("desk-1 and desk-2")
    assert said == (
        "desk-1 had mqtt:a number 9,223,372,036,854,775,807 before mqtt:b number 7, "
        "desk-2 had them the other way round."
    )


def test_what_is_missing_is_stated() -> None:
    damaged = Files(
        read=5, bytes=100, damaged=[Damaged(file="/srv/traces/x.parquet", reason="it is empty (zero bytes)")]
    )
    pairs = Pairs(total=4950, used=200, limit=200, seed=7)
    page = Page(render(sample(files=damaged, pairs=pairs, dropped_rows=17, uncorrected=4, negative_latencies=1)))
    assert "Of 4,950 pairs of subscribers a sample of 200 was compared (at most 200 a run, seed 7)" in page.text
    assert "17 rows were not recorded" in page.text
    assert "Of 4 events a clock is not known" in page.text
    assert "1 event has a part of the latency below zero" in page.text
    assert page.tables["What was read"][1:] == [["/srv/traces/x.parquet", "it is empty (zero bytes)"]]


def test_long_lists_are_cut_and_say_so() -> None:
    topics = [TopicFigures(run="r", topic=f"mqtt:{at}", events=at) for at in range(1000)]
    page = Page(render(sample(by_topic=topics)))
    assert len(page.tables["Topics"]) == 201
    assert page.tables["Topics"][1][:2] == ["mqtt:999", "999"]
    assert "The first 200 of 1,000" in page.text


def test_recorded_runs_stand_side_by_side() -> None:
    runs = [
        RunFigures(run=f"run {at}", events=at, ordering_degree_delivered=1.0, pairs=Pairs(total=3, used=3, limit=200))
        for at in (1, 2)
    ]
    page = Page(render(sample(by_run=runs)))
    assert [row[:2] for row in page.tables["Recorded runs"][1:]] == [["run 1", "1"], ["run 2", "2"]]
    assert "Recorded runs" not in Page(render(sample(by_run=runs[:1]))).tables


# -- charts ------------------------------------------------------------------------------------------------------------


def lines_of(page: Page) -> list[list[tuple[float, float]]]:
    points = [attributes["points"] or "" for name, attributes in page.elements if name == "polyline"]
    return [[(float(x), float(y)) for x, y in (pair.split(",") for pair in each.split())] for each in points]


def test_lines_are_interrupted_where_nothing_was_published() -> None:
    whole = [WindowFigures(run="r", start=START + timedelta(minutes=at), events=5) for at in (0, 1, 2, 3)]
    late = [replace(each, late_percent=1.0) for each in whole]
    page = Page(render(sample(by_window=late)))
    assert len(lines_of(page)) == 2  # events and late
    apart = [late[0], late[1], *(replace(each, start=each.start + timedelta(minutes=30)) for each in late[2:])]
    lines = lines_of(Page(render(sample(by_window=apart))))
    # The count of events goes on, at zero; of what was late nothing is known there, and its line has two pieces.
    assert [len(each) for each in lines] == [6, 2, 2]
    heights = [y for _, y in lines[0]]
    assert heights[2] == heights[3] == max(heights)


@pytest.mark.parametrize("values", [[0.0], [5.0], [-3.0, 4.0], [1e-9], [1e12, 1.0], [100.0, 100.0]])
def test_any_values_are_drawn_inside(values: list[float]) -> None:
    windows = [
        WindowFigures(run="r", start=START + timedelta(minutes=at), latency_ms=Percentiles(p50=value))
        for at, value in enumerate(values)
    ]
    page = Page(render(sample(by_window=windows)))
    circles = [attributes for name, attributes in page.elements if name == "circle"]
    assert circles
    for each in circles:
        assert 0 <= float(each["cx"] or "") <= 460
        assert 0 <= float(each["cy"] or "") <= 190


@pytest.mark.parametrize(
    ("greatest", "top", "step"),
    [(0, 1, 0.5), (1, 1, 0.5), (7, 8, 2), (100, 100, 50), (62.5, 80, 20), (0.03, 0.03, 0.01)],
)
def test_axes_end_at_round_numbers(greatest: float, top: float, step: float) -> None:
    assert scale_of(greatest) == pytest.approx((top, step))


# -- nothing from outside ----------------------------------------------------------------------------------------------


def assert_is_closed(html: str) -> Page:
    """Nothing in it runs, and nothing is fetched; its policy would not allow it either."""
    page = Page(html)
    for name, attributes in page.elements:
        assert name not in {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a", "use", "image"}
        assert not {"src", "href", "style", "srcset", "action", "xlink:href"} & attributes.keys(), (name, attributes)
        assert not any(each.startswith("on") for each in attributes)
    assert "url(" not in page.style
    assert "@import" not in page.style
    (policy,) = (
        attributes["content"] or ""
        for _, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return page


def test_it_asks_for_nothing_and_runs_nothing() -> None:
    assert_is_closed(render(sample()))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_named_stays_text(text: str) -> None:
    first = EventName(topic=text, number=1)
    named = sample(
        path=text,
        gaps={text: 1},
        files=Files(damaged=[Damaged(file=text, reason=text)]),
        by_run=[RunFigures(run=each, pairs=Pairs()) for each in (text, "other")],
        by_topic=[TopicFigures(run=text, topic=text)],
        by_subscriber=[SubscriberFigures(run=text, client=text)],
        by_window=[WindowFigures(run=each, start=START) for each in (text, "other")],
        worst_pairs=[PairFigures(run=text, a=text, b=text, witness=Witness(first=first, second=first))],
        popularity=[TopicPopularity(run=text, topic=text, events=1, per_1000=1.0)],
        topic_order=[TopicOrder(run=each, suggested=[[text]], swaps=[(text, text)]) for each in (text, "other")],
    )
    page = assert_is_closed(render(named, text))
    assert sum(name in ("title", "style", "h1") for name, _ in page.elements) >= 3
    # In title and heading, path, run, topic, subscriber, pair with its events, popularity, order, gap, file.
    assert page.text.count(text) >= 12


def test_what_cannot_be_seen_is_written_out() -> None:
    topic = "a\0b\x1b[31m\u202egnp\ud800"
    html = render(sample(by_topic=[TopicFigures(run="r", topic=topic)]))
    html.encode()  # no halves of surrogate pairs
    assert not re.search(r"[\0\x1b\u202e]", html)
    assert Page(html).tables["Topics"][1][0] == r"a\x00b\x1b[31m\u202egnp\ud800"


def test_the_same_result_gives_the_same_bytes() -> None:
    assert render(sample()) == render(sample())


# -- words -------------------------------------------------------------------------------------------------------------


def test_numbers_in_words() -> None:
    assert [degree(each) for each in (1.0, 0.99999999, 0.0, 0.9, 0.123456)] == ["1", "0.999999", "0", "0.90", "0.1235"]
    assert [percent(each) for each in (0.0, 0.001, 12.345, 99.999, 100.0)] == [
        "0 %", "< 0.01 %", "12.35 %", "99.99 %", "100 %",
    ]  # fmt: skip
    assert [ms(each) for each in (0.0, 0.125, -3.5, 12.34, 123.4, 61_000.0)] == [
        "0 ms", "0.12 ms", "-3.5 ms", "12.3 ms", "123 ms", "61 s",
    ]  # fmt: skip
    assert [size(each) for each in (0, 999, 1000, 482_113, 3e12)] == ["0 B", "999 B", "1 kB", "482.1 kB", "3 TB"]
    assert (count(2**63), bytes_each(31.46)) == ("9,223,372,036,854,775,808", "31.5 B")


# -- where it comes from -----------------------------------------------------------------------------------------------


def never(traces: Traces) -> Result:
    raise AssertionError(f"{traces.path} was measured")


def test_it_is_made_of_a_result_or_of_the_folder_of_an_analysis(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(encode(sample()))
    (tmp_path / "part.parquet").write_bytes(b"not read")
    assert result_of(str(tmp_path), never) == sample()
    assert result_of(str(tmp_path / "result.json"), never) == sample()
    assert result_of(f"file://{tmp_path}", never) == sample()


def test_it_is_made_of_what_the_control_plane_hands_out(tmp_path: Path) -> None:
    """There whole numbers that a browser would round are texts, and sequence numbers always."""
    first, second = EventName(topic="mqtt:a", number=2**63 - 1), EventName(topic="mqtt:b", number=7)
    pair = PairFigures(run="r", a="x", b="y", witness=Witness(first=first, second=second))
    result = sample(worst_pairs=[pair], topics=2**53 + 1)
    (tmp_path / "download.json").write_text(json.dumps(exact(to_plain(result))))
    assert '"number": "7"' in (tmp_path / "download.json").read_text()
    assert result_of(str(tmp_path / "download.json"), never) == result


def test_it_is_made_of_traces(tmp_path: Path) -> None:
    trace = Trace().streams(x="a1 a2 a3", y="a1 a2 a3").arrive(x="a1 a2 a3", y="a2 a1 a3")
    result = result_of(str(write(tmp_path / "t", trace.rows)), measure)
    page = Page(render(result))
    assert page.row("Order", "TNO violations")[1:] == ["1", "0"]
    # D is 1, 1, 0 of 3 events: 1 - (2 / 3) / 3 = 7 / 9.
    assert page.row("Order", "Ordering degree")[1:] == ["0.777777", "1"]


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"events": 1}')
    with pytest.raises(UsageError, match="is not the result of an analysis"):
        result_of(str(tmp_path / "other.json"), never)
    with pytest.raises(InvalidOption, match="nowhere"):
        result_of(str(tmp_path / "nowhere"), never)


def test_an_empty_folder_makes_a_report_that_says_so(tmp_path: Path) -> None:
    page = Page(render(result_of(str(tmp_path), measure)))
    assert "There is no order to judge" in page.text
    assert "0 rows in 0 files" in page.text
