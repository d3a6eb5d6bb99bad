"""The pictures of docs/view.md, taken of the runs that train.py makes, in Debian's Chromium.

.venv/bin/python tools/pictures/train.py runs
.venv-browser/bin/python tools/pictures/view.py runs docs/pictures
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


def main(runs: Path, to: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
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
    main(Path(sys.argv[1]), Path(sys.argv[2]))
