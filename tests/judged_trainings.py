"""Small trainings with a fault planted, and as many healthy ones: what the alerts of a run are judged on.

Each fault is planted in several models. A fault is found if an alert of a kind that names its symptom comes within the
first tenth of the training; a healthy training should have no alert at all. ``python tests/alerts_page.py`` runs all of
them and writes the table of docs/alerts.md.
"""

import math
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from small_models import (
    Autoencoder,
    Block,
    Branches,
    Lora,
    Recurrent,
    Residual,
    Transformer,
    Unrolled,
    blobs,
    cnn,
    cross_entropy,
    curve,
    images,
    mlp,
    scaled,
    sequences,
    texts,
)
from watched import ALL


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


def run(training, folder, **options):
    """Train it, watched; its run."""
    torch.manual_seed(0)
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
    return any(one.kind in training.kinds and one.step <= training.tenth for one in report.findings)


# faults

VANISHING, EXPLODING = ("vanishing", "small_weights"), ("exploding", "saturated", "large_weights")
TOO_FAST = ("large_updates", "rising_loss", "nonfinite", "dead", "oscillating_loss")
TOO_SLOW = ("small_updates", "flat_loss")
LONG = {"steps": 1000, "until": 101}
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


FAULTS = [
    *planted("initialisation × 0.01", VANISHING,
        ("MLP", lambda: scaled(mlp(), 0.01), {}),
        ("deep MLP", lambda: scaled(mlp(6), 0.01), {"optimizer": sgd()}),
        ("tanh", lambda: scaled(mlp(4, nn.Tanh), 0.01), {"steps": 60}),
        ("CNN", lambda: scaled(cnn(), 0.01), {"data": images, "optimizer": sgd()}),
        ("RNN", lambda: scaled(Unrolled(), 0.01), {"data": sequences, "optimizer": sgd()})),
    *planted("initialisation × 20", EXPLODING,
        ("MLP", lambda: scaled(mlp(4), 20), {}),
        ("tanh", lambda: scaled(mlp(4, nn.Tanh), 20), {}),
        ("CNN", lambda: scaled(cnn(), 20), {"data": images}),
        ("RNN", lambda: scaled(Unrolled(), 20), {"data": sequences, "steps": 60})),
    *planted("a stack of sigmoids", VANISHING,
        ("6 layers", lambda: mlp(6, nn.Sigmoid), {}),
        ("10 layers", lambda: mlp(10, nn.Sigmoid), {"optimizer": sgd()}),
        ("RNN", lambda: Unrolled(act=torch.sigmoid), {"data": sequences, "steps": 60})),
    *planted("learning rate × 100", TOO_FAST,
        ("MLP, Adam", mlp, {"optimizer": adam(0.3)}),
        ("MLP, SGD", mlp, {"optimizer": sgd(10.0)}),
        ("tanh, SGD", tanh_mlp, {"optimizer": sgd(10.0), "steps": 60}),
        ("CNN, SGD", cnn, {"data": images, "optimizer": sgd(10.0)}),
        ("GRU, Adam", Recurrent, {"data": sequences, "optimizer": adam(0.3)}),
        ("transformer, Adam", Transformer, {"data": texts, "optimizer": adam(0.3)})),
    *planted("learning rate / 1000", TOO_SLOW,
        ("MLP, Adam", mlp, {"optimizer": adam(3e-6), "steps": 200}),
        ("MLP, SGD", mlp, {"optimizer": sgd(1e-4), "steps": 200}),
        ("CNN, SGD", cnn, {"data": images, "optimizer": sgd(1e-4), "steps": 200}),
        ("transformer, Adam", Transformer, {"data": texts, "optimizer": adam(3e-6), "steps": 200})),
    *planted("dead ReLUs", ("dead",),
        ("first layer", lambda: dead(mlp(), "0.bias"), {}),
        ("all layers", lambda: dead(mlp(), "0.bias", "2.bias", "4.bias"), {"steps": 60}),
        ("CNN", lambda: dead(cnn(), "2.bias"), {"data": images, "optimizer": sgd()}),
        ("transformer", lambda: dead(Transformer(act=nn.ReLU), "blocks.1.mlp.0.bias"), {"data": texts})),
    *planted("a part that is not trained", ("left_out", "unchanged"),
        ("MLP, left out", mlp, {"trained": lambda model: but(model, "0.")}),
        ("MLP, exchanged", mlp, {"trained": replaced}),
        ("CNN, rate 0", cnn, {"data": images, "trained": lambda model: groups(model, "0.")}),
        ("transformer, left out", Transformer, {"data": texts, "trained": lambda model: but(model, "blocks.0.")})),
    *planted("zero_grad is missing", ("accumulated",),
        ("MLP", mlp, {"clears": False}),
        ("CNN", cnn, {"data": images, "clears": False, "optimizer": sgd(0.02)}),
        ("transformer", Transformer, {"data": texts, "clears": False, "steps": 60}),
        ("micro-batches", lambda: mlp(norm=nn.LayerNorm), {"clears": False, "micro": 2})),
    *planted("labels of other inputs", ("flat_loss",),
        ("MLP", mlp, {**LONG, "labels": shuffled, "batch": 256}),
        ("tanh", tanh_mlp, {**LONG, "labels": shuffled, "batch": 256, "optimizer": sgd(0.1, momentum=0.9)}),
        ("CNN", cnn, {**LONG, "data": images, "labels": shuffled, "batch": 128}),
        ("GRU", Recurrent, {**LONG, "data": sequences, "labels": shuffled, "batch": 256})),
    *planted("inputs that are not scaled", ("large_values",),
        ("MLP × 255", mlp, {"inputs": lambda x: 255 * x}),
        ("tanh × 1000", tanh_mlp, {"inputs": lambda x: 1000 * x, "steps": 60}),
        ("pixels", cnn, {"data": images, "inputs": lambda x: (127 + 64 * x).clamp(0, 255)})),
    *planted("a branch that is detached", ("no_gradient",),
        ("detach", lambda: Branches("detach"), {}),
        ("CNN", lambda: Branches("detach", lambda: nn.Sequential(nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3),
                                                                 nn.ReLU(), nn.Flatten(), nn.Linear(32, 16))), {}),
        ("no_grad", lambda: Branches("no_grad"), {"steps": 200})),
]  # fmt: skip


