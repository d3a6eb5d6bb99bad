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
    run.watch(model, log="gradients", log_freq=1)
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
]
