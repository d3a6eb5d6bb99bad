"""Steps of an optimizer that change little or nothing: because updates are lost in the dtype's rounding, because no
parameter has a gradient other than 0, or because the learning rate is 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backprobe.backends.torch.capture import version
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.tensors import grad_of, is_plain
from backprobe.backends.useless import step_without_rate
from backprobe.backends.useless.steps import SampledStep, SampledSteps, spread
from backprobe.backends.user_lines import users_line
from backprobe.record.reasons import Note
from backprobe.record.source import Source


class TorchSteps(SampledSteps):
    """The steps of all optimizers of a PyTorch program."""

    def __init__(self) -> None:
        super().__init__()
        # set only while an optimizer steps that began without a nonzero gradient: each parameter, its version, and
        # some of its numbers
        self.as_it_was: dict[Optimizer, list[tuple[Tensor, int, Tensor | None]]] = {}
        self.before: dict[Optimizer, list[tuple[Tensor, Tensor, Tensor]]] = {}  # set only while an optimizer steps

        # by optimizer, the lines of its steps with a rate of 0, if its default is another; and optimizers with other
        # steps
        self.rates_of_zero: MutableMapping[Optimizer, list[Source | None]] = WeakKeyDictionary()
        self.with_a_rate: WeakSet[Optimizer] = WeakSet()

    def notes(self) -> Iterator[Note]:
        yield from super().notes()
        for optimizer, lines in self.rates_of_zero.items():
            if len(lines) > 1 and optimizer not in self.with_a_rate:
                yield step_without_rate(type(optimizer).__name__, len(lines), lines[-1])

    def listen(self) -> list[Any]:
        """Observe every step from now on, until the returned handles are removed."""
        return [register_optimizer_step_pre_hook(self._begin), register_optimizer_step_post_hook(self._end)]

    def _begin(self, optimizer: Optimizer, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        rates = [_rate(group) for group in optimizer.param_groups]
        if not any(rates) and _rate(optimizer.defaults):  # a rate that was given as 0 is meant to be
            self.rates_of_zero.setdefault(optimizer, []).append(users_line(sys._getframe(1)))
        else:
            self.with_a_rate.add(optimizer)
        if not all(rates):
            return
        sampled = [
            (parameter, _sample(parameter).clone(), _sample(gradient) != 0)
            for parameter in parameters(optimizer)
            if (gradient := grad_of(parameter)) is not None and is_plain(parameter) and is_plain(gradient)
        ]
        if sampled:
            self.before[optimizer] = sampled
        if not _is_fed(optimizer):
            self.as_it_was[optimizer] = [
                (one, version(one), _sample(one).clone() if is_plain(one) else None) for one in parameters(optimizer)
            ]

    def _end(self, optimizer: Optimizer, *_: Any) -> None:
        sampled, held = self.before.pop(optimizer, []), self.as_it_was.pop(optimizer, None)
        if held is None or _is_fed(optimizer) or not all(map(_is_same, held)):  # a closure may have run backward()
            self.fed.add(optimizer)
        else:
            self.without.setdefault(optimizer, []).append(users_line(sys._getframe(1)))
        if not sampled or torch.compiler.is_compiling():
            return
        moved = sum(int(((_sample(parameter) != was) & live).sum()) for parameter, was, live in sampled)
        count = sum(int(live.sum()) for _, _, live in sampled)
        rate = max(_rate(group) for group in optimizer.param_groups)
        dtype = str(sampled[0][0].dtype).removeprefix("torch.")
        self.made(optimizer, SampledStep(rate, moved, count, dtype, users_line(sys._getframe(1))))


def _is_fed(optimizer: Optimizer) -> bool:
    # Does any parameter have a gradient that is not 0?
    gradients = map(grad_of, parameters(optimizer))
    return any(one is not None and (not is_plain(one) or bool(one.any())) for one in gradients)


def _is_same(held: tuple[Tensor, int, Tensor | None]) -> bool:
    parameter, before, sample = held  # adding a gradient of 0 raises the version, so the sample decides
    return version(parameter) == before if sample is None else torch.equal(_sample(parameter), sample)


def _rate(group: dict[str, Any]) -> float:
    # Return the learning rate of a parameter group; 0 if it has no single one.
    rate = group.get("lr", 0.0)
    return float(rate) if isinstance(rate, int | float) or (isinstance(rate, Tensor) and rate.numel() == 1) else 0.0


def _sample(tensor: Tensor) -> Tensor:
    # Return some of the elements, spread over the whole tensor.
    flat = tensor.detach().flatten()
    return flat[spread(flat.numel())]
