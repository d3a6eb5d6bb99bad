"""Trainings that are texts: explain, health and guard are asked of them as programs, and alerts of their runs."""

from dataclasses import dataclass

import torch

import backprobe as bp
from trainings.torch._texts import HEAD, TRAININGS
from trainings.with_torch import WHAT

HEALTHY = {name: {"name": name} for name in TRAININGS}
FAULTY = {}


@dataclass
class Text:
    """One of them, whose numbers are drawn anew for each seed."""

    name: str
    seed: int
    steps: int = 60
    begun: int = 0

    def run(self, folder, steps, fault=None):
        """Train for some steps, watched; the losses."""
        (made, step), known, losses = TRAININGS[self.name], {}, []
        exec(HEAD, known)
        torch.manual_seed(self.seed)
        exec(made, known)
        with bp.watch(known["model"], folder, what=WHAT, optimizer=known["opt"]) as run:
            for _ in range(steps):
                exec(step, known)
                losses.append(float(known["loss"]))
                run.log(loss=losses[-1])
        return losses


def make(seed, name):
    return Text(name, seed)
