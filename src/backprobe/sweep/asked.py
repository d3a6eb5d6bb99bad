"""The arguments of ``sweep``, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backprobe.errors import BadOption
from backprobe.probe import probe
from backprobe.probe.request import name_of, refuse_uncallable
from backprobe.probe.several_outputs import refuse_several
from backprobe.probe.waiting import Waiting
from backprobe.record.brief import kind, written
from backprobe.record.options import Option
from backprobe.record.typed import P
from backprobe.recording import Recording
from backprobe.sweep.result import Sweep


@dataclass(frozen=True, repr=False)
class Asked(Waiting[P, Sweep]):
    """The target of a sweep, which of its values are replaced, and by what: ready to be called."""

    select: Any
    of: Any
    replace: Any
    axis: Any
    approximate: bool
    verb = "sweep"
    options = ", 'u', replace=..."

    def __post_init__(self) -> None:
        """Raises BadOption."""
        refuse_uncallable(self.target, "sweep", ", ...")
        refuse_several(self.of, f"bp.sweep({name_of(self.target)}, ..., ", "bp.sweep(f, ..., of='ce'), once for each")
        probe(self.target, self.select, of=self.of, backend=self.backend)  # which refuses its own options
        if self.select is None:
            raise BadOption(
                "a sweep is about named values", asked="bp.sweep(..., None)", next="bp.sweep(model, 'h.*', replace=...)"
            )
        if not callable(self.replace) and not isinstance(self.replace, Recording):
            raise BadOption(
                f"replace is a function of each value, or a recording that has them, not {kind(self.replace)}",
                asked=f"replace={written(self.replace)}", why="each of the values has a shape of its own",
                next="replace=lambda value: value * 0, or replace=bp.probe(f, 'u')(x)",
            )  # fmt: skip
        Option("approximate").check(self.approximate)
        if not all(type(one) is int for one in self.axes):
            raise BadOption(
                "axis is the number of an axis, or several", asked=f"axis={written(self.axis)}", next="axis=1"
            )

    def _asked(self) -> list[tuple[str, str]]:
        return [("select", written(self.select))]

    @property
    def axes(self) -> tuple[Any, ...]:
        """The axes along which each index has a run of its own."""
        if self.axis is None:
            return ()
        return tuple(self.axis) if isinstance(self.axis, list | tuple) else (self.axis,)

    @property
    def call(self) -> str:
        """The call, as messages have it."""
        return f"bp.sweep({name_of(self.target)}, {written(self.select)}, ...)"
