"""Recordings on disk: a folder of plain data that is read whole or not at all, and never executed.

``recording.json`` holds names, texts and layouts. ``storage.safetensors`` holds the bytes of each storage once, as
uint8, so every dtype and stride comes back, and tensors that shared memory share it again. A strided view that is the
only user of a much larger storage comes back contiguous, without the rest. The JSON contains a digest of the bytes and
one of itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backprobe.backends.discover import ALONE, BACKENDS, load_arrays
from backprobe.backends.tensors import Arrays
from backprobe.errors import BadOption, BadRecording, NoBackend
from backprobe.record.disk import unwritable
from backprobe.record.entries import Record
from backprobe.record.options import Option, check_folder
from backprobe.storage.schema import UNFIT, Decoder, Encoder, Misfit, of_older_format

FORMAT = "backprobe recording"
# One flipped bit in a digit cannot turn this number into the number of another readable version, nor back.
VERSION = 10
TO = Option("to", str, (*BACKENDS, *ALONE), '"numpy"', or_none=True)
READABLE = (5, 6, 8, VERSION)
"""Format 5 had one output only; format 6 had no default among several; format 8 had no local derivatives. There was no
7, because a single flipped bit would turn it into a 6.
"""
DATA, BYTES = "recording.json", "storage.safetensors"
OPENING = json.dumps({"format": FORMAT})[:-1]  # the first bytes of recording.json, in every version


def save(record: Record, result: tuple[Any] | None, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a record to a folder. An existing recording is replaced only with ``overwrite``.

    Raises NotSaved, and BadOption if the folder is refused or cannot be written. No files are then left behind.
    """
    from safetensors import SafetensorError

    target = _folder(path, f"rec.save({path!r})")
    try:
        _refuse_to_replace(target, str(path), overwrite)
    except OSError as error:
        raise _unwritable(path, target, error) from error
    encoder = Encoder(load_arrays(record.backend))
    data = encoder.record(record) | {"result": encoder.result(result)}
    # This comes after encoding and before writing, because ``blob.bytes()`` may change layouts, which are part of
    # ``data``.
    storages = {name: blob.bytes() for name, blob in encoder.blobs.items()}
    try:
        _write(target, data, storages)
    except (OSError, SafetensorError) as error:
        raise _unwritable(path, target, error) from error


def _unwritable(path: Any, target: Path, error: Exception) -> BadOption:
    return unwritable(
        "the recording",
        target,
        error,
        asked=f"rec.save({str(path)!r})",
        call="rec.save({!r})",
        smaller="save fewer values: bp.probe(f, ['loss', 'h.*'])",
    )


