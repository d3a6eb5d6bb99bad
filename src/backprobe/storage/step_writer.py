"""Writes a failing step as the folder that ``storage.steps`` reads, without pickle."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backprobe.backends.captures import CapturedStep, Captures, KeptTensor
from backprobe.backends.discover import load_arrays
from backprobe.errors import BackprobeError
from backprobe.record.entries import Record
from backprobe.record.stamp import stamp
from backprobe.storage import recordings
from backprobe.storage.steps import BYTES, DATA, FORMAT, VERSION, canonical

LARGEST = 8 * 2**30
"""The most bytes of tensors in a step's file. Parts are added in the order of their importance, parameters last. A part
that does not fit any more is left out.
"""
LARGEST_RECORDING = 2**30
"""The most bytes of the recording that is stored with the step."""
DEEPEST = 16
MANY = 64
"""Longer lists and tuples of integers are written as arrays, if each integer is at least 0 and fits int64."""
NATIVE = {
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
}
"""safetensors' own names of these dtypes."""

Tensor = tuple[str, Sequence[int], Any]
"""A tensor in the file: its dtype, its shape and its memory."""


class NotKept(Exception):
    """Raised for a part of a call that could only be written by running code of the program. The message describes the
    part.
    """


def write(
    step: CapturedStep, record: Record | None, said: Mapping[str, Any], path: Path, spelling: Captures
) -> Sequence[str]:
    """Write a step into a new folder, or nothing at all. Returns descriptions of the parts that were left out. May
    raise any error, such as OSError.
    """
    writer = Writer(step, spelling)
    data, tensors = writer.data(), writer.tensors()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".backprobe-", dir=path.parent))
    try:
        _put_tensors(tensors, beside / BYTES)
        left_out = [*step.left_out, *writer.left_out, *_record(record, beside)]
        body = {
            "format": FORMAT,
            "version": VERSION,
            **said,
            "left_out": left_out,
            "stamp": asdict(stamp()),
            **data,
            "bytes": recordings.digest_of_file(beside / BYTES),
        }
        body["digest"] = recordings.digest_of(canonical(body))
        (beside / DATA).write_text(json.dumps(body, indent=1), encoding="utf-8")
        recordings.let_read(beside, (DATA, BYTES))
        beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return left_out


def _record(record: Record | None, folder: Path) -> list[str]:
    # Write the recording. Returns descriptions of the parts that were left out.
    if record is None:
        return ["the recording: the call could not be made again as it failed"]
    try:
        fits = recordings.put(record, folder, LARGEST_RECORDING)
    except BackprobeError as error:
        return [f"the recording: {error.headline}"]
    return [] if fits else [f"the recording: it is larger than {_said(LARGEST_RECORDING)}"]


def _said(size: int) -> str:
    return f"{size / 2**20:,.1f} MB" if size >= 2**20 / 10 else f"{size} bytes"


