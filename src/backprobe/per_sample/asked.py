"""The arguments of ``per_sample``, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backprobe.errors import BadOption
from backprobe.per_sample.result import PerSample
from backprobe.probe import probe
from backprobe.probe.request import name_of, refuse_uncallable
from backprobe.probe.several_outputs import refuse_several
from backprobe.probe.waiting import Waiting
from backprobe.record.brief import written
from backprobe.record.options import Option, check_options, check_texts
from backprobe.record.typed import P

OPTIONS = (Option("chunk", int, 1, "16", or_none=True),)


@dataclass(frozen=True, repr=False)
class AskedSamples(Waiting[P, PerSample]):
    """The target, the names whose gradients are taken, and how: ready to be called."""

    select: Any
    of: Any
    chunk: Any
    batch: Any
    verb = "per_sample"
    options = ", 'w'"

    def __post_init__(self) -> None:
        """Raises BadOption."""
        refuse_uncallable(self.target, "per_sample", ", ...")
        name = name_of(self.target)
        refuse_several(self.of, f"bp.per_sample({name}, ..., ", "bp.per_sample(f, ..., of='ce'), once for each")
        probe(self.target, self.select, of=self.of, backend=self.backend)  # which refuses its own options
        if self.select is None:
            raise BadOption(
                "per-sample gradients are of named values",
                asked="bp.per_sample(..., None)",
                next='bp.per_sample(model, "**"), for all modules and parameters',
            )
        check_options(vars(self), OPTIONS)
        if self.batch is not None:
            check_texts("batch", self.batch)

    def _asked(self) -> list[tuple[str, str]]:
        return [("select", written(self.select))]

    @property
    def call(self) -> str:
        """The call, as messages have it."""
        return f"bp.per_sample({name_of(self.target)}, {written(self.select)})"
