"""Runs many samples together, with one gradient for each sample, by a framework's own vectorization."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Gradients = Mapping[str, Any]
"""By name: the gradients of many samples, stacked along the first axis."""


class SampleProgram(Protocol):
    """A program that runs on one sample, which it receives as a batch of size one."""

    @property
    def shifted(self) -> Mapping[str, Any]:
        """By name: the values for one sample. A shift of the same shape is added to each, and gradients are taken with
        respect to the shifts.
        """

    @property
    def variables(self) -> Mapping[str, Any]:
        """The values that are differentiated directly, by name."""

    def loss(self, sample: Sequence[Any], shifts: Mapping[str, Any]) -> Any:
        """Return the loss of a sample, with ``shifts`` added to the values."""

    def gradients(self, sample: Sequence[Any]) -> tuple[Any, Gradients]:
        """Return the loss of a sample and its gradients, computed by a probe."""


class Vectorized(Protocol):
    """Per-sample gradients in a framework, by the framework's own ``vmap``."""

    title: str
    """The name of the framework's vectorization."""

    replaces: bool = True
    """Are shifts added to values? Then the program must bind each of these values in a statement."""

    def inside(self, target: Any) -> Any:
        """Return the program in a form that a transformation can run."""
        return target

    @abstractmethod
    def gradients(self, program: SampleProgram, samples: Sequence[Any]) -> tuple[Any, Gradients]:
        """Return the losses and gradients of several samples, computed in one vectorized run."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Can the value hold the samples of a batch?"""

    @abstractmethod
    def tensor(self, value: Any) -> Any:
        """Return a NumPy array or a tensor of the framework as a tensor without a history."""

    @abstractmethod
    def stacked(self, tensors: Sequence[Any]) -> Any:
        """Return tensors of the same shape, stacked along a new first axis."""

    @abstractmethod
    def joined(self, tensors: Sequence[Any]) -> Any:
        """Return tensors joined along their first axis."""

    @abstractmethod
    def chosen(self, tensor: Any, at: Sequence[int]) -> Any:
        """Return the items of a tensor at these indices of the first axis."""

    @abstractmethod
    def norms(self, gradients: Any) -> Any:
        """Return the Euclidean norm for each sample, as a NumPy array. It is NaN or Inf if the gradient contains
        one.
        """

    @abstractmethod
    def dots(self, gradients: Any, other: Any) -> Any:
        """Return the inner product of each sample's gradient with one other gradient, as a NumPy array."""

    @abstractmethod
    def summed(self, gradients: Any, weights: Any) -> Any:
        """Return the weighted sum over the samples. ``weights`` is a NumPy array; samples with weight 0 are left
        out.
        """

    @abstractmethod
    def scaled(self, gradients: Any, weights: Any) -> Any:
        """Return the gradient of each sample, multiplied by the sample's weight."""

    @abstractmethod
    def mark(self, tensor: Any) -> Any:
        """Return a value that changes when the numbers of the tensor change."""

    def free_memory(self, like: Any) -> int | None:
        """Return the free bytes on the device of a tensor; None for the host."""
        return None
