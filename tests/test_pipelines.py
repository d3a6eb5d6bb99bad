"""Pipeline schedules: what they do beside the program is said in a note."""

import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.pipelining import (
    PipelineStage,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
    stage,
)
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime as Runtime

import backprobe as bp
import pipeline_processes
import prepared
from commands import DISTRIBUTED

DIVIDES = hasattr(stage._PipelineStageBase, "scale_grads")
"""Does a schedule divide gradients by the number of its parts? Older releases leave that to the loss."""
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
    infers = any("to infer shapes: that run was left out" in note for note in rec.notes)
    assert infers
    assert calls == [f"0#{number}" for number in range(4)]


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
    calls = range(pipeline_processes.MICROBATCHES)
    assert [name for name in first if "#" in name] == [f"{at}#{number}" for number in calls for at in (0, 1)]
    assert [name for name in second if name.startswith("0#")] == [f"0#{number}" for number in calls]
    assert {*first.values(), *second.values()} == {"ok"}  # without the run that infers shapes


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


@pytest.fixture
def nan_memory():
    """Memory that nothing was written to holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def two_parts(schedule_of=ScheduleInterleaved1F1B):
    torch.manual_seed(0)
    model = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 2)])
    stages = [pipeline_processes.part_of_two(part, at) for at, part in enumerate(model)]
    return model, schedule_in_one_process(schedule_of, stages)


def schedule_in_one_process(schedule_of, stages):
    """A schedule, or in older releases the runtime that follows its plan: what a stage computed is then given to one of
    the same process. Schedules that are no runtime send it to the process itself, which gloo refuses.
    """
    schedule = schedule_of(stages, 2, loss_fn=torch.nn.functional.mse_loss)
    if isinstance(schedule, Runtime):
        return schedule
    runtime = Runtime(stages, 2, loss_fn=torch.nn.functional.mse_loss)
    take = getattr(runtime, "_prepare_schedule_with_comms", None) or runtime._load_actions
    take(schedule.pipeline_order)
    return runtime


def given():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, 3, generator=generator), torch.randn(4, 2, generator=generator)


def test_a_run_on_memory_without_numbers_is_no_call_of_the_program(alone, nan_memory):
    model, schedule = two_parts()
    x, target = given()
    with bp.probe(model, nonfinite=True) as rec:
        schedule.step(x, target=target)
    assert [name for name in rec if name.startswith("1#")] == ["1#0", "1#1"]
    assert all(entry.value.isfinite().all() for entry in rec.values()) and bp.explain(rec).ok
    assert any("that run was left out" in note for note in rec.notes)


def test_locals_of_a_run_on_memory_without_numbers(alone, nan_memory):
    class Part(torch.nn.Linear):
        def forward(self, x):
            product = super().forward(x)
            return product.tanh()

    torch.manual_seed(0)
    model = torch.nn.ModuleList([Part(3, 3), Part(3, 2)])
    stages = [pipeline_processes.part_of_two(part, at) for at, part in enumerate(model)]
    schedule = schedule_in_one_process(ScheduleInterleaved1F1B, stages)
    x, target = given()
    with bp.probe(model, "*:product") as rec:
        schedule.step(x, target=target)
    names = [name for name in rec if name.endswith(":product")]
    assert sorted(names) == ["0#0:product", "0#1:product", "1#0:product", "1#1:product"]
    assert all(rec[name].value.isfinite().all() and rec[name].status == "ok" for name in names)


def test_a_guard_does_not_stop_at_memory_without_numbers(alone, nan_memory):
    model, schedule = two_parts()
    x, target = given()
    with bp.guard(model):
        schedule.step(x, target=target)
    assert model[0].weight.grad.isfinite().all()


def test_a_watch_has_no_row_of_memory_without_numbers(alone, nan_memory, tmp_path):
    model, schedule = two_parts()
    x, target = given()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bp.watch(model, tmp_path / "run", optimizer=optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            schedule.step(x, target=target)
            optimizer.step()
    run = bp.open_run(tmp_path / "run")
    assert {run.at(step)["1"]["value.nan"] for step in range(3)} == {0} and not run.alerts


@pytest.mark.parametrize("kind", [ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble])
def test_gradients_of_weights_in_passes_of_their_own_are_summed(alone, kind):
    model, schedule = two_parts(kind)
    x, target = given()
    for _ in range(2):
        model.zero_grad()
        with bp.probe(model) as rec:
            schedule.step(x, target=target)
        is_divided = any(note.startswith("the pipeline schedule divided .grad by 2") for note in rec.notes)
        mine = {name: (2 if is_divided else 1) * parameter.grad for name, parameter in model.named_parameters()}
        whole = torch.nn.Sequential(*model)
        with bp.probe(whole) as plain:
            sum(torch.nn.functional.mse_loss(whole(a), b) for a, b in zip(x.chunk(2), target.chunk(2))).backward()
        assert all(torch.allclose(rec[name].grad, grad) for name, grad in mine.items())
        assert all(torch.allclose(rec[name].grad, plain[name].grad) for name in (*mine, "0#0", "0#1", "1#0", "1#1"))
        assert bp.explain(rec).ok and "grad()" not in rec.output_keys


def test_a_watch_over_passes_of_their_own_for_weights(alone, tmp_path):
    model, schedule = two_parts(ScheduleZBVZeroBubble)
    x, target = given()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    grads = []
    with bp.watch(model, tmp_path / "run", optimizer=optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            schedule.step(x, target=target)
            grads.append([p.grad.square().mean().sqrt().item() for p in model.parameters()])
            optimizer.step()
    run = bp.open_run(tmp_path / "run")
    for step, right in enumerate(grads):
        found = [run.at(step)[name]["grad.rms"] for name, _ in model.named_parameters()]
        assert found == pytest.approx(right, rel=1e-5)
    assert {run.at(step)["1"]["grad.count"] for step in range(3)} == {4 * 2}
