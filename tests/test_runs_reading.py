"""Of what goes wrong while a run is read, only what its files hold makes it a damaged one."""

import json
import sqlite3

import numpy
import pytest

import backprobe as bp
from asked import message
from backprobe.record.statistics import COLUMNS
from backprobe.storage.runs import layout
from backprobe.storage.runs.reader import RankFile
from written_runs import fill, rows, writer

ERRORS = [
    *[
        kind("of the caller")
        for kind in (ValueError, LookupError, TypeError, RuntimeError, MemoryError, AttributeError)
    ],
    sqlite3.OperationalError("of the caller"),
    bp.BadOption("of the caller", asked="it", found="it", next="it"),
]


@pytest.fixture
def folder(tmp_path):
    one = writer(tmp_path)
    one.add_rows(rows(["a"], ["grad"]))
    fill(one, range(20), 1)
    one.close()
    return tmp_path


@pytest.mark.parametrize("kept_open", [True, False], ids=["kept open", "very many"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_who_reads_is_raised_as_it_is(folder, error, kept_open):
    file = RankFile(folder / "rank-0.sqlite", "bp.open_run('run')", kept_open)
    with pytest.raises(type(error)) as raised, file.reading():
        raise error
    assert raised.value is error
    assert len(file.index().info) == 20  # it is read on
    file.close()


def test_a_column_that_there_is_not_is_no_damage(folder):
    file = RankFile(folder / "rank-0.sqlite", "bp.open_run('run')")
    with pytest.raises(ValueError, match="not in"):
        file.columns([("a", "grad")], ["no such column"])
    file.close()


READS = {
    "series": lambda run: run.series("a", "grad.rms"),
    "grid": lambda run: run.grid("grad.rms"),
    "at": lambda run: run.at(3),
    "steps": lambda run: run.steps,
    "gaps": lambda run: run.gaps,
    "alerts": lambda run: run.alerts,
}


@pytest.mark.parametrize("read", READS)
def test_a_run_that_is_closed_says_so(folder, read):
    run = bp.open_run(folder)
    run.close()
    assert message(bp.BadRun, lambda: READS[read](run)) == (
        f"this run of {folder} is closed\n"
        f"  asked: bp.open_run('{folder}')\n"
        "  found: a use of it after run.close(), or after its block\n"
        f"  next:  with bp.open_run('{folder}') as run: around all that reads it"
    )


def changed(folder, statement, *given):
    connection = sqlite3.connect(folder / "rank-0.sqlite")
    with connection:
        connection.execute(statement, given)
    connection.close()


@pytest.mark.parametrize(
    "text", ["[", '[["a", "grad", "no such code"]]', '[["a", "grad"]]', "3"], ids=["cut", "code", "short", "number"]
)
def test_gaps_that_were_not_written_are_damage(folder, text):
    changed(folder, "INSERT INTO gaps VALUES (0, 0, ?)", text)
    with bp.open_run(folder) as run:
        said = message(bp.BadRun, lambda: run.gaps)
    assert said.startswith(f"{folder}/rank-0.sqlite cannot be read: it is incomplete or damaged, or not a run\n")


def test_a_chunk_with_the_numbers_of_other_steps_is_damage(folder):
    others = layout.sealed(layout.nothing((1, 7), "sum") + [[1, 2, 3, 4, 5, 6, 7.0]])
    changed(folder, "UPDATE columns SET data = ?", others)
    for read in (lambda run: run.series("a", "grad.rms"), lambda run: run.at(3)):
        with bp.open_run(folder) as run:
            assert "it has the numbers of 7 steps, and 20 steps" in message(bp.BadRun, lambda: read(run))


def test_facts_that_were_not_written_are_damage(folder):
    changed(folder, "UPDATE attempts SET facts = ?", json.dumps({})[:1])
    with bp.open_run(folder) as run:
        assert "cannot be read" in message(bp.BadRun, lambda: run.steps)


@pytest.mark.parametrize("height", [0, 1, 7])
def test_blobs_that_are_sealed_together_are_those_that_are_sealed_alone(height):
    matrices = numpy.random.default_rng(0).normal(size=(5, len(COLUMNS), height))
    matrices[0], matrices[1] = float("nan"), -0.0
    for blocks in (matrices, matrices.transpose(0, 2, 1)):
        if blocks.shape[1]:
            alone = [bytes(layout.sealed(one)) for one in blocks]
            assert [*map(bytes, layout.sealed_each(blocks))] == alone
    steps = [layout.StepData(at, matrices[0], time=at / 3, backwards=2, uncleared=at) for at in range(5)]
    alone = [bytes(layout.sealed(layout.info_of([one])[None])) for one in steps]
    assert [*map(bytes, layout.sealed_each(layout.info_of(steps)[:, None, None]))] == alone


def test_rows_may_be_added_between_steps_of_one_commit(tmp_path):
    one = writer(tmp_path)
    for name in ("a", "b", "c"):
        one.add_rows(rows([name], ["grad"]))
        height = one.height + len(one.new.rows)
        for step in range(2):
            matrix = layout.blank(height)
            matrix[:, height - 1] = range(1, 11)
            one.append(layout.StepData(2 * (height - 1) + step, matrix))
    one.commit()
    with bp.open_run(tmp_path) as run:
        counts = {name: run.series(name, "grad.zeros") for name in ("a", "b", "c")}
        assert {name: steps.tolist() for name, (steps, _) in counts.items()} == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
        assert all(numbers.tolist() == [6.0, 6.0] for _, numbers in counts.values())
    one.close()
