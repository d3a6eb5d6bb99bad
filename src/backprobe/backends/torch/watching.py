"""A model that is watched while it trains: hooks on all modules hear what they return, and hooks on autograd's nodes
the gradients that come back to it.

Nothing is held of a step: a node's hook knows the places of its rows alone, and goes with the graph.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook

from backprobe.backends.torch.backward_passes import current_pass, innermost_call, queue_callback
from backprobe.backends.torch.checkpoints import computing_again
from backprobe.backends.torch.models import COMPILED, Refusal, is_compiled_module, parameters, parts, refuse
from backprobe.backends.torch.statistics import exponents_of, fetched, row_of
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.tensors import is_floating
from backprobe.backends.torch.untrained_parameters import untrained
from backprobe.backends.torch.watched_selection import WatchedSelection
from backprobe.backends.torch.watched_steps import OptimizerSteps, refuse_others
from backprobe.backends.watches import BACKWARD, GRADIENT, VALUE, StepListener, Watches, Watching, WatchOptions
from backprobe.record.containers import leaves
from backprobe.record.names import quote_path
from backprobe.record.statistics import Row

WATCHED_COMPILED: Refusal = (
    "a compiled model cannot be watched yet",
    "its code was fixed when it was compiled: hooks that are put in now would be missed silently",
    "bp.watch(model._orig_mod, folder, optimizer=optimizer), for its parameters alone; or train without compiling",
)


@dataclass
class Measured:
    """What a step has measured already: modules may return the very tensor that one inside of them did."""

    tensor: weakref.ref[Tensor]
    version: int
    row: Any
    gradient_places: list[int]


@dataclass
class WatchedModule:
    """A module that is heard: its name, and by the path of a tensor in what it returns, the places of its rows."""

    path: str
    places: dict[str, tuple[int, int] | None] = field(default_factory=dict)  # None for what is not selected


class TorchWatching(Watching):
    """PyTorch's ``Watching``: of one model, in the thread that began it."""

    def __init__(self, model: Module, options: WatchOptions, listener: StepListener, asked: str) -> None:
        refuse(model, asked, kinds=(COMPILED,), words=WATCHED_COMPILED)
        refuse_others(options, asked)
        self.model, self.options, self.listener = model, options, listener
        self.selection = WatchedSelection(options.select, asked)
        self.selection.check(model)
        self.thread = threading.get_ident()
        self.modules: dict[Module, WatchedModule] = {}
        self.foreign: weakref.WeakSet[Module] = weakref.WeakSet()
        self.parameters: dict[Tensor, str] = {}
        self.seen: dict[int, Measured] = {}  # by identity of the tensor
        self.passes: dict[int, bool] = {}  # by the engine's number: is it one of backward()?
        self.steps = OptimizerSteps(options, listener, self.parameters, self._measured_step_ended)
        self.installed = ExitStack()
        self.has_warned = False

    def __enter__(self) -> TorchWatching:
        self._look()
        with self.installed:
            handle = register_module_forward_hook(self._after)
            self.installed.callback(handle.remove)
            self.installed.enter_context(self.steps.listening())
            self.installed = self.installed.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self.installed.close()
        self.listener.is_measured = False  # for the hooks of graphs that are still there
        self.seen.clear()

    def step(self) -> None:
        self.steps.end_by_hand()

    def _measured_step_ended(self) -> None:
        self.seen.clear()
        self.passes.clear()
        if not self.has_warned and any(map(is_compiled_module, dict(parts(self.model)).values())):
            self._warn_of_compiled()

    def _look(self) -> None:
        """Walk the model for parts that are not known: the program may put some in."""
        known = parts(self.model)
        for path, part in known:
            first = self.modules.setdefault(part, WatchedModule(path))
            if first.path != path and self.selection.wants_module(path):
                self.listener.alias(_named(path, ""), _named(first.path, ""))
        for path, parameter in parameters(self.model, known):
            name = quote_path(path)
            if self.options.parameters and self.selection.wants(name):
                first_name = self.parameters.setdefault(parameter, name)
                if first_name != name:
                    self.listener.alias(name, first_name)

    # forward

    def _after(self, module: Module, args: Any, output: Any) -> None:
        """After each call of each module, while gradients are recorded."""
        if torch.compiler.is_compiling() or not torch.is_grad_enabled() or threading.get_ident() != self.thread:
            return
        watched = self.modules.get(module) or self._added(module)
        if watched is None:
            return
        self.listener.begin()
        if not self.listener.is_measured or not _has_numbers():
            return
        if current_pass() >= 0 and computing_again() is None:
            return  # inside a pass of backward, a checkpoint computes again what was measured in its first run
        with quiet():
            if type(output) is Tensor:
                self._measure(watched, "", output)
                return
            for path, leaf in leaves(output):
                if isinstance(leaf, Tensor):
                    self._measure(watched, path, leaf)

    def _added(self, module: Module) -> WatchedModule | None:
        if module in self.foreign:
            return None
        self.foreign.add(module)
        self._look()
        return self.modules.get(module)

    def _warn_of_compiled(self) -> None:
        self.has_warned = True
        warnings.warn(
            "a part of the watched model was compiled while it is watched: nothing that it returns is recorded. "
            "Call it without compiling it.",
            RuntimeWarning,
            stacklevel=2,
        )

    def _measure(self, watched: WatchedModule, path: str, tensor: Tensor) -> None:
        if path not in watched.places:
            watched.places[path] = self._places(watched.path, path, tensor)
        places = watched.places[path]
        if places is None and watched.path:
            return
        seen = self.seen.get(id(tensor))
        if seen is None or seen.tensor() is not tensor or seen.version != tensor._version:
            seen = self.seen[id(tensor)] = Measured(weakref.ref(tensor), tensor._version, None, [])
            node = tensor.grad_fn
            if node is not None and (self.options.gradients or not watched.path):
                node.register_prehook(partial(self._arrive, seen.gradient_places, tensor.output_nr))
        if places is None:
            return
        if self.options.values:
            seen.row = row_of(tensor.detach()) if seen.row is None else seen.row
            if seen.row is not None:
                self.listener.add(places[0], seen.row)
                self._count([places[0]], tensor)
        if self.options.gradients:
            seen.gradient_places.append(places[1])

    def _places(self, module: str, path: str, tensor: Tensor) -> tuple[int, int] | None:
        if not is_floating(tensor) or not self.selection.wants_output(module, path):
            return None
        name = _named(module, path)
        value = self.listener.place(name, VALUE) if self.options.values else -1
        return value, self.listener.place(name, GRADIENT, is_scaled=True) if self.options.gradients else -1

    # backward

    def _arrive(self, places: Sequence[int], number: int, gradients: Sequence[Tensor | None]) -> None:
        """A pass has come to what a module returned. Its root is heard even where it has no row."""
        if not self.listener.is_measured:
            return
        running = current_pass()
        if running not in self.passes:
            self.passes[running] = self._begun()
        gradient = gradients[number]
        if not places or gradient is None or not self.passes[running]:
            return
        with quiet():
            row = row_of(gradient.detach())
            if row is not None:
                for place in places:
                    self.listener.add(place, row)
                self._count(places, gradient)

    def _count(self, places: Sequence[int], tensor: Tensor) -> None:
        """Magnitudes, in the steps in which they are counted."""
        counted = exponents_of(tensor.detach()) if self.listener.is_counted else None
        for place in places if counted is not None else ():
            self.listener.count(place, counted)

    def _begun(self) -> bool:
        """Is the pass that has just begun one of ``backward()``, and not of ``autograd.grad``?"""
        frame = innermost_call(sys._getframe(1)) or innermost_call(sys._current_frames().get(self.thread))
        if frame is None or frame.f_code.co_name != "grad":
            if frame is None or innermost_call(frame.f_back) is None:  # not in another: a checkpoint runs its own
                self.listener.passed()
                if self.options.clipping:
                    queue_callback(partial(self._left, True))
            return True
        return False

    def _left(self, again: bool) -> None:
        """A pass is over: what it left in ``.grad``, behind what others have queued for its end."""
        if again:
            queue_callback(partial(self._left, False))
        elif self.listener.is_measured:
            self.steps.measure_gradients(self.parameters, BACKWARD, replaces=True)


