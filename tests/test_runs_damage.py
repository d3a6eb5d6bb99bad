"""Runs that are killed, locked, read-only, damaged or foreign: what was acknowledged is read, or an error is clear."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import pytest

import backprobe as bp
from asked import message
from backprobe.record.exponents import exponents
from backprobe.storage.runs import layout
from commands import forked, printed, unmeasured
from written_runs import fill, matrix, rows, step, writer

KILLED = str(Path(__file__).parent / "killed_writers.py")
WRITING = """
    import sys
    sys.path.insert(0, {tests!r})
    from backprobe.storage.runs import layout
    from written_runs import rows, step, writer
    layout.MOST_STEPS = 7
    one = writer({folder!r})
    one.add_rows(rows(["a", "b"], ["grad"]))
    for number in range(one.next_step, 10**9):
        one.append(step(number, 2))
        if number % {every} == 0:
            one.commit()
            print(number, flush=True)
"""


def source(folder, every=1):
    text = WRITING.format(tests=str(Path(__file__).parent), folder=str(folder), every=every)
    return "\n".join(line[4:] for line in text.splitlines())


@pytest.mark.parametrize("every", [1, 5])
def test_nothing_that_was_acknowledged_is_lost_by_kill(tmp_path, every):
    killing = forked(KILLED, str(tmp_path), "25", str(every))
    assert printed(killing) == "25 kills, nothing acknowledged lost\n"


def test_another_process_cannot_write_the_same_run(tmp_path):
    first = subprocess.Popen([sys.executable, "-c", source(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        first.stdout.readline()
        error = message(bp.BadRun, lambda: writer(tmp_path))
        assert error == (
            f"{tmp_path} is being written already\n  asked: bp.watch(model, folder)\n"
            f"  found: its lock is held by process {first.pid}\n"
            "  why:   two trainings in one run would mix their steps\n"
            "  next:  another folder, or end the other first"
        )
    finally:
        first.kill()
        first.wait()
        first.stdout.close()
    writer(tmp_path).close()  # the lock went with its process


def test_this_process_cannot_write_it_twice(tmp_path):
    one = writer(tmp_path)
    assert "this process, in a watch that is still open" in message(bp.BadRun, lambda: writer(tmp_path))
    one.close()
    writer(tmp_path).close()


def test_a_child_does_not_keep_the_lock(tmp_path):
    one = writer(tmp_path)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        one.close()
        writer(tmp_path).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def written(folder, close=True):
    one = writer(folder)
    one.add_rows(rows(["a"], ["grad"]))
    fill(one, range(20), 1)
    return one.close() if close else one


READING = """
import os
import backprobe as bp
import backprobe.storage.runs.merged  # all that is imported later, by somebody who may not read the library's folder
if os.getuid() == 0:  # who may write everywhere
    os.setuid(65534)
with bp.open_run({folder!r}) as run:
    print(run._reader.how, len(run.series("a", "grad.rms")[0]))
"""


@pytest.fixture
def public():
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("how", ["live", "immutable", "copy"])
def test_a_folder_that_nothing_can_be_written_in_is_read(public, how):
    """A run that was closed, and copies of one that is open: with its log, and where that was empty."""
    one, copy = written(public / "run", close=False), public / "copy"
    if how == "live":
        one.close()
    elif how == "immutable":
        one.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(public / "run", copy, ignore=shutil.ignore_patterns("*-shm"))
    copy.chmod(0o555)
    assert printed(unmeasured("-c", READING.format(folder=str(copy)), cwd="/")) == f"{how} 20\n"
    copy.chmod(0o755)
    one.abandon()


def test_where_there_can_be_no_log_it_is_said_and_written_without(tmp_path, monkeypatch):
    """SQLite's ``unix-dotfile`` has no shared memory, as network file systems have none."""
    connect = sqlite3.connect

    def without_memory(path, *args, **kwargs):
        return connect(f"file:{path}?vfs=unix-dotfile", *args, **kwargs, uri=True)

    monkeypatch.setattr(sqlite3, "connect", without_memory)
    one = writer(tmp_path)
    monkeypatch.undo()
    assert one.journal == "delete"
    one.add_rows(rows(["a"], ["grad"]))
    fill(one, range(20), 1)
    with bp.open_run(tmp_path) as run:
        assert [facts["journal"] for facts in run.attempts] == ["delete"]
        assert len(run.steps) == 20
    one.close()


def test_what_could_not_be_committed_is_committed_later(tmp_path):
    one = written(tmp_path, close=False)
    pages = one.connection.execute("PRAGMA page_count").fetchone()[0]
    one.connection.execute(f"PRAGMA max_page_count = {pages}")  # a full disk
    for number in range(20, 2000):
        one.append(step(number, 1, seed=0))
    with pytest.raises(sqlite3.OperationalError, match="full"):
        one.commit()
    with bp.open_run(tmp_path) as run:
        assert len(run.steps) == 20
        one.connection.execute("PRAGMA max_page_count = 1000000")
        one.commit()
        assert len(run.steps) == 2000
    one.close()


# not a run


def refused(folder):
    return message(bp.BadRun, lambda: bp.open_run(folder))


