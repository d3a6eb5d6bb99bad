"""Exports runs for other tools: as data sets of Parquet or Arrow files, and as TensorBoard event files.

A data set can be in a folder or on a file system that ``fsspec`` supports, and can be queried by SQL. It can be opened
as a run again, unless only some fields were exported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backprobe.exports.places import is_url
from backprobe.record.options import Option, check_folder

if TYPE_CHECKING:  # importing backprobe must not import NumPy
    from backprobe.storage.runs.merged import RunReader

FORMATS = ("parquet", "arrow", "tensorboard")
FORMAT = Option("format", str, FORMATS, "'parquet'")
FIELDS = Option(
    "fields",
    object,
    lambda fields: isinstance(fields, Sequence) and not isinstance(fields, str) and bool(fields),
    "['grad.rms']",
    or_none=True,
    says="a list of fields of the run",
)


def is_export(path: str | os.PathLike[str]) -> bool:
    """Is this a URL, or a folder that an export wrote?"""
    return is_url(path) or any(one.suffix == ".json" for one in Path(path).glob("_rank-*.json"))


def check(path: Any, format: Any, fields: Any, asked: str) -> None:
    """Check the arguments of an export. Raises BadOption."""
    check_folder(path, "a run is exported to a folder or a URL", asked, "run.export('exported')")
    FORMAT.check(format)
    FIELDS.check(fields)


def export(
    reader: RunReader, path: str | os.PathLike[str], format: str, fields: Sequence[str] | None, asked: str
) -> None:
    """Export a run, or only its new steps since the last export. Raises BadOption, NotInstalled and BadRun."""
    if format == "tensorboard":
        from backprobe.exports.event_files import write_events

        write_events(reader, path, fields, asked)
    else:
        from backprobe.exports.dataset import write_dataset

        write_dataset(reader, path, format, fields, asked)
