"""Exports a run as TensorBoard event files, with the numbers that ``TensorBoardSink`` writes live."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy

from backprobe.errors import BadOption, installed
from backprobe.exports.places import is_url
from backprobe.record.statistics import columns_for, statistic
from backprobe.storage.runs.layout import RowKey
from backprobe.storage.runs.merged import LOGGED, NOT_FINITE, OF_LOGGED, RATIO, RunReader, logged

FIELDS = ("value.rms", "grad.rms", "param.rms", RATIO, LOGGED)
STATE = "backprobe.json"
"""The file that stores which steps were exported. It is needed because event files can only be appended to."""
AT_ONCE = 1 << 18


class Protos:
    """The protocol buffer messages of an event file. Raises NotInstalled."""

    def __init__(self, asked: str) -> None:
        def module(name: str) -> Any:
            return installed(f"tensorboard.{name}", asked=asked)

        self.events, self.summaries = module("compat.proto.event_pb2"), module("compat.proto.summary_pb2")
        self.tensors, self.shapes = module("compat.proto.tensor_pb2"), module("compat.proto.tensor_shape_pb2")

    def event(self, step: int, values: list[Any], time: float) -> Any:
        """The event with the numbers of a step."""
        return self.events.Event(wall_time=time, step=step, summary=self.summaries.Summary(value=values))

    def scalar(self, tag: str, number: float) -> Any:
        """Return one number of a chart."""
        return self.summaries.Summary.Value(tag=tag, simple_value=number)

    def text(self, tag: str, text: str) -> Any:
        """Return a text in the form of TensorBoard's text plugin: a string tensor with one element."""
        plugin = self.summaries.SummaryMetadata.PluginData(plugin_name="text")
        one = self.shapes.TensorShapeProto(dim=[self.shapes.TensorShapeProto.Dim(size=1)])
        tensor = self.tensors.TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=one)
        metadata = self.summaries.SummaryMetadata(plugin_data=plugin)
        return self.summaries.Summary.Value(tag=tag, metadata=metadata, tensor=tensor)


def write_events(reader: RunReader, path: str | os.PathLike[str], fields: Sequence[str] | None, asked: str) -> None:
    """Write the steps that are new since the last export. Raises BadOption and NotInstalled."""
    if is_url(path):
        raise BadOption(
            "event files of TensorBoard go to a folder of this machine",
            asked=asked,
            found=f"the URL {path}",
            next="a path, or format='parquet'",
        )
    file = installed("tensorboard.summary.writer.event_file_writer", asked=asked)
    protos, folder = Protos(asked), Path(path)
    known = {kind for _, kind in reader.rows()}
    chosen = list(fields) if fields is not None else [one for one in FIELDS if _kinds(one) <= known]
    counts = [f"{one.partition('.')[0]}.{count}" for one in chosen if one.endswith(".rms") for count in NOT_FINITE]
    fields = list(dict.fromkeys([*chosen, *counts]))
    state = _state(folder, reader, fields, asked)
    begun = set(state["begun"])
    writer = file.EventFileWriter(os.fspath(folder))
    try:
        for info, attempt, numbers in _numbers(reader, fields, state["attempt"], state["step"]):
            begun |= {label for label, number in numbers.items() if _is_count(label) and number > 0}
            shown = {label: number for label, number in numbers.items() if not _is_count(label) or label in begun}
            values = [protos.scalar(*one) for one in shown.items()]
            writer.add_event(protos.event(int(info["step"]), values, float(info["time"])))
            state |= {"attempt": attempt, "step": int(info["step"])}
    finally:
        writer.close()
    (folder / STATE).write_text(json.dumps({**state, "begun": sorted(begun)}))


def _kinds(field: str) -> set[str]:
    return {"update", "param"} if field == RATIO else {field.partition(".")[0]}


def _is_count(label: str) -> bool:
    # Is this a count of NaN or Inf? Such a count is written only after it has been different from 0 once.
    return label.partition("/")[0].rpartition(".")[2] in NOT_FINITE


def _state(folder: Path, reader: RunReader, fields: list[str], asked: str) -> dict[str, Any]:
    # Return what the last export wrote. Raises BadOption if the folder contains something else.
    began = {key: value for key, value in reader.attempts()[0].facts.items() if key != "ended"}
    new = {"fields": fields, "began": began, "attempt": -1, "step": -1, "begun": []}
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return new
    found: Any = None
    if (folder / STATE).is_file():
        try:
            found = json.loads((folder / STATE).read_text())
        except ValueError:
            found = None
    if not isinstance(found, dict) or any(found.get(key) != new[key] for key in ("fields", "began")):
        what = "no export of a run" if not isinstance(found, dict) else "an export of another run or other fields"
        raise BadOption(
            f"{folder} has something else in it",
            asked=asked,
            found=what,
            why="an export goes on where the last one of the same run ended",
            next="an empty folder",
        )
    return found


def _numbers(
    reader: RunReader, fields: list[str], attempt: int, last: int
) -> Iterator[tuple[Any, int, dict[str, float]]]:
    # Yield the facts of each new step, the attempt that made it, and its numbers by label.
    info = reader.info()
    made = reader.made_by(int(info["step"][-1])) if len(info) else numpy.empty(0, numpy.int64)
    attempts = numpy.append(made, numpy.full(len(info) - len(made), made[-1] if len(made) else 0))
    new = numpy.flatnonzero((info["step"] > last) | (attempts > attempt))
    rows = reader.rows()
    names = {field: reader.names_of(field.partition(".")[0]) for field in fields}
    size = max(1, AT_ONCE // max(1, len(rows)))
    for low in range(int(new[0]) if len(new) else len(info), len(info), size):
        high = min(low + size, len(info))
        held = {field: _field(reader, rows, names[field], field, low, high) for field in fields}
        for at in range(low, high):
            numbers = {
                f"{field}/{name}": float(own[at - low])
                for field, (matrix, there) in held.items()
                for name, own, is_there in zip(names[field], matrix, there, strict=True)
                if is_there[at - low]
            }
            yield info[at], int(attempts[at]), numbers


def _field(reader: RunReader, rows: Any, names: list[str], field: str, low: int, high: int) -> tuple[Any, Any]:
    # Return a field of some names in a range of steps, and a mask of the numbers that exist: names × steps.
    kind, _, which = ("update", ".", "rms") if field == RATIO else field.partition(".")
    wanted = OF_LOGGED if field == LOGGED else columns_for([which])

    def columns(kind: str, wanted: Sequence[str]) -> dict[str, Any]:
        keys = [(name, kind) for name in names]
        own = [rows.get(key, RowKey(*key)) for key in keys]
        shape = (len(names), high - low)
        return {one: numpy.broadcast_to(reader.narrow(own, keys, one, low, high), shape) for one in wanted}

    held = columns(kind, list(dict.fromkeys(["count", *wanted])))
    found = logged(held) if field == LOGGED else statistic(which, held)
    if field == RATIO:
        with numpy.errstate(all="ignore"):
            found = found / statistic("rms", columns("param", columns_for(["rms"])))
    return numpy.asarray(found), held["count"] > 0
