"""Health at a glance: what of a recording looks ill, each finding with its threshold and where that comes from."""

from __future__ import annotations

from backprobe.backends.discover import load_arrays
from backprobe.errors import BadOption
from backprobe.findings.report import Report
from backprobe.recording import Recording


def health(recording: Recording) -> Report:
    """What looks ill in a recording: dead and saturated units, zero gradients, vanishing, exploding, underflow.

    Kinds of findings: ``dead``, ``saturated``, ``zero_gradient``, ``zero_derivative``, ``vanishing``, ``exploding``,
    ``underflow``. Each says by which threshold it was judged and where that comes from. Gradients are compared with
    those of neighbouring layers, by their root mean square. Where a loss was scaled by a number that is not known, as
    ``GradScaler`` does, nothing is said about magnitudes, and a note says so.

    >>> import torch, backprobe as bp
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> model[0].bias.data.fill_(-100.0)[:2]
    tensor([-100., -100.])
    >>> report = bp.health(bp.probe(model, of=lambda y: y.sum())(torch.randn(8, 4)))
    >>> report.findings[0].headline
    "8 of 8 units of '1' are dead"

    It needs no framework: a recording that was loaded to NumPy is judged alike. Raises BadOption for what is no
    recording.
    """
    if not isinstance(recording, Recording):
        raise BadOption(
            f"health is of a recording, not of {type(recording).__name__}", asked="bp.health(...)",
            next="bp.health(rec), with rec = bp.probe(model, of='loss')(x)",
        )  # fmt: skip
    from backprobe.health.checks import CHECKS, RecordArrays  # which import NumPy

    patient = RecordArrays(recording.record, load_arrays(recording.record.backend))
    found = [finding for check in CHECKS for finding in check(patient)]
    values, grads = patient.counts
    well = "nothing else looks ill" if patient.not_finite else "nothing looks ill"
    heading = f"{len(found)} findings" if len(found) > 1 else "1 finding" if found else well
    judged = f"{values} values and {grads} gradients were looked at"
    return Report(f"{heading}: {judged}", tuple(found), tuple(patient.notes))


__all__ = ["health"]
