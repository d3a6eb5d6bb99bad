"""Gradients that exist but are useless, as observed in the iterations of a script: see docs/useless.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from backprobe.backends.useless import USELESS, is_lasting, line_of
from backprobe.backends.zero_gradients import CODE as ALL_ZERO
from backprobe.findings.known import Known
from backprobe.findings.report import Finding

if TYPE_CHECKING:  # importing backprobe must not import NumPy
    from backprobe.health.record_arrays import RecordArrays


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """Yield one finding for each observation.

    An observation in a single iteration counts only if every gradient is 0.
    """
    notes = arrays.record.notes
    is_all_zero = any(one.code == ALL_ZERO for one in notes)
    for code in USELESS:
        for note in (one for one in notes if one.code == code and (is_all_zero or is_lasting(one))):
            yield Finding(code, note.fields.get("first", ""), str(note), line_of(note), known=Known.GRADIENT_THERE)
