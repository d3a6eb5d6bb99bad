"""Runs on disk: what is written is read back, as one step, as a series and as a grid, whichever way it lies there."""

import resource
from pathlib import Path

import numpy
import pytest

import backprobe as bp
from asked import message
from backprobe.storage.runs import layout, merged
from written_runs import fill, matrix, rms, rows, step, writer

NAMES = ["h.0", "h.1", "head"]


@pytest.fixture(params=[1, 4, 1000], ids=["chunks of 1", "chunks of 4", "no chunks"])
def chunk(request, monkeypatch):
    monkeypatch.setattr(layout, "MOST_STEPS", request.param)
    return request.param


def test_all_ways_of_reading_give_what_was_written(tmp_path, chunk):
    one = writer(tmp_path / "run")
    one.add_rows(rows(NAMES))
    fill(one, range(10), 6)
    with bp.open_run(tmp_path / "run") as run:  # while it is being written
        assert (run.names, run.steps.tolist(), run.ranks) == (NAMES, list(range(10)), [0])
        names, steps, grid = run.grid("grad.rms")
        assert (names, steps.dtype, steps.tolist(), grid.dtype) == (NAMES, numpy.int64, list(range(10)), numpy.float64)
        for at, name in enumerate(NAMES):
            expected = [rms(step(number, 6), 2 * at + 1) for number in range(10)]
            assert grid[at].tolist() == expected
            assert run.series(name, "grad.rms")[1].tolist() == expected
            assert [run.at(number)[name]["grad.rms"] for number in range(10)] == expected
    one.close()


def test_statistics_that_change_and_those_that_do_not(tmp_path, chunk):
    one = writer(tmp_path)
    one.add_rows(rows(["w"], ["grad"]))
    fill(one, range(9), 1)
    one.close()
    with bp.open_run(tmp_path) as run:
        assert run.series("w", "grad.finite")[1].tolist() == [5.0] * 9
        assert run.series("w", "grad.min")[1].tolist() == [matrix(number, 1)[8, 0] for number in range(9)]


def test_names_come_and_go(tmp_path, chunk):
    one = writer(tmp_path)
    one.add_rows(rows(NAMES[:1], ["value"]))
    fill(one, range(5), 1)
    one.add_rows(rows(NAMES[1:], ["value"]))
    one.append(step(5, 3, missing=[0, 1]))
    one.append(step(6, 3))
    one.close()
    with bp.open_run(tmp_path) as run:
        assert run.series("h.0", "value.rms")[0].tolist() == [0, 1, 2, 3, 4, 6]
        assert run.series("h.1", "value.rms")[0].tolist() == [6]
        assert (list(run.at(5)), list(run.at(6))) == (["head"], NAMES)
        _, _, grid = run.grid("value.rms")
        assert numpy.isnan(grid).tolist() == [
            [False] * 5 + [True, False],
            [True] * 6 + [False],
            [True] * 5 + [False] * 2,
        ]


def test_a_restart_goes_on_and_of_an_overlap_the_last_attempt_is_read(tmp_path, chunk):
    first = writer(tmp_path, seed=1)
    assert first.next_step == 0
    first.add_rows(rows(["a", "b"], ["grad"]))
    fill(first, range(8), 2)
    first.close()
    again = writer(tmp_path, seed=2)
    assert again.next_step == 8
    again.add_rows(rows(["b"], ["grad"]))  # another order of rows
    for number in (5, 6):
        again.append(step(number, 1, seed=100 + number))
    again.close()
    with bp.open_run(tmp_path) as run:
        assert [facts["seed"] for facts in run.attempts] == [1, 2]
        assert (run.steps.tolist(), run.names) == (list(range(8)), ["b", "a"])
        assert [run.at(number).attempt for number in (4, 5, 6, 7)] == [0, 1, 1, 0]
        steps, found = run.series("b", "grad.rms")
        expected = [rms(step(number, 2), 1) for number in range(8)]
        expected[5:7] = [rms(step(number, 1, seed=100 + number), 0) for number in (5, 6)]
        assert (steps.tolist(), found.tolist()) == (list(range(8)), expected)
        assert run.series("a", "grad.rms")[0].tolist() == [0, 1, 2, 3, 4, 7]
    assert writer_next(tmp_path) == 8


def writer_next(folder):
    one = writer(folder)
    one.close()
    return one.next_step


def test_a_step_knows_more_than_its_numbers(tmp_path, chunk):
    one = writer(tmp_path)
    one.add_rows(rows(["w"]))
    one.append(step(0, 2, time=12.5, backwards=4))
    one.append(step(3, 2, skipped=True))
    one.close()
    with bp.open_run(tmp_path) as run:
        found = run.at(0)
        assert (found.step, found.time, found.backwards, found.skipped, len(found)) == (0, 12.5, 4, False, 1)
        assert (run.at(3).skipped, run.skipped.tolist(), run.steps.tolist()) == (True, [3], [0, 3])
        assert repr(run.at(3)) == "<backprobe.Step 3: 1 name, 0 backwards, skipped>"
        assert run.at(numpy.int64(3)).step == 3


