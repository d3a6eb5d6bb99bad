"""Checks the arguments of ``sweep``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backprobe.backends.protocol import Backend
from backprobe.executors import EXECUTOR
from backprobe.probe.axes import AXIS, axes_of
from backprobe.probe.named_values import OfNamedValues
from backprobe.probe.request import asked_as
from backprobe.record.brief import written
from backprobe.record.options import Option
from backprobe.record.typed import P
from backprobe.recording import Recording
from backprobe.sweep.result import Sweep

OPTIONS = (
    Option(
        "replace",
        object,
        lambda given: callable(given) or isinstance(given, Recording),
        "lambda value: value * 0, or replace=bp.probe(f, 'u')(x)",
        says="a function of each value, or a recording that has them",
        why="each of the values has a shape of its own",
    ),
    Option("approximate"),
    AXIS,
    EXECUTOR,
)


@dataclass(frozen=True, repr=False)
class AskedSweep(OfNamedValues[P, Sweep]):
    """The target of a sweep, the values to replace, and the replacements, ready to be called."""

    replace: Any
    axis: Any
    approximate: bool
    executor: Any = None
    verb = "sweep"
    options = ", 'u', replace=..."
    declared = OPTIONS
    about, all_names = "a sweep is about named values", "bp.sweep(model, 'h.*', replace=...)"
    one_output = "bp.sweep(f, ..., of='ce'), once for each"

    def _backend_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Backend:
        # The backend of the target. Raises BadOption, NoBackend and Unsupported.
        return self._found(args, kwargs, "swept", "its values were fixed when it was made")

    @property
    def axes(self) -> tuple[Any, ...]:
        """The axes along which each index has its own run."""
        return axes_of(self.axis)

    @property
    def call(self) -> str:
        """The text of the call, for messages."""
        return f"bp.sweep({asked_as(self.target)}, {written(self.select)}, ...)"
