"""Recordings on disk: a folder of plain data, whole or not at all, and nothing in it is ever run.

``recording.json`` holds names, texts and layouts; ``storage.safetensors`` the bytes of each storage once, as uint8, so
that every dtype, stride and shared memory comes back; a strided view that alone lies on a much larger storage comes
back contiguous, without the rest. The JSON carries the digest of the bytes and its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any

from backprobe.backends.base import Arrays
from backprobe.backends.choice import ARRAYS, load_arrays
from backprobe.environment import Stamp
from backprobe.errors import BackprobeError, BadOption, BadRecording, NoBackend, NotSaved
from backprobe.names import strip
from backprobe.record import (
    Edge,
    Entry,
    Finiteness,
    GradStatus,
    Lost,
    Made,
    NoneGiven,
    Nonfinite,
    Passage,
    PathSums,
    Read,
    Record,
    Source,
    WhyNone,
)

FORMAT = "backprobe recording"
VERSION = 2
DATA, BYTES = "recording.json", "storage.safetensors"
OPENING = json.dumps({"format": FORMAT})[:-1]  # how every recording.json begins, of any version
KINDS = ("finite", "inf", "nan")  # what ``Made`` says of a gradient
DEEPEST = 64  # containers within containers of a result; a list that holds itself has no end


def save(record: Record, result: tuple[Any] | None, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a record into a new folder: beside its place first, then renamed into it."""
    from safetensors.numpy import save_file

    target = Path(path)
    _refuse_to_replace(target, str(path), overwrite)
    backend = load_arrays(record.backend)
    blobs: dict[str, Any] = {}
    seen: dict[Any, str] = {}
    data = _encode_record(record, backend, blobs, seen)
    data["result"] = _encode_kept(result, backend, blobs, seen)
    storages = {name: blob.bytes() for name, blob in blobs.items()}  # may move layouts, which are in data
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".backprobe-", dir=target.parent))
    try:
        save_file(storages, beside / BYTES)
        data["bytes"] = _digest_file(beside / BYTES)
        body = json.dumps(data, allow_nan=True)
        envelope = {"format": FORMAT, "version": VERSION, "digest": _digest(body), "data": body}
        (beside / DATA).write_text(json.dumps(envelope), encoding="utf-8")
        readable = (beside / DATA).stat().st_mode & 0o777  # what the umask gave; the other two are made private
        (beside / BYTES).chmod(readable)
        beside.chmod(readable | (readable & 0o444) >> 2)
        _replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _refuse_to_replace(target: Path, path: str, overwrite: bool) -> None:
    """Nothing is replaced unasked, and what is not a recording, and nothing else, never."""
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise BadOption(
            f"{target} exists already", asked=f"rec.save({path!r})", why="a recording never replaces anything by "
            "itself", next=f"rec.save({path!r}, overwrite=True)",
        )  # fmt: skip
    foreign = _foreign(target)
    if foreign:
        raise BadOption(
            f"{target} is not a recording, so it is not overwritten", asked=f"rec.save({path!r}, overwrite=True)",
            found=foreign, why="overwriting would delete it", next="another path",
        )  # fmt: skip


def _foreign(target: Path) -> str:
    """What tells that a path is not a recording; empty for a recording, be it damaged or of another version."""
    if not target.is_dir():
        return "a file"
    others = sorted({inside.name for inside in target.iterdir()} - {DATA, BYTES})
    if others:
        return f"{others[0]!r} in it"
    if not (target / DATA).is_file():
        return f"no {DATA} in it"
    with (target / DATA).open("rb") as opened:
        begins = opened.read(len(OPENING))
    return "" if begins == OPENING.encode() else f"a {DATA} that holds something else"


