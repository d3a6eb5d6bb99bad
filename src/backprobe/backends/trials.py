"""The protocol of trials: a program runs on other numbers, in the framework alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class TrialRun:
    """The result of one run: the floating tensors in what it returned, and the gradients of their sum."""

    results: Sequence[Any]
    gradients: Sequence[Any]


class Trials(Protocol):
    """One program that is tried on many numbers."""

    @abstractmethod
    def given(self, leaf: Any) -> Any:
        """What a program receives for a leaf of its arguments: for numbers, tensors as a probe makes them."""

    @abstractmethod
    def is_varied(self, leaf: Any) -> bool:
        """Is it a tensor of real floating numbers?"""

    @abstractmethod
    def alike(self, leaf: Any, numbers: Any) -> Any:
        """A new tensor with these numbers, and the dtype and device of another one."""

    def function(self, target: Any) -> Callable[..., Any]:
        """A function that calls the target."""
        return lambda *args, **kwargs: target(*args, **kwargs)

    @abstractmethod
    def total(self, result: Any) -> Any:
        """The sum of the floating tensors in what a program returned."""

    @abstractmethod
    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TrialRun:
        """Run a function once, without a probe.

        Its floating arguments are differentiated, and the parameters of the models that it calls.
        """