def _write(target: Path, data: dict[str, Any], storages: dict[str, Any]) -> None:
    # Write both files into a temporary folder, then rename it.
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".backprobe-", dir=target.parent))
    try:
        _put_files(beside, data, storages)
        let_read(beside, (DATA, BYTES))
        _replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _put_files(folder: Path, data: dict[str, Any], storages: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    save_file(storages, folder / BYTES)
    data["bytes"] = digest_of_file(folder / BYTES)
    body = json.dumps(data, allow_nan=True)
    envelope = {"format": FORMAT, "version": VERSION, "digest": digest_of(body), "data": body}
    (folder / DATA).write_text(json.dumps(envelope), encoding="utf-8")


def let_read(folder: Path, files: tuple[str, str]) -> None:
    """Give the second file the permissions of the first one, and let whoever may read them open the folder.

    The folder was created as private, and so was the second file.
    """
    readable = (folder / files[0]).stat().st_mode & 0o777  # as set by the umask
    (folder / files[1]).chmod(readable)
    folder.chmod(readable | (readable & 0o444) >> 2)


def put(record: Record, folder: Path, largest: int) -> bool:
    """Write a record into an existing folder. If its tensors exceed ``largest`` bytes, write nothing and return False.

    Raises NotSaved and OSError.
    """
    encoder = Encoder(load_arrays(record.backend))
    data = encoder.record(record) | {"result": None}
    storages, size = {}, 0
    for name, blob in encoder.blobs.items():
        storages[name] = blob.bytes()
        size += storages[name].nbytes
        if size > largest:
            return False
    _put_files(folder, data, storages)
    let_read(folder, (DATA, BYTES))
    return True


def _folder(path: Any, asked: str) -> Path:
    instead = asked.partition("(")[0] + "('toy.recording')"
    check_folder(path, "a recording is a folder, whose path is a text", asked, instead)
    return Path(path)


def _refuse_to_replace(target: Path, path: str, overwrite: bool) -> None:
    # Replace a recording only when asked to, and never replace anything that is not a recording.
    if not os.path.lexists(target):
        return
    foreign = _foreign(target)
    if foreign:
        raise BadOption(
            f"{target} is not a recording, so it is not overwritten",
            asked=f"rec.save({path!r}{', overwrite=True' * overwrite})",
            found=foreign,
            why="overwriting would delete it",
            next="a path that does not exist yet",
        )
    if not overwrite:
        raise BadOption(
            f"{target} exists already",
            asked=f"rec.save({path!r})",
            why="a recording replaces another only when asked to",
            next=f"rec.save({path!r}, overwrite=True)",
        )


def _foreign(target: Path) -> str:
    # A description of a path that is not a recording. Empty for a recording, even if it is damaged or of another
    # version.
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
    # Move the new folder to its place. The old one is kept until that has succeeded.
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


def read(
    path: str | os.PathLike[str], *, to: str | None = None, is_mapped: bool = False
) -> tuple[Record, tuple[Any] | None]:
    """Read a record and, if it was saved, the result. Nothing in the folder is executed.

    With ``is_mapped``, NumPy arrays stay on disk until they are accessed, so they may be larger than memory; those of
    bfloat16 become ``Rows``. Raises BadRecording, NoBackend and BadOption.
    """
    TO.check(to)
    folder = _folder(path, f"bp.load({path!r})")
    data = _checked(folder)
    try:
        blobs = _read_bytes(folder, data["bytes"], is_mapped)
        decoder = Decoder(mapped_arrays() if is_mapped else load_arrays(to or data["backend"]), blobs)
        return decoder.record(data), decoder.result(data["result"])
    except BadRecording:
        raise
    except NoBackend as error:
        raise NoBackend(
            error.headline, asked=f"bp.load({str(folder)!r})", found=error.found, next=f'{error.next}, or to="numpy"'
        ) from error
    except Misfit as error:
        raise _bad(folder, "its parts do not fit together", f"{DATA}: {error}") from error
    except UNFIT as error:
        raise _bad(folder, "its parts do not fit together", f"{type(error).__name__}: {error}") from error


def _bad(folder: Path, headline: str, found: str, next: str = "save it again") -> BadRecording:
    return BadRecording(
        f"{folder} cannot be read: {headline}",
        asked=f"bp.load({str(folder)!r})",
        found=found,
        why="a recording is read whole or not at all",
        next=next,
    )


def _checked(folder: Path) -> dict[str, Any]:
    try:
        envelope = json.loads((folder / DATA).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        found = f"no {DATA} in it" if folder.is_dir() else "a file" if folder.exists() else "no such folder"
        raise _bad(folder, "it is not a recording", found, "the folder that rec.save(path) wrote") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _bad(folder, "it is incomplete or damaged", f"{DATA}: {error}") from error
    if not isinstance(envelope, dict) or envelope.get("format") != FORMAT:
        raise _bad(folder, "it is not a recording", f"{DATA} holds something else")
    version = envelope.get("version")
    if version not in READABLE:
        is_older = isinstance(version, int) and version < VERSION
        raise _bad(
            folder,
            "it was written by another version of backprobe",
            f"format version {version}, this backprobe reads {', '.join(map(str, READABLE[:-1]))} and {VERSION}",
            "run the program again and save it with this backprobe, or load it with the one that wrote it"
            if is_older
            else "load it with the backprobe that wrote it, or a newer one",
        )
    body = envelope.get("data")
    if not isinstance(body, str) or digest_of(body) != envelope.get("digest"):
        raise _bad(folder, "it was changed since it was saved", f"the digest of {DATA} does not match")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _bad(folder, "it is incomplete or damaged", f"{DATA}: {error}") from error
    if not isinstance(data, dict):
        raise _bad(folder, "it is not a recording", f"{DATA} holds something else")
    return data if version == VERSION else of_older_format(data)


def mapped_arrays() -> Arrays:
    """NumPy arrays that are mapped from a file."""
    from backprobe.backends.numpy import MappedArrays  # imports NumPy

    return MappedArrays()


def mapped_file(file: Path) -> dict[str, Any]:
    """The bytes of each tensor in a file; they are read on access."""
    import numpy

    whole = numpy.memmap(file, numpy.uint8, "r")
    size = int.from_bytes(whole[:8].tobytes(), "little")
    parts = json.loads(whole[8 : 8 + size].tobytes())
    begins = {name: [8 + size + at for at in part["data_offsets"]] for name, part in parts.items() if name[:2] != "__"}
    return {name: whole[first:last] for name, (first, last) in begins.items()}


def _read_bytes(folder: Path, digest: str, is_mapped: bool) -> Mapping[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = folder / BYTES
    try:
        found = digest_of_file(file)
        blobs: dict[str, Any] = {}
        if found == digest:
            blobs = mapped_file(file) if is_mapped else dict(load_file(file))
    except FileNotFoundError:
        raise _bad(folder, "it is incomplete", f"no {BYTES} in it") from None
    except (SafetensorError, OSError, LookupError, TypeError, ValueError) as error:
        raise _bad(folder, "it is incomplete or damaged", f"{BYTES}: {error}") from error
    if found != digest:
        raise _bad(
            folder, "it is incomplete or was changed since it was saved", f"the digest of {BYTES} does not match"
        )
    if any(blob.dtype.name != "uint8" or blob.ndim != 1 for blob in blobs.values()):
        raise _bad(folder, "it is not a recording", f"{BYTES} holds something other than bytes")
    return blobs


def digest_of(text: str) -> str:
    """The digest of a text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def digest_of_file(file: Path) -> str:
    """The digest of a file's content."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
