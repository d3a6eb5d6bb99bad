"""Notes on schedules of ``torch.distributed.pipelining``: the work that they do besides the program's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from backprobe.backends.patching import listening
from backprobe.record.reasons import Reason

STAGES = "torch.distributed.pipelining.stage"


class Pipelines:
    """Listens to the stages of pipelines while a block is open."""

    def __init__(self) -> None:
        self.notes: dict[Reason, None] = {}
        self.listening = ExitStack()

    def listen(self) -> None:
        stages = sys.modules.get(STAGES)  # where no schedule is imported, none runs
        listeners = (
            ("_PipelineStageBase", "scale_grads", self._scaling),
            ("PipelineStage", "_forward_metadata_inference", self._inferring),
            ("PipelineStage", "_shape_inference", self._inferring),  # as older releases call it
        )
        for owner, name, listener in listeners:
            kind = getattr(stages, owner, None)
            if hasattr(kind, name):
                self.listening.enter_context(listening(kind, name, listener))

    def stop(self) -> None:
        self.listening.close()

    def _scaling(self, following: Callable[..., Any], stage: Any, /, *args: Any, **kwargs: Any) -> Any:
        (factor,) = (*args, *kwargs.values())
        if factor != 1:
            self.notes[Reason("pipeline_divides", {"number": str(factor)})] = None
        return following(stage, *args, **kwargs)

    def _inferring(self, following: Callable[..., Any], stage: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.notes[Reason("pipeline_infers")] = None
        return following(stage, *args, **kwargs)

    def seen(self) -> Sequence[Reason]:
        return tuple(self.notes)