# healthy


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


def lora():
    model = pretrained(mlp(3, nn.GELU, 64), lambda count, seed: blobs(count, seed=5))
    for at in (2, 4):
        model[at] = Lora(model[at])
    for name, one in model.named_parameters():
        one.requires_grad_("up" in name or "down" in name or name.startswith("6."))
    return model


def frozen():
    model = pretrained(mlp(3, nn.ReLU, 64), lambda count, seed: blobs(count, seed=5))
    for name, one in model.named_parameters():
        one.requires_grad_(name.startswith("6."))
    return model


def mean_square(found, wanted):
    return F.mse_loss(found, wanted)


def rebuilt(found, _):
    return F.mse_loss(found[0], rebuilt.inputs) + 0.01 * (found[1] ** 2 + found[2].exp() - found[2] - 1).mean()


def kept(x):
    rebuilt.inputs = x
    return x


def binary(found, labels):
    return F.binary_cross_entropy(found[:, 0], (labels % 2).float())


HEALTHY = [
    Training(name, model, **given) for name, model, given in [
        ("MLP, Adam", mlp, {}),
        ("MLP, SGD", mlp, {"optimizer": sgd(), "steps": 200}),
        ("MLP, momentum", mlp, {"optimizer": sgd(0.05, momentum=0.9)}),
        ("MLP, RMSprop", mlp, {"optimizer": lambda given: torch.optim.RMSprop(given, lr=1e-3)}),
        ("MLP, Adam 0.01", mlp, {"optimizer": adam(1e-2)}),
        ("MLP, dropout", lambda: mlp(dropout=0.5, width=64), {"steps": 200}),
        ("MLP, BatchNorm", lambda: mlp(norm=nn.BatchNorm1d), {}),
        ("MLP, LayerNorm", lambda: mlp(4, norm=nn.LayerNorm), {"optimizer": sgd()}),
        ("MLP, tanh", tanh_mlp, {}),
        ("MLP, GELU", lambda: mlp(4, nn.GELU), {}),
        ("MLP, SiLU", lambda: mlp(3, nn.SiLU), {"optimizer": sgd(0.3)}),
        ("MLP, LeakyReLU", lambda: mlp(3, nn.LeakyReLU), {"steps": 60}),
        ("MLP, one sigmoid", lambda: mlp(1, nn.Sigmoid), {"optimizer": adam(1e-2)}),
        ("MLP, two sigmoids", lambda: mlp(2, nn.Sigmoid), {"optimizer": adam(1e-2), "steps": 200}),
        ("MLP, warm-up", mlp, {"schedule": warm(20), "steps": 200}),
        ("MLP, warm-up and cosine", mlp, {"schedule": warm(10, 200), "steps": 200}),
        ("MLP, clipped", mlp, {"clip": 0.1, "optimizer": sgd(0.5)}),
        ("MLP, weight decay", mlp, {"optimizer": adamw(weight_decay=0.1)}),
        ("MLP, micro-batches", mlp, {"micro": 4}),
        ("MLP, bfloat16", mlp, {"autocast": True}),
        ("MLP, small batches", mlp, {"batch": 8, "optimizer": sgd(0.02), "steps": 200}),
        ("MLP, probabilities", lambda: nn.Sequential(*mlp(2, out=1), nn.Sigmoid()), {"loss": binary, "steps": 200}),
        ("MLP, long", mlp, {"steps": 400, "optimizer": adam(1e-2)}),
        ("residual, from zero", Residual, {"steps": 150}),
        ("residual", lambda: Residual(zero=False), {"schedule": warm(10, 150), "steps": 150}),
        ("CNN, Adam", cnn, {"data": images}),
        ("CNN, BatchNorm", lambda: cnn(norm=True), {"data": images, "optimizer": sgd(0.05, momentum=0.9)}),
        ("CNN, GroupNorm", lambda: cnn(group=True, act=nn.SiLU), {"data": images, "schedule": warm(10, 100)}),
        ("GRU", Recurrent, {"data": sequences}),
        ("LSTM", lambda: Recurrent(nn.LSTM), {"data": sequences, "optimizer": adam(1e-2), "clip": 1.0}),
        ("RNN", lambda: Recurrent(nn.RNN), {"data": sequences, "optimizer": sgd()}),
        ("RNN, unrolled", Unrolled, {"data": sequences}),
        ("transformer", Transformer, {"data": texts}),
        ("transformer, warm-up", Transformer, {"data": texts, "schedule": warm(20, 200), "steps": 200}),
        ("transformer, norm after", lambda: Transformer(2, first=False), {"data": texts, "optimizer": adam(1e-3)}),
        ("transformer, dropout", lambda: Transformer(dropout=0.1), {"data": texts, "clip": 1.0}),
        ("transformer, tied", lambda: Transformer(tied=True), {"data": texts, "optimizer": adamw()}),
        ("transformer, ReLU", lambda: Transformer(act=nn.ReLU), {"data": texts, "steps": 60}),
        ("LoRA", lora, {"trained": lambda model: [one for one in model.parameters() if one.requires_grad]}),
        ("LoRA, all in the optimizer", lora, {"schedule": warm(10)}),
        ("head on a frozen part", frozen, {"optimizer": adam(1e-3)}),
        ("fine-tuning", lambda: pretrained(mlp(), lambda count, seed: blobs(count, seed=5)), {"optimizer": adam(3e-4)}),
        ("regression", lambda: mlp(out=1), {"data": curve, "loss": mean_square}),
        ("regression, tanh", lambda: mlp(act=nn.Tanh, out=1), {"data": curve, "loss": mean_square, "optimizer": sgd()}),
        ("autoencoder", Autoencoder, {"loss": rebuilt, "inputs": kept, "steps": 150}),
        ("variational autoencoder", lambda: Autoencoder(True), {"loss": rebuilt, "inputs": kept, "steps": 150}),
        ("branches", Branches, {}),
    ]
]  # fmt: skip

__all__ = ["FAULTS", "HEALTHY", "Block", "Training", "alerts", "is_found", "run"]
