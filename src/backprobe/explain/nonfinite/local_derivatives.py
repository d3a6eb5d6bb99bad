"""The factors of a gradient's first bad element: the framework's derivative, and the incoming gradient.

For some PyTorch operations, the node of the autograd graph reported them while backward ran. Otherwise the program runs
again, if it can, and a single element of a line's result is differentiated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.mechanism import overflow
from backprobe.explain.nonfinite.operands import first_bad, shown, where
from backprobe.explain.nonfinite.text import Mechanism, say
from backprobe.record.elements import result_of
from backprobe.record.nonfinite import LocalDerivative


@dataclass(frozen=True)
class Factors:
    """A derivative, with the names of its value and input, and the gradient by which it is multiplied."""

    of: str
    derivative: float
    came: float

    def fact(self) -> str:
        """The sentence with both factors and their product."""
        words = {"of": self.of, "derivative": _shown(self.derivative), "came": _shown(self.came)}
        is_zero = self.came == 0 and not math.isfinite(self.derivative)
        return say("factors_zero" if is_zero else "factors", **words)

    def mechanism(self, dtype: str) -> Mechanism | None:
        """Return the mechanism that these factors show for a gradient of this dtype.

        None if the incoming gradient is not finite.
        """
        if not math.isfinite(self.came):
            return None
        if math.isfinite(self.derivative):
            return overflow(dtype)
        words = {"of": self.of, "derivative": _shown(self.derivative)}
        return Mechanism("derivative_zero" if self.came == 0 else "derivative_bad", words)


def seen(local: LocalDerivative, operation: str) -> Factors:
    """The factors that the graph node of an operation reported."""
    return Factors(say("of_operation", op=operation, at=where(local.at)), local.derivative, local.came)


def asked(known: Evidence, owner: int, wrt: int) -> Factors | None:
    """Run the program again to get the factors of an entry's gradient that the line of ``owner`` computed.

    None inside vmap and loops, if the numbers of the gradients are not known or do not show a NaN or Inf that began
    here, if the program cannot run again, or if the product of the factors is not NaN or Inf as the recorded gradient
    is.
    """
    if known.entries[owner].axes or known.entries[wrt].axes:
        return None  # inside vmap and loops, one recorded element belongs to many examples or steps
    grad, came = known.grad_numbers(wrt), known.grad_numbers(owner)
    if grad is None or came is None or grad.dtype.kind != "f" or not numpy.isfinite(came).all():
        return None
    at = first_bad(grad)
    into = None if at is None else result_of(at, grad.shape, came.shape)
    if at is None or into is None:
        return None
    answer = known.derivative(known.entries[owner].name, into, known.entries[wrt].name)
    if answer is None or answer.shape != grad.shape or not _is_product(answer[at], came[into], grad[at]):
        return None
    names = {"owner": known.entries[owner].name, "into": where(into), "wrt": known.entries[wrt].name, "at": where(at)}
    return Factors(say("of_element", **names), float(answer[at]), float(came[into]))


def _is_product(derivative: Any, came: Any, grad: Any) -> bool:
    with numpy.errstate(all="ignore"):
        product = derivative * came
    return bool(numpy.isnan(product) == numpy.isnan(grad) and numpy.isinf(product) == numpy.isinf(grad))


def _shown(number: float) -> str:
    # Format a number. A number that fits into single precision is written with the digits of single precision.
    with numpy.errstate(all="ignore"):
        narrow = numpy.float32(number)
    return shown(narrow if float(narrow) == number else number)
