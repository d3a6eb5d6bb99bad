"""Tensors as backprobe sees them: the methods for choosing an output, and the methods for showing and saving.

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

if TYPE_CHECKING:  # importing backprobe must not import NumPy
    from backprobe.backends.rows import Rows


class Tensors(Protocol):
    """Decides which values are tensors, and which tensors are differentiated."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool: ...

    @abstractmethod
    def is_floating(self, tensor: Any) -> bool:
        """Is the tensor's dtype floating-point or complex?"""

    @abstractmethod
    def is_differentiated(self, value: Any) -> bool:
        """Is the value a tensor to which a gradient may flow?"""

    @abstractmethod
    def describe(self, tensor: Any) -> Description: ...

    @abstractmethod
    def cotangent(self, output: Any, cotangent: Any) -> Any:
        """Return the cotangent as a tensor with the output's dtype and device. Raises BadOutput."""

    def concrete(self, tensor: Any) -> Any:
        """Return the tensor that has the numbers, if a transformation of the framework has wrapped it. Return any other
        tensor unchanged.
        """
        return tensor


class Arrays(Protocol):
    """Access to the tensors of a recording as data, for showing and saving them."""

    name: str

    @abstractmethod
    def is_tensor(self, value: Any) -> bool: ...

    @abstractmethod
    def describe(self, tensor: Any) -> Description: ...

    def summary(self, tensor: Any) -> Summary | None:
        """Return the statistics of a tensor, which are remembered if writes can be observed; None if it has no readable
        numbers.
        """
        return once(tensor, self.version(tensor), self.summarize)

    @abstractmethod
    def summarize(self, tensor: Any) -> Summary | None:
        """Compute the statistics of a tensor, reading its memory in chunks; None if it has no readable numbers."""

    def version(self, tensor: Any) -> int | None:
        """Return a number that changes when the tensor is written; None if writes cannot be observed."""
        return None

    @abstractmethod
    def nonfinite(self, tensors: Sequence[Any]) -> list[Nonfinite | None]:
        """Count NaN and Inf in many tensors, with one transfer from a device if the backend can do that. The result is
        None for a tensor without numbers.
        """

    @abstractmethod
    def numbers(self, tensor: Any) -> Any:
        """Return the numbers of a tensor as a NumPy array in double precision; None if it has no readable numbers."""

    def array(self, tensor: Any) -> Any:
        """Return the numbers in their own precision, or in single precision if NumPy cannot compute in it; None if the
        tensor has no readable numbers. The array may share memory.
        """
        rows = self.rows(tensor)
        return None if rows is None else rows.array()

    @abstractmethod
    def rows(self, tensor: Any) -> Rows | None:
        """Return the numbers for reading in chunks; None if the tensor has no readable numbers. Each chunk is converted
        separately, and may share memory with the tensor.
        """

    @abstractmethod
    def sample(self, tensor: Any, most: int) -> Any:
        """Return at most ``most`` numbers of a tensor, evenly spaced, as one row in double precision; None if they
        cannot be read.
        """

    @abstractmethod
    def to_text(self, tensor: Any) -> str: ...

    def evaluate(self, operation: str, args: Sequence[Any], words: Mapping[str, Any]) -> Any:
        """Call a framework function that only computes, on NumPy arrays. Returns its result as a NumPy array.

        Returns None if no such function is known, or if it takes other arguments.
        """
        return None

    # Methods for sums of several outputs.

    def weighted(self, terms: Sequence[tuple[float | None, Any]]) -> Any:
        """Return the weighted sum of tensors. A weight of None means 1."""
        return reduce(add, [tensor if weight is None else tensor * weight for weight, tensor in terms])

    @abstractmethod
    def inner(self, cotangent: Any, tensor: Any) -> Any:
        """Return the inner product of two tensors as a tensor of one number. For complex tensors, return its real
        part.
        """

    @abstractmethod
    def one(self, like: Any) -> Any:
        """Return the number 1 as a tensor with the dtype and device of another tensor. For a complex dtype, use its
        real dtype.
        """

    @abstractmethod
    def encode(self, tensor: Any, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        """Return a tensor as plain data. Its bytes are added to ``blobs``, only once for tensors that share memory."""

    @abstractmethod
    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Any: ...