def test_a_folder_that_is_not_a_run(tmp_path):
    assert refused(tmp_path / "none") == (
        f"{tmp_path}/none is not a run: it has no rank-0.sqlite\n  asked: bp.open_run('{tmp_path}/none')\n"
        "  found: no such folder\n  next:  the folder that bp.watch(model, folder) was given"
    )
    assert "found: a folder without one" in refused(tmp_path)
    (tmp_path / "rank-0.sqlite").write_text("not a database, and long enough to be taken for the header of one" * 9)
    assert refused(tmp_path).startswith(f"{tmp_path}/rank-0.sqlite cannot be read: it is incomplete or damaged")
    with pytest.raises(bp.BadOption, match="a run is a folder, whose path is a text"):
        bp.open_run(3)


def test_a_database_of_something_else(tmp_path):
    sqlite3.connect(tmp_path / "rank-0.sqlite").execute("CREATE TABLE mine (x)").connection.close()
    assert "is not a run\n" in refused(tmp_path)
    assert "is not a run\n" in message(bp.BadRun, lambda: writer(tmp_path))


@pytest.mark.parametrize("version", [99, 0])
def test_a_run_of_another_version(tmp_path, version):
    written(tmp_path)
    connection = sqlite3.connect(tmp_path / "rank-0.sqlite")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    error = refused(tmp_path)
    assert f"found: layout {version}, and this backprobe has layout {layout.VERSION}" in error
    assert error.endswith("next:  read it with the backprobe that wrote it")
    assert "another version" in message(bp.BadRun, lambda: writer(tmp_path))


def test_a_run_of_the_layout_before_is_read(tmp_path):
    written(tmp_path)
    now = [*bp.open_run(tmp_path).series("a", "grad.rms")]
    connection = sqlite3.connect(tmp_path / "rank-0.sqlite", isolation_level=None)
    for table in ("steps", "chunks"):
        for at, blob in connection.execute(f"SELECT id, info FROM {table}").fetchall():
            known = layout.unsealed(blob, 1, layout.INFO)[0]
            old = numpy.array([tuple(one)[:-1] for one in known], layout.INFO.descr[:-1])
            connection.execute(f"UPDATE {table} SET info = ? WHERE id = ?", (layout.sealed(old[None]), at))
    connection.execute("PRAGMA user_version = 4")
    connection.close()
    run = bp.open_run(tmp_path)
    assert numpy.array_equal([*run.series("a", "grad.rms")], now) and run.alerts is not None
    assert "layout 4, and this backprobe has layout 5" in message(bp.BadRun, lambda: writer(tmp_path))


@pytest.mark.parametrize("left", [0.0, 0.1, 0.5, 0.9])
def test_a_run_that_was_cut_short(tmp_path, left):
    one = writer(tmp_path)
    one.add_rows(rows([f"h.{at}" for at in range(50)], ["grad"]))
    fill(one, range(100), 50)
    one.close()
    file = tmp_path / "rank-0.sqlite"
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * left)])
    with pytest.raises(bp.BadRun), bp.open_run(tmp_path) as run:  # as it is opened, or as it is read
        run.grid("grad.rms")


def test_a_damaged_run_gives_an_error_or_its_numbers(tmp_path):
    """Whatever bytes are changed: no other exception."""
    written(tmp_path)
    file = tmp_path / "rank-0.sqlite"
    whole, places = file.read_bytes(), random.Random(0)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(30):
            damaged[places.randrange(len(damaged))] = places.randrange(256)
        file.write_bytes(damaged)
        try:
            with bp.open_run(tmp_path) as run:
                run.series("a", "grad.rms")
                run.at(3)
        except bp.BackprobeError:
            pass


BLOBS = {"steps": ("info", "data"), "chunks": ("info",), "columns": ("data",), "exponents": ("counts",)}


def read_all(folder):
    """Each way of reading."""
    with bp.open_run(folder) as run:
        run.steps, run.series("a", "grad.rms"), run.grid("grad.min"), [run.at(step) for step in run.steps]
        return run.histogram("a").counts


@pytest.mark.parametrize("chunk", [4, 1000], ids=["chunks of 4", "no chunks"])
def test_a_blob_that_was_damaged_is_an_error(tmp_path, chunk, monkeypatch):
    """Of numbers that SQLite has no reason to doubt."""
    monkeypatch.setattr(layout, "MOST_STEPS", chunk)
    one = writer(tmp_path)
    one.add_rows(rows(["a"], ["grad"]))
    for number in range(6):
        one.append(layout.StepData(number, matrix(number, 1), exponents={0: exponents(matrix(number, 1))}))
        one.commit()
    assert read_all(tmp_path).sum() > 0
    found = 0
    for table, columns in BLOBS.items():
        for column in columns:
            key = "step" if table == "exponents" else "id"
            for at, blob in one.connection.execute(f"SELECT {key}, {column} FROM {table}").fetchall():
                place = len(blob) - 8
                damaged = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
                change = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"
                one.connection.execute(change, (damaged, at))
                assert "their checksum differs" in message(bp.BadRun, lambda: read_all(tmp_path)), (table, at)
                one.connection.execute(change, (blob, at))
                found += 1
    assert found >= 18
    assert read_all(tmp_path).sum() > 0
    one.close()


def test_opening_a_run_leaves_no_file_behind(tmp_path):
    written(tmp_path)
    before = sorted(one.name for one in tmp_path.iterdir())
    with bp.open_run(tmp_path) as run:
        assert numpy.isfinite(run.grid("grad.rms")[2]).all()
    assert sorted(one.name for one in tmp_path.iterdir()) == before == ["rank-0.lock", "rank-0.sqlite"]
