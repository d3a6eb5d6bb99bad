"""Why a gradient is what it is: ``explain`` answers with the lines that caused it."""

from __future__ import annotations

from backprobe.errors import BadOption
from backprobe.findings import Report
from backprobe.recording import Recording


def explain(recording: Recording, name: str | None = None) -> Report:
    """Where the NaN and Inf of a recording were born, forward and backward, each with its line.

    Record with ``bp.probe(..., nonfinite=True)``. The report has the places where they were *born* first (finite
    inputs, and an output that is not; or a finite gradient, and one made of it that is not) and those where they *came
    in*; then where they were *healed*, as by a ``where``, and what they *propagated* to. Inf counts as NaN does.

    >>> import torch, backprobe as bp
    >>> def f(x):
    ...     y = torch.log(x)
    ...     return y.sum()
    >>> report = bp.explain(bp.probe(f, nonfinite=True)(torch.tensor([0.0, 1.0])))
    >>> report.findings[0].kind, report.findings[0].name, report.findings[0].headline
    ('born', 'y', "Inf is born at 'y': log(0)")

    Raises BadOption for what is no recording.
    """
    if not isinstance(recording, Recording):
        raise BadOption(
            f"explain answers about a recording, not {type(recording).__name__}", asked="bp.explain(...)",
            next="bp.explain(rec), with rec = bp.probe(f, nonfinite=True)(x)",
        )  # fmt: skip
    if name is not None:
        raise BadOption("a name is not explained yet", asked=f"bp.explain(rec, {name!r})", next="bp.explain(rec)")
    from backprobe.explain.nonfinite import explain_nonfinite  # which imports NumPy

    return explain_nonfinite(recording.record)


__all__ = ["explain"]
