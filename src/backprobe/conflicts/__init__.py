"""Conflicts between the gradients of several outputs: cosine and norms of each pair, for each entry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.findings.phrasing import plural
from backprobe.show.number_table import Cells, NumberTable
from backprobe.show.text import printable

TITLES = ("name", "outputs", "cosine", "norms", "ratio")
TOGETHER = "together"


@dataclass(frozen=True)
class Conflict:
    """A comparison of the gradients of two outputs with respect to one entry, taken as vectors.

    ``outputs`` are the keys of the two outputs, and ``norms`` the Euclidean norms of the gradients. ``ratio`` is the
    first norm divided by the second. ``cosine`` is the cosine of the angle between the gradients: 1 if they have the
    same direction, and below 0 if a step that lowers one output raises the other. The cosine is NaN if a norm is 0 or
    not finite. The ratio is NaN if both norms are 0 or one is NaN.
    """

    name: str
    outputs: tuple[str, str]
    cosine: float
    norms: tuple[float, float]

    @property
    def ratio(self) -> float:
        """The norm of the first gradient, divided by that of the second."""
        first, second = self.norms
        if math.isnan(first) or math.isnan(second) or not (first or second):
            return math.nan
        return first / second if second else math.inf


@dataclass(frozen=True, repr=False)
class Conflicts(NumberTable):
    """The gradients of several outputs, compared pair by pair. Printing the object shows a table.

    ``found`` has a ``Conflict`` for each pair of outputs and each entry with both gradients. ``together`` has one for
    each pair of outputs, for the gradients of all parameters joined into one vector. It is empty if fewer than two
    parameters have both gradients.

    >>> import torch, backprobe as bp
    >>> def f(w, v):
    ...     return {"a": (w * w).sum(), "b": (v * w).sum()}
    >>> w, v = torch.tensor([1.0, 0.0]), torch.tensor([-3.0, 4.0])
    >>> conflicts = bp.probe(f, of=["a", "b"])(w, v).conflicts("w")
    >>> print(conflicts)
    1 of 1 pair of gradients point apart (cosine below 0)
    name  outputs  cosine  norms  ratio
    w       a · b   -0.60  2 · 5    0.4
    """

    keys: tuple[str, ...]
    found: tuple[Conflict, ...]
    together: tuple[Conflict, ...] = ()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of outputs, by their keys."""
        return [(one, other) for at, one in enumerate(self.keys) for other in self.keys[at + 1 :]]

    @property
    def names(self) -> list[str]:
        """The entries that have at least one pair."""
        return list(dict.fromkeys(one.name for one in self.found))

    @property
    def cosines(self) -> Any:
        """The cosines as a NumPy array: a row for each of ``names``, a column for each of ``pairs``, NaN for gaps."""
        return self._grid([one.cosine for one in self.found])

    @property
    def ratios(self) -> Any:
        """The ratios of norms as a NumPy array, with the rows and columns of ``cosines``."""
        return self._grid([one.ratio for one in self.found])

    def _grid(self, numbers: Sequence[float]) -> Any:
        import numpy

        row = {name: at for at, name in enumerate(self.names)}
        column = {pair: at for at, pair in enumerate(self.pairs)}
        grid = numpy.full((len(row), len(column)), math.nan)
        for one, number in zip(self.found, numbers, strict=True):
            grid[row[one.name], column[one.outputs]] = number
        return grid

    def plot(self) -> Any:
        """The cosines as a ``matplotlib`` figure, which ``conflicts.plot().savefig("conflicts.png")`` writes to a file.

        The figure has a row for each entry and a column for each pair. Cells are red if the gradients have opposite
        directions, and blue if they have the same direction. Each cell shows the cosine, and the ratio of the norms.
        Raises NotInstalled.
        """
        from backprobe.conflicts.heat_map import heat_map  # imported late, because it imports NumPy

        return heat_map(self.names, self.pairs, self.cosines, self.ratios)

    @property
    def _heading(self) -> str:
        apart = sum(one.cosine < 0 for one in self.found)
        return f"{apart:,} of {plural(len(self.found), 'pair')} of gradients point apart (cosine below 0)"

    def _parts(self) -> tuple[str, Cells, Sequence[Cells], Sequence[str]]:
        return self._heading, TITLES if self.found else (), [_cells(one) for one in (*self.found, *self.together)], ()

    def __repr__(self) -> str:
        return f"<backprobe.Conflicts of {', '.join(self.keys)}: {self._heading}>"


def _cells(one: Conflict) -> Sequence[str]:
    # The table row of a pair. A cosine or ratio that is NaN is shown as a dash.
    cosine, ratio = (
        ("–" if math.isnan(number) else f"{number:{form}}")
        for number, form in ((one.cosine, "z.2f"), (one.ratio, ".3g"))
    )
    norms = " · ".join(f"{norm:.3g}" for norm in one.norms)
    return printable(one.name), printable(" · ".join(one.outputs)), cosine, norms, ratio


__all__ = ["Conflict", "Conflicts"]
