"""A record as plain data and back, guided by the type hints of its classes.

Strings, numbers, lists and dicts become JSON. A field with the hint ``Any`` holds a value of the program, whose tensors
are stored as blobs of bytes. Printed names that follow from a position are not stored, but looked up again.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from backprobe.backends.tensors import Arrays
from backprobe.errors import BackprobeError, BadRecording, NotSaved
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.held import Alias, Lost
from backprobe.record.names import strip
from backprobe.record.positions import NAMED_BY, names_at
from backprobe.record.reasons import Reason

DEEPEST = 64  # nested containers in a result: a list that contains itself would never end
NUMBERS = (bool, int, float, complex, str)
CONTAINERS = {"tuple": tuple, "list": list, "dict": dict}
BELONGS = {
    str: ((str,), "a string"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    list: ((list,), "a list"),
    dict: ((dict,), "an object"),
}
"""For each type in a type hint: the types that JSON gives for it, and the word for it in messages."""

UNFIT = (BackprobeError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, MemoryError)
"""Errors that decoding a tensor may raise if its layout was not written by ``save``."""


class Misfit(ValueError):
    """A part of a file that does not fit a record. The message says which."""


@lru_cache
def _hints(kind: Any) -> Mapping[str, Any]:
    # The type hints of those fields of a dataclass that are saved.
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind) if NAMED_BY not in field.metadata}


@lru_cache
def _names(kind: Any) -> Mapping[str, str]:
    # The fields of a dataclass that hold printed names, each with the field that holds the position.
    return {field.name: field.metadata[NAMED_BY] for field in fields(kind) if NAMED_BY in field.metadata}


class Encoder:
    """Converts one record to plain data. ``blobs`` collects the bytes of its tensors."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.blobs: dict[str, Any] = {}
        self.seen: dict[Any, str] = {}

    def record(self, record: Record) -> dict[str, Any]:
        """A record as plain data. Raises NotSaved."""
        data: dict[str, Any] = self._part(replace(record, entries=()), Record)
        return data | {"entries": [self._entry(entry) for entry in record.entries]}

    def result(self, result: tuple[Any] | None) -> dict[str, Any] | None:
        """The result of a recording; None if it has none, or if a part of it cannot be saved."""
        try:
            return None if result is None else self._value(result[0])
        except NotSaved:
            return None

    def _entry(self, entry: Entry) -> Any:
        try:
            return self._part(entry, Entry)
        except NotSaved as error:
            without = ", ".join(repr(f"!{name}") for name in (entry.name, *entry.aliases))
            raise NotSaved(
                f"the recording cannot be saved because of {entry.name!r}: {error.headline}",
                asked="rec.save(path)",
                found=error.found,
                why="a recording is saved whole or not at all",
                next=f"bp.probe(..., ['**', {without}]), to record without it",
            ) from error

    def _part(self, part: Any, hint: Any) -> Any:
        if hint is Any:
            return self._value(_exactly_plain(part))
        if isinstance(part, tuple):
            return [self._part(item, get_args(hint)[0]) for item in part]
        if isinstance(part, Mapping):
            return {key: self._part(item, get_args(hint)[1]) for key, item in part.items()}
        if is_dataclass(part):
            return {name: self._part(getattr(part, name), own) for name, own in _hints(part.__class__).items()}
        return part

    def _value(self, value: Any, depth: int = 0) -> dict[str, Any]:
        # A value of the program. Raises NotSaved if a part of it is neither a tensor nor plain data.
        if isinstance(value, Alias):
            value = value.held
        if self.arrays.is_tensor(value):
            return {"tensor": self.arrays.encode(value, self.blobs, self.seen)}
        if isinstance(value, Lost):
            return {"lost": self._part(value.why, Reason)}
        if value is None or type(value) in (bool, int, float, str):
            return {"plain": value}
        if type(value) is complex:
            return {"complex": [value.real, value.imag]}
        kind = next((name for name, made in CONTAINERS.items() if type(value) is made), None)
        if kind is None or depth == DEEPEST or (kind == "dict" and not all(type(key) is str for key in value)):
            raise NotSaved(f"a {type(value).__name__} cannot be saved", found=f"a {type(value).__name__}")
        items = value.values() if kind == "dict" else value
        parts = [self._value(item, depth + 1) for item in items]
        return {kind: parts, "keys": list(value)} if kind == "dict" else {kind: parts}


