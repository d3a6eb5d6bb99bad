"""The verb ``curvature``: the extreme eigenvalues of Hessians, for named values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from backprobe.backends.discover import BackendName
from backprobe.curvature.result import Curvature
from backprobe.probe.named_values import OfNamedValues
from backprobe.probe.request import asked_as, spelled_as
from backprobe.probe.waiting import Waiting
from backprobe.record.options import Option
from backprobe.record.typed import P

__all__ = ["Curvature", "curvature"]

ENDS = ("largest", "smallest", "magnitude")
OPTIONS = (Option("k", int, 1, "2"), Option("joint"), Option("which", str, ENDS, '"largest"'))


def curvature(
    target: Callable[P, Any],
    select: str | Sequence[str],
    k: int = 1,
    *,
    of: str | int | Callable[[Any], Any] | None = None,
    which: Literal["largest", "smallest", "magnitude"] = "largest",
    joint: bool = False,
    backend: BackendName | None = None,
) -> Waiting[P, Curvature]:
    """Compute extreme eigenvalues of Hessians: call the result with the arguments of ``target`` to get them by name.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     return (x**2 * w).sum()
    >>> bp.curvature(f, "x", k=2)(torch.ones(3), torch.tensor([1.0, -2.0, 5.0]))["x"].round(3)
    array([10.,  2.])

    The Hessian of a value is the second derivative of the output with respect to that value alone. Large Hessians are
    never built as matrices. SciPy's Lanczos method (``scipy.sparse.linalg.eigsh``, ARPACK) needs only their products
    with vectors, as ``bp.hvp`` computes them: a few dozen for each value.

    - ``target`` is the function or model.
    - ``select`` is a pattern, or a list of them, of parameters, arguments and inner values.
    - ``k`` is the number of eigenvalues for each value.
    - ``of`` is the output, as in ``probe``: a path into the return value such as ``"loss"``, a function of the return
      value, or any value by name. The output must be a single number.
    - ``which`` selects the eigenvalues: the ``largest``, the ``smallest`` (most negative), or those of largest
      ``magnitude``.
    - ``joint=True`` uses a single Hessian with respect to all selected values together, under the key ``"joint"``. Its
      largest eigenvalue is known as the sharpness of the output.
    - ``backend`` is the name of the framework. It is needed only if the arguments do not show which framework they
      belong to.

    Returns a ``Curvature`` when called. Raises NotInstalled without SciPy, NothingMatched for a pattern that matches
    nothing, NoGradient for a name that has no gradient, and all errors of ``probe``. Raises Unsupported if a Hessian is
    complex or not finite, or if the method does not converge.
    """
    return _Waiting(target, backend, select, of, k, which, joint)


@dataclass(frozen=True, repr=False)
class _Waiting(OfNamedValues[P, Curvature]):
    # A target and the options. Calling this object computes the eigenvalues.
    k: Any
    which: Any
    joint: Any
    verb = "curvature"
    options = ", 'w'"
    declared, about = OPTIONS, "curvature is by named values"
    all_names, one_output = 'bp.curvature(model, "**weight"), for all weights', "bp.curvature(f, ..., of='ce')"

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Curvature:
        from backprobe.curvature.eigenvalues import measured  # imported late, because it imports NumPy

        spelling = spelled_as(r"^rec\['(.*)'\]\.grad$", rf"bp.curvature({asked_as(self.target)}, '\1')")
        with spelled_as(r"^bp\.probe\((?!.*\), for every name)", "bp.curvature("), spelling:
            found = self._found(args, kwargs, "differentiated twice", "its values were fixed when it was made")
            return measured(self, found, args, kwargs)
