"""Tensors as backprobe sees them: the methods needed to choose an output, and those needed to show and save.

Both are part of every backend. A backend whose tensors become NumPy arrays inherits nearly all of ``Arrays`` from
``backprobe.backends.numpy.HostArrays``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Protocol

from backprobe.backends.facts import Description, Summary
from backprobe.backends.summaries import once
from backprobe.record.nonfinite import Nonfinite

if TYPE_CHECKING:  # importing backprobe does not import NumPy
    from backprobe.backends.rows import Rows


class Tensors(Protocol):
    """Which values are tensors, and which tensors are differentiated."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool: ...

    @abstractmethod
    def is_floating(self, tensor: Any) -> bool:
        """Is its dtype floating-point or complex?"""

    @abstractmethod
    def is_differentiated(self, value: Any) -> bool:
        """Is it a tensor that requires a gradient?"""

    @abstractmethod
    def describe(self, tensor: Any) -> Description: ...

    @abstractmethod
    def cotangent(self, output: Any, cotangent: Any) -> Any:
        """The cotangent as a tensor of the output's dtype and device. Raises BadOutput."""

    def concrete(self, tensor: Any) -> Any:
        """The tensor with its numbers, if a transformation of the framework has wrapped it."""
        return tensor


class Arrays(Protocol):
    """The tensors of a recording as data: what showing and saving need of a framework."""

    name: str

    @abstractmethod
    def is_tensor(self, value: Any) -> bool: ...

    @abstractmethod
    def describe(self, tensor: Any) -> Description: ...

    def summary(self, tensor: Any) -> Summary | None:
        """The statistics of a tensor, computed once; None if it has no readable numbers."""
        return once(tensor, self.version(tensor), self.summarize)

    @abstractmethod
    def summarize(self, tensor: Any) -> Summary | None:
        """Compute the statistics, reading memory in chunks."""

    def version(self, tensor: Any) -> int | None:
        """A number that changes when the tensor is written; None if that cannot be seen."""
        return None

    @abstractmethod
    def nonfinite(self, tensors: Sequence[Any]) -> list[Nonfinite | None]:
        """Count NaN and Inf in many tensors at once, with one transfer from a device; None for a tensor without
        numbers.
        """

    @abstractmethod
    def numbers(self, tensor: Any) -> Any:
        """The numbers of a tensor as a NumPy array in double precision; None if it has no readable numbers."""

    def array(self, tensor: Any) -> Any:
        """The numbers in their own precision, or in single if NumPy cannot compute in it. May share memory."""
        rows = self.rows(tensor)
        return None if rows is None else rows.array()

    @abstractmethod
    def rows(self, tensor: Any) -> Rows | None:
        """The numbers in chunks. Each chunk is converted separately, and may share memory."""

    @abstractmethod
    def sample(self, tensor: Any, most: int) -> Any:
        """At most so many numbers of a tensor, evenly spaced, in one row. Otherwise like ``numbers``."""

    @abstractmethod
    def to_text(self, tensor: Any) -> str: ...

    def evaluate(self, operation: str, args: Sequence[Any], words: Mapping[str, Any]) -> Any:
        """The result of a framework function that only computes, for NumPy arrays, as a NumPy array.

        None if no such function is known, or it takes other arguments.
        """
        return None

    # sums of several outputs

    def weighted(self, terms: Sequence[tuple[float | None, Any]]) -> Any:
        """The weighted sum of tensors; a weight of None stands for 1."""
        return reduce(add, [tensor if weight is None else tensor * weight for weight, tensor in terms])

    @abstractmethod
    def inner(self, cotangent: Any, tensor: Any) -> Any:
        """The inner product of two tensors, as a tensor of one number. Of a complex product, the real part."""

    @abstractmethod
    def one(self, like: Any) -> Any:
        """The number 1 as a tensor with the dtype and device of another tensor. For a complex dtype, the real dtype."""

    @abstractmethod
    def encode(self, tensor: Any, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        """A tensor as plain data. Its bytes go into ``blobs``, only once if tensors share them."""

    @abstractmethod
    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Any: ...
