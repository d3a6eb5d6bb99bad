"""A failing step on disk: a folder of plain data that is read whole or not at all, and never executed.

``step.json`` describes the failure, the arguments of the calls, and the parts that were left out. ``step.safetensors``
holds parameters, buffers, the batch and random states by name. A tensor that covers its memory alone keeps its dtype;
other memory is stored as bytes. If the step could be recorded, the folder also contains the two files of its recording,
which ``bp.load`` reads.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from backprobe.backends.captures import SINCE, CapturedCall, CapturedStep, Captures, KeptTensor, LeftOut
from backprobe.backends.discover import load_arrays
from backprobe.errors import BackprobeError, BadRecording
from backprobe.storage import recordings
from backprobe.storage.schema import UNFIT

FORMAT, VERSION = "backprobe step", 1
DATA, BYTES = "step.json", "step.safetensors"
NEEDED = re.compile(rf"calls\.\d+\.(args|kwargs|gradients)|.*{SINCE}")


def needed(left_out: Sequence[str]) -> list[str]:
    """Those left-out parts without which the step cannot run again."""
    return [one for one in left_out if NEEDED.match(one)]


def canonical(data: Mapping[str, Any]) -> str:
    """The text from which the digest in ``step.json`` is computed."""
    return json.dumps(data, sort_keys=True)


def read(
    path: str | os.PathLike[str], asked: str, spelling: Callable[[str], Captures], beside: Sequence[ModuleType] = ()
) -> tuple[CapturedStep, dict[str, Any]]:
    """The step in a folder, and the rest of ``step.json``. Raises BadRecording, and NoBackend.

    Classes of the calls' arguments are looked up in modules that are already imported, and in those given as
    ``beside``.
    """
    folder = Path(path)
    data = step_data(folder, asked)
    try:
        blobs = recordings.mapped_file(folder / BYTES)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _bad(folder, asked, "it is incomplete or damaged", f"{BYTES}: {error}") from error
    captures = spelling(data["backend"])
    try:
        with captures.settled(data["settings"]):
            return StepReader(data["backend"], blobs, captures, beside).step(data), data
    except BackprobeError:
        raise
    except UNFIT as error:
        raise _bad(folder, asked, "its parts do not fit together", f"{type(error).__name__}: {error}") from error


def told(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The contents of ``step.json``, unchecked; None if the file cannot be read or does not describe a step."""
    try:
        data = json.loads((Path(path) / DATA).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and data.get("format") == FORMAT else None


def step_data(folder: Path, asked: str) -> dict[str, Any]:
    """The contents of ``step.json``. Raises BadRecording if it describes no step, or one that this version
    cannot read.
    """
    try:
        data = json.loads((folder / DATA).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        found = f"no {DATA} in it" if folder.is_dir() else "a file" if folder.exists() else "no such folder"
        is_recording = (folder / recordings.DATA).is_file()
        raise _bad(
            folder,
            asked,
            "it is not a captured step",
            "a recording" if is_recording else found,
            f"bp.load({str(folder)!r}), which reads it"
            if is_recording
            else "the folder that bp.guard(model, capture=folder) wrote",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _bad(folder, asked, "it is incomplete or damaged", f"{DATA}: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise _bad(folder, asked, "it is not a captured step", f"{DATA} holds something else")
    if data.get("version") != VERSION:
        raise _bad(
            folder,
            asked,
            "it was written by another version of backprobe",
            f"format version {data.get('version')}, this backprobe reads {VERSION}",
            "replay it with the backprobe that wrote it",
        )
    digest = data.pop("digest", None)
    if digest != recordings.digest_of(canonical(data)):
        raise _bad(folder, asked, "it was changed since it was written", f"the digest of {DATA} does not match")
    try:
        found = recordings.digest_of_file(folder / BYTES)
    except OSError as error:
        raise _bad(folder, asked, "it is incomplete", f"no {BYTES} in it") from error
    if found != data["bytes"]:
        raise _bad(
            folder,
            asked,
            "it is incomplete or was changed since it was written",
            f"the digest of {BYTES} does not match",
        )
    return data


def _bad(folder: Path, asked: str, headline: str, found: str, next: str = "") -> BadRecording:
    return BadRecording(
        f"{folder} cannot be replayed: {headline}",
        asked=asked,
        found=found,
        why="" if next else "a step is read whole or not at all",
        next=next or "with bp.guard(model, capture='another-step'): around the training, which writes it again",
    )


class StepReader:
    """Converts plain data to a step."""

    def __init__(
        self, backend: str, blobs: Mapping[str, Any], spelling: Captures, beside: Sequence[ModuleType]
    ) -> None:
        self.own, self.numpy = load_arrays(backend), load_arrays("numpy")
        self.blobs = Blobs(blobs)
        self.spelling, self.beside = spelling, beside
        self.kept: dict[str, KeptTensor] = {}

    def step(self, data: Mapping[str, Any]) -> CapturedStep:
        """The step. For damaged data, raises one of ``schema.UNFIT``."""
        parameters = self._value(data["parameters"])
        calls = []
        for call in data["calls"]:
            given, state, gradients, random = (
                self._value(call[part]) for part in ("given", "state", "gradients", "random")
            )
            facts = call["modes"], call["returned"], call["wanted"]
            calls.append(CapturedCall(call["path"], given, state, gradients, random, *facts))
        return CapturedStep(
            data["backend"],
            data["model"],
            calls,
            data["is_backward"],
            parameters,
            data["gradients"],
            data["settings"],
            data["devices"],
            data["left_out"],
            data["is_function"],
        )

    def _value(self, data: Any) -> Any:
        match data:
            case {"tensor": layout, "facts": facts}:
                tensor = None if layout is None else self.own.decode(layout, self.blobs)
                made = KeptTensor(tensor, 0, facts)
                self.kept[data.get("name", "")] = made
                return made
            case {"same": name}:
                return self.kept[name]
            case {"plain": value}:
                return value
            case {"complex": [real, imaginary]}:
                return complex(real, imaginary)
            case {"slice": bounds}:
                return slice(*bounds)
            case {"range": bounds}:
                return range(*bounds)
            case {"integers": layout, "of": kind}:
                numbers = self.numpy.decode(layout, self.blobs).tolist()
                return tuple(numbers) if kind == "tuple" else numbers
            case {"list": items}:
                return [self._value(item) for item in items]
            case {"tuple": items}:
                return tuple([self._value(item) for item in items])
            case {"dict": items}:
                return {self._value(key): self._value(item) for key, item in items}
            case {"spelled": text}:
                return self.spelling.unspelled(text)
            case {"array": layout}:
                return self.numpy.decode(layout, self.blobs)
            case {"object": [module, name], "fields": fields}:
                return self._object(module, name, {key: self._value(item) for key, item in fields.items()})
            case {"left_out": why}:
                return LeftOut(why)
        raise ValueError(f"{data!r:.60} is no value")

    def _object(self, module: str, name: str, fields: dict[str, Any]) -> Any:
        # A named tuple, a dataclass or an instance of a dict's subclass. No module is imported for it, and no code runs
        # except that of a dict's class.
        kind: Any = next(
            (found for one in (sys.modules.get(module), *self.beside) if (found := _class(one, name))), None
        )
        if kind is None:
            return LeftOut(
                f"an object of class {name} of {module}, which is not imported",
                f"import {module}, in the file that makes the model",
            )
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return tuple.__new__(kind, [fields[one] for one in kind._fields])
        if issubclass(kind, dict):
            return kind(**fields)
        if not hasattr(kind, "__dataclass_fields__"):
            raise ValueError(f"{name} is no dataclass")
        made = object.__new__(kind)
        for key, item in fields.items():
            object.__setattr__(made, key, item)
        return made


def _class(module: Any, name: str) -> Any:
    for step in name.split("."):
        module = getattr(module, step, None)
    return module if isinstance(module, type) else None


class Blobs(dict[str, Any]):
    """Memory by name, copied from the file on first access and cached."""

    def __init__(self, mapped: Mapping[str, Any]) -> None:
        self.mapped = mapped

    def __missing__(self, name: str) -> Any:
        self[name] = found = self.mapped[name].copy()
        return found
