"""The result of a sweep: the output of each run, and the output without replacing."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural
from backprobe.markup import Html, Printed, element, shown
from backprobe.record.brief import written
from backprobe.show.number_table import columns, html_table, text_table
from backprobe.show.text import printable
from backprobe.view.shown import Shown

TITLES = ("name", "output", "effect", "gradient × change")


@dataclass(frozen=True)
class Replaced:
    """One run: the name of the value that was replaced, the indices of its part, and the output.

    ``shown`` is both as a text. ``approximation`` is gradient × change, None where that is not known.
    """

    name: str
    places: tuple[int, ...]
    shown: str
    output: float
    approximation: float | None = None


@dataclass(frozen=True, repr=False)
class Sweep(Printed):
    """What each of several values changes of the output when it is replaced, and nothing else is.

    ``output`` is the output without replacing, ``of`` its name, and ``runs`` are the runs, in the order in which
    the program computes the values. ``axes`` are those along which each index has a run. It prints as a table.

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
    """What each run replaces one of."""

    @property
    def outputs(self) -> dict[str, float]:
        """The output of each run, by the name of the value replaced in it."""
        return {run.shown: run.output for run in self.runs}

    @property
    def effects(self) -> dict[str, float]:
        """The change of the output when a value is replaced, by that value's name: ``outputs[name] - output``."""
        return {run.shown: run.output - self.output for run in self.runs}

    @property
    def approximations(self) -> dict[str, float]:
        """The effects as one backward pass predicts them: gradient × (replaced - original), summed, by name.

        A value without a gradient is not among them. Raises BadOption where ``approximate=True`` was not asked for.
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

        NaN where there are fewer than two, where one is not finite, or where either of both is the same everywhere.
        Raises BadOption where ``approximate=True`` was not asked for.
        """
        approximations = self.approximations
        return _correlation([self.effects[name] for name in approximations], list(approximations.values()))

    @property
    def grid(self) -> Any:
        """The effects as a NumPy array: a row for each name, and further axes for the indices of a sweep with ``axis``.

        NaN stands where one value has fewer indices than another. ``names`` are those of the rows.

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

        Without axes, effects are bars and approximations circles. With axes they are heat maps: a row for each name,
        and for each index along all axes but the last, whose indices are the columns. Raises NotInstalled.
        """
        from backprobe.sweep.plot import bars, maps  # which import NumPy

        title = f"change of {self.of}, which is {self.output:.4g}"
        predicted = [math.nan if run.approximation is None else run.approximation for run in self.runs]
        if not self.axes or not self.runs:
            return bars([run.shown for run in self.runs], list(self.effects.values()), predicted, title)
        grids = {"effect": self.grid} | ({TITLES[-1]: self._laid(predicted)} if self.is_approximate else {})
        return maps(grids, self.names, self.axes, title)

    def to_dataframe(self) -> Any:
        """A data frame of pandas, or of Polars where only that is installed: a row for each run.

        Its columns are name, ``axis_1`` for the index along axis 1 of a sweep along it, output, effect, and with
        ``approximate=True`` approximation. Raises NotInstalled.
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
        """Write the sweep as a page to explore: names as a tree, and beside each what it changes, at each index.

        It is one file, an ``.html``, that needs nothing else. Raises BadOption for another ending.
        """
        from backprobe.view import save_page

        save_page(self._viewed(), path, f"sweep.save({written(path)})")

    def _viewed(self) -> Shown:
        # What bp.view shows.
        from backprobe.sweep.shown import shown_of

        predicted = [math.nan if run.approximation is None else run.approximation for run in self.runs]
        grids = {"effect": self.grid, "was": self._laid([1.0] * len(self.runs))}
        grids |= {"approximation": self._laid(predicted)} if self.is_approximate else {}
        return shown_of(self.of, self.target, self.output, self.names, self.axes, grids, self.notes)

    @property
    def names(self) -> list[str]:
        """The names of the values, without indices."""
        return list(dict.fromkeys(run.name for run in self.runs))

    def _laid(self, numbers: Sequence[float]) -> Any:
        # Numbers, one for each run, as an array by names and indices.
        import numpy

        if not self.runs:
            return numpy.empty((0,))
        row = {name: at for at, name in enumerate(self.names)}
        places = [(row[run.name], *run.places) for run in self.runs]
        laid = numpy.full([max(column) + 1 for column in zip(*places, strict=True)], math.nan)
        for place, number in zip(places, numbers, strict=True):
            laid[place] = number
        return laid

    @property
    def _heading(self) -> str:
        return f"{self.of} of {self.target} is {self.output:.6g}; with one {self.replaced} replaced at a time:"

    @property
    def _titles(self) -> Sequence[str]:
        return TITLES if self.is_approximate else TITLES[:-1]

    @property
    def _rows(self) -> list[Sequence[str]]:
        rows = [
            (printable(run.shown), f"{run.output:.6g}", f"{run.output - self.output:.4g}", _approximation(run))
            for run in self.runs
        ]
        return [cells[: len(self._titles)] for cells in rows]

    def _footer(self) -> list[str]:
        both = f"correlation of effects and gradient × change: {self.agreement:.3f}" if self.is_approximate else ""
        known = both if self.is_approximate and not math.isnan(self.agreement) else ""
        return [*([known] if known else []), *(f"note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        return f"<backprobe.Sweep of {plural(len(self.runs), 'run')}: {self.of} of {self.target}>"

    def __str__(self) -> str:
        return "\n".join([self._heading, *text_table(self._titles, self._rows, columns()), *self._footer()])

    def _repr_html_(self) -> Html:
        notes = [element("div", line, class_="note") for line in self._footer()]
        return shown(element("div", self._heading, class_="heading"), html_table(self._titles, self._rows), *notes)


def _approximation(run: Replaced) -> str:
    return "–" if run.approximation is None else f"{run.approximation:.4g}"


def _correlation(a: Sequence[float], b: Sequence[float]) -> float:
    # Pearson's, of numbers that are scaled first so that no sum and no square overflows or underflows.
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
    # Numbers as parts of the largest.
    largest = max(map(abs, numbers), default=0.0)
    return [number / (largest or 1.0) for number in numbers]