@pytest.mark.parametrize("open_at_once", [64, 0])
def test_a_run_that_is_open_shows_what_is_written_next(tmp_path, chunk, open_at_once, monkeypatch):
    monkeypatch.setattr(merged, "MOST_OPEN", open_at_once)
    one = writer(tmp_path)
    with bp.open_run(tmp_path) as run:
        assert (run.steps.tolist(), run.names, run.fields) == ([], [], [])
        one.add_rows(rows(["w"], ["grad"]))
        for number in range(6):
            one.append(step(number, 1))
            one.commit()
            assert run.series("w", "grad.sum")[0].tolist() == list(range(number + 1))
    one.close()


@pytest.mark.parametrize("every", [1, 100])
def test_steps_without_a_row(tmp_path, every):
    """As those that a scaler skips before anything is measured: alone in a chunk, and in none."""
    one = writer(tmp_path)
    for number in range(1100):
        one.append(step(number, 0, skipped=True))
        if number % every == 0:
            one.commit()
    with bp.open_run(tmp_path) as run:
        assert (len(run.skipped), run.names, [*run.at(0)], [*run.at(1000)]) == (1100 - (1099 % every), [], [], [])
    one.close()
    with bp.open_run(tmp_path) as run:
        assert (len(run.skipped), [*run.at(0)], [*run.at(1099)]) == (1100, [], [])


def test_many_steps_at_once_are_written_once(tmp_path):
    """Where a chunk is nearly full of what is acknowledged together, its steps need no blobs of their own."""
    one = writer(tmp_path)
    one.add_rows(rows([f"h.{at}" for at in range(200)]))
    assert 100 < layout.steps_in_chunk(400) < 200
    for number in range(1, 301):
        one.append(layout.StepData(number, numpy.full((10, 400), float(number))))
        if number % 100 == 0:  # as a watch commits at the latest
            one.commit()
            assert one.connection.execute("SELECT count(*) FROM steps").fetchone() == (0,)
    one.append(layout.StepData(301, numpy.full((10, 400), 301.0)))  # and few as they come
    one.commit()
    assert one.connection.execute("SELECT count(*) FROM steps").fetchone() == (1,)
    with bp.open_run(tmp_path) as run:
        assert run.series("h.7", "grad.sum")[1].tolist() == [float(number) for number in range(1, 302)]
        assert run.grid("value.max")[2][5].tolist() == [float(number) for number in range(1, 302)]
    one.close()


# ranks


@pytest.mark.parametrize("open_at_once", [64, 2])
def test_ranks_add_up_and_what_is_the_same_in_each_counts_once(tmp_path, chunk, open_at_once, monkeypatch):
    monkeypatch.setattr(merged, "MOST_OPEN", open_at_once)
    for rank in range(3):
        one = writer(tmp_path, rank)
        one.add_rows(rows(["h.0"], ["grad"]) + rows(["w"], ["param"], "once"))
        for number in range(5 if rank < 2 else 3):  # the last died
            data = matrix(10 * number + rank, 2)
            data[:, 1] = matrix(number, 2)[:, 1]
            one.append(layout.StepData(number, data))
        one.close()
    with bp.open_run(tmp_path) as run:
        assert (run.ranks, run.steps.tolist()) == ([0, 1, 2], [0, 1, 2, 3, 4])
        assert run.series("h.0", "grad.count")[1].tolist() == [15, 15, 15, 10, 10]
        assert run.series("w", "param.count")[1].tolist() == [5] * 5
        parts = [matrix(10 + rank, 2)[:, 0] for rank in range(3)]
        assert run.at(1)["h.0"]["grad.sum"] == pytest.approx(sum(part[6] for part in parts))
        assert run.at(1)["h.0"]["grad.min"] == min(part[8] for part in parts)
        _, _, grid = run.grid("grad.sum")
        assert grid[0, 1] == pytest.approx(sum(part[6] for part in parts))
        assert run.at(1)["w"]["param.sum"] == run.series("w", "param.sum")[1][1] == matrix(1, 2)[6, 1]


@pytest.mark.parametrize("chunk_of", [3, 1000])
def test_ranks_whose_names_are_in_another_order_or_missing(tmp_path, chunk_of, monkeypatch):
    """Rows are found by name, whether they lie in a regular order or not."""
    monkeypatch.setattr(layout, "MOST_STEPS", chunk_of)
    names = [f"h.{at}" for at in range(12)]
    orders = [names, names[::-1], names[3:] + names[:2], names[1::2]]
    for rank, own in enumerate(orders):
        one = writer(tmp_path, rank)
        one.add_rows(rows(own, ["grad"]))
        for number in range(7):
            data = matrix(0, len(own))
            data[6] = [100 ** (rank % 2) * (names.index(name) + number) for name in own]
            one.append(layout.StepData(number, data))
        one.close()
    with bp.open_run(tmp_path) as run:
        found, steps, grid = run.grid("grad.sum")
        for name, numbers in zip(found, grid, strict=True):
            weight = sum(100 ** (rank % 2) for rank, own in enumerate(orders) if name in own)
            assert numbers.tolist() == [weight * (names.index(name) + number) for number in range(7)]