def _exactly_plain(value: Any) -> Any:
    # The same number or text as Python's own type, if it is of a subclass, such as ``numpy.float64`` or ``IntEnum``.
    kind = next((kind for kind in NUMBERS if isinstance(value, kind)), None)
    return value if kind is None or type(value) is kind else kind(value)


class Decoder:
    """Converts plain data to a record, and checks each part. Raises Misfit."""

    def __init__(self, arrays: Arrays, blobs: Mapping[str, Any]) -> None:
        self.arrays, self.blobs = arrays, blobs
        self.names: tuple[str, ...] = ()

    def record(self, data: Mapping[str, Any]) -> Record:
        """The record that plain data describes, with tensors of this framework."""
        entries = _checked(data.get("entries"), list, "entries")
        self.names = tuple(
            [
                _checked(_checked(entry, dict, f"entries[{at}]").get("name"), str, f"entries[{at}].name")
                for at, entry in enumerate(entries)
            ]
        )
        parts = {name: self._field(data, name, hint, name) for name, hint in _hints(Record).items()}
        record = Record(**parts | {"backend": self.arrays.name})
        self._check_names(record)
        for at, entry in enumerate(record.entries):
            self._check_tensors(entry, f"entries[{at}]")
        return record

    def result(self, data: Any) -> tuple[Any] | None:
        """The result of a recording as a tuple of one; None if it has none."""
        return None if data is None else (self._value(data, "result"),)

    def _field(self, data: Mapping[str, Any], name: str, hint: Any, where: str) -> Any:
        if name not in data:
            raise Misfit(f"{where} is missing")
        return self._part(data[name], hint, where)

    def _part(self, data: Any, hint: Any, where: str) -> Any:
        # A part of a record, decoded and checked by its type hint.
        if hint is Any:
            return self._value(data, where)
        if hint in BELONGS:
            return _checked(data, hint, where)
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return None if data is None else self._part(data, args[0], where)
        if origin is Literal:
            return _choice(data, args, where)
        if origin is Annotated:
            return self._position(data, where)
        if origin is tuple:
            return tuple(
                [self._part(item, args[0], f"{where}[{at}]") for at, item in enumerate(_checked(data, list, where))]
            )
        if origin is not None and issubclass(origin, Mapping):
            found = _checked(data, dict, where).items()
            return {key: self._part(item, args[1], f"{where}[{key!r}]") for key, item in found}
        if issubclass(hint, Enum):
            return hint(_choice(data, [each.value for each in hint], where))
        made = self._object(data, hint, where)
        return _checked_reason(made, where) if isinstance(made, Reason) else made

    def _position(self, data: Any, where: str) -> int:
        at: int = _checked(data, int, where)
        if not 0 <= at < len(self.names):
            raise Misfit(f"{where} is {at}, not a position among {len(self.names)} entries")
        return at

    def _object(self, data: Any, kind: Any, where: str) -> Any:
        hints = _hints(kind)
        unknown = _checked(data, dict, where).keys() - hints.keys()
        if unknown:
            raise Misfit(f"{where}.{min(unknown)} is not a field of {kind.__name__}")
        parts = {name: self._field(data, name, hint, f"{where}.{name}") for name, hint in hints.items()}
        return kind(**parts, **{name: names_at(parts[at], self.names) for name, at in _names(kind).items()})

    def _value(self, data: Any, where: str) -> Any:
        match data:
            case {"tensor": layout}:
                return self._tensor(layout, where)
            case {"lost": why}:
                return Lost(self._part(why, Reason, where))
            case {"plain": None | bool() | int() | float() | str() as value}:
                return value
            case {"complex": [int() | float() as real, int() | float() as imaginary]}:
                return complex(real, imaginary)
            case {"dict": [*items], "keys": [*keys]} if len(keys) == len(items):
                texts = [_checked(key, str, where) for key in keys]
                return dict(zip(texts, self._items(items, where), strict=True))
            case {"tuple": [*items]}:
                return tuple(self._items(items, where))
            case {"list": [*items]}:
                return self._items(items, where)
        raise _misfit(data, "a value", where)

    def _items(self, items: list[Any], where: str) -> list[Any]:
        return [self._value(item, f"{where}[{at}]") for at, item in enumerate(items)]

    def _tensor(self, layout: Any, where: str) -> Any:
        try:
            return self.arrays.decode(layout, self.blobs)
        except BadRecording:
            raise
        except UNFIT as error:
            raise Misfit(f"{where}: {type(error).__name__}: {error}") from error

    def _check_names(self, record: Record) -> None:
        # Check that each printed name of an entry belongs to one of its full names.
        if record.names.keys() != record.printed.keys():
            raise Misfit("names and their printed forms differ")
        printed = {(at, record.printed[full]) for full, at in record.names.items()}
        for at, entry in enumerate(record.entries):
            for name in (entry.name, *entry.aliases):
                if (at, name) not in printed:
                    raise Misfit(f"entries[{at}] has the printed name {name!r}, which none of its names has")
        for name in (*record.names, *record.buffers):
            strip(name)  # raises BadName if a quote is not closed

    def _check_tensors(self, entry: Entry, where: str) -> None:
        held = {"held_grad": entry.held_grad}
        for key, one in entry.by_output.items():
            self._check_tensors(entry.of_output(key), f"{where}.by_output[{key!r}]")
            if one.status is GradStatus.OK and one.held_grad is None:
                raise _misfit(None, "a tensor", f"{where}.by_output[{key!r}].held_grad")
        if entry.status is not GradStatus.NOT_TENSOR and not isinstance(entry.held, Lost):
            held["held_value"] = entry.held
        for nth, edge in enumerate(entry.inputs):
            held |= {f"inputs[{nth}].partial": edge.partial, f"inputs[{nth}].contribution": edge.contribution}
        for name, tensor in held.items():
            if tensor is not None and not self.arrays.is_tensor(tensor):
                raise _misfit(tensor, "a tensor", f"{where}.{name}")


