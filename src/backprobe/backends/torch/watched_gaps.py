"""Names without a row in a measured step, and the reasons."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.nn import Module

from backprobe.backends.torch.compiled_statistics import NONE
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.tensors import grad_of
from backprobe.backends.torch.watched_locals import WatchedForward, WatchedLocals
from backprobe.backends.torch.watched_selection import watched_parameters, watched_parts
from backprobe.backends.torch.watched_steps import OptimizerSteps
from backprobe.backends.watches import GRADIENT, VALUE, StepListener, WatchOptions
from backprobe.record.gaps import GapCode
from backprobe.record.names import quote_path, split

Key = tuple[str, str]
NO_FORWARD = Module.forward


class WatchedGaps:
    """Collects how modules are called in a measured step, and reports at its end which names have no row."""

    def __init__(self, model: Module, options: WatchOptions, listener: StepListener) -> None:
        self.model, self.options, self.listener = model, options, listener
        self.called: set[int] = set()  # ids of modules that ran
        self.came: set[int] = set()  # places of tensors that existed in this step, even those without a row
        self.unread: dict[int, GapCode] = {}  # for each place without a row, the reason
        self.without_grad: weakref.WeakSet[Module] = weakref.WeakSet()
        self.elsewhere: weakref.WeakSet[Module] = weakref.WeakSet()
        self.last: dict[Key, None] = {}
        self.modules: dict[str, Module] = {}
        self.own: dict[str, Tensor] = {}
        self.written: Container[int] = ()
        self.forwards: dict[str, WatchedForward] = {}
        self.held: set[int] = set()  # ids of the parameters that optimizers own

    def step_ends(
        self,
        heard: Mapping[Module, Any],  # values: objects with ``path`` and ``places``
        names: Mapping[Tensor, str],
        wants: Callable[[str], bool],
        steps: OptimizerSteps,
        locals: WatchedLocals,
        written: Container[int],
    ) -> None:
        """Report all names without a row to the listener.

        ``written`` holds the places of gradients of views that were written to.
        """
        self.written, self.steps = written, steps
        self.forwards = {quote_path(one.path): one for one in locals.forwards.values()}
        never = ((name, kind) for _, name in locals.never_bound() for kind in self._kinds())
        missing = dict.fromkeys([*self.listener.missing(), *self._never(heard, names, wants), *never])
        if missing and missing != self.last:
            self.modules = {quote_path(path): part for path, part in watched_parts(self.model)}
            self.own = {quote_path(path): one for path, one in watched_parameters(self.model)}
            self.held = {id(each) for one in steps.optimizers for each in parameters(one)}
        self.silent = {quote_path(one.path) for one in heard.values() if not one.places} if missing else set()
        self.last = missing
        self.listener.gaps([(name, kind, self._why(name, kind, missing)) for name, kind in missing])
        for noted in (self.called, self.came, self.unread):
            noted.clear()
        self.without_grad.clear()
        self.elsewhere.clear()

    def _never(
        self, heard: Mapping[Module, Any], names: Mapping[Tensor, str], wants: Callable[[str], bool]
    ) -> Iterator[Key]:
        # Yield the selected outputs and gradients of parameters that have had no row so far.
        kinds = self._kinds()
        for module, one in heard.items():
            if not one.places and type(module).forward is not NO_FORWARD and wants(one.path):
                yield from ((quote_path(one.path) or "return", kind) for kind in kinds)
        if self.options.gradients:
            for parameter, name in names.items():
                if parameter.requires_grad and not self.listener.has(name, GRADIENT):
                    yield name, GRADIENT

    def _kinds(self) -> list[str]:
        return [VALUE] * self.options.values + [GRADIENT] * self.options.gradients

    def _why(self, name: str, kind: str, missing: Container[Key]) -> GapCode:
        if name in self.own:
            return self.steps.unread.get((name, kind)) or self._why_parameter(self.own[name])
        place = self._place(name, kind)
        if place in self.written:
            return GapCode.WRITTEN
        if place in self.unread:
            return self.unread[place]
        path = "" if name.partition(".")[0] == "return" else split(name)[0]
        module = self.modules.get(path)
        if module is None:
            return GapCode.REMOVED
        if ":" in name and not (split(name)[1] or "return").startswith("return"):
            found = self._why_local(path, kind == GRADIENT and self._came(name, missing), id(module) in self.called)
            if found is not None:
                return found
        elif kind == GRADIENT and self._came(name, missing):
            return GapCode.NO_GRADIENT
        elif id(module) in self.called:
            return GapCode.NO_TENSOR if path in self.silent else GapCode.NOT_RETURNED
        if module in self.without_grad:
            return GapCode.NO_GRAD
        if module in self.elsewhere:
            return GapCode.OTHER_THREAD
        used = any(grad_of(one) is not None for one in module.parameters(recurse=False))
        return GapCode.UNHEARD if used else GapCode.NOT_CALLED

    def _place(self, name: str, kind: str) -> int:
        return self.listener.place(name, kind) if self.listener.has(name, kind) else NONE

    def _came(self, name: str, missing: Container[Key]) -> bool:
        # Did the tensor, whose gradient is missing, exist in this step?
        has_row = self.options.values and (name, VALUE) not in missing  # rows may also come from compiled code
        place = self._place(name, GRADIENT)
        return has_row or (place != NONE and place in self.came)

    def _why_local(self, path: str, has_no_gradient: bool, is_called: bool) -> GapCode | None:
        # Return the reason why a local of a forward has no row; None if the module did not run in a measured call.
        forward = self.forwards.get(path)
        if forward is None:
            return GapCode.REMOVED
        if has_no_gradient:
            return GapCode.NO_GRADIENT
        if forward.hearer.entered and is_called:
            return GapCode.NOT_BOUND
        return GapCode.OTHER_FORWARD if is_called else None

    def _why_parameter(self, parameter: Tensor) -> GapCode:
        if not parameter.is_leaf:
            return GapCode.COMPUTED
        if self.options.optimizers and id(parameter) not in self.held:
            return GapCode.NOT_OPTIMIZED
        if self.options.optimizers and id(parameter) not in self.steps.stepped_parameters:
            return GapCode.NOT_STEPPED
        return GapCode.EMPTY_GRADIENT
