"""Recordings on disk: a folder of plain data, whole or not at all, and nothing in it is ever run.

``recording.json`` holds names, texts and layouts; ``storage.safetensors`` the bytes of each storage once, as uint8, so
that every dtype, stride and shared memory comes back. The JSON carries the digest of the bytes and its own.
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
from typing import Any

from backprobe.backends.base import Arrays, load_arrays
from backprobe.environment import Stamp
from backprobe.errors import BadOption, BadRecording
from backprobe.record import Edge, Entry, GradStatus, Lost, Record, Source

FORMAT = "backprobe recording"
VERSION = 1
DATA, BYTES = "recording.json", "storage.safetensors"


def save(record: Record, result: tuple[Any] | None, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a record into a new folder: beside its place first, then renamed into it."""
    from safetensors.numpy import save_file

    target = Path(path)
    if target.exists() and not overwrite:
        raise BadOption(
            f"{target} exists already", asked=f"rec.save({str(path)!r})", why="a recording never replaces anything by "
            "itself", next=f"rec.save({str(path)!r}, overwrite=True)",
        )  # fmt: skip
    if target.exists() and not (target / DATA).is_file():
        raise BadOption(
            f"{target} is not a recording, so it is not overwritten", asked=f"rec.save({str(path)!r}, overwrite=True)",
            found=f"no {DATA} in it", next="another path",
        )  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    backend = load_arrays(record.backend)
    blobs: dict[str, Any] = {}
    seen: dict[Any, str] = {}
    data = _encode_record(record, backend, blobs, seen)
    data["result"] = _encode_result(result, backend, blobs, seen)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        save_file({name: blob[0] for name, blob in blobs.items()}, beside / BYTES)
        data["bytes"] = _digest_file(beside / BYTES)
        body = json.dumps(data, ensure_ascii=False, allow_nan=True)
        envelope = {"format": FORMAT, "version": VERSION, "digest": _digest(body), "data": body}
        (beside / DATA).write_text(json.dumps(envelope), encoding="utf-8")
        os.chmod(beside, 0o755)
        _replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _replace(beside: Path, target: Path) -> None:
    if not target.exists():
        beside.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    target.rename(old / "old")
    try:
        beside.rename(target)
    except OSError:
        (old / "old").rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def read(path: str | os.PathLike[str], *, to: str | None = None) -> tuple[Record, tuple[Any] | None]:
    """Read a record and, if it was saved, the result. Raises BadRecording; runs nothing."""
    if to not in (None, "torch", "numpy"):
        raise BadOption(f"a recording loads to torch or numpy, not to {to!r}", asked=f"to={to!r}", next='to="numpy"')
    folder = Path(path)
    data = _checked(folder)
    blobs = _read_bytes(folder, data["bytes"])
    try:
        backend = load_arrays(to or data["backend"])
        return _decode_record(data, backend, blobs), _decode_result(data["result"], backend, blobs)
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise _bad(folder, "its parts do not fit together", str(error)) from error


def _bad(folder: Path, headline: str, found: str, next: str = "save it again") -> BadRecording:
    return BadRecording(
        f"{folder} cannot be read: {headline}", asked=f"bp.load({str(folder)!r})", found=found,
        why="a recording is read whole or not at all", next=next,
    )  # fmt: skip


def _checked(folder: Path) -> dict[str, Any]:
    try:
        envelope = json.loads((folder / DATA).read_text(encoding="utf-8"))
    except FileNotFoundError:
        found = f"no {DATA} in it" if folder.is_dir() else "no such folder"
        raise _bad(folder, "it is not a recording", found, "the folder that rec.save(path) wrote") from None
    except (OSError, ValueError) as error:
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
    return json.loads(body)  # type: ignore[no-any-return]


def _read_bytes(folder: Path, digest: str) -> Mapping[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = folder / BYTES
    try:
        if _digest_file(file) != digest:
            raise _bad(folder, "it is cut or was changed since it was saved", f"the digest of {BYTES} does not match")
        return dict(load_file(file))
    except FileNotFoundError:
        raise _bad(folder, "it is cut", f"no {BYTES} in it") from None
    except SafetensorError as error:
        raise _bad(folder, "it is cut or damaged", f"{BYTES}: {error}") from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
    }


def _encode_entry(entry: Entry, backend: Arrays, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
    def encoded(value: Any) -> Any:
        return _encode_result((value,), backend, blobs, seen)

    return {
        "name": entry.name, "aliases": list(entry.aliases), "status": str(entry.status), "reason": entry.reason,
        "shape": None if entry.shape is None else list(entry.shape), "dtype": entry.dtype, "device": entry.device,
        "source": None if entry.source is None else asdict(entry.source), "op": entry.op,
        "inputs": [{"name": edge.name, "partial": encoded(edge.partial)} for edge in entry.inputs],
        "lost": entry.held_value.reason if isinstance(entry.held_value, Lost) else None,
        "value": None if isinstance(entry.held_value, Lost) else encoded(entry.held_value),
        "grad": encoded(entry.held_grad),
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
    )


def _decode_entry(data: Mapping[str, Any], backend: Arrays, blobs: Mapping[str, Any]) -> Entry:
    def decoded(value: Any) -> Any:
        found = _decode_result(value, backend, blobs)
        return found[0] if found else None

    return Entry(
        name=data["name"], aliases=tuple(data["aliases"]), status=GradStatus(data["status"]), reason=data["reason"],
        shape=None if data["shape"] is None else tuple(data["shape"]), dtype=data["dtype"], device=data["device"],
        source=None if data["source"] is None else Source(**data["source"]), op=data["op"],
        inputs=tuple(Edge(edge["name"], decoded(edge["partial"])) for edge in data["inputs"]),
        held_value=Lost(data["lost"]) if data["lost"] is not None else decoded(data["value"]),
        held_grad=decoded(data["grad"]),
    )  # fmt: skip


# results: tensors, plain values, and containers of them


def _encode_result(
    result: tuple[Any] | None, backend: Arrays, blobs: dict[str, Any], seen: dict[Any, str]
) -> dict[str, Any] | None:
    """A value as plain data; None where some part of it cannot be."""
    if result is None:
        return None
    (value,) = result
    if backend.is_tensor(value):
        return {"tensor": backend.encode(value, blobs, seen)}
    if value is None or isinstance(value, bool | int | float | str):
        return {"plain": value}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    kind = next((name for name, made in CONTAINERS.items() if type(value) is made), None)
    if kind is None or (kind == "dict" and not all(isinstance(key, str) for key in value)):
        return None
    items = list(value.values()) if kind == "dict" else list(value)
    parts = [_encode_result((item,), backend, blobs, seen) for item in items]
    if any(part is None for part in parts):
        return None
    return {kind: parts, "keys": list(value)} if kind == "dict" else {kind: parts}


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
    kind = next(name for name in CONTAINERS if name in data)
    items = [found[0] for part in data[kind] if (found := _decode_result(part, backend, blobs)) is not None]
    return (dict(zip(data["keys"], items, strict=True)) if kind == "dict" else CONTAINERS[kind](items),)
