"""A sink for MLflow."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backprobe.errors import installed
from backprobe.watch.sinks import Sink

ALERTS = "backprobe/alerts.txt"
"""The path of the artifact that contains the alerts so far."""
MOST = 1000  # metrics that MLflow accepts in one call
NOT_TAKEN = re.compile(r"[^\w.\- /]")


class MLflowSink(Sink):
    """Sends the statistics and alerts of a watched run to MLflow.

    Each field and name becomes a metric over steps, such as ``grad.rms/0.weight``. The alerts become an artifact.
    ``run_id`` is the identifier of an MLflow run, by default that of ``mlflow.active_run()``. If no run is active, one
    is started, and ended together with the watch. Characters that MLflow does not allow in names, such as ``:``, are
    replaced by ``_``. Raises NotInstalled.
    """

    def __init__(self, run_id: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.mlflow = installed("mlflow", asked="MLflowSink(...)", packages="mlflow-skinny")
        self.run_id, self.is_ours = run_id, False
        self.texts: list[str] = []

    def open(self, folder: Path) -> None:
        self.client = self.mlflow.MlflowClient()
        if self.run_id is None:
            active = self.mlflow.active_run()
            self.is_ours = active is None
            self.run_id = (active or self.mlflow.start_run()).info.run_id

    def send(self, step: int, numbers: Mapping[str, float]) -> None:
        now, kind = int(time.time() * 1000), self.mlflow.entities.Metric
        metrics = [kind(NOT_TAKEN.sub("_", tag), number, now, step) for tag, number in numbers.items()]
        for at in range(0, len(metrics), MOST):
            self.client.log_batch(self.run_id, metrics=metrics[at : at + MOST])

    def stored(self, step: int, label: str, number: float) -> float:
        kept = self.client.get_metric_history(self.run_id, NOT_TAKEN.sub("_", label))
        return next((float(one.value) for one in kept if one.step == step), number)

    def alert(self, step: int, text: str) -> None:
        self.texts.append(text)
        self.client.log_text(self.run_id, "\n".join(self.texts) + "\n", ALERTS)

    def close(self) -> None:
        if self.is_ours:
            self.mlflow.end_run()
