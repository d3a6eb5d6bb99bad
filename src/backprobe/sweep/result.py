"""The result of a sweep: the output of each run, and the output of the run without replacements."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural
from backprobe.record.brief import written
from backprobe.show.number_table import Cells, NumberTable
from backprobe.show.text import printable
from backprobe.view.shown import Shown

TITLES = ("name", "output", "effect", "gradient × change")


@dataclass(frozen=True)
class Replaced:
    """One run: the name of the replaced value, the indices of the replaced part, and the output.

    ``shown`` is the name with the indices. ``approximation`` is the sum of gradient × change; None if it is not known.
    """

    name: str
    places: tuple[int, ...]
    shown: str
    output: float
    approximation: float | None = None


@dataclass(frozen=True, repr=False)
class Sweep(NumberTable):
    """The effects on the output of replacing one value at a time. Prints as a table.

    ``output`` is the output without replacements, and ``of`` its name. ``runs`` are the runs, in the order in which the
    program computes the replaced values. ``axes`` are the axes along which each index has its own run.

    >>> import torch, backprobe as bp
    >>> def f(x):
    ...     u = x * 2
    ...     v = u * u
    ...     return v.sum()
    >>> swept = bp.sweep(f, ["u", "v"], replace=torch.zeros_like, approximate=True)(torch.tensor([1.0, 2.0]))
    >>> print(swept)
    return of f is 20; with one value replaced at a time:
    name  output  effect  gradient × change
    u          0     -20                -40
    v          0     -20                -20
    """

    target: str
    of: str
    output: float
    runs: tuple[Replaced, ...] = field(default=())
    axes: tuple[int, ...] = ()
    is_approximate: bool = False
    notes: tuple[str, ...] = ()
    replaced: str = "value"
    """The word for the replaced things, in messages."""

    @property
    def outputs(self) -> dict[str, float]:
        """The output of each run, by the name of the replaced value."""
        return {run.shown: run.output for run in self.runs}

    @property
    def effects(self) -> dict[str, float]:
        """The change of the output in each run, by the name of the replaced value: ``outputs[name] - output``."""
        return {run.shown: run.output - self.output for run in self.runs}

    @property
    def approximations(self) -> dict[str, float]:
        """The effects as predicted by a single backward pass, by name: the sum of gradient × (replaced - original).

        Values without a gradient are left out. Raises BadOption unless the sweep had ``approximate=True``.
        """
        if not self.is_approximate:
            raise BadOption(
                "this sweep has no approximations",
                asked="sweep.approximations",
                found="a sweep without approximate=True",
                next="bp.sweep(..., approximate=True)",
            )
        return {run.shown: run.approximation for run in self.runs if run.approximation is not None}

    @property
    def agreement(self) -> float:
        """Pearson's correlation of the effects and their approximations, from -1 to 1.

        NaN if there are fewer than two, if one of them is not finite, or if all effects or all approximations are
        equal. Raises BadOption unless the sweep had ``approximate=True``.
        """
        approximations = self.approximations
        return _correlation([self.effects[name] for name in approximations], list(approximations.values()))

    @property
    def grid(self) -> Any:
        """The effects as a NumPy array: a row for each name, and further axes for the indices of a sweep with ``axis``.

        If a value has fewer indices than another, the missing effects are NaN. ``names`` are the names of the rows.

        >>> import torch, backprobe as bp
        >>> def f(x):
        ...     u = x * 2
        ...     return (u * u).sum()
        >>> swept = bp.sweep(f, ["x", "u"], replace=torch.zeros_like, axis=0)(torch.tensor([1.0, 2.0]))
        >>> swept.names, swept.effects
        (['x', 'u'], {'x[0]': -4.0, 'x[1]': -16.0, 'u[0]': -4.0, 'u[1]': -16.0})
        >>> swept.grid
        array([[ -4., -16.],
               [ -4., -16.]])
        """
        return self._laid([run.output - self.output for run in self.runs])

    def plot(self) -> Any:
        """The effects as a ``matplotlib`` figure: ``sweep.plot().savefig("sweep.png")`` writes it.

        Without axes, effects are drawn as bars and approximations as circles. With axes they are drawn as heat maps.
        The columns are the indices along the last axis. Each combination of a name and indices along the other axes has
        a row. Raises NotInstalled.
        """
        from backprobe.sweep.plot import bars, maps  # imports NumPy

        title = f"change of {self.of}, which is {self.output:.4g}"
        if not self.axes or not self.runs:
            return bars([run.shown for run in self.runs], list(self.effects.values()), self._predicted, title)
        grids = {"effect": self.grid} | ({TITLES[-1]: self._laid(self._predicted)} if self.is_approximate else {})
        return maps(grids, self.names, self.axes, title)

    def to_dataframe(self) -> Any:
        """A data frame with a row for each run, of pandas, or of Polars if only Polars is installed.

        Its columns are name, output and effect, with ``approximate=True`` also approximation. A sweep along axis 1 adds
        the column ``axis_1`` with the indices along this axis. Raises NotInstalled.
        """
        from backprobe.show.frames import frame

        columns: dict[str, Any] = {"name": [run.name for run in self.runs]}
        columns |= {f"axis_{axis}": [run.places[at] for run in self.runs] for at, axis in enumerate(self.axes)}
        columns["output"] = [run.output for run in self.runs]
        columns["effect"] = [run.output - self.output for run in self.runs]
        if self.is_approximate:
            columns["approximation"] = [run.approximation for run in self.runs]
        return frame(lambda: columns, "sweep.to_dataframe()")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sweep as an interactive page: a tree of names, with the effects of each value at each index.

        The page is a self-contained ``.html`` file. Raises BadOption for another file ending.
        """
        from backprobe.view import save_page

        save_page(self._viewed(), path, f"sweep.save({written(path)})")

    def _viewed(self) -> Shown:
        # The data that ``bp.view`` shows.
        from backprobe.sweep.shown import shown_of

        grids = {"effect": self.grid, "was": self._laid([1.0] * len(self.runs))}
        grids |= {"approximation": self._laid(self._predicted)} if self.is_approximate else {}
        return shown_of(self, grids)

    @property
    def _predicted(self) -> list[float]:
        # The approximation of each run, or NaN.
        return [math.nan if run.approximation is None else run.approximation for run in self.runs]

    @property
    def names(self) -> list[str]:
        """The names of the values, without indices."""
        return list(dict.fromkeys(run.name for run in self.runs))

    def _laid(self, numbers: Sequence[float]) -> Any:
        # Arrange numbers, one for each run, in an array by names and indices.
        import numpy

        if not self.runs:
            return numpy.empty((0,))
        row = {name: at for at, name in enumerate(self.names)}
        places = [(row[run.name], *run.places) for run in self.runs]
        laid = numpy.full([max(column) + 1 for column in zip(*places, strict=True)], math.nan)
        for place, number in zip(places, numbers, strict=True):
            laid[place] = number
        return laid

    def _parts(self) -> tuple[str, Cells, Sequence[Cells], Sequence[str]]:
        heading = f"{self.of} of {self.target} is {self.output:.6g}; with one {self.replaced} replaced at a time:"
        titles = TITLES if self.is_approximate else TITLES[:-1]
        rows = [
            (printable(run.shown), f"{run.output:.6g}", f"{run.output - self.output:.4g}", _approximation(run))
            for run in self.runs
        ]
        below = [f"note: {note}" for note in self.notes]
        if self.is_approximate and not math.isnan(self.agreement):
            below.insert(0, f"correlation of effects and gradient × change: {self.agreement:.3f}")
        return heading, titles, [cells[: len(titles)] for cells in rows], below

    def __repr__(self) -> str:
        return f"<backprobe.Sweep of {plural(len(self.runs), 'run')}: {self.of} of {self.target}>"


def _approximation(run: Replaced) -> str:
    return "–" if run.approximation is None else f"{run.approximation:.4g}"


def _correlation(a: Sequence[float], b: Sequence[float]) -> float:
    # Pearson's correlation; NaN if it is not defined. Numbers are scaled first, so that sums and squares neither
    # overflow nor underflow.
    if not all(map(math.isfinite, (*a, *b))):
        return math.nan
    a, b = _centred(a), _centred(b)
    norms = math.hypot(*a) * math.hypot(*b)
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / norms if norms else math.nan


def _centred(numbers: Sequence[float]) -> list[float]:
    numbers = _scaled(numbers)
    mean = math.fsum(numbers) / max(len(numbers), 1)
    return _scaled([number - mean for number in numbers])


def _scaled(numbers: Sequence[float]) -> list[float]:
    # The numbers divided by the largest magnitude.
    largest = max(map(abs, numbers), default=0.0)
    return [number / (largest or 1.0) for number in numbers]
