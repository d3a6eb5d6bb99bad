"""The tasks of a page's main thread while something is done, from Chromium's own trace."""

import json
from collections.abc import Callable
from typing import Any

CATEGORIES = ["disabled-by-default-devtools.timeline", "__metadata"]
TASK = "RunTask"  # what DevTools show as one: with the promises that were kept in it

SCROLLED = """(by) => new Promise((done) => {
  const box = document.querySelector("#tracks");
  const step = () => {
    const before = box.scrollTop;
    box.scrollTop += by;
    if (box.scrollTop === before) done();
    else requestAnimationFrame(step);
  };
  step();
})"""
"""What scrolls the tracks to their end, by so many pixels a picture."""


def longest_task(browser: Any, page: Any, work: Callable[[], None]) -> float:
    """The milliseconds of the processor that the longest task took: a machine with other things to do adds none."""
    browser.start_tracing(page=page, categories=CATEGORIES)
    try:
        work()
    finally:
        events = json.loads(browser.stop_tracing())["traceEvents"]
    threads = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    tasks = [one for one in events if one["name"] == TASK and (one["pid"], one["tid"]) in threads]
    times = [one["tdur"] / 1000 for one in tasks if "tdur" in one]
    assert times, "the trace has no tasks"
    return max(times)
