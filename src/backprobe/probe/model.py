"""The model form, and the part that it shares with a block around a model: how modules report to a trace."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from itertools import filterfalse
from typing import Any

from backprobe.backends.capabilities import ModelCall, Models, ModuleObserver, Staging
from backprobe.backends.dialects import dialect_of
from backprobe.errors import BadOption, NoSource
from backprobe.probe.form import Form
from backprobe.probe.replacements import refuse_unknown_paths
from backprobe.probe.run import TargetRun
from backprobe.probe.source_names import bound_in_model
from backprobe.record.containers import leaves
from backprobe.record.entries import GradStatus
from backprobe.record.names import quote_path
from backprobe.record.nonfinite import Nonfinite
from backprobe.record.reasons import Reason
from backprobe.source.user_code import innermost
from backprobe.tracing.finiteness import unfit
from backprobe.tracing.module_code import ModuleCode
from backprobe.tracing.module_forwards import reporting_forward

OUTPUTS_AND_OWN = ("**", ":*")
"""Patterns for the outputs of modules, parameters, and the arguments and locals of the model's own forward."""

Versions = dict[str, tuple[Any, int]]
"""The parameters of a model by name, each with its version when a block began."""

NOT_RUN = (GradStatus.NOT_EXECUTED, Reason("module_not_run"))


class Modules:
    """The modules of a model in one run. Names the values that the modules return and bind."""

    def __init__(self, run: Form, versions: Versions | None = None) -> None:
        self.tape, self.trace, self.plan = run.tape, run.trace, run.trace.plan
        self.executed: set[str] = {""}
        self.code = ModuleCode()
        self.versions = versions

    def observer(self) -> ModuleObserver:
        """Return the observer that receives the model's parameters and the calls of its modules while it runs."""
        wants_parameter = self.plan.wants_parameter.of if self.versions is None else _always
        return ModuleObserver(
            self._parameter,
            self._parameters,
            self.plan.wants_output.of,
            self.plan.wants_locals.of,
            self._rewritten,
            self.trace.name_returned,
            self._writing,
            self._written,
            wants_parameter,
            executed=self.executed,
            called=self.code.called,
            kinds=self.code.kinds,
            hooks=self.code.hooks,
            known=self.plan.chosen if self.versions is None else {},
        )

    def name_unseen(self, call: ModelCall, compiled: Sequence[str] = ()) -> None:
        """Add entries without a value for selected modules whose run was not observed.

        They may have run in one of the ``compiled`` functions.
        """
        wanted = self.plan.wants_output
        unseen = [path for path in filterfalse(self.executed.__contains__, call.module_paths()) if wanted[path]]
        hidden = call.hidden_paths() if unseen else {}
        inside = Reason("in_compiled", {"functions": ", ".join(compiled)}) if compiled else None
        for path in unseen:
            why = hidden.get(path, inside)
            self.trace.absent(quote_path(path), *(NOT_RUN if why is None else (GradStatus.OPAQUE, why)))

    def _parameter(self, path: str, tensor: Any) -> Any:
        if self.versions is not None:
            self.versions[quote_path(path)] = tensor, self.trace.versions.version(tensor)
        return self.trace.name_path(quote_path(path), tensor)

    def _parameters(self, paths: Sequence[str], tensors: Sequence[Any]) -> Sequence[Any]:
        if self.versions is not None:
            return [*map(self._parameter, paths, tensors)]
        return self.trace.name_paths([*map(quote_path, paths)], tensors)

    def _rewritten(self, path: str, forward: Any) -> Any:
        try:
            return reporting_forward(self.trace, quote_path(path), forward)
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


def _always(path: str) -> bool:
    # Used with ``nonfinite``: the versions of all parameters are stored, even if they are not selected.
    return True


def unfit_buffers(run: Form) -> Mapping[str, Nonfinite]:
    """Return the buffers of a model that hold NaN or Inf before it runs. Empty without ``nonfinite``."""
    buffers = models_of(run).buffers
    if buffers is None or not run.probe.options.nonfinite:
        return {}
    held = buffers(run.probe.target)
    return unfit({quote_path(path): buffer for path, buffer in held.items()}, run.backend.arrays)


def models_of(run: Form) -> Models:
    """Return the ``Models`` of the run's framework. The target must be a model."""
    models = run.backend.models
    assert models is not None
    return models


def names_in(call: ModelCall) -> list[str]:
    """Return the names of the modules and parameters of a model."""
    return [quote_path(path) for path in (*call.module_paths(), *call.parameter_paths()) if path]


class OfModel(Form):
    """The part that a run of a model shares with a block around a model."""

    in_function = False
    looked_into = OUTPUTS_AND_OWN

    def starts_at(self) -> Any:
        return models_of(self).call(self.probe.target, (), {}).forward


class ModelRun(OfModel, TargetRun):
    """The form for models: modules report their return values. A forward whose locals are selected is replaced by one
    that reports them.
    """

    def inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.probe.wrt is not None:
            raise BadOption(
                "wrt is for functions, and a model is recorded as it is",
                asked=f"wrt={sorted(self.probe.wrt)}",
                why="what is differentiated is what the model's own parameters and inputs say",
                next="x.requires_grad_() for an input, or " * dialect_of(self.backend.name).requires_on_tensors
                + "bp.probe(lambda x: model(x), wrt='x')",
            )
        self.unfit = unfit_buffers(self)
        self.call = models_of(self).call(self.probe.target, args, kwargs)
        if self.replacing is not None:
            refuse_unknown_paths(self.replacing, self.call, models_of(self), self.probe.target)
        return self.call.inputs

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        modules = Modules(self)
        run = functools.partial(self.tape.staged, self.call.run) if isinstance(self.tape, Staging) else self.call.run
        self.code = modules.code
        returned = self.trace.following.call_settled(run, inputs, modules.observer())
        result = self.call.finish(returned, self.undo)
        modules.name_unseen(self.call)
        return result

    def source_names(self) -> Sequence[str]:
        return bound_in_model(models_of(self), self.call, operations=self.selection.asks_operations)

    def known_names(self) -> Sequence[str]:
        forward = innermost(self.starts_at())
        own = () if forward is None else forward.__code__.co_varnames[1:]
        return [*names_in(self.call), *(f":{name}" for name in own)]
