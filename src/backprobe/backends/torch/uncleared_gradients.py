"""Gradients of a step that are added to those of the step before, because nobody has cleared these.

At the end of a step each ``.grad`` is remembered by its identity and version. One that is the same as a pass of
``backward()`` begins, and another as it ends, was added to. It does not count where it is cleared before its optimizer
steps, as that of a critic which the loss of a generator went through: whatever touches it between two passes clears
it, and clipping and unscaling come after the last.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from backprobe.backends.torch.capture import version
from backprobe.backends.torch.private import queue_callback
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.tensors import grad_of

State = tuple[int, int]
"""The identity and version of a gradient."""
FEW = 3  # gradients that are read: those that ``.grad.data.zero_()`` has cleared have no other version


class UnclearedGradients:
    """Those of one training, from step to step."""

    def __init__(self) -> None:
        self.left: dict[Tensor, State] = {}  # by parameter: what the step before has left
        self.found: dict[Tensor, State] = {}  # what has been added to that since then

    def step_ended(self, parameters: Iterable[Tensor]) -> None:
        """These are the parameters whose gradients are left to the next step."""
        states = [(one, _state(one)) for one in parameters]
        self.left = {one: state for one, state in states if state is not None}
        self.found = {}

    def pass_began(self) -> None:
        """A pass of ``backward()`` begins, and has added to nothing yet."""
        self.found = {one: state for one, state in self.found.items() if _state(one) == state}
        self.left = {one: state for one, state in self.left.items() if _state(one) == state}
        if self.left and _are_zero(self.left):
            self.left = {}
        if self.left or self.found:
            queue_callback(self._pass_ended)

    def _pass_ended(self) -> None:
        self.found = {one: state for one in self.found if (state := _state(one)) is not None}
        for one, before in [*self.left.items()]:
            state = _state(one)
            if state != before:
                del self.left[one]
                self.found |= {} if state is None else {one: state}

    def count(self) -> int:
        """Of how many parameters the gradients are sums, as the step ends."""
        states = [(_state(one), known) for one, known in self.found.items()]
        return sum(state is not None and state[0] == known[0] for state, known in states)


def _state(parameter: Tensor) -> State | None:
    gradient = grad_of(parameter)
    return None if gradient is None else (id(gradient), version(gradient))


def _are_zero(parameters: Iterable[Tensor]) -> bool:
    # Has it been cleared in a way that leaves no other version?
    smallest = sorted(parameters, key=lambda one: one.numel())[:FEW]
    gradients = [gradient for one in smallest if (gradient := grad_of(one)) is not None and not gradient.is_sparse]
    with quiet(), torch.no_grad():
        return bool(gradients) and not any(bool(gradient.any()) for gradient in gradients)
