"""Recordings in a folder that is shown: those saved while one looks appear, and all of very many can be reached."""

import os
import shutil

import planted_runs
from playwright.sync_api import expect
from test_viewer import page_of, ready  # noqa: F401  # a fixture

from conftest import RECORDED

COUNT = 57


def test_a_recording_that_is_saved_while_one_looks_appears(page_of, recording, tmp_path):  # noqa: F811
    """Also another one that is saved in its place, while it is looked at."""
    planted_runs.layers(tmp_path / "run")
    page = ready(page_of(tmp_path / "run", live=True))
    assert page.get_by_role("heading", name="A circuit").count() == 0
    recording("two_paths").save(tmp_path / "run" / "bad-step")
    page.locator("nav .pick", has_text="bad-step").click()
    expect(page.locator(".host #heading")).to_have_text("gradients are of loss")
    expect(page.locator(".host [role=treeitem]")).to_have_count(6)
    recording("hostile").save(tmp_path / "run" / "bad-step", overwrite=True)
    expect(page.locator(".host #heading")).to_have_text("gradients are of made")
    expect(page.locator(".host [role=treeitem]")).to_have_count(3)


def test_all_of_very_many_recordings_can_be_reached(page_of, tmp_path):  # noqa: F811
    """Those saved last are listed, and how many more there are is said."""
    planted_runs.layers(tmp_path / "run")
    for at in range(COUNT):
        shutil.copytree(RECORDED / "two_paths", tmp_path / "run" / f"step{at:03}")
        for file in (tmp_path / "run" / f"step{at:03}").iterdir():
            os.utime(file, ns=(10**18 + at * 10**9,) * 2)
    page = ready(page_of(tmp_path / "run", live=True))
    listed = page.locator("nav ul").first.locator(".pick")
    assert listed.all_inner_texts() == [f"run/step{at:03}" for at in reversed(range(COUNT - 40, COUNT))]
    page.get_by_role("button", name="and 17 more").click()
    expect(listed).to_have_count(COUNT)
    page.locator("nav .pick", has_text="step000").click()
    expect(page.locator(".host #heading")).to_have_text("gradients are of loss")
    assert page.get_by_role("button", name="more").count() == 0
