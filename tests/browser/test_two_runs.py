"""Two runs in Chromium: they lie over each other, and the way to where they part."""

import re

import planted_runs
import pytest
from playwright.sync_api import expect
from test_viewer import number, page_of, ready, row  # noqa: F401  # a fixture

import backprobe as bp
from conftest import settled


def test_two_runs_lie_over_each_other(page_of, tmp_path):  # noqa: F811
    """The way to where they part, and how many times one is the other."""
    changed = lambda step: 2.0 if step >= 250 else 1.0
    around = tmp_path / "both"
    planted_runs.planted(around / "one", planted=set())
    planted_runs.planted(around / "two", planted=set(), change=changed)
    page = ready(page_of(around, live=True, fragment="&run=1&with=0&mode=ratio"))
    parting = page.get_by_role("button", name=re.compile("step 250 by more than a tenth"))
    parting.click()
    expect(page.locator("#details h2")).to_have_text("h.0.ln1")
    expect(page.locator("#details h3").filter(has_text="step 250")).to_have_count(2)
    canvas, box = page.locator("#tracks canvas").bounding_box(), row(page, "h.2.attn").bounding_box()
    for step, ratio in ((240, 1), (260, 2)):
        page.mouse.move(canvas["x"] + (step + 0.5) / 400 * canvas["width"], box["y"] + 9)
        said = page.locator(".tip").inner_text()
        assert number(re.search(r"× the other run: (\S+)", said)[1]) == pytest.approx(ratio, rel=1e-3)
    page.locator("nav .pick").first.click()  # the other way round
    settled(page)
    assert "run=0" in page.url and "with=1" in page.url


def test_a_diff_of_runs_is_saved_as_both(page_of, tmp_path):  # noqa: F811
    """What is seen first is how many times the second is the first."""
    changed = lambda step: 2.0 if step >= 250 else 1.0
    planted_runs.planted(tmp_path / "one", planted=set())
    planted_runs.planted(tmp_path / "two", planted=set(), change=changed)
    report = bp.diff(tmp_path / "one", tmp_path / "two")
    report.save(tmp_path / "both.html")
    page = ready(page_of(tmp_path / "both.html"))
    expect(page.get_by_role("radio", name="ratio")).to_have_attribute("aria-checked", "true")
    canvas, box = page.locator("#tracks canvas").bounding_box(), row(page, "h.2.attn").bounding_box()
    page.mouse.move(canvas["x"] + 260.5 / 400 * canvas["width"], box["y"] + 9)
    said = page.locator(".tip").inner_text()
    assert number(re.search(r"× the other run: (\S+)", said)[1]) == pytest.approx(2, rel=1e-3)
    assert page.get_by_role("button", name=re.compile(f"step {report.first.step} in any bit")).count() == 1
