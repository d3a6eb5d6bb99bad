"""A circuit of ten thousand values in Chromium: it opens fast, and lines are drawn where one looks."""

import base64
import gzip
import json
import re

import pytest
from playwright.sync_api import expect
from tasks import longest_task

from conftest import RECORDED

VALUES = 10_000
OPENING, ALL = 600, 400  # milliseconds of the processor that no task takes, nor one that opens all boxes
JOINED = """() => {
  const window = document.getElementById("diagram").getBoundingClientRect();
  const boxOf = (key) => document.querySelector(`[data-key="${key}"]`).getBoundingClientRect();
  const isSeen = (box) => box.bottom > window.top && box.top < window.bottom;
  return [...document.querySelectorAll("[data-edge]")].map((line) => {
    const [from, to] = line.dataset.edge.split(" ").map(boxOf);
    const path = line.querySelector("path");
    const at = (length) => {
      const { x, y } = path.getPointAtLength(length).matrixTransform(path.getScreenCTM());
      return [x, y];
    };
    const [[x1, y1], [x2, y2]] = [at(0), at(path.getTotalLength())];
    const isJoined = x1 >= from.left && x1 <= from.right && Math.abs(y1 - from.bottom) < 4
      && x2 >= to.left && x2 <= to.right && Math.abs(y2 - to.top) < 4;
    return [line.dataset.edge, isSeen(from) || isSeen(to), isJoined];
  });
}"""


def text():
    return (RECORDED / "large.html").read_text(encoding="utf-8")


def test_its_values_are_zipped():
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text(), re.DOTALL)[1])
    circuit = gzip.decompress(base64.b64decode(data["circuit"]))
    assert len(json.loads(circuit)["values"]) >= VALUES
    assert len(text()) < len(circuit) / 6 and len(text()) < 1_500_000


@pytest.fixture
def large(opened):
    page = opened("large", html=text())
    page.set_default_timeout(30_000)
    page.locator("[role=treeitem]").first.wait_for()
    return page


def again(page):
    page.reload(wait_until="commit")
    page.locator("[role=treeitem]").first.wait_for()


def test_it_opens_at_once(large, chromium):
    assert longest_task(chromium, large, lambda: again(large)) < OPENING
    assert 20 < large.locator("[role=treeitem]").count() < 100
    large.get_by_role("combobox").fill("stages.17.parts.20.0.weight")
    assert longest_task(chromium, large, lambda: large.keyboard.press("Enter")) < OPENING
    expect(large.locator("[role=treeitem].selected")).to_be_visible()


def open_all(page):
    """It is done in pieces."""
    page.get_by_role("button", name="Open all").click()
    expect(page.locator("#status")).to_have_text("all boxes opened", timeout=30_000)


def test_what_is_opened_in_pieces_can_be_left(large):
    """What is searched meanwhile is there at once, and all can be closed again."""
    large.get_by_role("button", name="Open all").click()
    large.get_by_role("combobox").fill("stages.17.parts.20.0.weight")
    large.keyboard.press("Enter")
    expect(large.locator("[role=treeitem].selected")).to_be_visible()
    assert large.locator("[role=treeitem]").count() > VALUES and large.locator(".edge.near").count() > 0
    large.get_by_role("button", name="Close all").click()
    expect(large.locator("[role=treeitem]")).to_have_count(43)


def test_lines_are_drawn_where_one_looks(large, chromium):
    assert longest_task(chromium, large, lambda: open_all(large)) < ALL
    assert large.locator("[role=treeitem]").count() > VALUES
    seen = set()
    for part in (0, 0.31, 0.8):
        large.evaluate(
            "(part) => { const box = document.getElementById('diagram'); box.scrollTop = part * box.scrollHeight; }",
            part,
        )
        large.wait_for_function(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
        )
        lines = large.evaluate(JOINED)
        assert 5 < len(lines) < 600 and all(is_joined for *_, is_joined in lines)
        assert any(is_seen for _, is_seen, _ in lines)
        seen |= {edge for edge, *_ in lines}
    assert len(seen) > 100
