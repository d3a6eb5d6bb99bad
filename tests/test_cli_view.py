"""`backprobe view`, `report --html` and `watch --view`, as commands."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import backprobe as bp
from commands import forked, invoked
from written_runs import fill, rows, writer

TRAIN = """\
import sys, torch, urllib.request
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.ones(5, 3):
    model(x).sum().backward()
    optimizer.step()
sys.exit(7)
"""


@pytest.fixture
def folder(tmp_path):
    for name in ("one", "two"):
        made = writer(tmp_path / name)
        made.add_rows(rows(["a"], ["grad"]))
        fill(made, range(6), 1)
        made.close()
    return tmp_path


def viewing(*words, **environment):
    """A process that shows runs."""
    command = [sys.executable, "-m", "backprobe", "view", "--no-open", *map(str, words)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell in the background ignores
    )


def test_a_viewer_says_where_it_is_and_goes_on_until_it_is_interrupted(folder):
    process = viewing(folder, SSH_CONNECTION="1.2.3.4 5 6.7.8.9 22")
    try:
        url = process.stdout.readline().strip()
        address, _, token = url.partition("#token=")
        assert len(token) == 32
        asked = urllib.request.Request(f"{address}answer/runs", headers={"X-Backprobe-Token": token})
        answer = urllib.request.urlopen(asked, timeout=5).read()
        assert b'"label":"one"' in answer and b'"label":"two"' in answer
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    port = address.rstrip("/").rpartition(":")[2]
    assert process.returncode == 0 and out == ""
    assert f"ssh -L {port}:127.0.0.1:{port} " in err and "Traceback" not in err
    assert "the viewer goes on until Ctrl-C" in err


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    code, out, err = invoked("view", str(tmp_path / "nothing"))
    assert code == 2 and out == "" and err.startswith(f"BadRun: {tmp_path / 'nothing'} is not a folder of runs")
    code, _, err = invoked("view", str(tmp_path), "--port", "70000")
    assert code == 2 and "port is a number from 0, for any that is free, to 65535" in err


def test_a_report_is_written_as_a_page(folder, monkeypatch):
    monkeypatch.chdir(folder)
    code, out, err = invoked("report", "one", "--html", "one.html")
    assert (code, out, err) == (0, "the page: one.html\n", "")
    assert Path("one.html").read_text().startswith("<!doctype html>")
    code, out, _ = invoked("report", "one", "two", "--html", "both.html", "--json")
    assert code == 0 and json.loads(out)["page"] == "both.html"
    assert '"label":"one"' not in Path("one.html").read_text().partition("<body>")[0]


@pytest.mark.parametrize(
    "words, said",
    [
        (("one", "two"), "the report of several runs is a page"),
        (("one", "--html", "one.png"), "a run is saved as a page"),
        (("one", "--html", "toy.py/one.html"), "the page cannot be written to toy.py/one.html"),
        (("one", "--html", "one.html", "--step", "3"), "a page shows all of a run"),
        (("three", "--html", "one.html"), "three is not a run"),
    ],
)
def test_a_page_that_cannot_be_is_refused(folder, monkeypatch, words, said):
    monkeypatch.chdir(folder)
    Path("toy.py").write_text("")
    code, out, err = invoked("report", *words)
    assert code == 2 and out == "" and said in err and "next:" in err
    assert not Path("one.html").exists()


@pytest.mark.parametrize("form", ["recordings", "runs"])
def test_a_comparison_is_written_as_a_page_too(folder, monkeypatch, form):
    monkeypatch.chdir(folder)
    Path("toy.py").write_text("import torch\ndef f(x):\n    u = x * 2\n    return u.sin()\n")
    programs = ("one", "two") if form == "runs" else ("toy.py:f", "toy.py:f", "x=3")
    code, out, err = invoked("diff", *programs, "--html", "diff.html")
    assert code == 0 and out == invoked("diff", *programs)[1], err
    assert Path("diff.html").read_text().startswith("<!doctype html>")
    code, out, err = invoked("diff", *programs, "--html", "diff.png")
    assert code == 2 and out == "" and "a comparison is saved as a page" in err and "'diff.html'" in err


def test_a_script_is_shown_while_it_is_watched(tmp_path, monkeypatch):
    """It ends as it does by itself, and so does the viewer where nobody is at a terminal."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)
    code, out, err = forked("-m", "backprobe", "watch", "--view", "train.py")
    assert code == 7 and out.startswith("http://127.0.0.1:") and "#token=" in out
    assert "watched Linear for 5 steps: backprobe report train.run/Linear" in err
    with bp.open_run("train.run/Linear") as run:
        assert len(run.steps) == 5
