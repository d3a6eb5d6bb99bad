"""Runs in Parquet, Arrow and event files, each read back by its own reader, and read again as runs."""

import json
import math
import shutil
import uuid

import fsspec
import numpy
import pandas
import polars
import pyarrow.dataset
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import backprobe as bp
from backprobe.record.gaps import GapCode
from backprobe.record.statistics import COLUMNS
from backprobe.storage.runs.layout import RowKey, StepData
from commands import invoked
from written_runs import fill, matrix, rows, step, writer, written

SPAN = 1024
STEPS = 2 * SPAN + 100


def of_two_ranks(folder, steps=STEPS, close=True):
    """A run of two processes with values, gradients, a parameter that both have, and a gradient that one has late."""
    writers = [writer(folder, rank, started=7.0, every=1) for rank in range(2)]
    for rank, one in enumerate(writers):
        one.add_rows([*rows(["h.0", "h.1"]), RowKey("w", "param", "once")], {"first": "h.0"})
        for at in range(steps):
            one.append(step(at, 5, seed=10 * at + rank, missing=[3] * (at % 7 == rank), time=5.0 + at, backwards=1))
            if at % 100 == 99:
                one.commit()
        one.commit()
        if close:
            one.close()
    return writers


def same(a, b):
    assert (a.names, a.fields, a.ranks) == (b.names, b.fields, b.ranks)
    for field in a.fields:
        for own, other in zip(a.grid(field)[1:], b.grid(field)[1:], strict=True):
            assert numpy.array_equal(own, other, equal_nan=True), field
    assert a.at(5).time == b.at(5).time and a.at(5).backwards == b.at(5).backwards


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "run"
    of_two_ranks(folder)
    return folder


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_an_export_is_the_run_again(tmp_path, run, format):
    with bp.open_run(run) as opened:
        opened.export(tmp_path / "out", format)
        with bp.open_run(tmp_path / "out") as again:
            same(opened, again)
            assert opened.alerts.to_dict() == again.alerts.to_dict()
            assert again.series("first", "grad.rms")[1].tolist() == opened.series("h.0", "grad.rms")[1].tolist()
            assert str(tmp_path / "out") in str(again)


def test_parquet_is_read_by_pyarrow_pandas_and_polars(tmp_path, run):
    opened = bp.open_run(run)
    opened.export(tmp_path / "out")
    table = pyarrow.dataset.dataset(tmp_path / "out" / "rows", partitioning="hive").to_table()
    assert {field.name: str(field.type) for field in table.schema} == {
        "attempt": "int32",
        "step": "int64",
        "name": "dictionary<values=string, indices=int32, ordered=0>",
        "kind": "dictionary<values=string, indices=int32, ordered=0>",
        "merge": "dictionary<values=string, indices=int32, ordered=0>",
        **dict.fromkeys(COLUMNS, "double"),
        "rank": "int32",
        "first_step": "int32",
    }
    missing = sum(at % 7 in (0, 1) for at in range(STEPS))
    assert table.num_rows == 2 * 5 * STEPS - missing
    frame = pandas.read_parquet(tmp_path / "out" / "rows")
    one = frame[(frame["step"] == 9) & (frame["name"] == "h.1") & (frame["kind"] == "value") & (frame["rank"] == 1)]
    assert one[list(COLUMNS)].iloc[0].tolist() == matrix(91, 5)[:, 2].tolist()
    lazy = polars.scan_parquet(tmp_path / "out" / "rows" / "**" / "*.parquet", hive_partitioning=True)
    found = lazy.filter(polars.col("name") == "w", polars.col("rank") == 0).sort("step").collect()
    assert numpy.array_equal(numpy.sqrt(found["squares"] / found["finite"]), opened.series("w", "param.rms")[1])
    steps = pandas.read_parquet(tmp_path / "out" / "steps")
    assert steps[steps["rank"] == 0]["time"].tolist() == [5.0 + at for at in range(STEPS)]


