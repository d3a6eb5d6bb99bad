"""The report of ``provoke``: the inputs that break a program, and how far other searches came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from backprobe.backends.discover import imported_backends, load_arrays
from backprobe.findings.report import Finding, Report, plain
from backprobe.record.held import plain_text
from backprobe.record.renamed import renamed_attributes


@renamed_attributes(steps="tries")
@dataclass(frozen=True, repr=False)
class Provocation(Finding):
    """An input at which the framework itself gives NaN or Inf, and the responsible operation.

    ``f(*args, **kwargs)`` is the run that breaks. ``broken`` is ``result`` if the result contains NaN or Inf, and
    ``gradient`` if only a gradient of the result's sum does. ``change`` is the largest change of a number from the
    example, relative to the width of its bounds. ``tries`` is the number of inputs that the search for this operation
    tried. If the operation broke during another search, it is the number that the searches before that one tried.
    ``explained`` is the report of ``bp.explain`` on this run.
    """

    args: tuple[Any, ...] = field(default=(), compare=False)
    kwargs: Mapping[str, Any] = field(default_factory=dict, compare=False)
    broken: Literal["result", "gradient"] = "result"
    change: float = 0.0
    tries: int = 0
    explained: Report = field(default_factory=lambda: Report(""), compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data, including ``args`` and ``kwargs``. Tensors have ``shape``, ``dtype``
        and ``numbers``.
        """
        return {**super().to_dict(), "args": _plain(self.args), "kwargs": _plain(self.kwargs)}


@renamed_attributes(steps="tries")
@dataclass(frozen=True, repr=False)
class Provocations(Report):
    """The report of ``bp.provoke``: an input for each operation that broke, and ``notes`` on the searches that broke
    none.

    ``risky`` is the number of risky operations that can be searched, and ``tries`` the number of all inputs that were
    tried. ``ok`` is True if nothing broke, which does not prove that nothing can break. ``complete`` is True if every
    risky operation was searched.
    """

    findings: tuple[Provocation, ...] = ()
    risky: int = 0
    tries: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data. Beside the fields of every report it has ``risky``, and the number of tries as
        ``steps``.
        """
        return {**super().to_dict(), "risky": self.risky, "steps": self.tries}


def _plain(given: Any) -> Any:
    # An argument as plain data: containers keep their nesting, and other objects become their printed text.
    if isinstance(given, Mapping):
        return {str(key): _plain(one) for key, one in given.items()}
    if isinstance(given, list | tuple):
        return [_plain(one) for one in given]
    known = (*(backend.arrays for backend in imported_backends()), load_arrays("numpy"))
    arrays = next((one for one in known if one.is_tensor(given)), None)
    if arrays is not None:
        about, numbers = arrays.describe(given), arrays.array(given)
        return {
            "shape": plain(about.shape),
            "dtype": about.dtype,
            "numbers": None if numbers is None else plain(numbers.tolist()),
        }
    return plain(given) if given is None or isinstance(given, str | int | float | complex) else plain_text(given)
