"""Histograms of gradients: TensorBoard's, and those of wandb.watch, which runs offline."""

import os

import wandb
from pairs import Pair
from small import given as small
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

TITLE, NAME = "TensorBoard, wandb.watch", "tensorboard"
os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
OURS = """\
with bp.watch(model, f"{folder}/run", optimizer=optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
run = bp.open_run(f"{folder}/run")
"""


def given():
    return small() | {"wandb": wandb, "SummaryWriter": SummaryWriter, "EventAccumulator": EventAccumulator}


PAIRS = [
    Pair(
        "least and greatest gradients of each parameter, step by step, in TensorBoard",
        """\
with SummaryWriter(f"{folder}/logs") as writer:
    for step in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        for name, p in model.named_parameters():
            writer.add_histogram(f"grads/{name}", p.grad, step)
        optimizer.step()
events = EventAccumulator(f"{folder}/logs", {"histograms": 0})
events.Reload()
[[one.histogram_value.min, one.histogram_value.max] for one in events.Histograms("grads/first.weight")]
""",
        OURS
        + """\
[[run.at(step)["first.weight"]["grad.min"], run.at(step)["first.weight"]["grad.max"]] for step in range(3)]
""",
        "and activations, alerts and the optimizer's step",
    ),
    Pair(
        "how many numbers of a gradient were counted by wandb.watch",
        """\
with wandb.init(project="p", dir=folder) as run:
    run.watch(model, log="gradients", log_freq=1, idx=0)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        run.log({})
    found = sum(run.summary["gradients/first.weight"]["values"])
found
""",
        OURS
        + """\
run.at(2)["first.weight"]["grad.count"]
""",
    ),
    Pair(
        "the range of a weight, step by step, in TensorBoard",
        """\
with SummaryWriter(f"{folder}/logs") as writer:
    for step in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        writer.add_histogram("first.weight", model.first.weight, step)
events = EventAccumulator(f"{folder}/logs", {"histograms": 0})
events.Reload()
[one.histogram_value.max for one in events.Histograms("first.weight")]
""",
        OURS + '[run.at(step)["first.weight"]["param.max"] for step in range(3)]\n',
    ),
    Pair(
        "the norm of the gradient of each parameter, in TensorBoard",
        """\
with SummaryWriter(f"{folder}/logs") as writer:
    for step in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        for name, p in model.named_parameters():
            writer.add_scalar(f"norm/{name}", p.grad.norm() / p.numel() ** 0.5, step)
        optimizer.step()
events = EventAccumulator(f"{folder}/logs")
events.Reload()
[one.value for one in events.Scalars("norm/second.weight")]
""",
        OURS + '[run.at(step)["second.weight"]["grad.rms"] for step in range(3)]\n',
    ),
    Pair(
        "the greatest activation of a layer, in TensorBoard",
        """\
with SummaryWriter(f"{folder}/logs") as writer:
    for step in range(3):
        hook = lambda module, args, out: writer.add_scalar("first", out.max(), step)
        handle = model.first.register_forward_hook(hook)
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        handle.remove()
events = EventAccumulator(f"{folder}/logs")
events.Reload()
[one.value for one in events.Scalars("first")]
""",
        OURS + '[run.at(step)["first"]["value.max"] for step in range(3)]\n',
    ),
    Pair(
        "the loss, in TensorBoard",
        """\
with SummaryWriter(f"{folder}/logs") as writer:
    for step in range(3):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        writer.add_scalar("loss", loss, step)
        optimizer.step()
events = EventAccumulator(f"{folder}/logs")
events.Reload()
[one.value for one in events.Scalars("loss")]
""",
        """\
with bp.watch(model, f"{folder}/run", optimizer=optimizer) as watch:
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        watch.log(loss=loss)
        optimizer.step()
run = bp.open_run(f"{folder}/run")
[run.at(step)["loss"]["logged"] for step in range(3)]
""",
        "of the loss alone TensorBoard's is as long; a run can also be sent there: `run.export`",
    ),
    Pair(
        "the least gradient of a weight in the last step, in wandb.watch",
        """\
with wandb.init(project="p", dir=folder) as run:
    run.watch(model, log="gradients", log_freq=1, idx=0)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        run.log({})
    found = run.summary["gradients/first.weight"]["bins"][0]
found
""",
        OURS + 'run.at(2)["first.weight"]["grad.min"]\n',
    ),
    Pair(
        "the greatest number of a bias in the last step, in wandb.watch",
        """\
with wandb.init(project="p", dir=folder) as run:
    run.watch(model, log="parameters", log_freq=1, idx=0)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        run.log({})
    found = run.summary["parameters/second.bias"]["bins"][-1]
found
""",
        OURS + 'run.at(1)["second.bias"]["param.max"]\n',
        "wandb.watch looks when the model runs forward, before the step; ours after it",
    ),
    Pair(
        "how many gradients of a weight are zero, in wandb.watch",
        """\
nn.init.zeros_(model.second.weight)
with wandb.init(project="p", dir=folder) as run:
    run.watch(model, log="gradients", log_freq=1, idx=0)
    model(x).square().sum().backward()
    run.log({})
    found = sum(run.summary["gradients/first.weight"]["values"])
found
""",
        """\
nn.init.zeros_(model.second.weight)
with bp.watch(model, f"{folder}/run") as watch:
    model(x).square().sum().backward()
    watch.step()
run = bp.open_run(f"{folder}/run")
run.at(0)["first.weight"]["grad.zeros"]
""",
    ),
    Pair(
        "the names of what was watched by wandb.watch",
        """\
with wandb.init(project="p", dir=folder) as run:
    run.watch(model, log="gradients", log_freq=1, idx=0)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        run.log({})
    found = sorted(name.removeprefix("gradients/") for name in run.summary.keys() if name.startswith("gradients/"))
found
""",
        OURS + "sorted(name for name in run.at(2) if name in dict(model.named_parameters()))\n",
        "ours has the layers' outputs beside them",
    ),
]
