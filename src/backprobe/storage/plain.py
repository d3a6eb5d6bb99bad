"""Recordings as plain data, texts, numbers and lists, and the bytes of their tensors beside it; and back again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from backprobe.backends.protocol import Arrays
from backprobe.errors import NotSaved
from backprobe.record.entries import Entry, GradStatus, Lost, NoneGiven, Record, WhyNone
from backprobe.record.inputs import Edge, IndirectInput, PathSums, Read
from backprobe.record.nonfinite import BackwardOp, Finiteness, Nonfinite, Update
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source
from backprobe.record.stamp import Stamp

DEEPEST = 64  # containers within containers of a result; a list that holds itself has no end
PLAIN = (bool, int, float, complex, str)
CONTAINERS = {"tuple": tuple, "list": list, "dict": dict}


def encode_record(record: Record, backend: Arrays, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
    """A record as plain data; the bytes of its tensors go into ``blobs``. Raises NotSaved."""
    return {
        "backend": record.backend,
        "entries": [_encode_entry(entry, backend, blobs, seen) for entry in record.entries],
        "names": dict(record.names),
        "printed": dict(record.printed),
        "backward": list(record.backward),
        "outputs": list(record.outputs),
        "stamp": asdict(record.stamp),
        "unseen": list(record.unseen),
        "notes": [asdict(note) for note in record.notes],
        "path_sums": None if record.path_sums is None else asdict(record.path_sums),
        "scales": list(record.scales),
        "framework": record.framework,
        "none_given": [asdict(one) for one in record.none_given],
        "buffers": {path: asdict(count) for path, count in record.buffers.items()},
        "updates": [asdict(update) for update in record.updates],
    }


def _encode_entry(entry: Entry, backend: Arrays, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
    def encoded(value: Any) -> Any:
        try:
            return _encode_result(_exactly_plain(value), backend, blobs, seen)
        except NotSaved as error:
            without = ", ".join(repr(f"!{name}") for name in (entry.name, *entry.aliases))
            raise NotSaved(
                f"the recording cannot be saved because of {entry.name!r}: {error.headline}", asked="rec.save(path)",
                found=error.found, why="a recording is saved whole or not at all",
                next=f"bp.probe(..., ['**', {without}]), to record without it",
            ) from error  # fmt: skip

    return {
        "name": entry.name, "aliases": list(entry.aliases), "status": str(entry.status),
        "why": None if entry.why is None else asdict(entry.why),
        "shape": None if entry.shape is None else list(entry.shape), "dtype": entry.dtype, "device": entry.device,
        "source": None if entry.source is None else asdict(entry.source), "op": entry.op,
        "inputs": [
            {"at": edge.at, "name": edge.name, "partial": encoded(edge.partial),
             "contribution": encoded(edge.contribution)}
            for edge in entry.inputs
        ],
        "reads": [asdict(read) for read in entry.reads], "axes": list(entry.axes),
        "indirect": [asdict(way) for way in entry.indirect],
        "cause": None if entry.cause is None else asdict(entry.cause),
        "lost": asdict(entry.held_value.why) if isinstance(entry.held_value, Lost) else None,
        "value": None if isinstance(entry.held_value, Lost) else encoded(entry.held_value),
        "grad": encoded(entry.held_grad),
        "finiteness": None if entry.finiteness is None else asdict(entry.finiteness), "is_leaf": entry.is_leaf,
        "leaves_reached": entry.leaves_reached,
    }  # fmt: skip


def decode_record(data: Mapping[str, Any], backend: Arrays, blobs: Mapping[str, Any]) -> Record:
    """The record of plain data. Raises whatever comes of data that was not made by ``encode_record``."""
    return Record(
        backend.name,
        tuple(_decode_entry(entry, backend, blobs) for entry in data["entries"]),
        data["names"],
        data["printed"],
        tuple(data["backward"]),
        tuple(data["outputs"]),
        Stamp(**data["stamp"]),
        tuple(data["unseen"]),
        tuple(Note(**note) for note in data["notes"]),
        None if data["path_sums"] is None else _decode_path_sums(data["path_sums"]),
        tuple(data.get("scales", ())),
        {path: Nonfinite(**count) for path, count in data.get("buffers", {}).items()},
        data.get("framework", data["backend"]),
        tuple(map(_decode_update, data.get("updates", ()))),
        tuple(map(_decode_none_given, data.get("none_given", ()))),
    )


def _decode_update(data: Mapping[str, Any]) -> Update:
    source = None if data["source"] is None else _decode_source(data["source"])
    return Update(**{**data, "parameters": tuple(data["parameters"]), "source": source})


def _decode_none_given(data: Mapping[str, Any]) -> NoneGiven:
    return NoneGiven(
        data["at"], data["name"], _decode_source(data["source"]), WhyNone(data["why"]), tuple(data["outside"])
    )


def _decode_source(data: Mapping[str, Any]) -> Source:
    return Source(**{**data, "calls": tuple(data["calls"]), "below": tuple(data.get("below", ()))})


def _decode_path_sums(data: Mapping[str, Any]) -> PathSums:
    return PathSums(**{**data, "unjudged": tuple(data["unjudged"]), "unjudged_at": tuple(data["unjudged_at"])})


def _decode_entry(data: Mapping[str, Any], backend: Arrays, blobs: Mapping[str, Any]) -> Entry:
    def decoded(value: Any) -> Any:
        found = decode_result(value, backend, blobs)
        return found[0] if found else None

    return Entry(
        name=data["name"], aliases=tuple(data["aliases"]), status=GradStatus(data["status"]),
        why=None if data["why"] is None else Reason(**data["why"]),
        shape=None if data["shape"] is None else tuple(data["shape"]), dtype=data["dtype"], device=data["device"],
        source=None if data["source"] is None else _decode_source(data["source"]), op=data["op"],
        inputs=tuple(
            Edge(edge["at"], decoded(edge["partial"]), decoded(edge["contribution"]), name=edge["name"])
            for edge in data["inputs"]
        ),
        reads=tuple(Read(**read) for read in data["reads"]),
        held_value=Lost(Reason(**data["lost"])) if data["lost"] is not None else decoded(data["value"]),
        held_grad=decoded(data["grad"]), axes=tuple(data.get("axes", ())),
        indirect=tuple(
            IndirectInput(**{**way, "source": _decode_source(way["source"])}) for way in data.get("indirect", ())
        ),
        cause=None if data.get("cause") is None else _decode_source(data["cause"]),
        finiteness=_decode_finiteness(data.get("finiteness")), is_leaf=data.get("is_leaf"),
        leaves_reached=data.get("leaves_reached", False),
    )  # fmt: skip


def _decode_finiteness(data: Mapping[str, Any] | None) -> Finiteness | None:
    if data is None:
        return None
    value, grad = (None if data[key] is None else Nonfinite(**data[key]) for key in ("value", "grad"))
    return Finiteness(value, grad, None if data["made"] is None else tuple(BackwardOp(**one) for one in data["made"]))


# results: tensors, plain values, and containers of them


def _exactly_plain(value: Any) -> Any:
    """The number of an entry without a type that only extends a number's, such as a NumPy scalar's or an enum's."""
    kind = next((kind for kind in PLAIN if isinstance(value, kind)), None)
    return value if kind is None or type(value) is kind else kind(value)


