"""Common problems of training, found in one recording; each finding names its threshold and where that comes from."""

from __future__ import annotations

from backprobe.backends.discover import load_arrays
from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Report
from backprobe.record.brief import kind, written
from backprobe.recording import Recording, refuse_several


def health(recording: Recording) -> Report:
    """Check a recording for missing and zero gradients, dead and saturated units, vanishing, exploding and underflow.

    Kinds of findings: ``missing``, ``never_called``, ``dead``, ``saturated``, ``zero_gradient``, ``zero_derivative``,
    ``vanishing``, ``exploding``, ``underflow``. Each states its threshold and where that comes from. Gradients are
    compared with those of neighbouring layers, by their root mean square. Where the loss was scaled by an unknown
    number, as ``GradScaler`` may do, magnitudes are not checked, and a note says so.

    >>> import torch, backprobe as bp
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> model[0].bias.data.fill_(-100.0)[:2]
    tensor([-100., -100.])
    >>> report = bp.health(bp.probe(model, of=lambda y: y.sum())(torch.randn(8, 4)))
    >>> report.findings[0].headline
    "8 of 8 units of '1' are dead"

    No framework is needed: a recording loaded as NumPy arrays gives the same report. Raises BadOption for anything
    but a recording.
    """
    if not isinstance(recording, Recording):
        raise BadOption(
            f"health takes a recording, not {kind(recording)}", asked=f"bp.health({written(recording)})",
            next="bp.health(rec), with rec = bp.probe(model, of='loss')(x)",
        )  # fmt: skip
    refuse_several(recording, "bp.health(rec)", "bp.health(rec.of({}))")
    from backprobe.health import depth, missing, precision, units, useless, zeros  # which import NumPy
    from backprobe.health.record_arrays import RecordArrays

    arrays = RecordArrays(recording.record, load_arrays(recording.record.backend))
    found = [finding for check in (missing, useless, units, zeros, depth, precision) for finding in check.check(arrays)]
    values, grads = (sum(each is not None for each in kept) for kept in (arrays.values, arrays.grads))
    nothing = "no other problems found" if arrays.not_finite else "no problems found"
    heading = f"{len(found)} findings" if len(found) > 1 else "1 finding" if found else nothing
    checked = f"{plural(values, 'value')} and {plural(grads, 'gradient')} were checked"
    if not values and not grads:
        heading, checked = "nothing was checked", "no value or gradient has numbers that can be read"
    complete = bool(values or grads) and not arrays.unchecked
    return Report(f"{heading}: {checked}", tuple(found), (*arrays.unchecked, *arrays.remarks), complete=complete)


__all__ = ["health"]
