"""The verb ``replay``: runs a captured step again, forward and backward, and explains it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backprobe.backends.captures import SINCE, CapturedStep, Captures, KeptTensor, LeftOut, RanCalls
from backprobe.backends.discover import is_model, load_backend
from backprobe.backends.protocol import Backend
from backprobe.errors import BadOption
from backprobe.findings.report import Report
from backprobe.guard.allowed import Allowed
from backprobe.guard.capture import captures_of
from backprobe.guard.gradient_guard import GradientGuard
from backprobe.guard.model_guard import ModelGuard
from backprobe.probe.request import asked_as, name_of
from backprobe.record.brief import kind, written
from backprobe.record.containers import leaves
from backprobe.record.entries import Record
from backprobe.record.options import check_folder
from backprobe.recording import Recording
from backprobe.replay import text
from backprobe.storage import recordings, steps

__all__ = ["ReplayReport", "replay"]


@dataclass(frozen=True, repr=False)
class ReplayReport(Report):
    """The report of ``bp.replay``: the findings of ``bp.explain`` on the step, and whether its results were
    reproduced.
    """

    bitwise: bool = field(default=False, kw_only=True)
    """Were outputs or gradients compared, and all of these reproduced in every bit? All NaN count as equal."""

    recording: Recording | None = field(default=None, kw_only=True)
    """The recording of the call that ran again with ``nonfinite=True``, if there is one."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, including ``bitwise``."""
        return {**super().to_dict(), "bitwise": self.bitwise}


def replay(path: str | os.PathLike[str], model: Any, *, models: Sequence[Any] = ()) -> ReplayReport:
    """Run a captured step again, forward and backward, and explain its NaN or Inf.

    >>> import tempfile, torch, backprobe as bp
    >>> class Share(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(2, 2)
    ...
    ...     def forward(self, x):
    ...         h = self.layer(x) * x.abs()
    ...         return h / h.sum()
    >>> path, model = f"{tempfile.mkdtemp()}/bad-step", Share()
    >>> try:
    ...     with bp.guard(model, capture=path):
    ...         for x in (torch.ones(3, 2), torch.zeros(3, 2)):
    ...             model(x).square().sum().backward()
    ... except bp.NotFinite:
    ...     pass
    >>> report = bp.replay(path, Share())  # a new model, as another process has it
    >>> report.bitwise, report.findings[0].source.text.strip()
    (True, 'return h / h.sum()')

    During the run the model has the parameters, buffers and modes of the step, and draws the same random numbers.
    Afterwards the model and the random states are restored. With the same machine and versions, all bits are the same,
    unless an operation is not deterministic or the forward reads something that is not in the step. If the step's GPU
    is not available, the step runs on the CPU, and numbers may differ by rounding.

    - ``path``: the folder that ``bp.guard(model, capture=path)`` or ``bp.watch(..., guard=path)`` wrote.
    - ``model``: a model of the same class and sizes. For a captured gradient in JAX it is the differentiated function.
    - ``models``: for a function in JAX, the models of Equinox or Flax NNX among its arguments, in their order.

    Raises BadRecording if the folder is damaged or is not a captured step, and BadOption for a model that does not fit,
    or if a needed part of the step was left out. No code from the folder is ever run.
    """
    spelled = repr(os.fspath(path)) if isinstance(path, str | os.PathLike) else written(path)
    asked = f"bp.replay({spelled}, {asked_as(model)})"
    check_folder(path, "path is the folder of a captured step", asked, "bp.replay('bad-step', model)")
    if isinstance(model, type):
        raise BadOption(
            f"{model.__name__} is a class, and bp.replay takes an object of it",
            asked=asked,
            found=kind(model),
            next=f"bp.replay({spelled}, {model.__name__}(...))",
        )
    home = inspect.getmodule(model)
    beside = [] if home is None else [home]
    step, said = steps.read(path, asked, lambda name: captures_of(load_backend(name), asked), beside)
    backend = load_backend(step.backend)
    captures = captures_of(backend, asked)
    step = captures.with_models(step, models)
    _refuse_left_out(path, step, asked)
    with captures.settled(step.settings):
        _refuse_misfit(path, model, step, captures, backend, asked)
        calls = captures.calls(model, step)
        ran = captures.run(model, step, calls)
        report, record = _explained(model, backend, step, calls, ran)
    return _answer(step, said, captures, ran, report, record)