def test_a_run_of_more_ranks_than_a_process_may_open(tmp_path):
    for rank in range(80):
        one = writer(tmp_path, rank)
        one.add_rows(rows(["h.0"], ["grad"]))
        one.append(step(0, 1))
        one.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, used + 40), hard))
    try:
        with bp.open_run(tmp_path) as run:
            assert run.series("h.0", "grad.count")[1].tolist() == [80 * 5]
            assert len(run.ranks) == 80
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# what is asked wrongly


@pytest.fixture
def run(tmp_path):
    one = writer(tmp_path)
    one.add_rows(
        rows(["h.0.attn:return.0", "h.0.attn:return.1", "h.0.mlp:return.0", "return"], ["grad"]), {"tied": "return"}
    )
    fill(one, range(0, 40, 10), 4)
    one.close()
    with bp.open_run(tmp_path) as opened:
        yield opened


def test_an_unknown_step_names_the_nearest(run):
    assert message(bp.UnknownStep, lambda: run.at(12)) == (
        "the run has no step 12\n  asked: run.at(12)\n  found: 4 steps, the nearest: 0, 10, 20, 30\n  next:  run.at(10)"
    )
    assert message(bp.UnknownStep, lambda: run.at("12")) == (
        "a step is a number, not '12'\n  asked: run.at('12')\n  next:  run.steps, for every step"
    )


def test_truth_values_are_not_steps(run):
    assert "a step is a number, not True" in message(bp.UnknownStep, lambda: run.at(True))


def test_an_unknown_field_of_a_name_in_a_step_names_the_nearest(run):
    fields = run.at(10)["return"]
    assert fields.get("zz") is None and "zz" not in fields
    assert message(bp.UnknownName, lambda: fields["grad.rmss"]) == (
        "this name has no field 'grad.rmss'\n  asked: run.at(10)['return']['grad.rmss']\n"
        "  found: 14 fields, the nearest: grad.rms, grad.zeros, grad.sum, grad.std, grad.min\n"
        "  next:  run.at(10)['return']['grad.rms']"
    )
    assert "list(run.at(10)['return']), for every field" in message(bp.UnknownName, lambda: fields["zz"])


def test_names_are_spelled_as_in_a_recording(run):
    for spelled, full in {"h.0.mlp": 2, ":return": 3, "return": 3, "tied": 3, "`h`.0.mlp:return.0": 2}.items():
        assert run.series(spelled, "grad.rms")[1][0] == rms(step(0, 4), full)
    assert run.at(10)["h.0.mlp"]["grad.rms"] == rms(step(10, 4), 2)
    assert message(bp.AmbiguousName, lambda: run.series("h.0.attn", "grad.rms")) == (
        "'h.0.attn' returns several tensors\n  asked: run.series('h.0.attn', 'grad.rms')\n"
        "  found: h.0.attn:return.0, h.0.attn:return.1\n  next:  run.series('h.0.attn:return.0', 'grad.rms')"
    )
    assert message(bp.BadName, lambda: run.series("h.0.mlp#1", "grad.rms")) == (
        "a run has no counts: 'h.0.mlp#1' asks for one of several calls\n"
        "  asked: run.series('h.0.mlp#1', 'grad.rms')\n"
        "  why:   a name means all its calls in a step, merged\n  next:  run.series('h.0.mlp', 'grad.rms')"
    )
    assert message(bp.UnknownName, lambda: run.series("h.0.mpl", "grad.rms")).splitlines()[0] == (
        "no row is named 'h.0.mpl'"
    )


def test_an_unknown_field_names_the_nearest(run):
    assert message(bp.BadOption, lambda: run.grid("grad.rm")) == (
        "this run has no field 'grad.rm'\n  asked: run.grid('grad.rm')\n"
        "  found: 14 fields, the nearest: grad.rms, grad.sum, grad.min, grad.max, grad.mean\n"
        "  next:  run.grid('grad.rms')"
    )


def test_a_run_as_text(run):
    assert repr(run) == f"<backprobe.Run '{run.folder}': 4 steps, 4 names>"
    assert str(run) == f"run in {run.folder}\n  steps:   4, from 0 to 30\n  names:   4\n  kinds:   grad"
    assert "4, from 0 to 30" in run._repr_html_()
    assert "2 more" not in run.at(0)._repr_html_()
