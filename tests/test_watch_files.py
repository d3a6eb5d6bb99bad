"""A watched run whose files are deleted, whose disk is full, or which nothing closes."""

import contextlib
import resource
import shutil
import signal
import warnings
from pathlib import Path

import pytest

import backprobe as bp
from asked import message
from commands import forked, printed
from watched import Net, batches, disk_full, sgd, trained

MOVED = "is no longer in it: it was deleted, moved or replaced"


def watched(folder, happens, *, fails=None, count=3):
    """A training in which something happens to its run. What is warned of, and the watch."""
    model = Net()
    optimizer = sgd(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with bp.watch(model, folder, optimizer=optimizer) as run:
            trained(model, optimizer, batches(count))
            run.flush()
            happens(run)
            trained(model, optimizer, batches(count))
            run.flush()
            trained(model, optimizer, batches(count))
    return [str(one.message) for one in caught], run


def emptied(folder):
    for one in folder.iterdir():
        one.unlink()


DELETED = {
    "the folder": (shutil.rmtree, "rank-0.sqlite"),
    "all files": (emptied, "rank-0.sqlite"),
    "the database": (lambda folder: (folder / "rank-0.sqlite").unlink(), "rank-0.sqlite"),
    "the log": (lambda folder: (folder / "rank-0.sqlite-wal").unlink(), "rank-0.sqlite-wal"),
}


@pytest.mark.parametrize("what", DELETED)
def test_files_that_are_deleted_end_the_watching_with_a_warning(tmp_path, what):
    folder = tmp_path / "run"
    delete, file = DELETED[what]
    said, run = watched(folder, lambda run: delete(folder))
    assert said == [
        f"bp.watch has stopped: {folder} can no longer be written ({file} {MOVED}). No step of it is on disk. The "
        "training goes on."
    ]
    assert run.acknowledged == -1


def test_a_file_that_was_replaced_is_not_the_one_that_is_written(tmp_path):
    def replaced(run):
        shutil.copy(tmp_path / "rank-0.sqlite", tmp_path / "copy")
        (tmp_path / "copy").replace(tmp_path / "rank-0.sqlite")

    said, run = watched(tmp_path, replaced)
    assert len(said) == 1
    assert MOVED in said[0]
    assert run.acknowledged == -1


def test_what_is_deleted_before_the_block_ends_is_said_there(tmp_path):
    folder, model = tmp_path / "run", Net()
    optimizer = sgd(model)
    with pytest.warns(RuntimeWarning, match=MOVED), bp.watch(model, folder, optimizer=optimizer) as run:
        trained(model, optimizer, batches(3))
        shutil.rmtree(folder)
    assert run.acknowledged == -1
    assert not folder.exists()


@pytest.mark.parametrize("moved", ["renamed", "into another folder"])
def test_a_run_in_a_renamed_folder_goes_on(tmp_path, moved):
    folder = tmp_path / "run"
    target = tmp_path / "other" if moved == "renamed" else tmp_path / "deep" / "run"
    target.parent.mkdir(exist_ok=True)
    said, run = watched(folder, lambda run: folder.rename(target))
    assert said == []
    assert run.acknowledged == 8
    with bp.open_run(target) as read:
        assert read.steps.tolist() == list(range(9))


def test_a_new_run_may_begin_where_one_was_deleted(tmp_path):
    folder = tmp_path / "run"
    said, _ = watched(folder, lambda run: shutil.rmtree(folder))
    assert len(said) == 1
    assert watched(folder, lambda run: None)[0] == []
    with bp.open_run(folder) as read:
        assert read.steps.tolist() == list(range(9))


# a full disk


@contextlib.contextmanager
def files_up_to(size):
    """No file of this process gets larger."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(
    ("room", "found", "next"),
    [
        (0, "[Errno 27] File too large", "make room on the disk, or a folder that can be written"),
        (1000, "disk I/O error", "a folder that can be written"),
        (40_000, "disk I/O error", "a folder that can be written"),
    ],
)
def test_no_room_as_a_watch_begins(tmp_path, room, found, next):
    model, folder = Net(), tmp_path / "run"
    with files_up_to(room):
        said = message(bp.BadOption, lambda: bp.watch(model, folder).__enter__())
    assert said == (
        f"{folder} cannot be written\n  asked: bp.watch(Net, '{folder}')\n  found: {found}\n  next:  {next}"
    )
    assert watched(folder, lambda run: None)[0] == []  # when there is room again
    with bp.open_run(folder) as read:
        assert read.steps.tolist() == list(range(9))


def test_no_room_before_the_first_commit(tmp_path):
    model = Net()
    optimizer = sgd(model)
    with pytest.warns(RuntimeWarning) as caught, bp.watch(model, tmp_path, optimizer=optimizer) as run:
        disk_full(run)
        trained(model, optimizer, batches(2))
        run.flush()
        assert run.acknowledged == -1
    assert [str(one.message) for one in caught] == [
        f"bp.watch has stopped: {tmp_path} can no longer be written (database or disk is full). No step of it is on "
        "disk. The training goes on."
    ]
    assert Path(caught[0].filename) == Path(__file__)  # the line of the training that ran
    with bp.open_run(tmp_path) as read:
        assert read.steps.tolist() == []


# a watch that nothing closes

OPEN = """
import sys
import backprobe as bp
from watched import Net, batches, sgd, trained
model = Net()
optimizer = sgd(model)
run = bp.watch(model, sys.argv[1], optimizer=optimizer)
run.__enter__()
trained(model, optimizer, batches(3), run.log)
"""
ENDS = {
    "the script ends": "",
    "sys.exit": "sys.exit(0)",
    "in a function": "def more():\n    trained(model, optimizer, batches(1), run.log)\nmore()",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_watch_that_is_never_closed_keeps_its_steps(tmp_path, end):
    lines = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n{OPEN}{ENDS[end]}\n"
    assert printed(forked("-c", lines, str(tmp_path))) == ""
    with bp.open_run(tmp_path) as read:
        steps = list(range(4 if end == "in a function" else 3))
        assert read.steps.tolist() == read.series("loss", "logged")[0].tolist() == steps
        assert str(read.gaps) == f"no gaps: {len(steps)} steps were looked at"
    assert not (tmp_path / "rank-0.sqlite-wal").exists()


def test_an_error_that_ends_the_interpreter_leaves_the_steps(tmp_path):
    lines = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n{OPEN}raise KeyError('of the program')\n"
    code, _, errors = forked("-c", lines, str(tmp_path))
    assert (code, errors.splitlines()[-1]) == (1, "KeyError: 'of the program'")
    with bp.open_run(tmp_path) as read:
        assert read.steps.tolist() == [0, 1, 2]
