"""The factors of the first bad element of a gradient: a derivative that the framework gives, and what came in.

Of PyTorch's operations their node in autograd's graph was asked while backward ran. Else the program runs again, and
one element of what a line computes is differentiated alone.
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
    """A derivative, of what and with respect to what, and the gradient that it is multiplied by."""

    of: str
    derivative: float
    came: float

    def fact(self) -> str:
        """Both numbers, and what they give."""
        words = {"of": self.of, "derivative": _shown(self.derivative), "came": _shown(self.came)}
        is_zero = self.came == 0 and not math.isfinite(self.derivative)
        return say("factors_zero" if is_zero else "factors", **words)

    def mechanism(self, dtype: str) -> Mechanism | None:
        """What happened, to a gradient of this type; None where the gradient that came in is not finite."""
        if not math.isfinite(self.came):
            return None
        if math.isfinite(self.derivative):
            return overflow(dtype)
        words = {"of": self.of, "derivative": _shown(self.derivative)}
        return Mechanism("derivative_zero" if self.came == 0 else "derivative_bad", words)


def seen(local: LocalDerivative, operation: str) -> Factors:
    """Those that the node of an operation gave."""
    return Factors(say("of_operation", op=operation, at=where(local.at)), local.derivative, local.came)


def asked(known: Evidence, owner: int, wrt: int) -> Factors | None:
    """Those of the gradient of an entry, which the line of another one made, as another run of the program gives them.

    None where it cannot run again, or where their product is not what was recorded.
    """
    if known.entries[owner].axes or known.entries[wrt].axes:
        return None  # in a vmap or loop an element stands for several
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
    # In the digits of single precision, where it has no more.
    with numpy.errstate(all="ignore"):
        narrow = numpy.float32(number)
    return shown(narrow if float(narrow) == number else number)
