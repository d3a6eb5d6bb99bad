"""Pages in Debian's Chromium: each must load nothing from elsewhere and say nothing on the console."""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

import backprobe as bp

RECORDED = Path(os.environ["RECORDED"])  # by recorded.py


STILL = """async () => {
  const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const [seconds, looks] = [/\\d+ (s|min) ago|now/g, 40];
  const seen = () => document.body.innerHTML.replaceAll(seconds, "");
  for (let at = 0, last = null; at < looks && last !== seen(); at++) {
    last = seen();
    await drawn();
    await new Promise((done) => setTimeout(done, 80)); // behind the page's own timers, which are shorter
  }
}"""


def settled(page):
    """When a page has drawn what a key or a click has asked for, however busy the machine is."""
    while True:
        page.evaluate(STILL)
        if not getattr(page, "asked", None):
            return page
        page.wait_for_timeout(20)


@pytest.fixture(scope="session")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        yield browser
        browser.close()


@pytest.fixture
def recording():
    """A recording by its name, as one without PyTorch loads it."""
    return lambda name: bp.load(RECORDED / name, to="numpy")


@pytest.fixture
def opened(chromium, recording, tmp_path):
    """Open the page of a recording, a report, or a text of HTML; at the end nothing must have gone wrong."""
    contexts, seen = [], []

    def open_page(name, *, html=None, report=None, scheme="light", width=1200, height=800, **drawn):
        path = tmp_path / f"{name}.html"
        if html is None:
            bp.draw(recording(name) if report is None else report, path, **drawn)
        else:
            path.write_text(html, encoding="utf-8")
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: seen.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: seen.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        if html is None:  # what the page holds is unzipped after it has loaded: a key pressed before is nobody's
            page.locator("[role=treeitem]").first.wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert seen == []