def encode_kept(
    result: tuple[Any] | None, backend: Arrays, blobs: dict[str, Any], seen: dict[Any, str]
) -> dict[str, Any] | None:
    """The result of a recording; None where it has none, or some part of it cannot be saved."""
    try:
        return None if result is None else _encode_result(result[0], backend, blobs, seen)
    except NotSaved:
        return None


def _encode_result(
    value: Any, backend: Arrays, blobs: dict[str, Any], seen: dict[Any, str], depth: int = 0
) -> dict[str, Any]:
    """A value as plain data. Raises NotSaved where some part of it cannot be."""
    if backend.is_tensor(value):
        return {"tensor": backend.encode(value, blobs, seen)}
    if value is None or type(value) in (bool, int, float, str):
        return {"plain": value}
    if type(value) is complex:
        return {"complex": [value.real, value.imag]}
    kind = next((name for name, made in CONTAINERS.items() if type(value) is made), None)
    if kind is None or depth == DEEPEST or (kind == "dict" and not all(type(key) is str for key in value)):
        raise NotSaved(f"a {type(value).__name__} cannot be saved", found=f"a {type(value).__name__}")
    items = value.values() if kind == "dict" else value
    parts = [_encode_result(item, backend, blobs, seen, depth + 1) for item in items]
    return {kind: parts, "keys": list(value)} if kind == "dict" else {kind: parts}


def decode_result(data: Mapping[str, Any] | None, backend: Arrays, blobs: Mapping[str, Any]) -> tuple[Any] | None:
    """The value of plain data, as a tuple of one; None where there is none."""
    if data is None:
        return None
    if "tensor" in data:
        return (backend.decode(data["tensor"], blobs),)
    if "plain" in data:
        return (data["plain"],)
    if "complex" in data:
        return (complex(*data["complex"]),)
    kind = next((name for name in CONTAINERS if name in data), None)
    if kind is None:
        raise ValueError("a value of no known kind")
    items = [found[0] for part in data[kind] if (found := decode_result(part, backend, blobs)) is not None]
    return (dict(zip(data["keys"], items, strict=True)) if kind == "dict" else CONTAINERS[kind](items),)