class Writer:
    """A step as plain data, and its tensors by name."""

    def __init__(self, step: CapturedStep, spelling: Captures) -> None:
        self.step, self.spelling = step, spelling
        self.left_out: list[str] = []
        self.own, self.numpy = load_arrays(step.backend), load_arrays("numpy")
        self.blobs: dict[str, Any] = {}
        self.seen: dict[Any, str] = {}
        self.kept: dict[int, str] = {}
        self.layouts: list[tuple[str, dict[str, Any]]] = []
        self.room = LARGEST

    def data(self) -> dict[str, Any]:
        """The step as plain data. The most important parts are added first, and parts that do not fit are left out."""
        step = self.step
        calls: list[dict[str, Any]] = [
            {"path": call.path, "modes": call.modes, "wanted": call.wanted, "returned": call.returned}
            for call in step.calls
        ]
        for part in ("random", "given", "gradients", "state"):
            for at, call in enumerate(step.calls):
                calls[at][part] = self._group(f"calls.{at}.{part}", getattr(call, part))
        return {
            "backend": step.backend,
            "model": step.model,
            "is_function": step.is_function,
            "is_backward": step.is_backward,
            "devices": [*step.devices],
            "settings": step.settings,
            "calls": calls,
            "parameters": self._group("parameters", step.parameters),
            "gradients": step.gradients,
        }

    def _group(self, where: str, value: Any) -> Any:
        size = sum(one.size for one in {id(one): one for one in _kept_in(value)}.values())
        if size > self.room:
            self.left_out.append(f"{where}: {_said(size)}, and there was room for {_said(self.room)}")
        is_left_out, self.room = size > self.room, self.room - (size if size <= self.room else 0)
        if where.endswith(".given"):
            call = where.removesuffix("given")
            parts = zip(("args", "kwargs"), value, strict=True)
            return {"tuple": [self._value(part, f"{call}{name}", is_left_out) for name, part in parts]}
        return self._value(value, where, is_left_out)

    def _value(self, value: Any, where: str, is_left_out: bool, depth: int = 0) -> Any:
        if isinstance(value, KeptTensor):
            return self._kept(value, where, is_left_out)
        if value is None or type(value) in (bool, int, float, str):
            return {"plain": value}
        try:
            if depth == DEEPEST:
                raise NotKept("a container inside itself")
            return self._other(value, lambda key, item: self._value(item, f"{where}.{key}", is_left_out, depth + 1))
        except NotKept as error:
            self.left_out.append(f"{where}: {error}")
            return {"left_out": str(error)}

    def _other(self, value: Any, inside: Callable[[Any, Any], Any]) -> Any:
        kind = type(value)
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind in (slice, range):
            return {kind.__name__: [value.start, value.stop, value.step]}
        if kind in (list, tuple):
            if len(value) > MANY and all(type(item) is int and 0 <= item < 2**63 for item in value):
                return {"integers": self._integers(value), "of": kind.__name__}
            return {kind.__name__: [inside(at, item) for at, item in enumerate(value)]}
        if kind is dict:
            return {"dict": [[inside(f"key {key}", key), inside(key, item)] for key, item in value.items()]}
        spelled = self.spelling.spelled(value)
        if spelled is not None:
            return {"spelled": spelled}
        if self.numpy.is_tensor(value):
            return {"array": self._encoded(self.numpy, value, f"array.{len(self.layouts)}")}
        fields = _fields_of(value)
        if fields is None:
            raise NotKept(f"an object of class {kind.__name__}, which cannot be written without pickle")
        name = [kind.__module__, kind.__qualname__]
        return {"object": name, "fields": {key: inside(key, item) for key, item in fields.items()}}

    def _integers(self, value: Sequence[int]) -> dict[str, Any]:
        import numpy

        return self._encoded(self.numpy, numpy.array(value, numpy.int64), f"integers.{len(self.layouts)}")

    def _kept(self, one: KeptTensor, where: str, is_left_out: bool) -> Any:
        about = self.own.describe(one.tensor)
        facts = {**one.facts, "shape": list(about.shape or ()), "dtype": about.dtype}
        if is_left_out:
            return {"tensor": None, "facts": facts}
        if id(one) in self.kept:
            return {"same": self.kept[id(one)]}
        self.kept[id(one)] = where
        try:
            return {"tensor": self._encoded(self.own, one.tensor, where), "facts": facts, "name": where}
        except BackprobeError as error:
            raise NotKept(error.headline) from error

    def _encoded(self, arrays: Any, tensor: Any, where: str) -> dict[str, Any]:
        layout: dict[str, Any] = arrays.encode(tensor, self.blobs, self.seen)
        for part in (layout, *layout.get("parts", {}).values()):
            if "storage" in part:
                self.layouts.append((where, part))
        return layout

    def tensors(self) -> dict[str, Tensor]:
        """The contents of the tensor file. Each memory has the name of its first tensor. It has that tensor's dtype and
        shape if the tensor fills it exactly, and is stored as bytes otherwise.
        """
        users: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        found = {}
        # ``bytes()`` may change the layout of a blob, so it is called first
        stored = {name: blob.bytes() for name, blob in self.blobs.items()}
        for where, layout in self.layouts:
            users.setdefault(layout["storage"], []).append((where, layout))
        for storage, own in users.items():
            where, layout = own[0]
            name = where if where not in found else f"{where}.{storage}"
            for _, one in own:
                one["storage"] = name
            found[name] = _typed(layout, stored[storage])
        return found


def _typed(layout: Mapping[str, Any], memory: Any) -> Tensor:
    # The memory in the form that safetensors requires.
    shape, size = layout.get("shape", []), memory.nbytes
    strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    is_whole = layout["offset"] == 0 and layout["stride"] == strides and layout["dtype"] in NATIVE
    if is_whole and size == math.prod(shape) * _size(layout["dtype"]):
        return NATIVE[layout["dtype"]], shape, memory
    return "U8", [size], memory


def _put_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    # Written by hand: safetensors' own library takes all tensors at once, and its interface differs between versions.
    # The format is simple: https://github.com/safetensors/safetensors#format
    at, header = 0, {}
    # largest numbers first, so that each tensor is aligned
    ordered = sorted(tensors.items(), key=lambda one: (-_size(one[1][0]), one[0]))
    for name, (dtype, shape, memory) in ordered:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + memory.nbytes]}
        at += memory.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("xb") as opened:
        opened.write(len(text).to_bytes(8, "little") + text)
        for _, (_, _, memory) in ordered:
            opened.write(memory.tobytes())


def _size(dtype: str) -> int:
    # The bytes of one number, from the number of bits in the name of a dtype, which only booleans lack.
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1


def _kept_in(value: Any, depth: int = 0) -> Iterator[KeptTensor]:
    if isinstance(value, KeptTensor):
        yield value
    elif depth < DEEPEST:
        fields = value if isinstance(value, dict) else _fields_of(value)
        items = value if isinstance(value, list | tuple) else (fields or {}).values()
        for item in items:
            yield from _kept_in(item, depth + 1)


def _fields_of(value: Any) -> dict[str, Any] | None:
    # The fields of a named tuple, a dataclass or an instance of a dict's subclass; None for any other object.
    kind = type(value)
    if isinstance(value, dict):
        return dict(dict.items(value)) if all(type(key) is str for key in value) else None
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, value, strict=True))
    if dataclasses.is_dataclass(kind):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(kind) if hasattr(value, one.name)}
    return None