def _has_numbers() -> bool:
    """Do the tensors of a call have numbers? Those of transforms such as ``vmap``, and of ``jit.trace``, have none."""
    return torch._C._functorch.peek_interpreter_stack() is None and torch._C._get_tracing_state() is None


def _named(module: str, path: str) -> str:
    """The name of what a module returns, at a path in that."""
    if not module:
        return f"return{path}"
    return f"{quote_path(module)}:return{path}" if path else quote_path(module)


class TorchWatches(Watches):
    """PyTorch's ``Watches``."""

    def watching(self, model: Module, options: WatchOptions, listener: StepListener, asked: str) -> Watching:
        return TorchWatching(model, options, listener, asked)

    def untrained(self, model: Module, options: WatchOptions) -> Mapping[str, list[str]]:
        return untrained(model, options.optimizers)

    def rank(self) -> int:
        distributed = torch.distributed
        return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0

    def scalar(self, number: Any) -> Any:
        if not isinstance(number, Tensor):
            number = torch.tensor(float(number), dtype=torch.float64)
        if number.numel() != 1 or number.is_complex():
            raise TypeError("not one number")
        with quiet(), torch.no_grad():
            wide = number.detach().reshape(1)
            return row_of(wide if wide.is_floating_point() else wide.double())

    def later(self, rows: Mapping[int, Any]) -> Callable[[], Mapping[int, Row]]:
        return fetched(rows)
