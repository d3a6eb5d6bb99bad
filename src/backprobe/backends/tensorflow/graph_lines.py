"""Finds the program's lines that created the operations of a graph."""

from __future__ import annotations

from typing import Any

from backprobe.backends.user_lines import source_at
from backprobe.record.source import Source
from backprobe.source.user_code import package


def user_line(operation: Any) -> Source | None:
    """Return the program's line that created an operation; None if the graph was imported, or if no line of the program
    is known.
    """
    frames = list(operation.traceback or ())
    if any(
        frame.filename.endswith(("framework/importer.py", "framework/function_def_to_graph.py")) for frame in frames
    ):
        return None
    for frame in reversed(frames):
        if package(frame.filename) is None:
            return source_at(frame.filename, frame.lineno)
    return None
