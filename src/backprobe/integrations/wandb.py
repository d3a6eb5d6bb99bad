"""A sink for Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backprobe.errors import installed
from backprobe.watch.sinks import Sink

STEP = "backprobe/step"
"""The axis of all that this sink sends: Weights & Biases counts its own steps, one per call of ``wandb.log``."""


class WandbSink(Sink):
    """A chart for each name, a section for each field, over the steps of the watched run; alerts by ``run.alert``.

    ``run`` is what ``wandb.init()`` returned, by default ``wandb.run``; if there is none, one is started, and finished
    with the watch.

    Each step that is sent is a call of ``run.log`` without ``step=``. If your own calls give ``step=``, they clash with
    these: leave ``step=`` out, or give the sink a run of its own, ``wandb.init(reinit="create_new")``.
    Raises NotInstalled.
    """

    def __init__(self, run: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.wandb = installed("wandb", asked="WandbSink(...)")
        self.run, self.is_ours = run, False
        self.defined: set[str] = set()

    def open(self, folder: Path) -> None:
        if self.run is None:
            self.run = self.wandb.run
        if self.run is None:
            self.run, self.is_ours = self.wandb.init(), True
        self.run.define_metric(STEP, hidden=True)

    def send(self, step: int, numbers: Mapping[str, float]) -> None:
        for field in {tag.partition("/")[0] for tag in numbers} - self.defined:
            self.defined.add(field)
            self.run.define_metric(f"{field}/*", step_metric=STEP)
        self.run.log({STEP: step, **numbers})

    def alert(self, step: int, text: str) -> None:
        self.run.alert(title=text.partition("\n")[0], text=text, wait_duration=0)

    def close(self) -> None:
        if self.is_ours:
            self.run.finish()
