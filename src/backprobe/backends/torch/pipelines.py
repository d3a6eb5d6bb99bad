"""Schedules of ``torch.distributed.pipelining``: their extra operations, and backward passes that they split in two.

A stage first runs once on memory without numbers, to infer shapes. This run is not part of the program. Some schedules
compute gradients of inputs and of weights separately, by ``autograd.grad``, and add the latter to ``.grad`` as
``backward()`` would. The two halves together are one backward.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from backprobe.backends.patching import listening
from backprobe.record.reasons import Reason

STAGES = "torch.distributed.pipelining.stage"
INFERENCE = ("_forward_metadata_inference", "_backward_metadata_inference", "_shape_inference")
HALVES = {"stage_backward_input": "inputs", "stage_backward_weight": "weights"}


def _nothing() -> None:
    """Do nothing. This function is used if no callback is given."""


@dataclass
class Schedules:
    """Observes the schedules of this thread. If ``torch.distributed.pipelining`` is not imported, no schedule can
    run.
    """

    rest: Callable[[], object] = _nothing  # called before shapes are inferred
    wake: Callable[[], object] = _nothing  # called after shapes were inferred
    begins: Callable[[], object] = _nothing  # called before each half of a backward
    added: Callable[[], object] = _nothing  # called after each half, which may have added to ``.grad``
    is_inferring: bool = False
    half: str = ""  # the half of a split backward that is running: ``inputs`` or ``weights``
    notes: dict[Reason, None] = field(default_factory=dict)  # on the observed schedules

    def listening(self) -> AbstractContextManager[object]:
        """Inside this context schedules are observed. Afterwards the callbacks are released and no longer called."""
        stages = sys.modules.get(STAGES)
        stage, base = (getattr(stages, name, None) for name in ("PipelineStage", "_PipelineStageBase"))
        listeners: list[tuple[Any, str, Callable[..., Any]]] = [(base, "scale_grads", self._scaling)]
        listeners += [(stage, name, self._inferring) for name in INFERENCE]
        listeners += [(stages, name, partial(self._halved, half)) for name, half in HALVES.items()]
        installed = ExitStack()
        installed.callback(self._forget)
        for owner, name, listener in listeners:
            if hasattr(owner, name):
                installed.enter_context(listening(owner, name, listener))
        return installed

    def _forget(self) -> None:
        self.rest = self.wake = self.begins = self.added = _nothing

    def _scaling(self, following: Callable[..., Any], stage: Any, /, *args: Any, **kwargs: Any) -> Any:
        (factor,) = (*args, *kwargs.values())
        if factor != 1:
            self.notes[Reason("pipeline_divides", {"number": str(factor)})] = None
        return following(stage, *args, **kwargs)

    def _inferring(self, following: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.notes[Reason("pipeline_infers")] = None
        self.is_inferring = True
        self.rest()
        try:
            return following(*args, **kwargs)
        finally:
            self.is_inferring = False
            self.wake()

    def _halved(self, half: str, following: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.begins()
        self.half = half
        try:
            return following(*args, **kwargs)
        finally:
            self.half = ""
            self.added()


NONE = Schedules()
"""Used if the process has not imported ``torch.distributed.pipelining``."""


def schedules(**told: Any) -> Schedules:
    """Return an object that observes this thread's schedules; ``NONE`` if no schedule can run."""
    return Schedules(**told) if STAGES in sys.modules else NONE
