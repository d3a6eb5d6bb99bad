"""The viewer: how long the first picture of a run takes, and a zoom; what its server holds, and how large files are.

    python bench/viewing.py              208 names × 2,000 steps, 1,000 × 100,000, and 10,000 × 20
    python bench/viewing.py 208x2000     some of it

A run of random statistics is written; a server shows it, in a process of its own. Times are those of what the page
asks for its first picture, one question after another, and then for a tenth of the steps; the least of three, but the
first picture, which is the first. What the server holds at most is told after the pictures, and after all else that the
page asks. In Chromium, where Playwright is installed beside it (``.venv-browser``), it is the time from the navigation
to the tracks; then all modules are opened, all names are scrolled by and searched, and the longest task is what
Chromium's trace has of the page's main thread, in milliseconds of the processor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from backprobe.record.statistics import COLUMNS
from backprobe.storage.runs.layout import RowKey, StepData
from backprobe.storage.runs.writer import RunWriter

SIZES = ("208x2000", "1000x100000", "10000x20")
BINS = 1150  # of a page that is 1,400 pixels wide
ROWS = "document.querySelector('#tracks').scrollHeight / 18"


def written(folder: Path, names: int, steps: int) -> None:
    """A run of gradients that are all finite, and a loss."""
    rows = [RowKey(f"h.{at // 8}.part{at % 8}", "grad") for at in range(names)] + [RowKey("loss", "logged")]
    random = numpy.random.default_rng(0)
    made = [_matrix(random, len(rows)) for _ in range(64)]
    writer = RunWriter(folder, 0, {"every": 1}, "bp.watch(model, folder)")
    writer.add_rows(rows)
    for step in range(steps):
        writer.append(StepData(step, made[step % 64], 1.7e9 + step, 1))
        if step % 100 == 99:
            writer.commit()
    writer.close()


def _matrix(random: numpy.random.Generator, rows: int) -> numpy.ndarray:
    found = random.standard_normal((len(COLUMNS), rows))
    found[:2], found[2:6] = 1000.0, 0.0
    found[7] = numpy.abs(found[7]) * 1000
    found[8:] = numpy.sort(found[8:], axis=0)
    return found


def timed(work: Callable[[], object], times: int = 1) -> float:
    """The least of some times, in seconds."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def serve(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A process that shows a run, and its address."""
    command = [sys.executable, "-m", "backprobe", "view", "--no-open", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def resident(process: subprocess.Popen[str]) -> float:
    """The most MB that it has had in memory."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1e3


def measure(names: int, steps: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        run = Path(folder) / "run"
        written(run, names, steps)
        size = sum(one.stat().st_size for one in run.iterdir()) / 1e6
        print(f"{names:,} names × {steps:,} steps, {size:,.0f} MB on disk")
        process, url = serve(run)
        try:
            asked(url, steps, process)
        finally:
            process.terminate()
            process.wait()
        if names * steps < 10**7:
            page = Path(folder) / "run.html"
            command = [sys.executable, "-m", "backprobe", "report", str(run), "--html", str(page), "--quiet"]
            took = timed(lambda: subprocess.run(command, check=True))
            print(f"  one file: {page.stat().st_size / 1e6:.2f} MB in {took:.1f} s")
        if shutil.which("chromium") and Path(".venv-browser/bin/python").exists():
            subprocess.run([".venv-browser/bin/python", __file__, "--chromium", str(run)], check=True)


def asked(url: str, steps: int, process: subprocess.Popen[str]) -> None:
    """What the page asks, in its order."""
    address, _, token = url.partition("#token=")
    sizes: list[int] = []

    def ask(question: str) -> None:
        request = urllib.request.Request(f"{address}answer/{question}", headers={"X-Backprobe-Token": token})
        sizes.append(len(urllib.request.urlopen(request, timeout=600).read()))

    def picture(window: str = "") -> None:
        ask(f"grid?run=0&field=grad.rms&bins={BINS}{window}")
        ask(f"series?run=0&name=loss&field=logged&bins={BINS}{window}")

    ask("runs")
    idle = resident(process)
    about = timed(lambda: ask("about?run=0"))
    sizes.clear()
    first = timed(picture)
    print(f"  first picture: {about + first:.2f} s, {sum(sizes) / 1e6:.2f} MB are sent")
    print(f"  again: {timed(picture, 3):.2f} s")
    tenth = f"&from={steps // 2}&to={steps // 2 + steps // 10}"
    print(f"  a tenth of the steps: {timed(lambda: picture(tenth), 3):.2f} s")
    print(f"  the server: {idle:.0f} MB before, {resident(process):.0f} MB with pictures", end="")
    for field in ("grad.absmax", "grad.mean"):
        ask(f"grid?run=0&field={field}&bins={BINS}")
    print(f", {resident(process):.0f} MB with other fields", end="")
    ask("nonfinite?run=0")
    print(f"; alerts {timed(lambda: ask('alerts?run=0')):.1f} s, then {resident(process):.0f} MB")


def in_chromium(run: str) -> None:
    """The time to the first picture in a browser, and to that of a tenth of the steps."""
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, "tests/browser")
    from tasks import SCROLLED, longest_task

    process, url = serve(Path(run))
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            began = time.perf_counter()
            page.goto(url)
            page.wait_for_selector("#legend", timeout=120_000)
            print(f"  in Chromium: {time.perf_counter() - began:.2f} s", end="")
            page.wait_for_function("() => !document.querySelector('nav').innerText.includes('being checked')")
            page.keyboard.press("e")
            longest = longest_task(browser, page, lambda: page.evaluate(SCROLLED, 1000))
            print(f"; {page.evaluate(ROWS):,.0f} rows scrolled by, the longest task {longest:.0f} ms", end="")
            longest = longest_task(browser, page, lambda: searched(page))
            print(f", and {longest:.0f} ms while names are searched")
            browser.close()
    finally:
        process.terminate()
        process.wait()


def searched(page: Any) -> None:
    """Type some of a name, as somebody would."""
    page.keyboard.press("/")
    page.keyboard.type("9 part3", delay=30)
    page.wait_for_timeout(500)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--chromium"]:
        in_chromium(sys.argv[2])
    else:
        for size in sys.argv[1:] or SIZES:
            measure(*map(int, size.split("x")))
