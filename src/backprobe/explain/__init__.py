"""The verb ``explain``: why a gradient is missing, zero or otherwise notable, and which line caused it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

from backprobe.backends.discover import find_backend, is_tensor, load_arrays
from backprobe.backends.refusals import refuse
from backprobe.cuts.missing_edges import Dataflow
from backprobe.errors import BadOption
from backprobe.explain.all_zero import with_zeros
from backprobe.explain.missing import explain_missing
from backprobe.explain.none_reads import opened_by_reads
from backprobe.explain.overview import explain_all
from backprobe.explain.own_rules import rules_of
from backprobe.explain.present_gradient import explain_present, zero_by_rule
from backprobe.explain.several_outputs import explain_in_each, explain_outputs
from backprobe.explain.text import say
from backprobe.explain.useless import with_useless, with_zeros_kept
from backprobe.explain.without_recording import explain_tensor
from backprobe.findings.report import Report
from backprobe.record.brief import kind, written
from backprobe.record.entries import GradStatus, Record
from backprobe.record.limits import Limit
from backprobe.record.options import EXPERIMENTS, check_options
from backprobe.recording import Recording, entry_of
from backprobe.source.frames import forget, variables_in

__all__ = ["explain"]


def explain(
    recording: Any, name: Any = None, *, experiments: bool = True, seconds: float = 30.0, runs: int = 40
) -> Report:
    """Explain why a value has no gradient, or what is notable about its gradient, with the lines and a remedy.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     u = x * w
    ...     d = u.detach()
    ...     return d * w
    >>> report = bp.explain(bp.probe(f)(3.0, 2.0), "x")
    >>> report.findings[0].kind, report.findings[0].source.text, report.findings[0].chain
    ('detach', 'd = u.detach()', ('x', 'u', 'd'))

    Given a recording and a name in it, the report lists the lines that cut the paths from that value to the output, or
    says where the computation that uses the value ends. Without a name it lists each cause that was found in the
    recording once, with the gradients that are missing because of it. Recordings that were saved and loaded are
    explained too, but their program does not run again.

    If the recording has several outputs, the report says which output reaches which value; for a single value, it says
    why the other outputs do not reach it.

    Given a recording made with ``nonfinite=True``, and no name, the report says where NaN and Inf began. First come the
    places where they were *born* (an operation made NaN or Inf from finite numbers, or NaN from Inf) and those where
    they *came in*. Then come the places where they were *healed*, as by a ``where``, and the values that they
    *propagated* to.

    >>> def g(x):
    ...     y = torch.log(x)
    ...     return y.sum()
    >>> report = bp.explain(bp.probe(g, nonfinite=True)(torch.tensor([0.0, 1.0])))
    >>> report.findings[0].kind, report.findings[0].name, report.findings[0].headline
    ('born', 'y', "Inf is born at 'y': log(0)")

    A function or model that was recorded in this process may run again. If no name is given, it runs once or twice to
    look for gradients that exist but are useless (docs/useless.md); a run that looks for these ends at its first side
    effect, such as opening a file for writing, and a note says so. Further runs test the causes of missing and zero
    gradients, and try remedies. Random numbers, buffers, gradients and the rest of the program's state are restored.

    Parameters:
        experiments: False keeps the program from running again.
        seconds: if the recorded run took longer, the program does not run again; no experiment begins after this time.
        runs: the largest number of further runs.

    Given a loss and a PyTorch tensor instead of a recording, the report says what the graph alone shows. It then
    contains no line of code.

    >>> w = torch.ones(3, requires_grad=True) * 0.1
    >>> bp.explain((w * 2).sum(), w).of_kind("not_retained")[0].headline
    'w is not a leaf, so its .grad stays None: nothing is wrong'

    A report holds ``findings`` with ``kind``, ``source``, ``facts``, ``chain`` and ``remedy``, and prints itself. If
    neither the recording nor the graph shows the cause, the kind is ``unknown``, and the facts say what was observed.

    Raises UnknownName and AmbiguousName as the recording does, BadOption for arguments of other types and bad options,
    and Unsupported for tensors of TensorFlow and JAX without a recording.
    """
    check_options({"experiments": experiments, "seconds": seconds, "runs": runs}, EXPERIMENTS)
    if isinstance(recording, Recording):
        limit = Limit(seconds, runs if experiments else 0)
        report = _explain_recording(recording, name, limit)
        if recording._rerun is not None:
            report = recording._rerun.tried(report, name, recording.record, limit)
        report = _with_lines(report, recording.record)
    else:
        report = _explain_tensor(recording, name, sys._getframe(1))
    return replace(report, complete=report.complete and not report.of_kind("unknown"))


def _with_lines(report: Report, record: Record) -> Report:
    # The report with the source line of each name in the chains of its findings.
    lines = {entry.name: entry.source for entry in record.entries}
    found = [replace(one, lines=tuple([lines.get(name) for name in one.chain])) for one in report]
    return replace(report, findings=tuple(found))


def _explain_recording(recording: Recording, name: Any, limit: Limit) -> Report:
    record = recording.record
    if name is None:
        is_about_numbers = any(entry.finiteness is not None for entry in record.entries)
        is_asked = bool(record.by_output) and is_about_numbers
        if recording._rerun is not None and not is_about_numbers:
            record = recording._rerun.observed(record, limit)
        if record.is_of_several or is_asked:
            report = explain_outputs(record)
        else:
            asks = () if recording._rerun is None else (partial(recording._rerun.derivative, record, limit),)
            report = _explain_whole(record, *asks)
        if recording._rerun is not None and not is_about_numbers:
            report = recording._rerun.experimented(record, report, None, limit)
        if recording._rerun is None and not (is_about_numbers or record.is_of_several):
            report = with_zeros_kept(report, record, load_arrays(record.backend))
        if is_about_numbers or not record.none_reads:
            return report
        return opened_by_reads(record, report, load_arrays(record.backend))
    if not isinstance(name, str):
        raise BadOption(
            "a value of a recording is asked for by its name",
            asked=f"bp.explain(rec, {written(name)})",
            found=kind(name),
            next="bp.explain(rec, 'u')",
        )
    entry = entry_of(recording, name, "bp.explain(rec, {})")
    if record.by_output:
        return explain_in_each(record, entry.name, lambda one: _explain_entry(one, record.entries.index(entry)))
    at = record.entries.index(entry)
    report = _explain_entry(record, at)
    return report if recording._rerun is None else recording._rerun.experimented(record, report, at, limit)


def _explain_entry(record: Record, at: int) -> Report:
    flow, entry = Dataflow.of(record), record.entries[at]
    if entry.status is GradStatus.OK:
        return explain_present(flow, entry, load_arrays(record.backend))
    return explain_missing(flow, entry)


def _explain_whole(record: Record, *asks: Callable[[str, tuple[int, ...], str], Any]) -> Report:
    # The report on the whole recording. Findings on NaN and Inf come first, because they spoil other gradients.
    from backprobe.explain.nonfinite import explain_nonfinite  # imported late, because it imports NumPy

    flow = Dataflow.of(record)
    arrays = load_arrays(record.backend)
    missing = with_useless(flow, with_zeros(flow, explain_all(flow), arrays), arrays)
    if rules_of(record):
        zero = zero_by_rule(flow, arrays)
        missing = replace(missing, notes=(*missing.notes, *zero))
    born = explain_nonfinite(record, *asks)
    # if finiteness was recorded, the user asked for NaN and Inf: mention missing gradients only in a note
    if any(entry.finiteness is not None for entry in record.entries):
        note = () if missing.ok else (say("see_names", heading=missing.heading),)
        return replace(born, notes=(*born.notes, *note))
    if born.ok:
        return missing
    return replace(born, findings=(*born, *missing), notes=(*born.notes, *missing.notes))


def _explain_tensor(output: Any, tensor: Any, frame: FrameType) -> Report:
    for one in (output, tensor):
        if not is_tensor(one):
            is_alone = tensor is None and is_tensor(output)
            raise BadOption(
                "explain takes a recording and a name, or a loss and a tensor",
                asked=f"bp.explain({written(output)}{'' if tensor is None else ', ' + written(tensor)})",
                found=f"{kind(output)} alone" if is_alone else kind(one),
                next="bp.explain(rec, 'u'), or bp.explain(loss, u)",
            )
    backend = find_backend(None, [output, tensor])

    def named(tensor: Any) -> str:
        known = (*variables_in(frame).items(), *frame.f_globals.items())
        forget(frame)
        return next((name for name, value in known if value is tensor and name[0] != "_"), "")

    graph_facts = backend.graph_facts or refuse(backend, "graph_facts", "bp.explain(loss, tensor)")
    facts = graph_facts(output, tensor)
    return explain_tensor(facts, named(tensor) or "the tensor", named(output) or "the loss", named, backend.name)
