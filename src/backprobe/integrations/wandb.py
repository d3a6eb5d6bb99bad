"""A sink for Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backprobe.errors import installed
from backprobe.watch.sinks import Sink

STEP = "backprobe/step"
"""The x-axis of this sink's charts. The dashboard's own step counter counts calls of ``wandb.log`` instead."""


class WandbSink(Sink):
    """Sends the statistics and alerts of a watched run to Weights & Biases.

    Each name becomes a chart over the steps of the watched run, in a section for its field. Alerts are sent by
    ``run.alert``. ``run`` is the result of ``wandb.init()``, by default ``wandb.run``. If there is none, a run is
    started, and finished together with the watch.

    The sink calls ``run.log`` without ``step=`` for each step that it sends. Your own calls with ``step=`` would
    conflict with these: leave ``step=`` out, or give the sink a run of its own, ``wandb.init(reinit="create_new")``.
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
