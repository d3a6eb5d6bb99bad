"""Sinks into the real TensorBoard, Weights & Biases (offline) and MLflow (files), read back with their own readers."""

import json
import math
import os
import struct
import sys
from pathlib import Path

import mlflow
import pytest
import torch
import wandb
from mlflow.entities import Metric
from mlflow.store.tracking.file_store import FileStore
from mlflow.tracking._tracking_service import utils as tracking
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter
from wandb.proto import wandb_internal_pb2

import backprobe as bp
from backprobe.integrations.mlflow import MLflowSink
from backprobe.integrations.tensorboard import TensorBoardSink
from backprobe.integrations.wandb import WandbSink

STEPS = 30


def watched(folder, *sinks, log=lambda **scalars: None, odd=math.nan):
    """A training whose weights do not change, which is an alert, and whose loss is NaN once, or another number."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with bp.watch(model, folder, optimizer=optimizer, sinks=sinks) as run:
        for step, x in enumerate(torch.randn(STEPS, 8, 3)):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss if step != 7 else odd)
            log(mine=step)
    return bp.open_run(folder)


def same(found, run, name, field):
    steps, numbers = run.series(name, field)
    assert [step for step, _ in found] == steps.tolist()
    assert [number for _, number in found] == pytest.approx(numbers.tolist(), rel=1e-6, nan_ok=True)


# TensorBoard


@pytest.mark.parametrize("theirs", [False, True], ids=["a folder", "a SummaryWriter"])
def test_tensorboard_has_scalars_and_alerts(tmp_path, theirs):
    into = SummaryWriter(tmp_path / "tb") if theirs else None
    run = watched(tmp_path / "run", TensorBoardSink(into, select=["0", "2.weight"]))
    if theirs:
        into.add_scalar("still open", 1.0, 0)
        into.close()
    events = EventAccumulator(str(tmp_path / "tb" if theirs else tmp_path / "run" / "tensorboard"))
    events.Reload()

    def series(tag):
        if tag in events.Tags()["scalars"]:
            return [(one.step, one.value) for one in events.Scalars(tag)]
        return [(one.step, one.tensor_proto.float_val[0]) for one in events.Tensors(tag)]

    for name, field in (("0", "value.rms"), ("0", "grad.rms"), ("2.weight", "param.rms"), ("loss", "logged")):
        same(series(f"{field}/{name}"), run, name, field)
    assert not any("2.bias" in tag for tag in events.Tags()["scalars"])
    tag = "alerts/text_summary" if theirs else "alerts"
    texts = [one.tensor_proto.string_val[0].decode() for one in events.Tensors(tag)]
    assert run.alerts.findings
    assert {text.partition("\n")[0].strip() for text in texts} == {one.title for one in run.alerts.findings}
    assert tag in events.summary_metadata
    assert events.summary_metadata[tag].plugin_data.plugin_name == "text"


@pytest.mark.parametrize(("odd", "says"), [(1e300, True), (math.inf, False)])
def test_tensorboard_says_that_it_stores_a_large_number_as_inf(tmp_path, odd, says):
    watched(tmp_path, TensorBoardSink(fields=["logged"]), odd=odd).close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Scalars("logged/loss")[7].value == math.inf
    texts = "".join(one.tensor_proto.string_val[0].decode() for one in events.Tensors("alerts"))
    assert ("1e+300 is not stored here, but Inf in its place: logged/loss at step 7" in texts) is says
    assert ("stored" in texts) is says


# Weights & Biases


@pytest.fixture
def offline(tmp_path, monkeypatch):
    for name, value in (("MODE", "offline"), ("DIR", str(tmp_path)), ("SILENT", "true")):
        monkeypatch.setenv(f"WANDB_{name}", value)
    yield tmp_path
    if wandb.run is not None:
        wandb.finish()
    wandb.teardown()  # it reads its environment once


def logged_blocks(data, size=32768, head=7):
    """The texts of a LevelDB log, as which wandb keeps its records: pieces of them in blocks of one size."""
    at, text = head, b""  # behind the file's own
    while at + head <= len(data):
        length, kind = struct.unpack("<HB", data[at + 4 : at + head])
        text += data[at + head : at + head + length]
        if kind in (1, 4):  # a whole one, or the last piece
            yield text
            text = b""
        at += head + length
        at += size - at % size if size - at % size < head else 0


def records(folder):
    """What an offline run has written. The process that writes it is ended first."""
    wandb.teardown()
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    for data in logged_blocks(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        yield record


def history(folder):
    for record in records(folder):
        if record.WhichOneof("record_type") == "history":
            yield {".".join(one.nested_key) or one.key: json.loads(one.value_json) for one in record.history.item}


def test_wandb_has_scalars_over_our_steps_and_alerts(offline):
    run = watched(offline / "run", WandbSink(select=["0", "2.weight"]))
    assert wandb.run is None  # what the sink has started it has ended
    rows = [row for row in history(offline) if "backprobe/step" in row]
    for name, field in (("0", "grad.rms"), ("2.weight", "param.rms"), ("loss", "logged")):
        found = [(row["backprobe/step"], float(row[f"{field}/{name}"])) for row in rows]
        same(found, run, name, field)
    assert not any("2.bias" in label for label in rows[0])
    metrics = {one.metric.glob_name: one.metric.step_metric for one in records(offline) if one.HasField("metric")}
    assert metrics["grad.rms/*"] == "backprobe/step"
    titles = {one.alert.title for one in records(offline) if one.HasField("alert")}
    assert titles == {one.title for one in run.alerts.findings}


def test_wandb_keeps_a_run_that_is_there_and_what_the_program_logs(offline):
    with wandb.init() as mine:
        watched(offline / "run", WandbSink(fields=["logged"]), log=lambda **scalars: wandb.log(scalars))
        assert wandb.run is mine
    rows = list(history(offline))
    assert [row["mine"] for row in rows if "mine" in row] == list(range(STEPS))
    assert [row["backprobe/step"] for row in rows if "backprobe/step" in row] == list(range(STEPS))


def test_wandb_watch_beside_ours_in_one_model(offline):
    """Both see the gradients of the same training, and it computes what it would with neither."""
    ends = []
    for both in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train(run):
            for x in torch.ones(5, 8, 3):
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                if run is not None:
                    run.log({"done": 1})

        if both:
            with wandb.init() as theirs, bp.watch(model, offline / "run", optimizer=optimizer):
                theirs.watch(model, log="all", log_freq=1)
                train(theirs)
        else:
            train(None)
        ends.append(model.state_dict())
    assert all(map(torch.equal, ends[0].values(), ends[1].values()))
    with bp.open_run(offline / "run") as run:
        assert run.at(4)["0"]["grad.count"] == 32
        assert run.at(4)["0.weight"]["grad.count"] == 12
    assert sum("gradients/0.weight.bins" in row for row in history(offline)) == 5


# MLflow


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    yield tmp_path
    while mlflow.active_run() is not None:
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


@pytest.mark.parametrize("theirs", [False, True], ids=["a run of its own", "the active run"])
def test_mlflow_has_metrics_and_alerts(files, theirs):
    started = mlflow.start_run().info.run_id if theirs else None
    sink = MLflowSink(select=["0", "2.weight"])
    run = watched(files / "run", sink)
    client = mlflow.MlflowClient()
    assert started in (None, sink.run_id)
    assert client.get_run(sink.run_id).info.status == ("RUNNING" if theirs else "FINISHED")
    for name, field in (("0", "grad.rms"), ("2.weight", "param.rms"), ("loss", "logged")):
        kept = sorted(client.get_metric_history(sink.run_id, f"{field}/{name}"), key=lambda one: one.step)
        same([(one.step, one.value) for one in kept], run, name, field)
    assert not any("2.bias" in name for name in client.get_run(sink.run_id).data.metrics)
    text = mlflow.artifacts.load_text(f"runs:/{sink.run_id}/backprobe/alerts.txt")
    assert run.alerts.findings
    assert all(one.title in text for one in run.alerts.findings)


class Database(FileStore):
    """A store that has the largest number in the place of Inf, as MLflow's SqlAlchemyStore does."""

    def log_batch(self, run_id, metrics, params, tags):
        largest = sys.float_info.max
        kept = [Metric(one.key, min(one.value, largest), one.timestamp, one.step) for one in metrics]
        super().log_batch(run_id, kept, params, tags)


