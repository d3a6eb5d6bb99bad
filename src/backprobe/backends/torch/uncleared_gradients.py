"""Finds gradients that are added to those of the previous step, because the program did not clear them.

At the end of a step each ``.grad`` is remembered by id and version. If it is unchanged when a pass of ``backward()``
starts, and changed when the pass ends, the pass has added to it. This does not count if the gradient is cleared before
its optimizer steps, for example that of a GAN's critic, to which the generator's loss has added. Any other change of a
gradient between two passes counts as clearing; clipping and unscaling happen only after the last pass.
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
"""The id and version of a gradient."""
FEW = 3  # the most gradients whose numbers are compared, because ``.grad.data.zero_()`` does not change the version


class UnclearedGradients:
    """The gradients that a training did not clear between one step and the next."""

    def __init__(self) -> None:
        self.left: dict[Tensor, State] = {}  # by parameter: the gradients that the previous step left
        self.found: dict[Tensor, State] = {}  # the gradients to which a pass has added

    def step_ended(self, parameters: Iterable[Tensor]) -> None:
        """Remember the gradients of these parameters, with which the next step will start."""
        states = [(one, _state(one)) for one in parameters]
        self.left = {one: state for one, state in states if state is not None}
        self.found = {}

    def pass_began(self) -> None:
        """Forget the gradients that have changed since the last pass. A pass of ``backward()`` is about to start."""
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
        """Return the number of parameters whose gradients include those of the previous step when the step ends."""
        states = [(_state(one), known) for one, known in self.found.items()]
        return sum(state is not None and state[0] == known[0] for state, known in states)


def _state(parameter: Tensor) -> State | None:
    gradient = grad_of(parameter)
    return None if gradient is None else (id(gradient), version(gradient))


def _are_zero(parameters: Iterable[Tensor]) -> bool:
    # Are the gradients 0? Only the smallest ones are read. They may have been cleared in a way that leaves the version
    # unchanged.
    smallest = sorted(parameters, key=lambda one: one.numel())[:FEW]
    gradients = [gradient for one in smallest if (gradient := grad_of(one)) is not None and not gradient.is_sparse]
    with quiet(), torch.no_grad():
        return bool(gradients) and not any(bool(gradient.any()) for gradient in gradients)
