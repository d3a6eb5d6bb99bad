"""Many samples in one run, with a gradient for each, by a framework's own vectorization."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Gradients = Mapping[str, Any]
"""By name: the gradients of many samples, stacked along the first axis."""


class SampleProgram(Protocol):
    """A program that runs on one sample, which it receives as a batch of one."""

    @property
    def shifted(self) -> Mapping[str, Any]:
        """Values whose gradients are taken through something added to them, by name, in the shape for one sample."""

    @property
    def variables(self) -> Mapping[str, Any]:
        """Values that are differentiated directly, by name."""

    def loss(self, sample: Sequence[Any], shifts: Mapping[str, Any]) -> Any:
        """The loss of a sample, with ``shifts`` added to these values."""

    def gradients(self, sample: Sequence[Any]) -> tuple[Any, Gradients]:
        """The loss of a sample and its gradients, by a probe."""


class Vectorized(Protocol):
    """Per-sample gradients in a framework, by its own ``vmap``."""

    title: str
    """The name of the framework's vectorization."""

    replaces: bool = True
    """Does it add something to values, so that the program must bind each of them in a statement?"""

    def inside(self, target: Any) -> Any:
        """The program in a form that a transformation may run."""
        return target

    @abstractmethod
    def gradients(self, program: SampleProgram, samples: Sequence[Any]) -> tuple[Any, Gradients]:
        """The losses and gradients of several samples at once."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Can it hold the samples of a batch?"""

    @abstractmethod
    def tensor(self, value: Any) -> Any:
        """A NumPy array, or a tensor of the framework, as a tensor without a history."""

    @abstractmethod
    def stacked(self, tensors: Sequence[Any]) -> Any:
        """Tensors of the same shape, stacked along a new first axis."""

    @abstractmethod
    def joined(self, tensors: Sequence[Any]) -> Any:
        """Tensors joined along their first axis."""

    @abstractmethod
    def chosen(self, tensor: Any, at: Sequence[int]) -> Any:
        """Those items of a tensor along the first axis."""

    @abstractmethod
    def norms(self, gradients: Any) -> Any:
        """The Euclidean norm for each sample, as a NumPy array; NaN or Inf if the gradient contains one."""

    @abstractmethod
    def dots(self, gradients: Any, other: Any) -> Any:
        """For each sample the inner product with one other gradient, as a NumPy array."""

    @abstractmethod
    def summed(self, gradients: Any, weights: Any) -> Any:
        """The weighted sum over the samples, with a NumPy array of weights; samples of weight 0 are left out."""

    @abstractmethod
    def scaled(self, gradients: Any, weights: Any) -> Any:
        """The gradient of each sample, times its weight."""

    @abstractmethod
    def mark(self, tensor: Any) -> Any:
        """A value that differs for the same tensor once its numbers have changed."""

    def free_memory(self, like: Any) -> int | None:
        """The free bytes on the device of a tensor; None for the host."""
        return None
