"""Bins of a long run that are kept beside it: what is read is what would be reduced anew, or nothing."""

import numpy
import pytest

import backprobe as bp
from backprobe.storage.runs import kept_bins, levels
from test_runs_reduced import extreme, fill

NAMES = ["a", "b", "c.d"]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Every run is long, and has few bins."""
    monkeypatch.setattr(kept_bins, "LONG", 1)
    monkeypatch.setattr(levels, "FEWEST", 16)
    monkeypatch.setattr(levels, "NUMBERS", 1)


@pytest.fixture
def read(monkeypatch):
    """The steps that were reduced."""
    found, whole = [], levels.binned
    monkeypatch.setattr(levels, "binned", lambda *given: found.append(given[4:]) or whole(*given))
    return found


def seen(folder, field="grad.rms", bins=8):
    with bp.open_run(folder) as run:
        return levels.Level(run._reader, NAMES, field, folder).binned(bins)


def check(folder, found, field="grad.rms"):
    """The bins are those of the grid, number by number."""
    kind = field.partition(".")[0]
    with bp.open_run(folder) as run:
        _, steps, grid = run.grid(field)
        is_so = run.grid(f"{kind}.finite")[2] < run.grid(f"{kind}.count")[2]
    assert found.first[0] == steps[0] and found.last[-1] == steps[-1]
    for at, (first, last) in enumerate(zip(found.first, found.last)):
        part = (steps >= first) & (steps <= last)
        for place in range(len(NAMES)):
            assert found.least[place, at] == pytest.approx(extreme(grid[place, part], min, numpy.nan), nan_ok=True)
            assert found.greatest[place, at] == pytest.approx(extreme(grid[place, part], max, numpy.nan), nan_ok=True)
            assert found.nonfinite[kind][place, at] == is_so[place, part].sum()


@pytest.mark.parametrize("field", ["grad.rms", "value.min"])
def test_what_is_kept_is_read_and_only_new_steps_are_reduced(tmp_path, read, field):
    fill(tmp_path, range(64))
    check(tmp_path, seen(tmp_path, field), field)
    assert read == [(0, 63)]
    check(tmp_path, seen(tmp_path, field), field)
    assert read == [(0, 63)]
    fill(tmp_path, range(64, 70), seed=1)
    check(tmp_path, seen(tmp_path, field), field)
    assert read[0] == (0, 63) and min(first for first, _ in read[1:]) == 64


def test_steps_that_a_resumed_training_made_anew_are_reduced_anew(tmp_path, read):
    fill(tmp_path, range(64))
    seen(tmp_path)
    fill(tmp_path, range(40, 64), seed=1)
    check(tmp_path, seen(tmp_path))
    assert read == [(0, 63), (0, 63)]


def test_another_run_in_its_place_is_reduced_anew(tmp_path, read):
    fill(tmp_path, range(64))
    seen(tmp_path)
    for one in tmp_path.glob("rank-0*"):
        one.unlink()
    fill(tmp_path, range(64), seed=1)
    check(tmp_path, seen(tmp_path))
    assert read == [(0, 63), (0, 63)]


def test_a_rank_that_is_late_hides_nothing(tmp_path):
    """Its NaN are counted when they come, though bins of these steps were there."""
    fill(tmp_path, range(64))
    fill(tmp_path, range(20), rank=1, seed=1)
    with bp.open_run(tmp_path) as run:
        level = levels.Level(run._reader, NAMES, "grad.rms", tmp_path)
        level.binned(8)
        fill(tmp_path, range(20, 64), rank=1, seed=2)
        check(tmp_path, level.binned(8))
    check(tmp_path, seen(tmp_path))


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:900] + bytes(99) + data[999:]],
    ids=["cut", "empty", "overwritten"],
)
def test_a_damaged_file_is_none(tmp_path, read, damage):
    fill(tmp_path, range(64))
    seen(tmp_path)
    (file,) = (tmp_path / "bins").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    check(tmp_path, seen(tmp_path))
    assert read == [(0, 63), (0, 63)]


def test_bins_of_another_shape_are_none(tmp_path, read):
    fill(tmp_path, range(64))
    seen(tmp_path)
    (file,) = (tmp_path / "bins").iterdir()
    held = dict(numpy.load(file))
    held["least"] = held["least"][:1]
    numpy.savez(file, **held)
    check(tmp_path, seen(tmp_path))
    assert read == [(0, 63), (0, 63)]


def test_a_folder_that_cannot_be_written_is_read(tmp_path):
    fill(tmp_path, range(64))
    (tmp_path / "bins").write_text("a file in the place of the folder")
    check(tmp_path, seen(tmp_path))


def test_few_files_are_kept(tmp_path):
    fill(tmp_path, range(20))
    for field in ("rms", "min", "max", "mean", "std", "absmax", "count", "zeros", "sum", "finite"):
        seen(tmp_path, f"grad.{field}")
    assert len([*(tmp_path / "bins").iterdir()]) == kept_bins.MOST


def test_a_short_run_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_bins, "LONG", 65)
    fill(tmp_path, range(64))
    seen(tmp_path)
    assert not (tmp_path / "bins").exists()
