"""The pictures of docs/view.md and the page of docs/drawing.md, of what train.py and circuits.py make, in Chromium.

.venv/bin/python tools/pictures/train.py runs
.venv/bin/python tools/pictures/circuits.py circuits
.venv-browser/bin/python tools/pictures/view.py runs circuits docs/pictures
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

import backprobe as bp

RAISED = "field=grad.rms&name=blocks.2&step=320&open=1"
PICTURES = {
    "view": (["raised"], "light", 1400, 820, "field=grad.rms"),
    "view-details": (["raised"], "dark", 1400, 820, RAISED),
    "view-two": (["raised", "steady"], "light", 1400, 700, "run=0&with=1&mode=ratio"),
    "view-narrow": (["raised"], "dark", 480, 820, RAISED),
}
"""By name: the runs, light or dark, the size, and the address behind the token."""


BESIDE = {
    "view-rolled": (["deep"], "light", 1400, 820, "circuit=0", []),
    "view-diff": (["reference", "port"], "dark", 1400, 820, "circuit=0", [".blamed"]),
}
"""The same of what is beside a run: recordings, of which two are compared; and what is clicked."""


def main(runs: Path, circuits: Path, to: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name, (chosen, scheme, width, height, words, clicked) in BESIDE.items():
            recordings = [bp.load(circuits / one, to="numpy") for one in chosen]
            shown = recordings[0] if len(recordings) == 1 else bp.diff(*recordings)
            with bp.view(runs / "raised", shown, open=False) as viewer:
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.goto(f"{viewer.url}&{words}")
                page.wait_for_selector(".host [role=treeitem]")
                for one in clicked:
                    page.locator(one).first.click()
                page.wait_for_timeout(800)
                page.screenshot(path=to / f"{name}.png")
                page.close()
        page = browser.new_page(viewport={"width": 1400, "height": 480})
        page.goto((circuits / "sweep.html").absolute().as_uri())
        page.wait_for_selector(".row")
        for key in ("End", *"........"):
            page.keyboard.press(key)
        page.wait_for_timeout(300)
        page.screenshot(path=to / "view-sweep.png")
        page.set_viewport_size({"width": 1100, "height": 820})
        page.goto((circuits / "gpt2.html").absolute().as_uri())
        page.wait_for_selector("[role=treeitem]")
        page.keyboard.press("/")
        page.keyboard.type("h.0.attn:return.1")
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)
        page.screenshot(path=to / "page.png")
        for name, (chosen, scheme, width, height, words) in PICTURES.items():
            with bp.view(*(runs / one for one in chosen), open=False) as viewer:
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.goto(f"{viewer.url}&{words}")
                page.wait_for_selector("#legend")
                page.wait_for_timeout(1500)
                page.screenshot(path=to / f"{name}.png")
                page.close()
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