def test_an_export_goes_on_while_the_training_runs(tmp_path):
    one = writer(tmp_path / "run", started=7.0)
    one.add_rows(rows(["h.0"]))
    fill(one, range(SPAN + 5), 2)
    opened = bp.open_run(tmp_path / "run")
    opened.export(tmp_path / "out")
    first, second = (tmp_path / "out" / "rows" / "rank=0" / f"first_step={at}" / "part.parquet" for at in (0, 1024))
    before = [file.stat().st_mtime_ns for file in (first, second)]
    fill(one, range(SPAN + 5, SPAN + 9), 2)
    opened.export(tmp_path / "out")
    assert first.stat().st_mtime_ns == before[0] and second.stat().st_mtime_ns > before[1]
    with bp.open_run(tmp_path / "out") as again:
        same(opened, again)
    one.close()
    resumed = writer(tmp_path / "run", started=8.0)  # makes the last steps anew, and gives them other numbers
    resumed.add_rows(rows(["h.0", "h.1"]))
    fill(resumed, range(SPAN - 10, SPAN + 20), 4, seed=3)
    resumed.close()
    opened = bp.open_run(tmp_path / "run")
    opened.export(tmp_path / "out")
    with bp.open_run(tmp_path / "out") as again:
        same(opened, again)
        assert [each["started"] for each in again.attempts] == [7.0, 8.0]


def test_an_export_at_a_url(run):
    url = f"memory://{uuid.uuid4().hex}"
    opened = bp.open_run(run)
    opened.export(url)
    assert any(file.endswith(".parquet") for file in fsspec.filesystem("memory").find(url))
    with bp.open_run(url) as again:
        same(opened, again)
        assert str(again).startswith(f"run in {url}")
        assert url in repr(again)


