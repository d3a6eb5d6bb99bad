"""Parts of a run: a single step, and the magnitudes of a single name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from backprobe.errors import UnknownName
from backprobe.findings.phrasing import listed, plural
from backprobe.markup import facts, shown
from backprobe.record.brief import cut, written
from backprobe.record.names import nearest


class Histogram:
    """Counts of magnitudes over steps, with a bin for each power of two. Zeros, NaN and Inf are not counted.

    float16 represents magnitudes with exponents from -14 to 15, and with less precision down to -24. bfloat16 and
    float32 represent exponents from -126 to 127.
    """

    def __init__(self, steps: Any, exponents: Any, counts: Any, smallest: Any) -> None:
        import numpy

        self.steps = numpy.array(steps, numpy.int64)
        """The steps that were counted: int64 of shape (n,)."""
        self.exponents = exponents
        """The exponents: int64 of shape (m,). The bin of exponent ``e`` counts magnitudes from ``2**e`` to below
        ``2**(e + 1)``.
        """
        self.counts = counts
        """The counts of numbers in each step and bin: int64 of shape (n, m)."""
        self.smallest = numpy.array(smallest, numpy.float64)
        """The smallest nonzero magnitude of each step: float64 of shape (n,), infinite if there is none."""

    def __repr__(self) -> str:
        between = f", exponents {self.exponents[0]} to {self.exponents[-1]}" if len(self.exponents) else ""
        return f"<backprobe.Histogram: {plural(len(self.steps), 'step')}{between}>"

    def _repr_html_(self) -> str:
        return shown(facts(repr(self)[1:-1], []))


class Fields(dict[str, float]):
    """The numbers of a name in a step, by field: ``run.at(120)["h.3.attn"]["grad.rms"]``."""

    def __init__(self, numbers: Mapping[str, float], asked: str) -> None:
        super().__init__(numbers)
        self._asked = asked

    def __missing__(self, field: Any) -> NoReturn:
        """Raises UnknownName, which is a KeyError."""
        close = nearest(field, self) if isinstance(field, str) else []
        raise UnknownName(
            f"this name has no field {cut(written(field))}",
            asked=f"{self._asked}[{cut(written(field))}]",
            found=f"{plural(len(self), 'field')}, the nearest: {listed(close)}" if close else listed(list(self)),
            next=f"{self._asked}[{close[0]!r}]" if close else f"list({self._asked}), for every field",
        )


class Step(Mapping[str, Mapping[str, float]]):
    """One step of a run: ``run.at(120)["h.3.attn"]["grad.rms"]``. A name may be spelled as in ``run.series``."""

    def __init__(
        self,
        info: Any,
        attempt: int,
        rows: Mapping[str, Mapping[str, float]],
        resolved: Callable[[str, str], str],
        why_not: Callable[[str, int], str],
    ) -> None:
        self.step = int(info["step"])
        """The number of the step."""
        self.time = float(info["time"])
        """The time at which the step ended, in seconds since 1970."""
        self.backwards = int(info["backwards"])
        """The number of calls of ``backward()`` that were measured in the step, for micro-batches or in a closure."""
        self.skipped = bool(info["skipped"] == 1)
        """Did a ``GradScaler`` skip the step?"""
        self.attempt = attempt
        """The start of the training that made the step, counted from 0."""
        self._rows, self._resolved, self._why_not = rows, resolved, why_not

    def __getitem__(self, name: str) -> Mapping[str, float]:
        """The fields of a name. Raises UnknownName, AmbiguousName and BadName."""
        if name not in self._rows:
            asked = f"run.at({self.step})[{cut(written(name))}]"
            full = self._resolved(name, asked)
            if full not in self._rows:
                raise UnknownName(
                    f"{full!r} has no row in step {self.step}",
                    asked=asked,
                    found=plural(len(self._rows), "name"),
                    why=self._why_not(full, self.step),
                    next=f"run.series({full!r}, field), for the steps that it has",
                )
            name = full
        return Fields(self._rows[name], f"run.at({self.step})[{name!r}]")

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        marked = ", skipped" * self.skipped
        return (
            f"<backprobe.Step {self.step}: {plural(len(self), 'name')}, {plural(self.backwards, 'backward')}{marked}>"
        )

    def _repr_html_(self) -> str:
        return shown(facts(repr(self)[1:-1], [("names", listed(list(self)))]))
