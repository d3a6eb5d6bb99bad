"""Pipeline schedules: what they do beside the program is said in a note."""

import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, stage

import backprobe as bp
import pipeline_processes
import prepared
from commands import DISTRIBUTED

DIVIDES = hasattr(stage._PipelineStageBase, "scale_grads")
"""Does a schedule divide gradients by the number of its parts? Older releases leave that to the loss."""
FORWARD_ALONE = hasattr(PipelineStage, "_shape_inference")
"""Does it infer shapes by a forward alone, without gradients? Newer releases run backward too."""
pytestmark = pytest.mark.usefixtures("leaves_nothing")


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("scales", [True, False] if DIVIDES else [False])
def test_a_schedule_that_divides_gradients_and_infers_shapes(alone, scales):
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    model = torch.nn.Sequential(layer, torch.nn.Tanh())
    whole = PipelineStage(model, 0, 1, torch.device("cpu"))
    schedule = ScheduleGPipe(
        whole, 4, loss_fn=torch.nn.functional.mse_loss, **({"scale_grads": scales} if DIVIDES else {})
    )
    x, target = torch.randn(8, 3), torch.randn(8, 2)
    with bp.probe(model) as rec:
        schedule.step(x, target=target)
    divides = "the pipeline schedule divided .grad by 4 after backward()"
    assert any(note.startswith(divides) for note in rec.notes) == scales
    assert torch.allclose(rec["0.weight"].grad, layer.weight.grad * (4 if scales else 1))
    calls = [name for name in rec if name.startswith("0#")]
    infers = any("of its calls of a module, the first is that run" in note for note in rec.notes)
    assert infers
    assert calls == [f"0#{number}" for number in range(5)]


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    """What two stages in two processes have seen, of which this one is the first."""
    folder = tmp_path_factory.mktemp("stages")
    second = prepared.start(DISTRIBUTED, "-W", "default", pipeline_processes.__file__, folder)
    first = pipeline_processes.stage(0, str(folder))
    ended = second.ended()
    assert ended.returncode == 0, ended.stderr
    return [first, json.loads(Path(folder, "second.json").read_text())]


def test_each_process_names_the_calls_of_its_own_stage(stages):
    first, second = (seen["statuses"] for seen in stages)
    calls = range(1 + pipeline_processes.MICROBATCHES)
    assert [name for name in first if "#" in name] == [f"{at}#{number}" for number in calls for at in (0, 1)]
    assert [name for name in second if name.startswith("0#")] == [f"0#{number}" for number in calls]
    for statuses in (first, second):  # the first call is that which infers shapes, and what it takes a gradient of
        assert {name: status for name, status in statuses.items() if status != "ok"} == {
            name: statuses[name] if FORWARD_ALONE and statuses[name] in ("no_grad", "frozen") else "not_connected"
            for name in statuses
            if name == "grad()" or (name.endswith("#0") and not name.startswith("backward"))
        }


def test_each_process_says_what_the_schedule_does_besides(stages):
    for seen in stages:
        assert [note.partition(":")[0] for note in seen["notes"]] == [
            "the pipeline schedule ran each stage once more, to infer shapes",
            *(["the pipeline schedule divided .grad by 4 after backward()"] if DIVIDES else []),
        ]
        assert seen["explained"] is not False and seen["health"] is not False


def test_gradients_over_processes_are_those_of_the_whole_model(stages):
    whole = torch.nn.Sequential(*pipeline_processes.parts())
    x, target = pipeline_processes.batch()
    pipeline_processes.LOSS(whole(x), target).backward()
    for part, seen in zip(whole, stages, strict=True):
        for name, parameter in part.named_parameters():
            mean = parameter.grad if DIVIDES else 4 * parameter.grad
            assert torch.allclose(torch.tensor(seen["grads"][name]), mean, atol=1e-6)
            assert torch.allclose(torch.tensor(seen["entries"][name]), 4 * parameter.grad, atol=1e-6)
