"""A sink that writes TensorBoard's event files."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backprobe.errors import installed
from backprobe.exports.event_files import Protos
from backprobe.record.renamed import renamed
from backprobe.watch.sinks import Sink

ALERTS = "alerts"
"""The tag of the alerts in TensorBoard's text tab."""
LARGEST = 2.0**128
"""Event files store scalars in float32, in which this number becomes Inf."""


class TensorBoardSink(Sink):
    """Writes the statistics and alerts of a watched run to TensorBoard.

    TensorBoard shows a chart for each name, a section for each field, and the alerts in its text tab. ``folder`` is the
    folder for an event file, by default ``tensorboard`` in the run's folder. It may also be your own ``SummaryWriter``
    (of ``torch.utils.tensorboard`` or ``tensorboardX``), which is not closed. Raises NotInstalled.
    """

    @renamed("TensorBoardSink(folder{})", {"into": "folder={}"})
    def __init__(self, folder: str | os.PathLike[str] | Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.folder = folder
        self.theirs = None if folder is None or isinstance(folder, str | os.PathLike) else folder
        if self.theirs is None:
            asked = "TensorBoardSink(...)"
            events = installed("tensorboard.summary.writer.event_file_writer", asked=asked)
            self._open, self._protos = events.EventFileWriter, Protos(asked)

    def open(self, folder: Path) -> None:
        if self.theirs is None:
            self.events = self._open(os.fspath(self.folder if self.folder is not None else folder / "tensorboard"))

    def send(self, step: int, numbers: Mapping[str, float]) -> None:
        if self.theirs is not None:
            for tag, number in numbers.items():
                self.theirs.add_scalar(tag, number, step)
            return
        self.events.add_event(
            self._protos.event(step, [self._protos.scalar(*one) for one in numbers.items()], time.time())
        )

    def stored(self, step: int, label: str, number: float) -> float:
        return number if abs(number) < LARGEST else math.copysign(math.inf, number)

    def alert(self, step: int, text: str) -> None:
        shown = text.replace("\n", "  \n")  # a line break in Markdown
        if self.theirs is not None:
            self.theirs.add_text(ALERTS, shown, step)
        else:
            self.events.add_event(self._protos.event(step, [self._protos.text(ALERTS, shown)], time.time()))

    def close(self) -> None:
        if self.theirs is not None:
            self.theirs.flush()
        else:
            self.events.close()
