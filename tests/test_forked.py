"""A process that is forked in a block leaves it, or uses it, without waiting and without a trace in the parent's."""

import os
from pathlib import Path

import pytest

import backprobe as bp
from asked import message
from backprobe.integrations import Sink
from commands import python
from forked import CASES
from sampled import drawn
from watched import Net, batches, sgd, trained
from written_runs import writer

SCRIPT = Path(__file__).with_name("forked.py")
STATUS = {"raises": 1}


@drawn
def test_a_child_in_a_block(tmp_path):
    """All cases in one test, for one import of PyTorch: the processes are forks of one that has it."""
    code, ends, errors = python("-W", "ignore::DeprecationWarning", SCRIPT, tmp_path)
    assert (code, errors) == (0, "")
    assert ends.splitlines() == [f"{kind} {end} 0" for kind, end in CASES]
    for kind, end in CASES:
        run = "[0, 1, 2, 3] no gaps: 4 steps were looked at 1\n" if "watch" in kind else ""
        said = (tmp_path / f"{kind}, {end}").read_text()
        if end == "raises":
            trace, separator, rest = said.rpartition("child")
            assert "KeyError: 'raises'\n" in trace
            said = separator + rest
        assert said == f"child {STATUS.get(end, 0)}\n{run}", (kind, end)


def in_child(work):
    """What a forked process makes of it, as a text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, str(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as opened:
        said = opened.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # is multi-threaded, and forks
def test_a_child_is_told_that_its_parent_writes_the_run(tmp_path):
    one = writer(tmp_path)
    said = in_child(lambda: message(bp.BadRun, lambda: writer(tmp_path)))
    assert f"its lock is held by process {os.getpid()}\n" in said
    one.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_what_a_child_does_is_not_in_the_run(tmp_path):
    model = Net()
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer) as run:
        trained(model, optimizer, batches(2), run.log)
        in_child(lambda: trained(model, optimizer, batches(4), run.log))
        assert in_child(lambda: (run.flush(), run.acknowledged)) == "(None, -1)"
        run.flush()
        assert run.acknowledged == 1
        trained(model, optimizer, batches(1), run.log)
    with bp.open_run(tmp_path) as read:
        assert read.steps.tolist() == read.series("loss", "logged")[0].tolist() == [0, 1, 2]


class Noting(Sink):
    """A sink that notes in a file that it is closed."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def open(self, folder):
        self.file.touch()

    def send(self, step, numbers):
        pass

    def close(self):
        self.file.write_text(f"{self.file.read_text()}closed by {os.getpid()}\n")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_does_not_close_its_parent_s_sinks(tmp_path):
    model, noted = Net(), tmp_path / "noted"
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer, sinks=[Noting(noted)]) as run:
        trained(model, optimizer, batches(2))
        in_child(lambda: run.__exit__(None, None, None))
        assert noted.read_text() == ""
    assert noted.read_text() == f"closed by {os.getpid()}\n"
