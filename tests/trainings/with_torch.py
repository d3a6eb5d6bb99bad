"""A training in PyTorch: its parts, how faults are planted in it, and the loop that it is watched in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import backprobe as bp

WHAT = ("value", "grad", "param", "update")


@dataclass
class Training:
    """A model, its optimizers, a batch for each step, and the losses of a batch, one for each sample.

    ``turns`` takes their place where several optimizers take turns: for a step, pairs of an optimizer and a function
    that gives its loss. ``plant`` does what faults need that only the family knows, by kind. ``idle`` are optimizers
    whose step is forgotten.
    """

    model: nn.Module
    optimizers: list[torch.optim.Optimizer]
    batch: Callable[[int], tuple[torch.Tensor, ...]] = lambda step: ()
    each: Callable[..., torch.Tensor] | None = None
    steps: int = 200
    turns: Callable[[int], Any] | None = None
    schedulers: list[Any] = field(default_factory=list)
    clip: float = 0.0
    scaler: Any = None
    gather: int = 1
    after: Callable[[int], None] = lambda step: None
    plant: dict[str, Callable[[], None]] = field(default_factory=dict)
    start: int | None = None
    idle: tuple[torch.optim.Optimizer, ...] = ()
    begun: int = 0  # the step of the run in which the fault was planted

    def run(self, folder, steps, fault=None):
        """Train for some steps, watched; the losses."""
        given = {"scaler": self.scaler} if self.scaler else {}
        optimizer = self.optimizers if len(self.optimizers) > 1 else self.optimizers[0]
        kind, losses = "", []
        with bp.watch(self.model, folder, what=WHAT, optimizer=optimizer, start_step=self.start, **given) as run:
            for step in range(steps):
                if fault and step == fault.at:
                    kind, self.begun = fault.kind, run.current_step
                    self._begin(fault)
                losses.append(float(self._step(step, kind, fault)))
                run.log(loss=losses[-1])
        return losses

    def _begin(self, fault):
        if fault.kind in self.plant:
            self.plant[fault.kind]()
        elif fault.kind == "learning_rate":
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] *= fault.size

    def _step(self, step, kind, fault):
        turns = self.turns(step) if self.turns else [(self.optimizers[0], lambda: self._loss(step, kind, fault))]
        for optimizer, loss_of in turns:
            if kind != "accumulated" and step % self.gather == 0:
                optimizer.zero_grad()
            loss = loss_of()
            self._backward(loss, kind)
            if (step + 1) % self.gather == 0:
                self._update(optimizer, kind)
        for scheduler in self.schedulers:
            scheduler.step()
        self.after(step)
        return -loss.detach() if kind == "wrong_sign" else loss.detach()

    def _loss(self, step, kind, fault):
        batch = spoilt(self.batch(step), kind, fault)
        losses = self.each(*batch)
        if kind == "cancelling":
            signs = torch.ones(len(losses))
            signs[len(losses) // 2 :] = -1
            return (signs * losses).mean()
        loss = losses.mean() / self.gather
        return loss * torch.zeros(()).log() * 0 if kind == "not_finite" else loss

    def _backward(self, loss, kind):
        given = -loss if kind == "wrong_sign" else loss * 0 if kind == "zero_gradients" else loss
        (self.scaler.scale(given) if self.scaler else given).backward()

    def _update(self, optimizer, kind):
        if self.scaler:
            self.scaler.unscale_(optimizer)
        if self.clip:
            nn.utils.clip_grad_norm_([each for group in optimizer.param_groups for each in group["params"]], self.clip)
        if kind == "no_step" or any(optimizer is each for each in self.idle):
            return
        if self.scaler:
            self.scaler.step(optimizer)
            self.scaler.update()
        else:
            optimizer.step()


def spoilt(batch, kind, fault):
    """A batch with what a fault does to it."""
    if kind == "cancelling":
        return tuple(torch.cat([each, each]) for each in batch)
    if kind == "outlier":
        first = batch[0].clone()
        first[0] = first[0] * fault.size * 100
        return (first, *batch[1:])
    if kind == "wrong_labels":
        labels = batch[-1]
        return (*batch[:-1], (labels + 1) % 3 if labels.dtype == torch.long else 3.0 - labels)
    return batch


def optimizer_of(name, parameters, rate=None):
    """An optimizer by name, with a learning rate that suits it."""
    made = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=rate or 0.02),
        "momentum": lambda: torch.optim.SGD(parameters, lr=rate or 0.005, momentum=0.9),
        "adam": lambda: torch.optim.Adam(parameters, lr=rate or 3e-3),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=rate or 3e-3, weight_decay=0.01),
        "rmsprop": lambda: torch.optim.RMSprop(parameters, lr=rate or 1e-3),
        "adagrad": lambda: torch.optim.Adagrad(parameters, lr=rate or 0.03),
    }
    return made[name]()


def seeded(seed):
    """A generator, after the framework's own was seeded."""
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed + 1000)
