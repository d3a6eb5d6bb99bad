"""Gradients that are there, and useless, in a PyTorch program: from shapes, numbers and the graph."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from backprobe.backends.call_sites import site_at, source_of
from backprobe.backends.torch import own_modes
from backprobe.backends.torch.backward_passes import BackwardCall, current_pass, is_wrapped
from backprobe.backends.torch.trained_names import TrainedNames
from backprobe.backends.torch.useless.operations import Operations
from backprobe.backends.torch.useless.passes import BY_CHANCE, Passes
from backprobe.backends.torch.useless.steps import Steps
from backprobe.backends.useless import (
    CANCELS,
    DROPPED,
    TWICE,
    UNNORMALISED,
    UselessGradients,
    of_operation,
    of_parameters,
    outer_product,
    step_without_effect,
)
from backprobe.record.reasons import Note


class TorchUselessGradients(UselessGradients):
    """PyTorch's ``UselessGradients``."""

    def __init__(self) -> None:
        self.operations, self.passes, self.steps = Operations(), Passes(), Steps()
        self.handles: list[Any] = []

    def listen(self) -> None:
        if torch._C._len_torch_dispatch_stack() == 0:  # else the program's own mode would see what this does
            mode: Any = self.operations  # it has no types
            mode.__enter__()
            own_modes.count += 1
        self.handles = [
            *self.steps.listen(), register_optimizer_step_pre_hook(self._pause),
            register_optimizer_step_post_hook(self._go_on),
        ]  # fmt: skip

    def _pause(self, *_: Any) -> None:
        self.operations.is_paused = True

    def _go_on(self, *_: Any) -> None:
        self.operations.is_paused = self.operations.failed is not None

    def stop(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if own_modes.count:
            _take_off(self.operations)
            own_modes.count -= 1
        self.operations, self.passes, self.steps = Operations(), Passes(), Steps()

    def begins(self, call: BackwardCall) -> None:
        """The program is about to run ``backward()`` or ``autograd.grad``."""
        if not (call.is_nested or call.is_batched) and current_pass() < 0 and not any(map(is_wrapped, call.roots)):
            self.passes.begins(call.nodes)

    def found(self, trained: Collection[Tensor], names: TrainedNames) -> Sequence[Note]:
        """The iteration is over: what was found in it, of the parameters that were to be trained."""
        numbers = self.passes.numbers
        found = [*self._of_operations(numbers), *self._of_parameters(trained, names), *self._of_steps()]
        self.operations.begin()
        return found

    def _of_operations(self, numbers: Collection[int]) -> Iterator[Note]:
        # Of those which the loss was computed by.
        seen, line = self.operations, self.operations.line
        for one in seen.shapes.found:
            if one.number in numbers and one.is_reduced and not one.is_used:
                yield outer_product(one.shapes, one.result, line(one.number))
        for number, applied in seen.distributions.twice.items():
            if number in numbers:
                yield of_operation(TWICE, line(number), applied=applied)
        for number in seen.distributions.unnormalised:
            if number in numbers:
                yield of_operation(UNNORMALISED, line(number))

        for at in seen.dropped:
            site = site_at(*at, ast.expr)
            if site is not None:
                place = source_of(at[0].co_filename, site.statement)
                yield of_operation(DROPPED, place, call=f"`{ast.unparse(site.node)}`")

    def _of_parameters(self, trained: Collection[Tensor], names: TrainedNames) -> Iterator[Note]:
        endings = self.passes.found()
        places: dict[Any, list[Tensor]] = defaultdict(list)
        for one in trained:
            each = endings.get(id(one), set())
            codes = {ending.code for ending in each}
            if not each or BY_CHANCE in codes or not (CANCELS in codes or self.passes.is_zero(one)):
                continue  # nothing arrives, and it is not known why
            code = CANCELS if CANCELS in codes else max(codes)
            first = max((ending for ending in each if ending.code == code), key=lambda ending: ending.number)
            places[code, first.operation, self.operations.line(first.number)].append(one)
        for (code, operation, line), those in places.items():
            yield of_parameters(code, [*map(names.of, those)], operation, line, self.passes.iterations)

    def _of_steps(self) -> Iterator[Note]:
        for optimizer, step in self.steps.without_effect():
            dtype = str(step.dtype).removeprefix("torch.")
            yield step_without_effect(type(optimizer).__name__, step.rate, dtype, step.share, step.at)


def _take_off(mode: TorchDispatchMode) -> None:
    # Also from below a mode that the program has entered and not left.
    above = []
    while torch._C._get_dispatch_stack_at(torch._C._len_torch_dispatch_stack() - 1) is not mode:
        above.append(_pop_mode())
    mode.__exit__(None, None, None)
    for one in reversed(above):
        _push_mode(one)
