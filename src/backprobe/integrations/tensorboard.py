"""A sink that writes TensorBoard's event files."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backprobe.errors import installed
from backprobe.record.renamed import renamed
from backprobe.watch.sinks import Sink

ALERTS = "alerts"
"""The tag of alerts, in TensorBoard's text tab."""
LARGEST = 2.0**128
"""Event files have scalars in float32, where this is Inf."""


class TensorBoardSink(Sink):
    """A chart for each name, a section for each field; alerts in the text tab.

    ``folder`` is that of an event file, by default ``tensorboard`` in the run's own, or a ``SummaryWriter`` of yours
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
            self._open, self._protos = events.EventFileWriter, _Protos(asked)

    def open(self, folder: Path) -> None:
        if self.theirs is None:
            self.events = self._open(os.fspath(self.folder if self.folder is not None else folder / "tensorboard"))

    def send(self, step: int, numbers: Mapping[str, float]) -> None:
        if self.theirs is not None:
            for tag, number in numbers.items():
                self.theirs.add_scalar(tag, number, step)
            return
        self.events.add_event(self._protos.event(step, [self._protos.scalar(*one) for one in numbers.items()]))

    def stored(self, step: int, label: str, number: float) -> float:
        return number if abs(number) < LARGEST else math.copysign(math.inf, number)

    def alert(self, step: int, text: str) -> None:
        shown = text.replace("\n", "  \n")  # Markdown's line break
        if self.theirs is not None:
            self.theirs.add_text(ALERTS, shown, step)
        else:
            self.events.add_event(self._protos.event(step, [self._protos.text(ALERTS, shown)]))

    def close(self) -> None:
        if self.theirs is not None:
            self.theirs.flush()
        else:
            self.events.close()


class _Protos:
    # What an event file consists of.
    def __init__(self, asked: str) -> None:
        def module(name: str) -> Any:
            return installed(f"tensorboard.{name}", asked=asked)

        self.events, self.summaries = module("compat.proto.event_pb2"), module("compat.proto.summary_pb2")
        self.tensors, self.shapes = module("compat.proto.tensor_pb2"), module("compat.proto.tensor_shape_pb2")

    def event(self, step: int, values: list[Any]) -> Any:
        return self.events.Event(wall_time=time.time(), step=step, summary=self.summaries.Summary(value=values))

    def scalar(self, tag: str, number: float) -> Any:
        return self.summaries.Summary.Value(tag=tag, simple_value=number)

    def text(self, tag: str, text: str) -> Any:
        # As the plugin for texts reads it: a tensor of one text.
        plugin = self.summaries.SummaryMetadata.PluginData(plugin_name="text")
        one = self.shapes.TensorShapeProto(dim=[self.shapes.TensorShapeProto.Dim(size=1)])
        tensor = self.tensors.TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=one)
        metadata = self.summaries.SummaryMetadata(plugin_data=plugin)
        return self.summaries.Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
