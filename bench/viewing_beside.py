"""The viewer beside TensorBoard: the same run in both, in Chromium, from the start of the server to the first picture.

    python bench/viewing_beside.py             208 names × 2,000 steps
    python bench/viewing_beside.py 208x200     another run

TensorBoard is in an environment of its own: ``python -m venv .venv-tensorboard`` and
``.venv-tensorboard/bin/pip install --constraint constraints.txt tensorboard``; Chromium is driven from
``.venv-browser``. Its first picture are the charts of 12 of the names, the viewer's the tracks of all. Bytes are what
the browser was sent. Of three times the least.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TENSORBOARD, BROWSER = Path(".venv-tensorboard/bin"), Path(".venv-browser/bin/python")
PORT = "8765"
TIMES = 3


def main(names: int, steps: int) -> None:
    import numpy
    from viewing import written

    import backprobe as bp

    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as around:
        run, events, grid = Path(around) / "run", Path(around) / "events", Path(around) / "grid.npz"
        written(run, names, steps)
        with bp.open_run(run) as opened:
            kept, at, numbers = opened.grid("grad.rms")
        numpy.savez(grid, names=numpy.array(kept), steps=at, grid=numbers)
        subprocess.run(
            [TENSORBOARD / "python", "-m", "peers.tensorboard_events", grid, events],
            check=True,
            env={**os.environ, "PYTHONPATH": "bench"},
        )
        print(f"{names:,} names × {steps:,} steps")
        for what, folder in (("backprobe", run), ("tensorboard", events)):
            size = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) / 1e6
            print(f"  {what}, {size:,.1f} MB on disk: ", end="", flush=True)
            subprocess.run([BROWSER, __file__, "--chromium", what, folder], check=True)


def in_chromium(what: str, folder: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        took, sent = zip(*(_first_picture(browser, what, folder) for _ in range(TIMES)), strict=True)
        browser.close()
    print(f"first picture {min(took):.2f} s after the server was started, {min(sent) / 1e6:.2f} MB sent")


def _first_picture(browser, what: str, folder: str) -> tuple[float, int]:  # type: ignore[no-untyped-def]
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    sent: list[float] = []
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sent.append(event["encodedDataLength"]))
    began = time.perf_counter()
    if what == "backprobe":
        command = [sys.executable, "-m", "backprobe", "view", "--no-open", folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        page.goto(process.stdout.readline().strip())
        page.wait_for_selector("#legend", timeout=120_000)
    else:
        command = [TENSORBOARD / "tensorboard", "--logdir", folder, "--port", PORT]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        _charts(page)
    took = time.perf_counter() - began
    process.terminate()
    process.wait()
    page.close()
    return took, int(sum(sent))


def _charts(page) -> None:  # type: ignore[no-untyped-def]
    # Until a chart has a line: the page is loaded again while its server has read no event.
    from playwright.sync_api import Error

    for _ in range(200):
        try:
            page.goto(f"http://localhost:{PORT}/#timeseries")
            page.wait_for_selector("scalar-card line-chart", timeout=3000)
        except Error:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("TensorBoard shows no chart")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--chromium"]:
        in_chromium(*sys.argv[2:])
    else:
        for size in sys.argv[1:] or ["208x2000"]:
            main(*map(int, size.split("x")))
