"""The report of ``provoke``: the inputs that break a program, and how far the search came where none did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from backprobe.backends.discover import imported_backends, load_arrays
from backprobe.findings.report import Finding, Report, plain
from backprobe.record.entries import plain_text
from backprobe.record.renamed import renamed_attributes


@renamed_attributes(steps="tries")
@dataclass(frozen=True, repr=False)
class Provocation(Finding):
    """An input at which the framework itself gives NaN or Inf, and the operation that is to blame.

    ``f(*args, **kwargs)`` is the run that breaks: its ``broken`` is the ``result``, or the ``gradient`` of what it
    returns. ``change`` is the largest change of a number of the example, as a part of its bounds. ``tries`` is how many
    inputs were tried until then. ``explained`` is what ``bp.explain`` says of the run.
    """

    args: tuple[Any, ...] = field(default=(), compare=False)
    kwargs: Mapping[str, Any] = field(default_factory=dict, compare=False)
    broken: Literal["result", "gradient"] = "result"
    change: float = 0.0
    tries: int = 0
    explained: Report = field(default_factory=lambda: Report(""), compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data with ``args`` and ``kwargs``, tensors by ``shape``, ``dtype`` and ``numbers``."""
        return {**super().to_dict(), "args": _plain(self.args), "kwargs": _plain(self.kwargs)}


@renamed_attributes(steps="tries")
@dataclass(frozen=True, repr=False)
class Provocations(Report):
    """The report of ``bp.provoke``: an input for each operation that broke, and in ``notes`` how far the others came.

    ``risky`` counts the operations that were searched, ``tries`` all inputs that were tried. ``ok`` is True where
    nothing broke: that does not prove that nothing can. ``complete`` is True if every risky operation was searched.
    """

    findings: tuple[Provocation, ...] = ()
    risky: int = 0
    tries: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, with ``risky`` and ``tries``, under ``steps``, besides what every report has."""
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
