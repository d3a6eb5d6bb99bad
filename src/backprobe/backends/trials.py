"""The protocol of trials: a program runs on different numbers, without a probe."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class TrialRun:
    """The result of one run: the floating tensors in the returned value, and the gradients of their sum."""

    results: Sequence[Any]
    gradients: Sequence[Any]


class Trials(Protocol):
    """One program that is run on many inputs."""

    @abstractmethod
    def given(self, leaf: Any) -> Any:
        """Return the value that the program receives for a leaf of its arguments. Numbers become tensors, as in a
        probe.
        """

    @abstractmethod
    def is_varied(self, leaf: Any) -> bool:
        """Is the leaf a tensor of real floating numbers?"""

    @abstractmethod
    def alike(self, leaf: Any, numbers: Any) -> Any:
        """Return a new tensor with these numbers, and the dtype and device of ``leaf``."""

    def function(self, target: Any) -> Callable[..., Any]:
        """Return a function that calls the target."""
        return lambda *args, **kwargs: target(*args, **kwargs)

    @abstractmethod
    def total(self, result: Any) -> Any:
        """Return the sum of the floating tensors in the value that a program returned."""

    @abstractmethod
    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TrialRun:
        """Run a function once, without a probe.

        Its floating arguments are differentiated; in PyTorch and TensorFlow also the trained parameters that it uses.
        """
