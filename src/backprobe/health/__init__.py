"""The verb ``health``: finds common problems of training in one recording, with each threshold and its source."""

from __future__ import annotations

from backprobe.backends.discover import load_arrays
from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Report
from backprobe.record.brief import kind, written
from backprobe.record.limits import Limit
from backprobe.record.options import EXPERIMENTS, check_options
from backprobe.recording import Recording, refuse_several

RUNS = 2
"""The number of times the program may run again."""


def health(recording: Recording, *, experiments: bool = True, seconds: float = 30.0) -> Report:
    """Check a recording for missing, zero, vanishing, exploding or underflowing gradients, and for dead units.

    Kinds of findings: ``missing``, ``never_called``, ``dead``, ``dead_units``, ``saturated``, ``zero_gradient``,
    ``zero_derivative``, ``vanishing``, ``exploding``, ``large_gradients``, ``underflow``. Each of these states the
    threshold and its source if its rule has one. There are also findings of gradients that exist but are useless
    (docs/useless.md). Rules that ``run.alerts`` has too are applied to a single step. If the loss was scaled by an
    unknown number, as by ``GradScaler``, magnitudes are not checked, and a note says so.

    >>> import torch, backprobe as bp
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> model[0].bias.data.fill_(-100.0)[:2]
    tensor([-100., -100.])
    >>> report = bp.health(bp.probe(model, of=lambda y: y.sum())(torch.randn(8, 4)))
    >>> report.findings[0].headline
    "'1' is dead: a share of 1 of what it returns is 0"

    A function or model that was probed in this process may run once or twice more, as for ``bp.explain``, to look for
    useless gradients. Its state is restored afterwards.

    - ``recording`` is the result of a probe, or a loaded recording. Loaded as NumPy arrays, it needs no framework.
    - ``experiments=False`` keeps the program from running again.
    - ``seconds`` is a limit: if the recorded run took longer, the program does not run again.

    Raises BadOption for anything but a recording, and for one of several outputs without a default.
    """
    if not isinstance(recording, Recording):
        raise BadOption(
            f"health takes a recording, not {kind(recording)}",
            asked=f"bp.health({written(recording)})",
            next="bp.health(rec), with rec = bp.probe(model, of='loss')(x)",
        )
    check_options({"experiments": experiments, "seconds": seconds, "runs": RUNS}, EXPERIMENTS)
    refuse_several(recording, "bp.health(rec)", "bp.health(rec.of({}))")
    # imported late, because they import NumPy
    from backprobe.health import depth, missing, precision, units, useless, zeros
    from backprobe.health.record_arrays import RecordArrays

    record = recording.record
    if recording._rerun is not None and experiments:
        record = recording._rerun.observed(record, Limit(seconds, RUNS))
    arrays = RecordArrays(record, load_arrays(record.backend))
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
