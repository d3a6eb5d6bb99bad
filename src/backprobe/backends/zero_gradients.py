"""The note about a training all of whose gradients are exactly 0."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.findings.phrasing import listed, plural
from backprobe.record.reasons import Note
from backprobe.record.source import Source

CODE = "all_zero"


def all_zero(names: Sequence[str], at: Source | None = None) -> Note:
    """The note, with the names of what is trained and the line at which the program asked for the gradients.

    >>> str(all_zero(["w", "b"]))
    '2 gradients, all of them exactly 0: w, b'
    """
    gradients = f"{plural(len(names), 'gradient')}, {'which is' if len(names) == 1 else 'all of them'}"
    place = {} if at is None else {"at": f"{at.file}:{at.line}", "text": at.text}
    return Note(CODE, {"gradients": gradients, "names": listed(names), **place})