def trained(folder):
    """A real training with histograms, gaps and lines."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    model[2].unused = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bp.watch(model, folder, optimizer=optimizer, pace=bp.Pace(histogram=2)) as run:
        for x in torch.randn(12, 8, 3):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
    return bp.open_run(folder)


def test_a_real_training_comes_back_with_histograms_gaps_and_lines(tmp_path):
    run = trained(tmp_path / "run")
    run.export(tmp_path / "out")
    with bp.open_run(tmp_path / "out") as again:
        same(run, again)
        assert [one.to_dict() for one in run.gaps.findings] == [one.to_dict() for one in again.gaps.findings]
        assert run.gaps.findings and {one.kind for one in run.gaps.findings} <= {code.value for code in GapCode}
        for name in ("0", "return"):
            own, other = run.histogram(name), again.histogram(name)
            assert (own.steps.tolist(), own.counts.tolist(), own.smallest.tolist()) == (
                other.steps.tolist(),
                other.counts.tolist(),
                other.smallest.tolist(),
            )
            assert len(own.steps) == 6
        assert run._reader.lines() == again._reader.lines()
        assert str(run.report()).splitlines()[1:] == str(again.report()).splitlines()[1:]
    histograms = pandas.read_parquet(tmp_path / "out" / "histograms")
    assert set(histograms["step"]) == set(range(0, 12, 2))


def test_only_some_fields(tmp_path, run):
    opened = bp.open_run(run)
    opened.export(tmp_path / "out", fields=["grad.rms"])
    frame = pandas.read_parquet(tmp_path / "out" / "rows")
    assert set(frame["kind"]) == {"grad"}
    assert list(frame.columns) == ["attempt", "step", "name", "kind", "merge", *COLUMNS, "rank", "first_step"]
    assert frame["min"].isna().all() and frame["squares"].notna().all()
    with pytest.raises(bp.BadRun, match="has only some fields"):
        bp.open_run(tmp_path / "out")


# event files


def scalars(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {
        tag: [(one.step, one.value, one.wall_time) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }


def test_event_files_have_what_the_run_has_and_go_on(tmp_path):
    nan = math.nan
    steps = [[[1.0, 2.0], [3.0]], [[1.0, nan], [4.0]], [[2.0, nan, nan], [5.0]], [[2.0], [6.0]]]
    run = written(tmp_path / "run", [("h.0", "grad"), ("loss", "logged")], steps[:3])
    run.export(tmp_path / "tb", "tensorboard")
    found = scalars(tmp_path / "tb")
    assert found.keys() == {"grad.rms/h.0", "grad.nan/h.0", "logged/loss"}
    assert [(at, number) for at, number, _ in found["grad.nan/h.0"]] == [(1, 1.0), (2, 2.0)]
    assert [number for _, number, _ in found["grad.rms/h.0"]] == pytest.approx([math.sqrt(2.5), 1.0, 2.0], rel=1e-6)
    one = writer(tmp_path / "run")
    one.add_rows([RowKey("h.0", "grad"), RowKey("loss", "logged")])
    one.append(StepData(3, matrix(1, 2), time=99.0))
    one.close()
    bp.open_run(tmp_path / "run").export(tmp_path / "tb", "tensorboard")
    found = scalars(tmp_path / "tb")
    assert [at for at, _, _ in found["grad.rms/h.0"]] == [0, 1, 2, 3]
    assert found["grad.rms/h.0"][3][2] == 99.0  # the time of the step, not of the export


# bad input


@pytest.mark.parametrize(
    ("path", "kind", "says"),
    [
        ("nowhere://x/y", bp.BadOption, "cannot be opened"),
        ("s3://bucket/x", bp.NotInstalled, "s3fs"),
        ("", bp.BadOption, "is exported to a folder or a URL"),
        (7, bp.BadOption, "is exported to a folder or a URL"),
    ],
)
def test_a_path_that_cannot_be_written(run, path, kind, says):
    with pytest.raises(kind, match=says):
        bp.open_run(run).export(path)


def test_what_lies_there_is_not_written_over(tmp_path, run):
    opened = bp.open_run(run)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    other = written(tmp_path / "other", [("h.0", "grad")], [[[1.0]]], started=3.0)
    other.export(tmp_path / "out")
    other.export(tmp_path / "tb", "tensorboard")
    for path in ("mine", "out", run):
        with pytest.raises(bp.BadOption, match="has something else in it"):
            opened.export(tmp_path / path)
    for path in ("mine", "tb"):
        with pytest.raises(bp.BadOption, match="has something else in it"):
            opened.export(tmp_path / path, "tensorboard")
    with pytest.raises(bp.BadOption, match="has something else in it"):
        other.export(tmp_path / "out", "arrow")
    with pytest.raises(bp.BadOption, match="cannot be read or written"):
        opened.export(tmp_path / "file")
    with pytest.raises(bp.BadOption, match="has no field 'grad.size'"):
        opened.export(tmp_path / "new", fields=["grad.size"])
    with pytest.raises(bp.BadOption, match="fields is a list"):
        opened.export(tmp_path / "new", fields="grad.rms")
    with pytest.raises(bp.BadOption, match="format is one of parquet, arrow, tensorboard"):
        opened.export(tmp_path / "new", "csv")
    assert sorted(one.name for one in (tmp_path / "mine").iterdir()) == ["notes.txt"]


@pytest.mark.parametrize("table", ["rows", "steps"])
@pytest.mark.parametrize("damage", ["cut", "gone", "other"])
def test_a_damaged_export_is_an_error_and_no_run(tmp_path, table, damage):
    run = written(tmp_path / "run", [("h.0", "grad")], [[[1.0]], [[2.0]]])
    run.export(tmp_path / "out")
    file = tmp_path / "out" / table / "rank=0" / "first_step=0" / "part.parquet"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif damage == "gone":
        file.unlink()
    else:
        pandas.DataFrame({"x": [1]}).to_parquet(file)
    with pytest.raises(bp.BadRun, match="is not a whole export"), bp.open_run(tmp_path / "out") as again:
        again.grid("grad.rms")


def test_a_damaged_description_is_an_error(tmp_path):
    run = written(tmp_path / "run", [("h.0", "grad")], [[[1.0]]])
    run.export(tmp_path / "out")
    file = tmp_path / "out" / "_rank-0.json"
    whole = file.read_text()
    for text, says in (
        (whole[:50], "is not a whole export"),
        ("[]", "is not a whole export"),
        (json.dumps({**json.loads(whole), "format": 99}), "another format"),
    ):
        file.write_text(text)
        with pytest.raises(bp.BadRun, match=says):
            bp.open_run(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(bp.BadRun):
        bp.open_run(tmp_path / "out")
    with pytest.raises(bp.BadRun, match="has no export of a run"):
        bp.open_run(f"memory://{uuid.uuid4().hex}")


def test_the_command(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoked("export", str(run), "--to", "parquet", "out") == (0, f"exported {STEPS:,} steps to out\n", "")
    code, out, _ = invoked("export", str(run), "--to", "tensorboard", "tb", "--field", "grad.rms", "--json")
    said = json.loads(out)
    assert code == 0 and said.pop("environment")["packages"]
    assert said == {"steps": STEPS, "path": "tb"}
    assert {tag.partition("/")[0] for tag in scalars("tb")} == {"grad.rms"}
    code, out, err = invoked("export", str(run), "--to", "arrow", "out", "--quiet")
    assert (code, out) == (2, "") and "something else in it" in err
    assert invoked("report", "out", "--quiet") == invoked("report", str(run), "--quiet")
