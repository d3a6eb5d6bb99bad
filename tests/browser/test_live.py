"""A training of PyTorch in a process of its own, followed in Chromium: killed by a signal, restarted, its disk full."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect
from test_viewer import page_of, ready  # noqa: F401  # a fixture

import backprobe as bp

TRAINING = Path(__file__).parent / "training.py"
FULL = 700_000  # bytes: a fifth of the steps are written


@pytest.fixture
def training(tmp_path):
    """Begin a training; what still goes on at the end is killed."""
    begun = []

    def begin(*given):
        command = [os.environ["TRAINER"], str(TRAINING), str(tmp_path / "run"), *map(str, given)]
        begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        assert begun[-1].stdout.readline() == "step\n"  # PyTorch is imported, and the first step was made
        return begun[-1]

    yield begin
    for one in begun:
        one.kill()
        one.wait()
        one.stdout.close()


def step_of(page):
    """The last step that the page says, and the words around it."""
    words = page.locator(".state").inner_text()
    return int(re.search(r"step ([\d,]+)", words)[1].replace(",", "")), words


def made(process):
    """How many more steps were made, at least one: what was printed of them is waited for."""
    process.stdout.readline()
    return 1


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_training_that_is_killed_is_said_to_have_died_and_goes_on(page_of, training, tmp_path, ending):  # noqa: F811
    process = training(1000)
    page = ready(page_of(tmp_path, live=True))
    expect(page.locator(".state")).to_contain_text("running: step")
    count = 1
    while count < 40:
        count += made(process)
    seen = time.monotonic()
    page.wait_for_selector(f".state:text-matches('step ({'|'.join(map(str, range(count - 1, count + 60)))})')")
    assert time.monotonic() - seen < 2  # within two seconds of being made
    process.send_signal(ending)
    process.wait()
    expect(page.locator(".state")).to_contain_text("died: nothing after step")
    last, _ = step_of(page)
    with bp.open_run(tmp_path / "run") as run:
        assert run.steps[-1] == last >= count - 25  # what is lost is less than a second
    assert page.locator(".row").count() > 12 and page.locator(".lost").count() == 0
    again = training(60)
    expect(page.locator(".state")).to_contain_text("running: step")
    again.wait()
    expect(page.locator(".state")).to_contain_text(f"ended at step {last + 60}")
    with bp.open_run(tmp_path / "run") as run:
        assert run.steps.tolist() == list(range(last + 61))


def test_a_training_whose_disk_is_full_goes_on_and_the_page_says_what_there_is(page_of, training, tmp_path):  # noqa: F811
    process = training(100, FULL)
    page = ready(page_of(tmp_path, live=True))
    assert process.wait(60) == 0  # the training itself went on
    expect(page.locator(".state")).to_contain_text("died: nothing after step")
    last, _ = step_of(page)
    with bp.open_run(tmp_path / "run") as run:
        assert run.steps.tolist() == list(range(last + 1)) and 0 < last < 98
    page.locator(".fold").click()
    expect(page.locator("nav")).to_contain_text(f"from step {last + 1} on")
    assert page.locator(".row").count() > 12
