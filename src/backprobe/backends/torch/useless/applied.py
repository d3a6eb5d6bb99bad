"""An operation that has run, stored without the numbers of its tensors, so that it can run again on other numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor

from backprobe.backends.useless.constants import is_constant
from backprobe.backends.useless.distributions import MOST

PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device)


class Applied:
    """A function that was called, with its arguments except tensors. No tensor is kept alive. If ``is_known`` is False,
    the function will not be called again, and no argument is kept.
    """

    def __init__(self, function: Any, args: Sequence[Any], given: Sequence[Tensor], made: Tensor) -> None:
        self.function = function
        self.args = [None if isinstance(one, Tensor) else one for one in args]
        self.places = [at for at, one in enumerate(args) if isinstance(one, Tensor)]
        self.kinds = [(tuple(one.shape), one.dtype, one.device) for one in given]
        self.unit = torch.finfo(made.dtype).eps if made.is_floating_point() else 0.0
        size = max(one.numel() for one in (*given, made))
        are_floats = all(one.is_floating_point() for one in (*given, made))
        self.is_known = (
            len(self.places) == len(given)
            and are_floats
            and size <= MOST
            and any(one.requires_grad for one in given)
            and not function._schema.is_mutable
            and all(map(_is_plain, self.args))
            and not self._has_numbers()
        )
        if not self.is_known:
            self.args = []  # it may hold a list of tensors

    def _has_numbers(self) -> bool:
        # May a Python number among the arguments be an operand, such as a factor? Other numbers are dimensions or
        # sizes.
        kinds = [one.type.kind() for one in self.function._schema.arguments]
        return any(
            kind in ("TensorType", "NumberType") and isinstance(value, int | float)
            for kind, value in zip(kinds, self.args, strict=False)
        )

    def is_constant(self) -> bool:
        """Does the operation return the same result for any numbers in its tensors? Some numbers are tried. False if it
        cannot be called again.
        """
        return self.is_known and self._is_same(self._make, [shape for shape, _, _ in self.kinds])

    def is_constant_in(self, nth: int) -> bool:
        """Does the operation return the same result for any numbers in its ``nth`` tensor? Some numbers are tried.
        False if it cannot be called again.

        An example is a normalization over a single element. The test runs in double precision. In single precision, a
        rounding error would remain after the mean is subtracted, and the operation may multiply this error by a large
        number.
        """
        if not self.is_known or nth >= len(self.kinds):
            return False
        others = [numpy.linspace(1, 2, math.prod(shape)).reshape(shape) for shape, _, _ in self.kinds]
        make = lambda given: self._make([*others[:nth], *given, *others[nth + 1 :]], torch.float64)  # noqa: E731
        return self._is_same(make, [self.kinds[nth][0]])

    def _is_same(self, make: Callable[[Sequence[Any]], Any], shapes: Sequence[Sequence[int]]) -> bool:
        with torch.no_grad():
            try:
                return is_constant(make, shapes, self.unit)
            except (RuntimeError, TypeError, ValueError, IndexError):  # an operation may reject the numbers
                return False

    def _make(self, given: Sequence[Any], precise: torch.dtype | None = None) -> Any:
        args = [*self.args]
        for at, numbers, (_, dtype, device) in zip(self.places, given, self.kinds, strict=True):
            args[at] = torch.tensor(numbers, dtype=precise or dtype, device=device)
        made = self.function(*args)
        return (made[0] if isinstance(made, tuple) else made).double().cpu().numpy()


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, list | tuple) else isinstance(value, PLAIN)
