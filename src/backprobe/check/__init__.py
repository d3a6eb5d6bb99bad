"""The verb ``check``: check the calls that a program makes, by comparing derivatives with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from backprobe.backends.discover import BackendName
from backprobe.check.report import CheckReport, WrongDerivative
from backprobe.findings.phrasing import listed
from backprobe.probe.request import name_of
from backprobe.probe.waiting import Waiting
from backprobe.record.options import Option
from backprobe.record.typed import P

SKIP = Option(
    "skip",
    list | tuple,
    None,
    "[Round], with class Round(torch.autograd.Function)",
    says="a list of functions and classes",
)
ORDER = Option(
    "order",
    int,
    lambda given: type(given) is int and given in (1, 2),
    "2",
    says="1 or 2",
    why="differences of second derivatives lose too many digits to judge a third",
)

__all__ = ["CheckReport", "WrongDerivative", "check"]


def check(
    target: Callable[P, Any], *, order: Literal[1, 2] = 1, skip: Sequence[Any] = (), backend: BackendName | None = None
) -> Waiting[P, CheckReport]:
    """Check derivatives: call the result with the arguments of ``target`` to get a report of those that are wrong.

    The program runs once. The calls that it makes are checked: calls of framework functions and operators, of functions
    with custom derivatives, and of modules, also inside your own functions. To check a call, it is repeated on detached
    copies of its arguments, in double precision, and its vector-Jacobian product for a random cotangent is compared
    with finite differences of its outputs along one random direction for each input. A difference larger than the error
    of the finite differences is located, element by element, and described. A call that might change the program's own
    objects is not repeated. Only custom functions, and functions passed to a transform or a checkpoint, run again
    without a copy of their state. Afterwards parameters, buffers, modes, gradients and random states are as before, as
    after each verb that runs a program again.

    >>> import torch, backprobe as bp
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         (x,) = ctx.saved_tensors
    ...         return gradient * x
    >>> def f(x, w):
    ...     u = x * w
    ...     y = Square.apply(u)
    ...     return y.sum()
    >>> report = bp.check(f)(torch.tensor([1.0, 2.0]), 3.0)
    >>> report.ok, report.judged, report.findings[0].name, report.findings[0].input
    (False, 3, 'y', 'u')

    - ``target`` is the function or model.
    - ``order=2`` also checks the second derivative of each call whose first one is right: Hessian-vector products
      against differences of gradients. This finds backward passes that cannot be differentiated, or whose derivative is
      zero although the gradient changes. By default, second derivatives are checked only if the program itself
      differentiates a gradient.
    - ``skip`` lists functions whose derivative is wrong on purpose, such as a straight-through estimator: each as the
      program calls it, or the class of an ``autograd.Function``.
    - ``backend`` is needed only if the framework cannot be inferred from the arguments.

    >>> bp.check(f, skip=[Square])(torch.tensor([1.0, 2.0]), 3.0).ok
    True

    Raises BadOption, NoBackend, NothingToDifferentiate and Unsupported; the program's own errors are re-raised
    unchanged, with a note added.

    Differences are extrapolated by the method of C. J. F. Ridders, Advances in Engineering Software 4 (1982) 75; its
    error estimate is the threshold of each comparison.
    """
    SKIP.check(skip)
    ORDER.check(order)
    return Check(target, backend, tuple(skip), order)


@dataclass(frozen=True, repr=False)
class Check(Waiting[P, CheckReport]):
    """A function or model that is checked when it is called."""

    skip: tuple[Any, ...] = ()
    order: int = 1
    verb = "check"

    def _asked(self) -> list[tuple[str, str]]:
        order = [("order", str(self.order))] * (self.order > 1)
        return [*order, *([("skip", listed([name_of(one) for one in self.skip]))] if self.skip else [])]

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CheckReport:
        from backprobe.check.run import run_check  # imported late, because it imports NumPy

        found = self._found(args, kwargs, "checked", "each call is repeated on other numbers")
        return run_check(self.target, found, self.skip, args, kwargs, order=self.order)
