"""The documentation site: built strictly, every link and anchor leads somewhere, and it works in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag

import browser
import generated_pages
import pytest
from test_docs import ROOT

# Where no browser is, these tests are skipped, and say so; in CI that is a failure.
needs_browser = pytest.mark.skipif(
    browser.program() is None and not os.environ.get("CI"), reason="needs Chromium: python tests/lab/cluster.py install"
)
PHONE, DESK = 390, 1280


class Page(HTMLParser):
    """What a page refers to, and what others may refer to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.ids.add(value)
            elif name in ("href", "src"):
                self.targets.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a server of its own, as readers see it."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[browser.Browser]:
    with browser.Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
        # Nothing was fetched from elsewhere, and nothing went wrong on any page.
        assert not [url for url in opened.requests if not url.startswith((address, "data:", "blob:"))]
        assert opened.errors == []


def test_every_page_of_the_documents_is_in_the_navigation(site: Path) -> None:
    shown = {unquote(urldefrag(target)[0]) for target in Page(site / "index.html").targets}
    written = [path.relative_to(ROOT / "docs") for path in sorted((ROOT / "docs").glob("**/*.md"))]
    for path in [*written, *map(Path, generated_pages.pages())]:
        name = path.with_suffix(".html")
        name = name.with_stem("index") if name.stem == "README" else name
        assert str(name) in shown, f"{path.name} is missing in mkdocs.yml, under nav"
    assert "concepts.html" in (site / "search/search_index.json").read_text()


def test_every_link_and_anchor_leads_somewhere(site: Path) -> None:
    pages = {path: Page(path) for path in sorted(site.glob("**/*.html")) if path.name != "404.html"}
    assert len(pages) >= 3
    links = 0
    for path, page in pages.items():
        for target in page.targets:
            if re.match(r"https://|data:|javascript:", target):
                continue
            name, anchor = urldefrag(target)
            there = (path.parent / unquote(name)).resolve() if name else path
            there = there / "index.html" if there.is_dir() else there
            assert there.is_file(), f"{path.relative_to(site)}: {target}"
            if anchor and there in pages:
                assert unquote(anchor) in pages[there].ids, f"{path.relative_to(site)}: {target}"
            links += 1
    assert links > 50


# The width of the page, when what moves after a change of the window has come to rest.
WIDTH = """new Promise(done => {
    const until = performance.now() + 5000
    const look = () => document.documentElement.scrollWidth <= innerWidth || performance.now() > until
        ? done(document.documentElement.scrollWidth) : setTimeout(look, 50)
    look()
})"""


@needs_browser
@pytest.mark.parametrize(
    ("dark", "every"), [(False, 8), (True, 20), pytest.param(False, 1, marks=pytest.mark.thorough)]
)
def test_pages_fit_every_screen(chromium: browser.Browser, address: str, site: Path, dark: bool, every: int) -> None:
    chromium.look(width=DESK, dark=dark)
    chromium.open(f"{address}/index.html")
    chromium.ask("localStorage.clear()")  # the site keeps the scheme that it showed last
    chromium.open(f"{address}/index.html")
    pages = sorted(path for path in site.glob("**/*.html") if path.name != "404.html")
    for path in pages[::every]:
        chromium.open(f"{address}/{path.relative_to(site)}")
        assert chromium.ask("document.body.dataset.mdColorScheme") == ("slate" if dark else "default")
        broken = "[...document.images].filter(each => each.complete && !each.naturalWidth).map(each => each.src)"
        assert chromium.ask(broken) == []
        for width in (PHONE, DESK):
            chromium.look(width=width, dark=dark)
            assert chromium.ask(WIDTH) <= width, path.relative_to(site)
