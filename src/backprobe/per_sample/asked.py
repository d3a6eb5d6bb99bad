"""Checks the arguments of ``per_sample``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backprobe.per_sample.result import PerSample
from backprobe.probe.named_values import OfNamedValues
from backprobe.probe.request import asked_as
from backprobe.record.brief import written
from backprobe.record.options import Option, check_texts
from backprobe.record.typed import P

OPTIONS = (Option("chunk", int, 1, "16", or_none=True),)


@dataclass(frozen=True, repr=False)
class AskedSamples(OfNamedValues[P, PerSample]):
    """A target with the options of ``per_sample``, ready to be called."""

    chunk: Any
    batch: Any
    verb = "per_sample"
    options = ", 'w'"
    declared, about = OPTIONS, "per-sample gradients are of named values"
    all_names = 'bp.per_sample(model, "**"), for all modules and parameters'
    one_output = "bp.per_sample(f, ..., of='ce'), once for each"

    def __post_init__(self) -> None:
        """Raises BadOption."""
        super().__post_init__()
        if self.batch is not None:
            check_texts("batch", self.batch)

    @property
    def call(self) -> str:
        """The text of the call, for messages."""
        return f"bp.per_sample({asked_as(self.target)}, {written(self.select)})"
