"""The verb ``explain``: why a gradient is missing, zero or of something else, with the line that caused it."""

from __future__ import annotations

from typing import Any

from backprobe.backends.base import load_arrays
from backprobe.cuts import Ways
from backprobe.errors import BadOption
from backprobe.explain.missing import explain_all, explain_missing
from backprobe.explain.present import explain_present
from backprobe.findings import Report
from backprobe.record import GradStatus
from backprobe.recording import Recording

__all__ = ["explain"]


def explain(recording: Any, name: Any = None) -> Report:
    """Why a value has no gradient, or what is notable about the one that it has; of a recording, or of a bare loss.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     u = x * w
    ...     d = u.detach()
    ...     return d * w
    >>> report = bp.explain(bp.probe(f)(3.0, 2.0), "x")
    >>> report.findings[0].kind, report.findings[0].source.text, report.findings[0].chain
    ('detach', 'd = u.detach()', ('x', 'u', 'd'))
    """
    if isinstance(recording, Recording):
        if name is None:
            return explain_all(Ways(recording.record))
        if not isinstance(name, str):
            raise BadOption(
                f"a recording knows names, not {type(name).__name__}", asked=f"bp.explain(rec, {type(name).__name__})",
                next="bp.explain(rec, 'u')",
            )  # fmt: skip
        entry = recording[name]
        ways = Ways(recording.record)
        if entry.status is GradStatus.OK:
            return explain_present(ways, entry, load_arrays(recording.record.backend))
        return explain_missing(ways, entry)
    raise NotImplementedError
