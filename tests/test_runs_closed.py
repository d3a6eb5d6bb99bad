"""No file of a run stays open once its reader or its watch is done, also where that ended with an error."""

import os
import sys
from pathlib import Path

import pytest
from torch import nn

import backprobe as bp
from asked import message
from backprobe.integrations import Sink
from backprobe.storage.runs import merged
from backprobe.watch.background import Background, WaitingStep
from watched import Net, batches, disk_full, sgd, trained
from written_runs import fill, rows, writer


def open_files(folder):
    """Those in a folder that this process has open."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            file = os.readlink(one)
        except FileNotFoundError:  # that of the listing itself
            continue
        found += [Path(file).name] * file.startswith(f"{folder}/")
    return found


def written(folder, rank=0):
    one = writer(folder, rank)
    one.add_rows(rows(["a", "b"], ["grad"]))
    fill(one, range(5), 2)
    one.close()
    return folder


def damaged(file):
    file.write_bytes(b"not a database" * 300)


def test_a_writer_that_is_open_is_seen(tmp_path):
    one = writer(tmp_path)
    assert sorted(set(open_files(tmp_path))) == [
        "rank-0.lock",
        "rank-0.sqlite",
        "rank-0.sqlite-shm",
        "rank-0.sqlite-wal",
    ]
    one.close()
    assert not open_files(tmp_path)


@pytest.mark.parametrize(
    "read",
    [
        lambda run: run.series("a", "grad.rms"),
        lambda run: run.grid("grad.rms"),
        lambda run: str(run.at(2)),
        lambda run: str(run.report()),
        lambda run: run.at(99),
        lambda run: run.series("c", "grad.rms"),
    ],
    ids=["series", "grid", "at", "report", "no such step", "no such name"],
)
def test_a_run_that_was_read_is_closed(tmp_path, read):
    written(tmp_path)
    run = bp.open_run(tmp_path)
    assert open_files(tmp_path)
    try:
        with run:
            read(run)
    except bp.BackprobeError as error:
        kept = error  # with all frames that it came through
    assert not open_files(tmp_path)


@pytest.mark.parametrize("most", [merged.MOST_OPEN, 1], ids=["kept open", "very many"])
def test_of_ranks_of_which_one_is_damaged_none_stays_open(tmp_path, monkeypatch, most):
    monkeypatch.setattr(merged, "MOST_OPEN", most)
    for rank in range(3):
        written(tmp_path, rank)
    damaged(tmp_path / "rank-2.sqlite")
    with pytest.raises(bp.BadRun) as kept, bp.open_run(tmp_path) as run:
        run.grid("grad.rms")
    assert "rank-2.sqlite cannot be read" in str(kept.value)
    assert not open_files(tmp_path)


def test_a_comparison_closes_what_it_opened_and_no_more(tmp_path):
    a, b, c = (written(tmp_path / name) for name in "abc")
    damaged(c / "rank-0.sqlite")
    with bp.open_run(a) as given:
        bp.diff(given, b).assert_ok(strict=True)
        kept = message(bp.BadRun, lambda: bp.diff(given, b, noise=c))
        assert "cannot be read" in kept
        assert open_files(a)
        assert not open_files(b) + open_files(c)
        assert len(given.steps) == 5
    assert not open_files(tmp_path)


def test_a_writer_that_is_refused_closes_what_it_opened(tmp_path):
    damaged(tmp_path / "rank-0.sqlite")
    with pytest.raises(bp.BadRun):
        writer(tmp_path)
    assert not open_files(tmp_path)
    one = writer(tmp_path / "locked")
    before = open_files(tmp_path)
    with pytest.raises(bp.BadRun, match="is being written already"):
        writer(tmp_path / "locked")
    assert open_files(tmp_path) == before
    one.close()


class Interrupted(Sink):
    """Ctrl-C, while a sink connects to its server."""

    def open(self, folder):
        raise KeyboardInterrupt

    def send(self, step, numbers):
        pass


def test_a_watch_that_is_interrupted_as_it_begins_holds_no_file(tmp_path):
    model = Net()
    with pytest.raises(KeyboardInterrupt), bp.watch(model, tmp_path, sinks=[Interrupted()]):
        pass
    assert not open_files(tmp_path)
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer):  # in the same process: nothing is locked
        trained(model, optimizer, batches(2))
    assert not open_files(tmp_path)


def test_a_watch_that_is_interrupted_as_it_ends_holds_no_file(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    model = Net()
    optimizer = sgd(model)
    with pytest.raises(KeyboardInterrupt), bp.watch(model, tmp_path, optimizer=optimizer) as run:
        trained(model, optimizer, batches(2))
        run._opened.callback(interrupt)
    assert not open_files(tmp_path)
    with bp.open_run(tmp_path) as run:
        assert len(run.steps) == 2


@pytest.mark.parametrize("end", ["an error", "a full disk", "NaN"])
def test_a_watch_that_ends_otherwise_holds_no_file(tmp_path, end):
    model = nn.Sequential(nn.Linear(3, 1))
    optimizer = sgd(model)
    try:
        with bp.watch(model, tmp_path, optimizer=optimizer, guard=True) as run:
            trained(model, optimizer, batches(2))
            if end == "an error":
                raise LookupError
            if end == "NaN":
                model(batches(1)[0] * float("nan"))
            with pytest.warns(RuntimeWarning, match="can no longer be written"):
                disk_full(run)
                trained(model, optimizer, batches(2))
                run.flush()
    except (LookupError, bp.NotFinite):
        pass
    assert not open_files(tmp_path)


def test_an_exit_in_the_thread_that_writes_does_not_leave_the_training_waiting(tmp_path):
    background = Background(writer(tmp_path), patience=60.0)
    background.put(WaitingStep(sys.exit))  # as code that is asked for numbers may do
    background.flush()
    assert isinstance(background.failure, SystemExit)
    background.close()
    assert open_files(tmp_path) == []