def of_older_format(data: dict[str, Any]) -> dict[str, Any]:
    """Complete the plain data of an older format, which had a single output, no default output, or fewer facts."""
    entries = data.get("entries")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            entry.setdefault("by_output", {})
            entry.setdefault("default_output", None)
            _with_local_derivatives(entry.get("finiteness"))
    given = data.get("none_given")
    for one in given if isinstance(given, list) else ():
        if isinstance(one, dict):
            one.setdefault("in_graph", False)
    return {"by_output": {}, "default_output": None, "none_reads": [], "passes": [], **data}


def _with_local_derivatives(finiteness: Any) -> None:
    # An older format had no local derivatives.
    made = finiteness.get("made") if isinstance(finiteness, dict) else None
    for one in made if isinstance(made, list) else ():
        if isinstance(one, dict):
            one.setdefault("local", None)


def _checked(data: Any, kind: type, where: str) -> Any:
    allowed, name = BELONGS[kind]
    if type(data) not in allowed:
        raise _misfit(data, name, where)
    return data


def _choice(data: Any, allowed: Sequence[Any], where: str) -> Any:
    if data not in allowed:
        raise _misfit(data, f"one of {', '.join(map(str, allowed))}", where)
    return data


def _checked_reason(reason: Reason, where: str) -> Reason:
    # The reason, if its sentence can be rendered.
    try:
        str(reason)
    except (LookupError, ValueError, AttributeError) as error:
        raise Misfit(f"{where} is {reason!r:.60}, which has no sentence") from error
    return reason


def _misfit(data: Any, name: str, where: str) -> Misfit:
    return Misfit(f"{where} is {data!r:.60}, not {name}")
