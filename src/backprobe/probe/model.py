"""The model form, and what it shares with a block around a model: how modules report to a trace."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.backends.capabilities import ModelCall, Models, ModuleObserver, Staging
from backprobe.errors import BadOption, NoSource
from backprobe.probe.form import Form
from backprobe.probe.run import Run
from backprobe.record.containers import leaves
from backprobe.record.entries import GradStatus
from backprobe.record.names import quote
from backprobe.record.nonfinite import Nonfinite
from backprobe.record.reasons import Reason
from backprobe.source.reporting import reporting
from backprobe.tracing.finiteness import unfit

OUTPUTS_AND_OWN = ("**", ":*")
"""Outputs of modules, parameters, and the arguments and locals of the model's own forward."""

Versions = dict[str, tuple[Any, int]]
"""The parameters of a model, with their versions when a block began."""

NOT_RUN = (GradStatus.NOT_EXECUTED, Reason("module_not_run"))


class Modules:
    """The modules of one model, and how what they return and bind gets its names in a run."""

    def __init__(self, run: Form, versions: Versions | None = None) -> None:
        self.tape, self.trace, self.selection = run.tape, run.trace, run.selection
        self.executed: set[str] = {""}
        self.versions = versions

    def observer(self) -> ModuleObserver:
        """The observer to which the model's parameters and modules report while it runs."""
        return ModuleObserver(
            self._parameter, self._wants_output, self._wants_locals, self._rewritten, self._returned, self._writing,
            self._written,
        )  # fmt: skip

    def name_unseen(self, call: ModelCall, compiled: Sequence[str] = ()) -> None:
        """The modules of a call that were selected, and not seen to run, have a name too.

        They may have run in one of the compiled functions.
        """
        hidden = call.hidden_paths()
        for path in call.module_paths():
            if path not in self.executed and self._wants_output(path):
                inside = Reason("in_compiled", {"functions": ", ".join(compiled)}) if compiled else None
                why = hidden.get(path, inside)
                self.trace.absent(_quoted(path), *(NOT_RUN if why is None else (GradStatus.OPAQUE, why)))

    def _returned(self, path: str, output: Any) -> Any:
        self.executed.add(path)
        return self.trace.name_returned(_quoted(path), output)

    def _parameter(self, path: str, tensor: Any) -> Any:
        if self.versions is not None:
            self.versions[_quoted(path)] = tensor, self.trace.versions.version(tensor)
        return self.trace.name_path(_quoted(path), tensor)

    def _wants_output(self, path: str) -> bool:
        return self.selection.wants_return(_quoted(path))

    def _wants_locals(self, path: str) -> bool:
        scope = _quoted(path)
        return self.selection.wants_locals(scope) or self.selection.wants_calls(scope)

    def _rewritten(self, path: str, forward: Any) -> Any:
        try:
            return reporting(forward, self.trace.module_opener(_quoted(path)), operations=self.trace.operations)
        except NoSource as error:
            self.trace.note("locals_unseen", name=path or "the model", why=error.headline)
            return None

    def _writing(self, inputs: Any) -> None:
        for tensor in self._tensors(inputs):
            self.trace.writing(tensor)

    def _written(self, inputs: Any) -> None:
        for tensor in self._tensors(inputs):
            self.trace.written(tensor)

    def _tensors(self, inputs: Any) -> list[Any]:
        return [leaf for _, leaf in leaves(inputs) if self.tape.is_tensor(leaf)]


def unfit_buffers(run: Form) -> Mapping[str, Nonfinite]:
    """The buffers of a model that hold NaN or Inf before it runs, where that is asked for."""
    buffers = models_of(run).buffers
    if buffers is None or not run.probe.options.nonfinite:
        return {}
    held = buffers(run.probe.target)
    return unfit({_quoted(path): buffer for path, buffer in held.items()}, run.backend.arrays)


def models_of(run: Form) -> Models:
    """The models of a run's framework, of which its target is one."""
    models = run.backend.models
    assert models is not None
    return models


def names_in(call: ModelCall) -> list[str]:
    """The names of the modules and parameters of a model."""
    return [_quoted(path) for path in (*call.module_paths(), *call.parameter_paths()) if path]


class ModelRun(Run):
    """The model form: modules report what they return, and selected forwards are exchanged for reporting ones."""

    in_function = False
    looked_into = OUTPUTS_AND_OWN

    def starts_at(self) -> Any:
        return models_of(self).call(self.probe.target, (), {}).forward

    def inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.probe.wrt is not None:
            raise BadOption(
                "wrt is for functions: in the model form nothing is altered", asked=f"wrt={sorted(self.probe.wrt)}",
                why="the requires_grad flags of parameters and inputs are used as they are",
                next="x.requires_grad_() for an input, or bp.probe(lambda x: model(x), wrt='x')",
            )  # fmt: skip
        self.unfit = unfit_buffers(self)
        self.call = models_of(self).call(self.probe.target, args, kwargs)
        return self.call.inputs

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        modules = Modules(self)
        run = functools.partial(self.tape.staged, self.call.run) if isinstance(self.tape, Staging) else self.call.run
        returned = self.trace.following.call_settled(run, inputs, modules.observer())
        result = self.call.finish(returned, self.undo)
        modules.name_unseen(self.call)
        return result

    def known_names(self) -> Sequence[str]:
        return names_in(self.call)


@functools.lru_cache(65536)
@functools.lru_cache(65536)
def _quoted(path: str) -> str:
    return ".".join(quote(segment) for segment in path.split(".")) if path else ""