def _refuse_misfit(path: Any, model: Any, step: CapturedStep, captures: Captures, backend: Backend, asked: str) -> None:
    if not step.is_function and not is_model(backend, model):
        raise BadOption(
            f"the step in {path} is of a model",
            asked=asked,
            found=kind(model),
            why=f"it was captured of the class {step.model}, in {backend.title}",
            next=f"bp.replay({os.fspath(path)!r}, model), with a model of class {step.model}",
        )
    if step.is_function and not callable(model):
        raise BadOption(
            f"the step in {path} is of a function",
            asked=asked,
            found=kind(model),
            next=f"bp.replay({os.fspath(path)!r}, {step.model})",
        )
    found = captures.misfits(model, step)
    if found:
        raise BadOption(
            f"{name_of(model)} does not fit the step in {path}",
            asked=asked,
            found=text.misfits(found),
            why="the parameters of the step are put in the place of the model's own",
            next=f"a model of class {step.model} with the sizes and names that the training had: {text.sizes(found)}",
        )


def _refuse_left_out(path: Any, step: CapturedStep, asked: str) -> None:
    # Raise BadOption if an argument of a call, or a gradient that reached it, was not written to the folder, because it
    # cannot be found elsewhere. Parameters that were not written are taken from the model. If the program had already
    # changed them, BadOption is raised as well.
    given = [one for call in step.calls for _, one in leaves(call.given)]
    missing = [one for one in given if isinstance(one, LeftOut)]
    lost = steps.needed(step.left_out)
    kept = [*given, *(one for call in step.calls for one in call.gradients.values())]
    is_gone = any(isinstance(one, KeptTensor) and one.tensor is None for one in kept)
    if missing or is_gone or any(SINCE in one for one in lost):
        spelled = repr(os.fspath(path))
        recording = f"bp.load({spelled}), which has the recording" if (Path(path) / recordings.DATA).is_file() else ""
        models = f"bp.replay({spelled}, {step.model}, models=[model]), with the models that it was given"
        clones = "model(x.clone()) in the training, which keeps the batch as it was"
        raise BadOption(
            f"the step in {path} cannot be run again: a part of it was left out",
            asked=asked,
            found="\n".join(lost or [one.why for one in missing]),
            why="only tensors, arrays, numbers, texts and containers are written" if missing and lost else "",
            next=(missing and missing[0].next) or (models if step.is_function else recording or clones),
        )


def _explained(
    model: Any, backend: Backend, step: CapturedStep, calls: Sequence[Any], ran: RanCalls
) -> tuple[Report, Record | None]:
    if not ran.found:
        return Report("no NaN or Inf came when the step ran again"), None
    if step.is_function:
        return GradientGuard(backend, Allowed(())).known(calls[0], ran.found, not step.is_backward)
    guard = ModelGuard(model, backend, Allowed(()))
    guard.records = True
    if step.is_backward:
        return guard.known_of_pass([*calls][::-1], ran.found)
    return guard.known_of_call(calls[0], ran.found)


def _answer(
    step: CapturedStep, said: dict[str, Any], captures: Captures, ran: RanCalls, report: Report, record: Record | None
) -> ReplayReport:
    compared = text.ComparedBits.of(step, ran)
    otherwise = captures.otherwise(step)
    notes = (
        *report.notes,
        compared.sentence(otherwise),
        *otherwise,
        *text.versions(said, step.backend),
        *text.own_parameters(step),
    )
    return ReplayReport(
        report.heading,
        report.findings,
        notes,
        complete=report.complete,
        bitwise=compared.is_bitwise,
        recording=None if record is None else Recording(record),
    )
