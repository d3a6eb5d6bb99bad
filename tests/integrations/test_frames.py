"""Recordings, runs and sweeps as data frames of pandas and of Polars."""

import sys

import numpy
import pandas
import polars
import pytest
import torch

import backprobe as bp
from written_runs import fill, rms, rows, step, writer


@pytest.fixture(params=["pandas", "polars"])
def library(request, monkeypatch):
    """Where both are installed frames are those of pandas."""
    if request.param == "polars":
        monkeypatch.setitem(sys.modules, "pandas", None)
    return request.param


def kind_of(frame):
    return type(frame).__module__.partition(".")[0]


def listed(column):
    return column.to_list()


def test_a_recording(library):
    with bp.probe() as rec:
        x = torch.tensor([1.0, 3.0], requires_grad=True)
        u = x * x
        u.sum().backward()
    frame = rec.to_dataframe()
    assert kind_of(frame) == library
    assert listed(frame["name"]) == list(rec)
    at = list(rec).index("u")
    assert listed(frame["shape"])[at] == "(2,)"
    assert listed(frame["value.max"])[at] == 9
    assert listed(frame["grad.rms"])[at] == 1
    assert listed(frame["line"])[at] == rec["u"].source.line


def test_lines_stay_whole_numbers_where_some_are_missing():
    model = torch.nn.Linear(2, 1)
    frame = bp.probe(model, of=lambda y: y.sum())(torch.ones(3, 2)).to_dataframe()
    assert frame["line"].isna().any() and frame["line"].dtype == "Int64"
    assert frame.set_index("name").loc["weight", "grad.mean"] == 3


@pytest.fixture
def run(tmp_path):
    one = writer(tmp_path / "run")
    one.add_rows(rows(["h.0", "step"]))
    one.append(step(0, 4, missing=[1]))
    fill(one, range(1, 5), 4)
    one.close()
    with bp.open_run(tmp_path / "run") as run:
        yield run


def test_a_field_of_a_run(run, library):
    frame = run.to_dataframe("grad.rms")
    assert kind_of(frame) == library
    assert list(frame.columns) == ["h.0", "step"] if library == "pandas" else ["step_", "h.0", "step"]
    steps = frame.index if library == "pandas" else frame["step_"]
    assert listed(steps) == [0, 1, 2, 3, 4]
    assert listed(frame["h.0"])[3] == rms(step(3, 4), 1)
    if library == "pandas":
        assert frame.index.name == "step" and numpy.isnan(frame["h.0"][0])
    else:
        assert frame["h.0"].null_count() == 1
    with pytest.raises(bp.BadOption, match="no field 'grad.rmz'"):
        run.to_dataframe("grad.rmz")


def test_all_of_a_run(run, library):
    frame, table = run.to_dataframe(), run.to_arrow()
    assert kind_of(frame) == library
    assert list(frame.columns) == table.column_names and len(frame) == table.num_rows
    again = pandas.DataFrame(table.to_pydict()) if library == "pandas" else polars.from_arrow(table)
    assert numpy.array_equal(frame["rms"], again["rms"], equal_nan=True)


def test_a_sweep(library):
    def f(x):
        u = x * 2
        return (u * u).sum()

    sweep = bp.sweep(f, ["x", "u"], replace=torch.zeros_like, axis=0, approximate=True)(torch.tensor([1.0, 2.0]))
    frame = sweep.to_dataframe()
    assert kind_of(frame) == library
    assert list(frame.columns) == ["name", "axis_0", "output", "effect", "approximation"]
    assert listed(frame["effect"]) == list(sweep.effects.values())
    assert listed(frame["axis_0"]) == [0, 1, 0, 1]
    if library == "pandas":
        grid = frame.pivot(index="name", columns="axis_0", values="effect").loc[sweep.names]
        assert numpy.array_equal(grid, sweep.grid)
    assert list(bp.Sweep("f", "return", 1.0).to_dataframe().columns) == ["name", "output", "effect"]
