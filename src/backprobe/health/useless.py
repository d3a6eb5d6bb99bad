"""Gradients that are there, and useless, as the iterations of a script showed them: see docs/useless.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from backprobe.backends.useless import USELESS, is_lasting, line_of
from backprobe.findings.report import Finding

if TYPE_CHECKING:  # it imports NumPy
    from backprobe.health.record_arrays import RecordArrays


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """One finding for each fact."""
    for code in USELESS:
        for note in (one for one in arrays.record.notes if one.code == code and is_lasting(one)):
            yield Finding(code, note.fields.get("first", ""), str(note), line_of(note))
