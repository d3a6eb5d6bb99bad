"""Many samples in one run: what a framework's own vectorization gives, a gradient for each of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Gradients = Mapping[str, Any]
"""By name: the gradients of many samples, one after another along the first axis."""


class SampleProgram(Protocol):
    """A program that runs on one sample, which it is given as a batch of one."""

    @property
    def shifted(self) -> Mapping[str, Any]:
        """The values whose gradients are taken by what is added to them, by name, as they are for one sample."""

    @property
    def variables(self) -> Mapping[str, Any]:
        """What is differentiated as it is, by name."""

    def loss(self, sample: Sequence[Any], shifts: Mapping[str, Any]) -> Any:
        """The loss of a sample, with something added to these values."""

    def gradients(self, sample: Sequence[Any]) -> tuple[Any, Gradients]:
        """The loss of a sample and its gradients, by a probe."""


class Vectorized(Protocol):
    """Per-sample gradients in a framework, by its own ``vmap``."""

    title: str
    """What that is called."""

    replaces: bool = True
    """Does it add something to values, so that the program must bind each of them by a statement?"""

    def inside(self, target: Any) -> Any:
        """The program as one that a transformation may run."""
        return target

    @abstractmethod
    def gradients(self, program: SampleProgram, samples: Sequence[Any]) -> tuple[Any, Gradients]:
        """The losses and gradients of several samples at once."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Can it hold the samples of a batch?"""

    @abstractmethod
    def tensor(self, value: Any) -> Any:
        """An array of NumPy, or a tensor of the framework, as a tensor without a history."""

    @abstractmethod
    def stacked(self, tensors: Sequence[Any]) -> Any:
        """Tensors of the same shape, one after another along a new first axis."""

    @abstractmethod
    def joined(self, tensors: Sequence[Any]) -> Any:
        """Tensors one after another along their first axis."""

    @abstractmethod
    def chosen(self, tensor: Any, at: Sequence[int]) -> Any:
        """A tensor with these of its items along the first axis."""

    @abstractmethod
    def norms(self, gradients: Any) -> Any:
        """The Euclidean norm for each sample, as a NumPy array; NaN or Inf where one of its numbers is."""

    @abstractmethod
    def dots(self, gradients: Any, other: Any) -> Any:
        """The inner product with one other gradient for each sample, as a NumPy array."""

    @abstractmethod
    def summed(self, gradients: Any, weights: Any) -> Any:
        """The sum over the samples, each times its weight, an array of NumPy; those of weight 0 are left out."""

    @abstractmethod
    def scaled(self, gradients: Any, weights: Any) -> Any:
        """The gradient of each sample times its weight."""

    @abstractmethod
    def mark(self, tensor: Any) -> Any:
        """What is another for the same tensor when it has other numbers."""

    def free_memory(self, like: Any) -> int | None:
        """The bytes that are free on the device of a tensor, if it is not the host."""
        return None
