"""Trainings that are data alone: a model, its data and how it is trained, and which alerts name its fault.

Each fault is there from the first step, and is found if an alert of a kind that names its symptom comes in the first
tenth of the training; a healthy training should have no alert at all. ``python tests/alerts_page.py`` runs all of them
and writes the tables of docs/alerts.md. ``family`` gives them the shape that all families have.
"""

import math
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from small_models import blobs, cross_entropy, mlp
from trainings.planted import Fault
from watched import ALL

KINDS = {
    "NaN in step 6": "not_finite",
    "a branch that is detached": "detached",
    "a layer of zeros": "dead",
    "a part that is not trained": "left_out",
    "a recurrent cell that explodes": "exploding",
    "a stack of sigmoids": "vanishing",
    "clipping to almost nothing": "stagnation",
    "dead ReLUs": "dead",
    "initialisation × 0.01": "vanishing",
    "initialisation × 20": "exploding",
    "initialisation × 50": "exploding",
    "inputs that are not scaled": "unscaled",
    "labels of other inputs": "unlearnable",
    "learning rate / 1000": "stagnation",
    "learning rate × 100": "too_fast",
    "residuals are missing": "vanishing",
    "sigmoids or tanhs one after another": "vanishing",
    "softmax twice": "softmax_twice",
    "underflow in float16": "underflow",
    "weight decay of 10": "decay",
    "zero_grad is missing": "accumulated",
}
"""What ``planted`` calls these faults."""


def adam(lr=3e-3, **settings):
    return lambda parameters: torch.optim.Adam(parameters, lr=lr, **settings)


def adamw(lr=3e-3, **settings):
    return lambda parameters: torch.optim.AdamW(parameters, lr=lr, **settings)


def sgd(lr=0.1, **settings):
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, **settings)


def supervised(training, model, optimizer, watched):
    """Inputs and labels, a loss, its gradients and a step."""
    schedule = training.schedule(optimizer) if training.schedule else None
    size = {} if training.batch is None else {"size": training.batch}
    for x, y in training.data(training.until or training.steps, **size):
        x, y = training.inputs(x), training.labels(y)
        for part, labels in zip(x.chunk(training.micro), y.chunk(training.micro), strict=True):
            with torch.autocast("cpu", torch.bfloat16) if training.autocast else nullcontext():
                loss = training.objective(training, model, part, labels) / training.micro
            loss.backward()
            watched.log(loss=loss * training.micro)
        if training.clip:
            nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        if schedule:
            schedule.step()
        if training.clears:
            optimizer.zero_grad()


def of_result(training, model, x, labels):
    return training.loss(model(x), labels)


@dataclass(frozen=True)
class Training:
    """A model, its data, and how it is trained; ``fault`` is what is wrong, and ``kinds`` are the alerts of it."""

    name: str
    model: Callable[[], nn.Module]
    data: Callable[..., Any] = blobs
    optimizer: Callable[..., Any] = field(default_factory=adam)
    fault: str = ""
    kinds: tuple[str, ...] = ()
    steps: int = 100
    loss: Callable[..., Any] = cross_entropy
    schedule: Callable[..., Any] | None = None
    trained: Callable[[nn.Module], Any] = nn.Module.parameters
    inputs: Callable[[Any], Any] = lambda x: x
    labels: Callable[[Any], Any] = lambda y: y
    clears: bool = True
    clip: float | None = None
    micro: int = 1
    autocast: bool = False
    batch: int | None = None
    objective: Callable[..., Any] = of_result
    loop: Callable[..., Any] = supervised
    options: dict[str, Any] = field(default_factory=dict)  # of the watch
    until: int | None = None  # so many steps of it are run: what is alerted in a step follows from those before it

    @property
    def tenth(self):
        return self.steps // 10


def run(training, folder, seed=0, **options):
    """Train it, watched; its run."""
    torch.manual_seed(seed)
    model = training.model()
    optimizer = training.optimizer(training.trained(model))
    with bp.watch(model, folder, optimizer=optimizer, **{"what": ALL, **training.options, **options}) as watched:
        training.loop(training, model, optimizer, watched)
    return bp.open_run(folder)


def alerts(training, **options):
    """The alerts of its run."""
    with tempfile.TemporaryDirectory() as folder, run(training, folder, **options) as opened:
        return opened.alerts


def is_found(training, report):
    """Does an alert say in the first tenth what is wrong?"""
    return any(one.kind in training.kinds and one.step < training.tenth for one in report.findings)


@dataclass(frozen=True)
class Seeded:
    """A training of a seed, as those of other families are run."""

    training: Training
    seed: int
    begun: ClassVar[int] = 0  # the step of the run in which the fault was planted

    @property
    def steps(self):
        return self.training.steps

    def run(self, folder, steps, fault=None):
        """Train for some steps, watched; the losses, or what is logged in their place."""
        until = min(steps, self.training.until or steps)
        with run(replace(self.training, until=until), folder, self.seed) as opened:
            names = [name for name in opened.names if name.startswith(("loss", "reward"))]
            return opened.series(names[0], "logged")[1].tolist()


def family(faulty, healthy):
    """Healthy and faulty settings by name, and what makes one of a seed."""
    settings = {one.name: {"training": one, "fault": Fault(KINDS[one.fault], 0, one.steps)} for one in faulty}
    return {one.name: {"training": one} for one in healthy}, settings, lambda seed, training: Seeded(training, seed)


# faults

VANISHING, EXPLODING = ("vanishing", "small_weights"), ("exploding", "saturated", "large_weights")
TOO_FAST = ("large_updates", "rising_loss", "nonfinite", "dead", "oscillating_loss")
TOO_SLOW = ("small_updates", "flat_loss")
LONG = {"steps": 1000, "until": 100}
"""Of a flat loss it takes a hundred steps to be sure."""


def planted(fault, kinds, *trainings):
    return [Training(f"{fault}: {name}", model, fault=fault, kinds=kinds, **given) for name, model, given in trainings]


def dead(model, *biases):
    """Biases that no input comes over."""
    with torch.no_grad():
        for name, one in model.named_parameters():
            if name in biases:
                one.fill_(-20.0)
    return model


def but(model, name):
    """All parameters but those of one part."""
    return [one for path, one in model.named_parameters() if not path.startswith(name)]


def groups(model, name):
    """A part with a learning rate of zero, as after a scheduler's mistake."""
    part = [one for path, one in model.named_parameters() if path.startswith(name)]
    return [{"params": but(model, name)}, {"params": part, "lr": 0.0}]


def replaced(model):
    """An optimizer that was made before a part of the model was exchanged."""
    old = list(model.parameters())
    model[2] = nn.Linear(32, 32)
    return old


def shuffled(labels):
    return labels[torch.randperm(len(labels))]


def tanh_mlp():
    return mlp(act=nn.Tanh)


def warm(steps, total=None):
    """Linear warm-up, then constant, or a cosine down to zero."""

    def factor(at):
        if at < steps:
            return at / steps
        return 1.0 if total is None else 0.5 * (1 + math.cos(math.pi * (at - steps) / max(1, total - steps)))

    return lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def pretrained(model, data, steps=150, loss=cross_entropy):
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for x, y in data(steps, seed=0):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    return model


def mean_square(found, wanted):
    return F.mse_loss(found, wanted)
