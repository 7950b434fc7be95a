"""The files of the web UI: served as they were built, and nothing else of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.controlplane.conftest import Serve, Site, assert_problem

from inorder_controlplane import pages

SCRIPT = "console.log('x');" * 200


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build with a page, a script and an icon; beside it a file that is none of anybody's business."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>built</title>")
    (folder / "assets" / "app-1234.js").write_text(SCRIPT)
    (folder / "icon.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.txt").write_text("for nobody")
    monkeypatch.setattr(pages, "static_path", lambda: folder)
    return folder


async def test_the_page_at_every_path_that_is_none_of_the_apis(site: Site, built: Path) -> None:
    client = site.client()
    for path in ("/", "/topics", "/topics/a%2Fb", "/index.html", "/%F0%9F%98%80"):
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert answer.headers["cache-control"] == "no-cache"
        assert "<title>built</title>" in answer.text
    for path in ("/api", "/api/v1/nothing", "/health/x", "/problems", "/metrics/x", "/assets/none.js"):
        assert_problem(await client.get(path), "not-found")
    refused = await client.post("/topics", json={})
    assert_problem(refused, "method-not-allowed")
    assert refused.headers["allow"] == "GET, HEAD"


async def test_below_a_path_of_a_proxys_page_api_and_login_name_that_path(serve: Serve, built: Path) -> None:
    """A proxy may take the path off, or pass it on; the page's files, the API and the login's cookie are below it."""
    (built / "index.html").write_text('<script src="./assets/app-1234.js"></script><link href="./icon.png">')
    site = serve(root_path="/plant/order")
    browser = site.client()
    for path in ("/plant/order", "/plant/order/", "/plant/order/topics/a%2Fb", "/topics", "/plant/order/index.html"):
        page = await browser.get(path)
        assert page.text == '<script src="/plant/order/assets/app-1234.js"></script><link href="/plant/order/icon.png">'
    assert (await browser.get("/plant/order/assets/app-1234.js")).text == SCRIPT
    assert "/plant/order/assets" in (await browser.get("/plant/orders")).text  # another path, so a page of ours
    login = {"token": site.secrets["viewer"]}
    answer = await browser.post("/plant/order/api/v1/session", json=login)
    assert "Path=/plant/order/;" in answer.headers["set-cookie"]
    assert (await browser.get("/plant/order/api/v1/session")).status_code == 200
    assert (await browser.get("/openapi.json")).json()["servers"] == [{"url": "/plant/order"}]
    left = await browser.delete("/plant/order/api/v1/session", headers={"X-CSRF-Token": answer.json()["csrf"]})
    assert (left.status_code, len(browser.cookies)) == (204, 0)


async def test_files_travel_compressed_and_are_kept(site: Site, built: Path) -> None:
    client = site.client()
    packed = await client.get("/assets/app-1234.js", headers={"Accept-Encoding": "gzip"})
    plain = await client.get("/assets/app-1234.js", headers={"Accept-Encoding": "identity"})
    assert packed.text == plain.text == SCRIPT
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(SCRIPT) / 5
    assert "content-encoding" not in plain.headers
    for answer in (packed, plain):
        assert answer.headers["content-type"].startswith("text/javascript")
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers["x-content-type-options"] == "nosniff"
    (built / "assets" / "app-1234.js").write_text("another")
    assert (await client.get("/assets/app-1234.js")).text == "another"
    icon = await client.get("/icon.png")
    assert (icon.headers["content-type"], icon.content) == ("image/png", b"\x89PNG")


@pytest.mark.parametrize(
    "path", ["/../secret.txt", "/%2e%2e/secret.txt", "/assets/..%2f..%2fsecret.txt", "//etc/hostname", "/assets/%00"]
)
async def test_nothing_outside_the_build_is_served(site: Site, built: Path, path: str) -> None:
    (built / "link.txt").symlink_to(built.parent / "secret.txt")
    for each in (path, "/link.txt"):
        answer = await site.client().get(each)
        assert "for nobody" not in answer.text
        assert answer.status_code == 404 or "<title>built</title>" in answer.text


async def test_without_a_build_the_page_says_how_to_make_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "static_path", lambda: None)
    assert "make webui" in (await site.client().get("/topics")).text