def _replace(beside: Path, target: Path) -> None:
    """Put the new folder in its place; until it is there, the old one is kept."""
    if not os.path.lexists(target):
        beside.rename(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=".backprobe-", dir=target.parent))
    old = aside / "old"
    try:
        target.rename(old)
        beside.rename(target)
    except BaseException:
        if os.path.lexists(old) and not os.path.lexists(target):
            old.rename(target)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def read(path: str | os.PathLike[str], *, to: str | None = None) -> tuple[Record, tuple[Any] | None]:
    """Read a record and, if it was saved, the result. Raises BadRecording; runs nothing."""
    if to is not None and to not in ARRAYS:
        raise BadOption(
            f"a recording loads to {', '.join(ARRAYS)}, not to {to!r}", asked=f"to={to!r}", next='to="numpy"'
        )
    folder = Path(path)
    data = _checked(folder)
    try:
        blobs = _read_bytes(folder, data["bytes"])
        backend = load_arrays(to or data["backend"])
        record = _decode_record(data, backend, blobs)
        _check(record, backend)
        return record, _decode_result(data["result"], backend, blobs)
    except BadRecording:
        raise
    except NoBackend as error:
        raise NoBackend(
            error.headline, asked=f"bp.load({str(folder)!r})", found=error.found, next=f'{error.next}, or to="numpy"'
        ) from error
    except UNFIT as error:
        raise _bad(folder, "its parts do not fit together", f"{type(error).__name__}: {error}") from error


UNFIT = (
    BackprobeError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, MemoryError
)  # fmt: skip
"""What decoding raises where a file was written by something else than ``save``."""


def _bad(folder: Path, headline: str, found: str, next: str = "save it again") -> BadRecording:
    return BadRecording(
        f"{folder} cannot be read: {headline}", asked=f"bp.load({str(folder)!r})", found=found,
        why="a recording is read whole or not at all", next=next,
    )  # fmt: skip


