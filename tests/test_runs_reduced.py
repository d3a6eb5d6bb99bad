"""Bins of a run against the whole grid, number by number: NaN, gaps, several ranks, a resumed run, windows."""

import numpy
import pytest

import backprobe as bp
from backprobe.record.statistics import measured
from backprobe.storage.runs import levels, reduced
from backprobe.storage.runs.layout import StepData, blank
from written_runs import rows, writer

FIELDS = ("grad.rms", "value.std", "value.min", "grad.absmax", "update.ratio", "logged", "grad.count")
WINDOWS = ((None, None, 600), (None, None, 7), (40, 130, 9), (77, 77, 5), (0, 10_000, 1), (500, 600, 3))


def matrix(random, height, bad):
    found = blank(height)
    for at in range(height):
        numbers = random.normal(size=4) * 10.0 ** random.integers(-6, 6)
        if at in bad:
            numbers[: random.integers(1, 5)] = random.choice([numpy.nan, numpy.inf, -numpy.inf])
        found[:, at] = measured(numbers)
    return found


def fill(folder, steps, *, rank=0, seed=0, names=("a", "b", "c.d"), chunk=30):
    """Rows of every kind; some steps have NaN in some rows, one name has no numbers in others."""
    random = numpy.random.default_rng(seed)
    one = writer(folder, rank)
    made = [*rows(names, ("value", "grad", "param", "update")), *rows(["loss"], ("logged",))]
    one.add_rows(made)
    for number in steps:
        bad = random.choice(len(made), 2, replace=False) if random.random() < 0.2 else ()
        step = matrix(random, len(made), bad)
        if number % 3:
            step[:, 1] = blank(1)[:, 0]
        one.append(StepData(number, step, 0.0, 1))
        if number % chunk == 0:
            one.commit()
    one.close()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Many chunks, and many parts: of runs of this size there would be one."""
    monkeypatch.setattr("backprobe.storage.runs.writer.steps_in_chunk", lambda height: 7)
    monkeypatch.setattr(reduced, "NUMBERS", 64)


def one_rank(folder):
    fill(folder, range(0, 300, 2))


def two_ranks(folder):
    fill(folder, range(200), rank=0)
    fill(folder, range(3, 190), rank=1, seed=1)


def resumed(folder):
    fill(folder, range(120))
    fill(folder, range(60, 180), seed=1)


@pytest.fixture(params=[one_rank, two_ranks, resumed], ids=lambda made: made.__name__)
def run(request, tmp_path):
    request.param(tmp_path)
    with bp.open_run(tmp_path) as opened:
        yield opened


def extreme(numbers, join, nothing):
    known = numbers[~numpy.isnan(numbers)]
    return join(known) if len(known) else nothing


@pytest.mark.parametrize("field", FIELDS)
def test_each_bin_is_that_of_the_grid(run, field):
    names, steps, grid = run.grid(field)
    kinds = {name: [one for one in ("value", "grad", "param", "update", "logged")] for name in names}
    counts = {}
    for kind in {kind for own in kinds.values() for kind in own if kind != "logged"}:
        known, _, count = run.grid(f"{kind}.count")
        counts[kind] = known, run.grid(f"{kind}.finite")[2] < count
    for first, last, bins in WINDOWS:
        found = reduced.binned(run._reader, names, field, bins, first, last)
        chosen = numpy.flatnonzero((steps >= (first or 0)) & (steps <= (10**9 if last is None else last)))
        assert len(found.first) == min(bins, len(chosen))
        parts = [numpy.flatnonzero((steps >= a) & (steps <= b)) for a, b in zip(found.first, found.last)]
        assert numpy.concatenate([*parts, []]).tolist() == chosen.tolist()  # each step is in one bin
        for at, part in enumerate(parts):
            for place, name in enumerate(names):
                least, greatest = (extreme(grid[place, part], join, numpy.nan) for join in (min, max))
                assert numpy.array_equal(found.least[place, at], numpy.float32(least), True)
                assert numpy.array_equal(found.greatest[place, at], numpy.float32(greatest), True)
                for kind, (known, is_so) in counts.items():
                    total = is_so[known.index(name), part].sum() if name in known else 0
                    assert found.nonfinite.get(kind, numpy.zeros(found.least.shape))[place, at] == total


def test_every_step_with_nan_is_in_one_stretch(run):
    expected = set()
    for kind in ("value", "grad", "param", "update"):
        names, steps, count = run.grid(f"{kind}.count")
        for name, is_so in zip(names, run.grid(f"{kind}.finite")[2] < count):
            expected |= {(name, kind, step) for step in steps[is_so].tolist()}
    found, rest = reduced.stretches_of_nonfinite(run._reader, most=10**6)
    assert rest is None and len(expected) > 30
    listed = [
        (one.name, one.kind, step) for one in found for step in run.steps.tolist() if one.first <= step <= one.last
    ]
    assert len(listed) == len({*listed}) == sum(one.count for one in found)
    assert {one for one in listed if one[1] != "logged"} == expected
    assert [one.first for one in found] == sorted(one.first for one in found)


@pytest.mark.parametrize("most", [1, 3, 20])
def test_stretches_go_on_where_they_ended(run, most):
    whole, parts, at = reduced.stretches_of_nonfinite(run._reader, most=10**6)[0], [], 0
    while at is not None:
        found, at = reduced.stretches_of_nonfinite(run._reader, at, most)
        parts += found
    assert parts == whole


def test_a_run_without_steps_has_no_bins(tmp_path):
    one = writer(tmp_path)
    one.add_rows(rows(["a"], ["grad"]))
    one.close()
    with bp.open_run(tmp_path) as run:
        assert reduced.binned(run._reader, ["a"], "grad.rms", 10).least.shape == (1, 0)
        assert reduced.stretches_of_nonfinite(run._reader) == ([], None)


@pytest.mark.parametrize("bins", [5, 16, 1000])
def test_kept_bins_of_a_run_that_grows_are_those_of_the_grid(tmp_path, monkeypatch, bins):
    """Step by step, and when it is resumed from an earlier one."""
    monkeypatch.setattr(levels, "FEWEST", 16)
    monkeypatch.setattr(levels, "NUMBERS", 1)
    with_level = {}
    for begin, end, seed in ((0, 1, 0), (1, 40, 1), (40, 41, 2), (41, 97, 3), (60, 75, 4), (75, 130, 5)):
        fill(tmp_path, range(begin, end), seed=seed)
        with bp.open_run(tmp_path) as run:
            level = with_level.setdefault("level", levels.Level(run._reader, ["a", "b", "c.d"], "grad.rms"))
            level.reader = run._reader
            found, (_, steps, grid) = level.binned(bins), run.grid("grad.rms")
            is_so = run.grid("grad.finite")[2] < run.grid("grad.count")[2]
        assert len(found.first) <= bins and found.first[0] == 0 and found.last[-1] == steps[-1]
        for at, (first, last) in enumerate(zip(found.first, found.last)):
            part = (steps >= first) & (steps <= last)
            for place in range(3):
                assert found.least[place, at] == pytest.approx(extreme(grid[place, part], min, numpy.nan), nan_ok=True)
                assert found.greatest[place, at] == pytest.approx(
                    extreme(grid[place, part], max, numpy.nan), nan_ok=True
                )
                count = found.nonfinite["grad"][place, at] if "grad" in found.nonfinite else 0
                assert count == is_so[place, part].sum()


def test_what_was_reduced_once_is_not_read_again(tmp_path, monkeypatch):
    read = []
    whole = reduced.binned
    monkeypatch.setattr(levels, "binned", lambda *given: read.append(given[4:]) or whole(*given))
    fill(tmp_path, range(64))
    with bp.open_run(tmp_path) as run:
        level = levels.Level(run._reader, ["a"], "grad.rms")
        level.binned(100)
        assert read == [(0, 63)]
        level.binned(100)
        assert read == [(0, 63)]
        fill(tmp_path, range(64, 70), seed=1)
        level.binned(100)
        assert read == [(0, 63), (64, 69)]
