"""Notes on gradients that are exactly 0: all gradients of a training, or one whose derivative stops on its way."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.backends.useless import placed
from backprobe.findings.phrasing import listed, plural
from backprobe.record.reasons import Note
from backprobe.record.source import Source

CODE, BEHIND = "all_zero", "zero_behind_stops"


def all_zero(names: Sequence[str], at: Source | None = None) -> Note:
    """Return the note that all gradients are 0, with the trained names and the line that computes the gradients.

    >>> str(all_zero(["w", "b"]))
    '2 gradients, all of them exactly 0: w, b'
    """
    gradients = f"{plural(len(names), 'gradient')}, {'which is' if len(names) == 1 else 'all of them'}"
    return Note(CODE, {"gradients": gradients, "names": listed(names), **placed(at)})


def zero_behind(name: str, stopping: Sequence[tuple[str, Source | None]]) -> Note:
    """Return the note on a gradient that is 0 because its derivative stops at these operations.

    >>> str(zero_behind("edge", [("lt", None)])).rpartition(": ")[2]
    'lt'
    """
    operations = listed(list(dict.fromkeys(operation for operation, _ in stopping)))
    at = next((line for _, line in stopping if line is not None), None)
    return Note(BEHIND, {"name": name, "operations": operations, **placed(at)})