def test_mlflow_says_what_a_database_has_in_the_place_of_inf(files):
    tracking._tracking_store_registry.register("database", lambda store_uri, artifact_uri: Database(str(files / "db")))
    mlflow.set_registry_uri((files / "mlruns").as_uri())
    said = "Inf is not stored here, but 1.8e+308 in its place: logged/loss at step 7"
    for uri, is_said in (((files / "mlruns").as_uri(), False), ("database://here", True)):
        mlflow.set_tracking_uri(uri)
        sink = MLflowSink(fields=["logged"])
        watched(files / f"run {is_said}", sink, odd=math.inf).close()
        text = mlflow.artifacts.load_text(f"runs:/{sink.run_id}/backprobe/alerts.txt")
        assert (said in text) is is_said
        assert ("stored" in text) is is_said


def test_names_that_mlflow_does_not_take(files):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleDict({"a:b": torch.nn.Linear(3, 1)})

        def forward(self, x):
            y = self.layers["a:b"](x)
            return y, y * 2

    model, sink = Two(), MLflowSink(fields=["value.rms"])
    with bp.watch(model, files / "run", sinks=[sink]) as run:
        model(torch.ones(2, 3))[1].sum().backward()
        run.step()
    found = sorted(mlflow.MlflowClient().get_run(sink.run_id).data.metrics)
    assert found == ["value.rms/layers._a_b_", "value.rms/return.0", "value.rms/return.1"]
    assert os.path.isdir(files / "mlruns")


def test_the_block_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "watch.md").read_text()
    (code,) = (block for block in page.split("```python\n") if "TensorBoardSink(" in block.split("```")[0])
    h = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    model = torch.nn.ModuleDict({"h": h, "other": torch.nn.Linear(3, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train():
        for x in torch.randn(11, 8, 3):
            (h(x) + model["other"](x)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    lines = code.split("```")[0].replace("    ...\n", "    train()\n")
    exec(lines, {"bp": bp, "model": model, "optimizer": optimizer, "train": train})
    events = EventAccumulator("tb")
    events.Reload()
    run = bp.open_run("runs/exp1")
    assert run.steps.tolist() == [*range(11)] and "other" in run.names
    tags = [tag for tag in (*events.Tags()["scalars"], *events.Tags()["tensors"]) if tag.startswith("grad.rms/")]
    assert sorted(tags)[:2] == ["grad.rms/h.0", "grad.rms/h.1"] and not any("other" in tag for tag in tags)
    found = events.Scalars(tags[0]) if tags[0] in events.Tags()["scalars"] else events.Tensors(tags[0])
    assert [one.step for one in found] == [0, 10]