def _checked(folder: Path) -> dict[str, Any]:
    try:
        envelope = json.loads((folder / DATA).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        found = f"no {DATA} in it" if folder.is_dir() else "a file" if folder.exists() else "no such folder"
        raise _bad(folder, "it is not a recording", found, "the folder that rec.save(path) wrote") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _bad(folder, "it is cut or damaged", f"{DATA}: {error}") from error
    if not isinstance(envelope, dict) or envelope.get("format") != FORMAT:
        raise _bad(folder, "it is not a recording", f"{DATA} holds something else")
    if envelope.get("version") != VERSION:
        raise _bad(
            folder, "it was written by another version of backprobe",
            f"format version {envelope.get('version')}, this backprobe reads {VERSION}", "pip install -U backprobe",
        )  # fmt: skip
    body = envelope.get("data")
    if not isinstance(body, str) or _digest(body) != envelope.get("digest"):
        raise _bad(folder, "it was changed since it was saved", f"the digest of {DATA} does not match")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _bad(folder, "it is cut or damaged", f"{DATA}: {error}") from error
    if not isinstance(data, dict):
        raise _bad(folder, "it is not a recording", f"{DATA} holds something else")
    return data


def _read_bytes(folder: Path, digest: str) -> Mapping[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = folder / BYTES
    try:
        found, blobs = _digest_file(file), {}
        if found == digest:
            blobs = dict(load_file(file))
    except FileNotFoundError:
        raise _bad(folder, "it is cut", f"no {BYTES} in it") from None
    except (SafetensorError, OSError, LookupError, TypeError, ValueError) as error:
        raise _bad(folder, "it is cut or damaged", f"{BYTES}: {error}") from error
    if found != digest:
        raise _bad(folder, "it is cut or was changed since it was saved", f"the digest of {BYTES} does not match")
    if any(blob.dtype.name != "uint8" or blob.ndim != 1 for blob in blobs.values()):
        raise _bad(folder, "it is not a recording", f"{BYTES} holds something else than bytes")
    return blobs


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _digest_file(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# entries as plain data


def _encode_record(record: Record, backend: Arrays, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
    return {
        "backend": record.backend,
        "entries": [_encode_entry(entry, backend, blobs, seen) for entry in record.entries],
        "names": dict(record.names),
        "written": dict(record.written),
        "backward": list(record.backward),
        "outputs": list(record.outputs),
        "stamp": asdict(record.stamp),
        "unseen": list(record.unseen),
        "notes": list(record.notes),
        "path_sums": None if record.path_sums is None else asdict(record.path_sums),
        "scales": list(record.scales),
        "framework": record.framework,
        "buffers": {path: asdict(count) for path, count in record.buffers.items()},
        "none_given": [asdict(one) for one in record.none_given],
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
        "name": entry.name, "aliases": list(entry.aliases), "status": str(entry.status), "reason": entry.reason,
        "shape": None if entry.shape is None else list(entry.shape), "dtype": entry.dtype, "device": entry.device,
        "source": None if entry.source is None else asdict(entry.source), "op": entry.op,
        "inputs": [
            {"name": edge.name, "partial": encoded(edge.partial), "contribution": encoded(edge.contribution)}
            for edge in entry.inputs
        ],
        "reads": [asdict(read) for read in entry.reads], "axes": list(entry.axes),
        "passages": [asdict(passage) for passage in entry.passages],
        "cause": None if entry.cause is None else asdict(entry.cause),
        "lost": entry.held_value.reason if isinstance(entry.held_value, Lost) else None,
        "value": None if isinstance(entry.held_value, Lost) else encoded(entry.held_value),
        "grad": encoded(entry.held_grad),
        "finiteness": None if entry.finiteness is None else asdict(entry.finiteness), "is_leaf": entry.is_leaf,
    }  # fmt: skip


def _decode_record(data: Mapping[str, Any], backend: Arrays, blobs: Mapping[str, Any]) -> Record:
    return Record(
        backend.name,
        tuple(_decode_entry(entry, backend, blobs) for entry in data["entries"]),
        data["names"],
        data["written"],
        tuple(data["backward"]),
        tuple(data["outputs"]),
        Stamp(**data["stamp"]),
        tuple(data["unseen"]),
        tuple(data["notes"]),
        None if data["path_sums"] is None else _decode_path_sums(data["path_sums"]),
        tuple(data.get("scales", ())),
        {path: Nonfinite(**count) for path, count in data.get("buffers", {}).items()},
        data.get("framework", data["backend"]),
        tuple(_decode_none_given(one) for one in data.get("none_given", ())),
    )


def _decode_source(data: Mapping[str, Any]) -> Source:
    return Source(**{**data, "calls": tuple(data["calls"]), "below": tuple(data.get("below", ()))})


def _decode_none_given(data: Mapping[str, Any]) -> NoneGiven:
    return NoneGiven(data["name"], _decode_source(data["source"]), WhyNone(data["why"]), tuple(data["outside"]))


def _decode_path_sums(data: Mapping[str, Any]) -> PathSums:
    return PathSums(**{**data, "unjudged": tuple(data["unjudged"])})


def _decode_entry(data: Mapping[str, Any], backend: Arrays, blobs: Mapping[str, Any]) -> Entry:
    def decoded(value: Any) -> Any:
        found = _decode_result(value, backend, blobs)
        return found[0] if found else None

    return Entry(
        name=data["name"], aliases=tuple(data["aliases"]), status=GradStatus(data["status"]), reason=data["reason"],
        shape=None if data["shape"] is None else tuple(data["shape"]), dtype=data["dtype"], device=data["device"],
        source=None if data["source"] is None else _decode_source(data["source"]), op=data["op"],
        inputs=tuple(
            Edge(edge["name"], decoded(edge["partial"]), decoded(edge["contribution"])) for edge in data["inputs"]
        ),
        reads=tuple(Read(**read) for read in data["reads"]),
        held_value=Lost(data["lost"]) if data["lost"] is not None else decoded(data["value"]),
        held_grad=decoded(data["grad"]), axes=tuple(data.get("axes", ())),
        passages=tuple(
            Passage(**{**way, "source": _decode_source(way["source"])}) for way in data.get("passages", ())
        ),
        cause=None if data.get("cause") is None else _decode_source(data["cause"]),
        finiteness=_decode_finiteness(data.get("finiteness")), is_leaf=data.get("is_leaf"),
    )  # fmt: skip


def _decode_finiteness(data: Mapping[str, Any] | None) -> Finiteness | None:
    if data is None:
        return None
    value, grad = (None if data[key] is None else Nonfinite(**data[key]) for key in ("value", "grad"))
    return Finiteness(value, grad, None if data["made"] is None else tuple(Made(**one) for one in data["made"]))


def _check(record: Record, backend: Arrays) -> None:
    """Raise where a record could be read, but not looked into: whatever is wrong shows when it is loaded."""
    size = len(record.entries)
    for at in (*record.names.values(), *record.backward, *record.outputs):
        if type(at) is not int or not 0 <= at < size:
            raise ValueError(f"a position {at!r} among {size} entries")
    if record.names.keys() != record.written.keys():
        raise ValueError("names and their printed forms differ")
    printed = {(at, record.written[full]) for full, at in record.names.items()}
    if any((at, name) not in printed for at, e in enumerate(record.entries) for name in (e.name, *e.aliases)):
        raise ValueError("an entry has a printed name that none of its names has")
    told = (record.framework, *record.unseen, *record.notes, *_stamp_texts(record.stamp))
    for text in (*record.names, *record.written.values(), *told):
        _check_text(text)
    if any(scale is not None and type(scale) not in (int, float) for scale in record.scales):
        raise ValueError(f"{record.scales} where numbers belong")
    for name in (*record.names, *record.buffers):
        strip(name)
    for count in record.buffers.values():
        if any(type(number) is not int for number in (count.nan, count.inf, count.of)):
            raise ValueError(f"{count!r} where counts belong")
    for one in record.none_given:
        for text in (one.name, one.source.file, one.source.text, *one.outside):
            _check_text(text)
        if type(one.source.line) is not int:
            raise ValueError(f"{one.source.line!r} where a whole number belongs")
    for entry in record.entries:
        _check_entry(entry, backend)


def _check_entry(entry: Entry, backend: Arrays) -> None:
    if entry.status is not GradStatus.NOT_TENSOR:
        for held in (entry.held_value, entry.held_grad):
            if held is not None and not isinstance(held, Lost) and not backend.is_tensor(held):
                raise ValueError(f"{held!r} where a tensor belongs")
    optional = [text for text in (entry.dtype, entry.device) if text is not None]
    for text in (entry.name, *entry.aliases, entry.reason, entry.op, *(edge.name for edge in entry.inputs), *optional):
        _check_text(text)
    if isinstance(entry.held_value, Lost):
        _check_text(entry.held_value.reason)
    numbers = list(entry.shape or ())
    for count in () if entry.finiteness is None else (entry.finiteness.value, entry.finiteness.grad):
        numbers += [] if count is None else [count.nan, count.inf, count.of]
    for made in () if entry.finiteness is None else entry.finiteness.made or ():
        _check_text(made.operation)
        _check_text(made.towards or "")
        if made.given not in KINDS or made.made not in KINDS:
            raise ValueError(f"{made.given!r} and {made.made!r} where {', '.join(KINDS)} belong")
    for way in entry.passages:
        for text in (way.spelled, way.name, way.through):
            _check_text(text)
    for source in (entry.source, entry.cause, *(way.source for way in entry.passages)):
        if source is not None:
            for text in (source.file, source.text, source.expression, *source.calls, *source.below):
                _check_text(text)
            numbers.append(source.line)
    if type(entry.is_leaf) not in (bool, NoneType):
        raise ValueError(f"{entry.is_leaf!r} where true, false or null belongs")
    if any(type(number) is not int for number in numbers):
        raise ValueError(f"{numbers} where whole numbers belong")


def _stamp_texts(stamp: Stamp) -> list[Any]:
    return [stamp.author or "", stamp.time, stamp.python, stamp.system, *stamp.packages, *stamp.packages.values()]


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{text!r} where a text belongs")


# results: tensors, plain values, and containers of them


def _exactly_plain(value: Any) -> Any:
    """The number of an entry without a type that only extends a number's, such as a NumPy scalar's or an enum's."""
    kind = next((kind for kind in PLAIN if isinstance(value, kind)), None)
    return value if kind is None or type(value) is kind else kind(value)


def _encode_kept(
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


PLAIN = (bool, int, float, complex, str)
CONTAINERS = {"tuple": tuple, "list": list, "dict": dict}


def _decode_result(data: Mapping[str, Any] | None, backend: Arrays, blobs: Mapping[str, Any]) -> tuple[Any] | None:
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
    items = [found[0] for part in data[kind] if (found := _decode_result(part, backend, blobs)) is not None]
    return (dict(zip(data["keys"], items, strict=True)) if kind == "dict" else CONTAINERS[kind](items),)
