"""What is built of the web UI: small, of one piece, and fit for the content security policy."""

from __future__ import annotations

import gzip
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from inorder_webui import location, static_path


@pytest.fixture(scope="module")
def build() -> Path:
    found = static_path()
    assert found is not None, "the web UI is not built: make webui"
    return found


class _Tags(HTMLParser):
    """Collects the tags of a page with their attributes, and the text inside of script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style") and data.strip():
            self.inline.append(data)


def test_the_page_has_nothing_inline(build: Path) -> None:
    page = _Tags()
    page.feed((build / "index.html").read_text())
    assert "script" in [tag for tag, _ in page.tags]
    assert page.inline == []
    attributes = {name for _, attributes in page.tags for name in attributes}
    assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_the_page_is_made_of_files_that_are_there(build: Path) -> None:
    page = _Tags()
    page.feed((build / "index.html").read_text())
    named = [value for _, attributes in page.tags for name in ("src", "href") if (value := attributes.get(name))]
    for text in (build / "assets").glob("*.css"):
        named += [f"/assets/{Path(value).name}" for value in re.findall(r"url\(([^)]+)\)", text.read_text())]
    assert len(named) > 3
    for value in named:
        assert (build / value.removeprefix("/")).is_file(), value


def test_all_of_it_is_small(build: Path) -> None:
    # The whole console, not the first page alone; 500 kB is what the first page may have.
    files = [path for path in build.rglob("*") if path.is_file()]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 500_000


def test_scripts_evaluate_no_text(build: Path) -> None:
    scripts = [*(build / "assets").glob("*.js")]
    assert scripts
    for path in scripts:
        assert not re.search(r"\bnew Function\(|[^.\w]eval\(", path.read_text()), path.name


def test_texts_never_become_markup() -> None:
    # Topics, payloads and names come from anybody (B73).
    source = Path(__file__).parents[1] / "webui" / "app" / "src"
    modules = [*source.rglob("*.ts*")]
    assert modules
    for path in modules:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", path.read_text(), re.I), (
            path.name
        )


def test_what_is_bundled_brings_its_licence_along(build: Path) -> None:
    text = (build / "licenses.txt").read_text()
    for name in ("react", "react-dom", "uplot", "@dnd-kit/core", "@fontsource-variable/inter"):
        assert re.search(rf"^{re.escape(name)} \d+\.", text, re.MULTILINE), name


def test_without_a_build_there_is_no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(location, "_STATIC", tmp_path)
    assert static_path() is None
    (tmp_path / "index.html").touch()
    assert static_path() == tmp_path
