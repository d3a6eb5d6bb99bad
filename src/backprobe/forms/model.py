"""The model form: modules report what they return, and selected forwards are exchanged for reporting ones."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.backends.base import ModuleObserver
from backprobe.errors import BadOption, NoSource
from backprobe.forms.run import Run
from backprobe.names import quote
from backprobe.record import GradStatus
from backprobe.source.follow import reporting
from backprobe.structure import leaves


class ModelRun(Run):
    """The model form: modules report what they return, and selected forwards are exchanged for reporting ones."""

    in_function = False

    def starts_at(self) -> Any:
        return self.backend.call(self.probe.target, (), {}).forward

    def inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.probe.wrt is not None:
            raise BadOption(
                "wrt is for functions: in the model form nothing is altered", asked=f"wrt={sorted(self.probe.wrt)}",
                why="the flags requires_grad of parameters and inputs stand",
                next="x.requires_grad_() for an input, or bp.probe(lambda x: model(x), wrt='x')",
            )  # fmt: skip
        self.call = self.backend.call(self.probe.target, args, kwargs)
        return self.call.inputs

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        executed: set[str] = set()

        def returned(path: str, output: Any) -> Any:
            executed.add(path)
            return self.trace.name_returned(_quoted(path), output)

        def parameter(path: str, tensor: Any) -> Any:
            return self.trace.name_path(_quoted(path), tensor)

        observer = ModuleObserver(
            parameter, self._wants_output, self._wants_locals, self._rewritten, returned, self._writing, self._written
        )
        returned_all = self.trace.call_settled(self.tape.staged, self.call.run, inputs, observer)
        result = self.call.finish(returned_all, self.undo)
        executed.add("")
        for path in self.call.module_paths():
            if path not in executed and self._wants_output(path):
                self.trace.name_absent(_quoted(path), GradStatus.NOT_EXECUTED, "its module did not run")
        return result

    def _wants_output(self, path: str) -> bool:
        return self.selection.wants_return(_quoted(path))

    def _wants_locals(self, path: str) -> bool:
        scope = _quoted(path)
        return self.selection.wants_locals(scope) or self.selection.wants_calls(scope)

    def _rewritten(self, path: str, forward: Any) -> Any:
        try:
            return reporting(forward, self.trace.module_opener(_quoted(path)), operations=self.trace.operations)
        except NoSource as error:
            self.trace.notes[f"the locals of {path or 'the model'} cannot be seen: {error.headline}"] = None
            return None

    def _writing(self, inputs: Any) -> None:
        for tensor in self._tensors(inputs):
            self.trace.writing(tensor)

    def _written(self, inputs: Any) -> None:
        for tensor in self._tensors(inputs):
            self.trace.written(tensor)

    def _tensors(self, inputs: Any) -> list[Any]:
        return [leaf for _, leaf in leaves(inputs) if self.tape.is_tensor(leaf)]

    def known_names(self) -> Sequence[str]:
        return [_quoted(path) for path in (*self.call.module_paths(), *self.call.parameter_paths()) if path]


@functools.lru_cache(65536)
def _quoted(path: str) -> str:
    return ".".join(quote(segment) for segment in path.split(".")) if path else ""
