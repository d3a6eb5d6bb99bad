"""The gradients of the samples of a batch, by name. Norms are stored; gradients are computed on request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from backprobe.errors import BackprobeError, NothingMatched, Overwritten, UnknownName
from backprobe.findings.phrasing import listed, plural, quoted
from backprobe.per_sample.text import TITLES, cells, heading, remarks
from backprobe.per_sample.wanted import Wanted
from backprobe.record.brief import written
from backprobe.record.names import nearest, strip
from backprobe.record.patterns import matcher
from backprobe.show.number_table import Cells, NumberTable

FEW = 10  # the most samples that are printed


@dataclass(frozen=True, repr=False, eq=False)
class PerSample(NumberTable):
    """The contribution of each sample of a batch to the gradients of named values. Prints as a table of the samples.

    ``samples["fc.weight"]`` has a row for each sample, and the rows sum to the gradient of the batch. ``losses`` are
    the losses of the samples, each as a batch of one. ``weights`` are their factors in the loss of the batch: 1/B in a
    mean of B samples, 1 in a sum, others in an uneven mean. Both are NumPy arrays with one number for each sample.

    >>> import torch, backprobe as bp
    >>> def loss(w, x):
    ...     return (x @ w).square().sum()
    >>> x = torch.tensor([[1.0, 0.0], [1.0, 2.0], [8.0, 0.0], [-1.0, 1.5]])
    >>> samples = bp.per_sample(loss, "w")(torch.tensor([1.0, 1.0]), x)
    >>> print(samples)
    gradients of return of loss: a sum over 4 samples
    sample  loss   norm   share  cosine
    2         64    128   0.939   0.995
    1          9  13.42   0.053   0.534
    0          1      2   0.015   0.995
    3       0.25  1.803  -0.006  -0.469
    one sample has 88 % of all gradient norm: 2
    one sample opposes the sum: 3
    """

    target: str
    of: str
    losses: Any
    weights: Any
    measured: Mapping[str, tuple[Any, Any, float]]
    notes: tuple[str, ...]
    runs: Any = field(repr=False)
    wanted: tuple[Wanted, ...] = field(repr=False)
    marks: Sequence[Any] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """The names of the values whose gradients were computed."""
        return [*self.measured]

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.losses)

    def __contains__(self, name: object) -> bool:
        return name in self.measured

    def __getitem__(self, name: str) -> Any:
        """The gradients of one value: a tensor of the framework, with a row for each sample.

        The program runs again to compute it. Raises UnknownName, and Overwritten if the arguments or parameters have
        changed since the call.
        """
        return self.grads([self._name(name)])[self._name(name)]

    def grads(self, pattern: str | Sequence[str] | None = None) -> dict[str, Any]:
        """The gradients of the values that match a pattern, by name; of all values if no pattern is given. All are
        computed in one pass over the samples.

        Raises NothingMatched, and Overwritten if the arguments or parameters have changed since the call.
        """
        names = self._matching(pattern)
        if self.runs.marks() != self.marks:
            raise Overwritten(
                "the gradients of single samples cannot be computed any more",
                asked=f"samples[{names[0]!r}]",
                found="arguments, parameters or a state of the model that have changed since",
                why="norms are kept, and gradients are computed when they are asked for",
                next="samples.grads() before the optimizer's step",
            )
        wanted = [one for one in self.wanted if one.name in names]
        parts: dict[str, list[Any]] = {one.name: [] for one in wanted}
        vectorized = self.runs.vectorized

        def take(start: int, losses: Any, gradients: Mapping[str, Any]) -> None:
            for name, own in parts.items():
                weights = self.weights[start : start + len(gradients[name])]
                own.append(vectorized.scaled(gradients[name], weights))

        self.runs.each(wanted, take)
        return {name: own[0] if len(own) == 1 else vectorized.joined(own) for name, own in parts.items()}

    def norms(self, pattern: str | Sequence[str] | None = None) -> dict[str, Any]:
        """The norm of each sample's gradient, by name; of all values if no pattern is given. Raises NothingMatched."""
        return {name: self.measured[name][0] for name in self._matching(pattern)}

    # Properties that combine all names.

    @property
    def _shared(self) -> list[str]:
        # The names of values that all samples share, such as parameters. Only for these the gradient of the batch is a
        # sum over samples.
        return [name for name, (_, dots, _) in self.measured.items() if dots is not None]

    @cached_property
    def norm(self) -> Any:
        """The norm of each sample's gradient with respect to all parameters and arguments together.

        If only inner values are selected, it is the norm with respect to these.
        """
        import numpy

        with numpy.errstate(invalid="ignore", over="ignore"):
            return numpy.sqrt(sum(self.measured[name][0] ** 2 for name in self._shared or self.names))

    @cached_property
    def _dots(self) -> Any:
        import numpy

        found = [self.measured[name][1] for name in self._shared]
        return sum(found) if found else numpy.full(len(self), numpy.nan)

    @cached_property
    def _size(self) -> float:
        # The norm of the gradient of the batch.
        return math.hypot(*(self.measured[name][2] for name in self._shared))

    @property
    def shares(self) -> Any:
        """The share of each sample in the gradient of the batch, measured along that gradient. The shares sum to 1.

        NaN for samples with NaN or Inf, and for all samples if only inner values are selected.
        """
        return self._by(self._size**2)

    @property
    def cosines(self) -> Any:
        """The cosine between each sample's gradient and the gradient of the batch, from -1 to 1; NaN as in
        ``shares``.
        """
        return self._by(self.norm * self._size)

    def _by(self, size: Any) -> Any:
        import numpy

        with numpy.errstate(invalid="ignore", divide="ignore"):
            return numpy.where(numpy.isfinite(self.norm), self._dots / size, numpy.nan)

    @property
    def dominant(self) -> list[int]:
        """The smallest set of samples with half of the sum of all norms, the largest norm first, if the set is small.

        A set is small if it is one sample, or at most a tenth of the samples. The list is empty if more are needed, and
        if fewer than three samples have finite gradients.
        """
        finite = [at for at in self._by_norm() if self._is_finite(at)]
        half, had = sum(float(self.norm[at]) for at in finite) / 2, 0.0
        found = []
        for at in finite:
            found.append(at)
            had += float(self.norm[at])
            if had >= half:
                break
        return found if half > 0 and len(finite) > 2 and len(found) <= max(1, len(self) // 10) else []

    @property
    def opposing(self) -> list[int]:
        """The samples whose gradients point away from the gradient of the batch (cosine below 0), the most opposed
        first.
        """
        return sorted((at for at, share in enumerate(self.shares) if share < 0), key=lambda at: float(self.shares[at]))

    @property
    def nonfinite(self) -> list[int]:
        """The samples with NaN or Inf in a gradient."""
        return [at for at in range(len(self)) if not self._is_finite(at)]

    def _is_finite(self, at: int) -> bool:
        return all(math.isfinite(norms[at]) for norms, _, _ in self.measured.values())

    def _by_norm(self) -> list[int]:
        # The samples in printed order: first those with NaN or Inf, then by decreasing norm.
        return sorted(range(len(self)), key=lambda at: (self._is_finite(at), -float(self.norm[at])))

    # Methods that export: data, pictures and text.

    def plot(self) -> Any:
        """The samples as a ``matplotlib`` figure: ``samples.plot().savefig("samples.png")`` writes it.

        The upper part shows the share of each sample in the gradient of the batch: blue if it adds to the gradient, red
        if it opposes it, and a cross for NaN or Inf. The lower part shows the norms, one row for each name. Raises
        NotInstalled.
        """
        from backprobe.per_sample.plot import picture  # imports NumPy

        return picture(self)

    def to_dataframe(self) -> Any:
        """A data frame with a row for each sample, of pandas, or of Polars if only Polars is installed.

        Its columns are sample, loss, weight, norm, share, cosine, is_finite, and the norm of each name. Raises
        NotInstalled.
        """
        import numpy

        from backprobe.show.frames import frame

        is_finite = numpy.isin(numpy.arange(len(self)), self.nonfinite, invert=True)
        known = {
            "sample": numpy.arange(len(self)),
            "loss": self.losses,
            "weight": self.weights,
            "norm": self.norm,
            "share": self.shares,
            "cosine": self.cosines,
            "is_finite": is_finite,
            **{f"norm of {name}": norms for name, (norms, _, _) in self.measured.items()},
        }
        return frame(lambda: known, "samples.to_dataframe()")

    def _name(self, name: str) -> str:
        # Find a value by one of its printed names. Raises UnknownName.
        for one in self.wanted:
            if name in {form for full in one.names for form in (full, strip(full), strip(full).removeprefix(":"))}:
                return one.name
        raise self._unknown(UnknownName, name)

    def _matching(self, pattern: str | Sequence[str] | None) -> list[str]:
        # The names that a pattern selects. Raises NothingMatched.
        if pattern is None:
            return self.names
        selects = matcher(pattern, in_function=self.runs.models is None)
        found = [one.name for one in self.wanted if any(map(selects, one.names))]
        if not found:
            raise self._unknown(NothingMatched, pattern)
        return found

    def _unknown(self, kind: type[BackprobeError], name: Any) -> BackprobeError:
        close, asked = nearest(str(name), self.names) or self.names, written(name)
        return kind(
            f"there are no per-sample gradients of {asked}",
            asked=f"samples[{asked}]",
            found=f"gradients of {quoted(self.names)}",
            next=f"samples[{close[0]!r}], or select {asked} as well",
        )

    def _parts(self) -> tuple[str, Cells, Sequence[Cells], Sequence[str]]:
        rows, left = [cells(self, at) for at in self._by_norm()[:FEW]], len(self) - FEW
        more = [f"… {plural(left, 'sample')} more, with smaller gradients"] if left > 0 else []
        return heading(self), TITLES, rows, [*more, *remarks(self), *(f"note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        by = listed(self.names, 4)
        return f"<backprobe.PerSample of {plural(len(self), 'sample')}: gradients of {self.of} by {by}>"
