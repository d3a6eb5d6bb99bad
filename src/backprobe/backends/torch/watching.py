"""Watches a model while it trains. Module hooks measure return values, and hooks on autograd nodes measure gradients.

No tensors of a step are kept: the hook of a node only knows the places of its rows, and is freed together with the
graph.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from backprobe.backends.torch.backward_call import innermost_call
from backprobe.backends.torch.binding_forwards import Bound
from backprobe.backends.torch.capture import version
from backprobe.backends.torch.checkpoints import computing_again
from backprobe.backends.torch.compiled_before import CompiledBefore
from backprobe.backends.torch.compiled_statistics import (
    NONE,
    CompiledStatistics,
    Places,
    compiler,
    heard,
)
from backprobe.backends.torch.dynamo import is_exporting, leave_alone
from backprobe.backends.torch.global_hooks import without_warning_of_hooks
from backprobe.backends.torch.measured import MeasuredTensor, WatchedModule
from backprobe.backends.torch.module_hook import ModuleHook
from backprobe.backends.torch.own_calls import OwnCalls
from backprobe.backends.torch.pipelines import schedules
from backprobe.backends.torch.private import (
    current_pass,
    dispatch_modes,
    innermost_transform,
    queue_callback,
    queue_last,
    tracing_state,
)
from backprobe.backends.torch.statistics import exponents_of, row_of, why_unread
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.tensors import is_floating, is_replicated
from backprobe.backends.torch.transforms import is_traced
from backprobe.backends.torch.watched_gaps import WatchedGaps
from backprobe.backends.torch.watched_locals import WatchedForward, WatchedLocals
from backprobe.backends.torch.watched_passes import GradPasses
from backprobe.backends.torch.watched_selection import unwrapped, watched_parameters, watched_parts
from backprobe.backends.torch.watched_steps import OptimizerSteps, refuse_others, without_wrapper
from backprobe.backends.watched_names import named
from backprobe.backends.watches import BACKWARD, GRADIENT, VALUE, StepListener, WatchOptions
from backprobe.backends.watching import ModelWatching
from backprobe.errors import Unsupported
from backprobe.record.containers import by_key, is_container, leaves
from backprobe.record.names import quote_path
from backprobe.record.statistics import Row

EMPTY = torch.empty(0)


class TorchWatching(ModelWatching):
    """Implements ``Watching`` for PyTorch."""

    def __init__(self, model: Module, options: WatchOptions, listener: StepListener, asked: str) -> None:
        refuse_others(options, asked)
        given, options, model = model, without_wrapper(options, asked), unwrapped(model)
        super().__init__(model, options, listener, asked, has_locals=True)
        self.locals = WatchedLocals(self.selection, self._bound)
        self._check()
        self.locals.refuse_compiled(given, asked)
        self.modules: dict[Module, WatchedModule] = {}
        # modules that did not belong to the model when they first ran
        self.foreign: weakref.WeakSet[Module] = weakref.WeakSet()
        # has this step already looked, for a foreign module, for modules that the program has added?
        self.has_looked = False
        self.parameters: dict[Tensor, str] = {}
        self.seen: dict[int, MeasuredTensor] = {}  # by the id of the tensor
        self.passes: dict[int, bool] = {}  # by the engine's number of a pass: does the pass belong to backward()?
        self.grad_passes = GradPasses()
        self.by_identity: dict[int, WatchedModule] = {}
        self.run_after = compiler.disable(self._run_after)
        self.compiled = CompiledStatistics(self._known, self._wanted_compiled)
        self.steps = OptimizerSteps(
            options, listener, self.parameters, model.parameters, self._measured_step_ends, self._step_begins
        )
        self.before = CompiledBefore()
        self.hook, self.own_calls = ModuleHook(self._after), OwnCalls()
        self.schedules = schedules(added=self._half_over)
        self.hook.may_rest &= not self.before.codes
        self.is_left_out = self.is_idle = False  # is this step not measured? is no hook needed?
        self.gaps = WatchedGaps(model, options, listener)
        self.written: set[int] = set()  # row places of gradients that are left out, because their view was written to
        self.ran_inside = False  # did the model run in a backward pass, outside of a reentrant checkpoint?
        self.views: list[MeasuredTensor] = []
        self.leaf_hooks = ExitStack()
        self.installed = ExitStack()

    def _check(self) -> None:
        # Raise NothingMatched for patterns that match nothing.
        parts = watched_parts(self.model)
        self.locals.look(parts)
        modules, held = ([quote_path(path) for path, _ in of] for of in (parts, watched_parameters(self.model)))
        self.selection.check(
            modules,
            held,
            type(self.model).__name__,
            locals=[f"{quote_path(one.path)}:{name}" for one in self.locals.forwards.values() for name in one.names],
            every_local=lambda: self.locals.every_name(parts),
            unread=self.locals.unread.values(),
        )

    def __enter__(self) -> TorchWatching:
        self._look()
        self.is_left_out = not self.listener.is_measured
        with self.installed:
            self.installed.enter_context(without_warning_of_hooks())
            self.installed.enter_context(self.hook)
            self.installed.enter_context(self.own_calls.listening(self.modules, self._called))
            self.installed.enter_context(self.steps.listening())
            self.installed.enter_context(self.schedules.listening())
            self.installed.callback(self.leaf_hooks.close)
            self.installed.callback(self.locals.rest)
            if not self.is_left_out:
                self.locals.wake()
            self.installed = self.installed.pop_all()
        return self

    def stop(self) -> None:
        self.installed.close()
        self.listener.is_measured = False  # the hooks of graphs that still exist check this
        self.seen.clear()
        self.views.clear()

    def step(self) -> None:
        if self.options.optimizers:
            raise self.refuse_step("optimizer= was given", "leave out run.step(), or optimizer=")
        self.steps.end_by_hand()

    def _measured_step_ends(self) -> None:
        self._add_compiled(self.compiled.values.take())
        gradients = self.compiled.gradients.take()
        if gradients and not any(self.passes.values()):
            self.listener.passed()  # this backward ran in a compiled function, where no pass was observed
        elif not any(self.passes.values()):
            self._add_of_grad()
        self.grad_passes.clear()
        self._add_compiled(gradients)
        self._follow_up()
        self.locals.refuse_seen(self.asked)
        self._leave_out_written()
        self.gaps.step_ends(
            self.modules, self.parameters, self.selection.wants_module, self.steps, self.locals, self.written
        )
        for held in (self.seen, self.passes, self.views, self.written):
            held.clear()
        self.ran_inside = False
        self.leaf_hooks.close()

    def _add_of_grad(self) -> None:
        # The step has run no ``backward()``: report the gradients of ``autograd.grad``, if all its calls differentiated
        # one output. The step also counts as one with a backward pass if the model ran in such a pass.
        kept = self.grad_passes.of_one_output()
        if kept or self.ran_inside:
            self.listener.passed()
        for place, measured in kept.items():
            for row, counted in measured:
                self.listener.add(place, row)
                if counted is not None:
                    self.listener.count(place, counted)

    def _leave_out_written(self) -> None:
        # Leave out the gradients of views that were written to after they were measured. Such a gradient belongs to the
        # measured value only in part, or not at all.
        for one in self.views:
            if not one.has_come and one.is_written:
                self.written.update(one.gradient_places)
        for place in self.written:
            self.listener.leave_out(place)

    def _step_begins(self) -> None:
        self.is_left_out, self.is_idle, self.has_looked = not self.listener.is_measured, False, False
        self.hook.wake()
        if self.locals.forwards:
            if self.is_left_out:
                self.locals.rest()
            else:
                self._look()
                self.locals.wake()

    def _follow_up(self) -> None:
        # Raise Unsupported if a part of the model was compiled before this watch began, and has run without its hooks.
        if not self.before.codes:  # true for nearly all models
            return
        found = self.before.around(self.model, {module for module, one in self.modules.items() if one.places})
        if found is not None:
            raise Unsupported(
                f"{found} was compiled and run before it was watched",
                asked=self.asked,
                found="it has run in this step, and no module inside of it was seen",
                why="its code was fixed when it was compiled, and runs on without what a watch puts in",
                next="call bp.watch(...) before what is compiled runs for the first time, or torch.compiler.reset() "
                "before bp.watch(...)",
            )

    def _look(self) -> None:
        # Walk the model to find modules and parameters that the program has added.
        parts = watched_parts(self.model)
        for alias, name in self.locals.look(parts).items():
            self.listener.alias(alias, name)
        for path, part in parts:
            first = self.modules.setdefault(part, WatchedModule(path))
            self.by_identity[id(part)] = first
            if not self.selection.wants_module(path):
                continue
            if not self.selection.wants_module(first.path):
                first.path = path  # the first path of a shared module that was selected
                first.places.clear()
            if first.path != path:
                self._share(first, path)
        own = watched_parameters(self.model)
        for gone in self.parameters.keys() - {parameter for _, parameter in own}:
            del self.parameters[gone]
        for path, parameter in own:
            name = quote_path(path)
            if self.options.of_parameters and self.selection.wants(name):
                first_name = self.parameters.setdefault(parameter, name)
                if first_name != name:
                    self.listener.alias(name, first_name)

    def _share(self, watched: WatchedModule, path: str) -> None:
        # Register another path of a shared module. This path may select further tensors of the module's output.
        if path not in watched.others:
            watched.others.append(path)
            watched.places.clear()
        self.listener.alias(named(path, ""), named(watched.path, ""))

    # Methods for the forward pass.

    @leave_alone
    def _after(self, module: Module, args: Any, output: Any) -> None:
        # Runs after each call of each module. Dynamo traces this function together with the code that it compiles.
        if not torch.is_grad_enabled():
            if not torch.compiler.is_compiling() and self.listener.is_measured:
                self.gaps.without_grad.add(module)
            return
        if torch.compiler.is_dynamo_compiling():
            if self.compiled.knows(id(module)) and self.listener.is_measured:
                heard(self.compiled, module, output)
        elif not (self.is_idle or torch.compiler.is_compiling()):
            self.run_after(module, output)

    def _called(self, module: Module, args: Any, output: Any) -> Any:
        # Runs after the call of a module whose class bypasses hooks.
        self._after(module, args, output)
        return output

    def _run_after(self, module: Module, output: Any) -> None:
        self.own_calls.heard(module)
        if threading.get_ident() != self.thread:
            self.gaps.elsewhere.add(module)
            return
        watched = self.modules.get(module) or self._added(module)
        if watched is None:
            return
        if not watched.has_line:
            watched.has_line = True
            self.say_line(watched.path, sys._getframe(1))
        self.listener.begin()
        if self.is_left_out:
            self.is_idle = True
            self.hook.rest()
        if not self._counts():
            return
        self.gaps.called.add(id(module))
        with quiet():
            if type(output) is Tensor:
                self._measure(watched, "", output)
                return
            for path, leaf in leaves(by_key(output)):
                if isinstance(leaf, Tensor):
                    self._measure(watched, path, leaf)

    def _counts(self) -> bool:
        # Is the running code measured?
        if not self.listener.is_measured or self.schedules.is_inferring or not _has_numbers():
            return False
        # In a backward pass, only a reentrant checkpoint is measured: other checkpoints recompute values that were
        # measured in their first run. The backward of a function written in Python may run the model and differentiate
        # it, as an adjoint method does.
        is_inside = current_pass() >= 0 and computing_again() is None
        self.ran_inside |= is_inside
        return not is_inside

    def _bound(self, forward: WatchedForward, local: str, value: Any, held: Bound) -> None:
        # Called when a forward has bound a local variable.
        if not (torch.is_grad_enabled() and threading.get_ident() == self.thread and self._counts()):
            return
        forward.bound.add(local)
        self.listener.begin()
        with quiet():
            for path, leaf in leaves(value) if is_container(type(value)) else (("", value),):
                name = f"{local}{path}"
                if not issubclass(type(leaf), Tensor):
                    held.pop(name, None)
                    continue
                before, leaf_version = held.get(name), version(leaf)
                if before is None or before[0]() is not leaf or before[1] != leaf_version:
                    held[name] = weakref.ref(leaf), leaf_version
                    self._measure(forward, f":{name}", leaf)

    def _added(self, module: Module) -> WatchedModule | None:
        if module in self.foreign and self.has_looked:
            return None
        self.foreign.add(module)
        self.has_looked = True
        self._look()
        return self.modules.get(module)

    def _known(self, module: int) -> bool:
        # Called while code is compiled. Does the module belong to the model, and will it run with real numbers?
        if is_exporting() or not _has_numbers():
            return False
        if module not in self.by_identity:
            self._look()
        found = self.by_identity.get(module)
        if found is not None:
            self.locals.compiled.add(module)
        return found is not None

    def _wanted_compiled(self, module: int, path: str) -> Places:
        watched = self.by_identity[module]
        watched.places[path] = places = self._places(watched, path)
        return places or (NONE, NONE)

    def _add_compiled(self, rows: Mapping[int, Row | Tensor]) -> None:
        for place, row in rows.items():
            self.listener.begin()
            self.listener.add(place, row)

    def _measure(self, watched: WatchedModule | WatchedForward, path: str, tensor: Tensor) -> None:
        if path not in watched.places:
            wanted = is_floating(tensor)
            watched.places[path] = self._places(watched, path, is_replicated(tensor)) if wanted else None
        places = watched.places[path]
        if places is None and watched.path:
            return
        seen = self.seen.get(id(tensor))
        if seen is None or seen.tensor() is not tensor or seen.version != version(tensor):
            seen = self.seen[id(tensor)] = MeasuredTensor(weakref.ref(tensor), version(tensor), None, [])
        if not seen.is_awaited and (self.options.gradients or not watched.path):
            self._await(seen, tensor)
        if places is None:
            return
        self.gaps.came.update(places)
        if self.options.values:
            seen.row = row_of(tensor.detach()) if seen.row is None else seen.row
            if seen.row is not None:
                self.listener.add(places[0], seen.row)
                self._count([places[0]], tensor)
            else:
                self.gaps.unread[places[0]] = why_unread(tensor)
        if self.options.gradients:
            seen.gradient_places.append(places[1])

    def _await(self, seen: MeasuredTensor, tensor: Tensor) -> None:
        # Observe the gradient of a tensor, if it requires one.
        if tensor.grad_fn is not None:
            seen.is_awaited = True
            if type(tensor) is Tensor and tensor._is_view():
                seen.counter = tensor.detach()
                seen.counter.data = EMPTY.to(tensor.dtype)
                self.views.append(seen)
            tensor.grad_fn.register_prehook(partial(self._arrive, seen, tensor.output_nr))
        elif tensor.requires_grad and tensor.is_leaf:
            seen.is_awaited = True
            hooked: Any = tensor
            self.leaf_hooks.callback(hooked.register_hook(lambda gradient: self._arrive(seen, 0, (gradient,))).remove)

    def _places(self, watched: WatchedModule | WatchedForward, path: str, is_replicated: bool = False) -> Places | None:
        name, options = self._name(watched, path), self.options
        if name is None:
            return None
        place = partial(self.listener.place, name, is_replicated=is_replicated)
        return place(VALUE) if options.values else NONE, place(GRADIENT, is_scaled=True) if options.gradients else NONE

    def _name(self, watched: WatchedModule | WatchedForward, path: str) -> str | None:
        # Return the first selected name of a local variable, or of a part of a module's output; None if it has no
        # selected name.
        if not isinstance(watched, WatchedModule):
            name = f"{quote_path(watched.path)}{path}"
            return name if self.selection.wants(name) else None
        paths = (one for one in (watched.path, *watched.others) if self.selection.wants_output(one, path))
        return next((named(one, path) for one in paths), None)

    # Methods for the backward pass.

    def _arrive(self, seen: MeasuredTensor, number: int, gradients: Sequence[Tensor | None]) -> None:
        # Called when a backward pass has reached a measured tensor. In a measured step the pass is registered even if
        # its gradients are not stored.
        if not self.listener.is_measured:
            return
        running = current_pass()
        if running not in self.passes:
            self.passes[running] = self._begun(running)
        gradient, places = gradients[number], seen.gradient_places
        if seen.is_written:
            self.written.update(places)
            return
        seen.has_come = True
        if not places or gradient is None:
            return
        if not self.passes[running] and running not in self.grad_passes.kept:
            return
        with quiet():
            row = row_of(gradient.detach())
            if row is None:
                self.gaps.unread.update(dict.fromkeys(places, why_unread(gradient)))
                return
            if self.passes[running]:
                for place in places:
                    self.listener.add(place, row)
                self._count(places, gradient)
                return
            counted = exponents_of(gradient.detach()) if self.listener.is_counted else None
            for place in places:
                self.grad_passes.add(running, place, row, counted)

    def _count(self, places: Sequence[int], tensor: Tensor) -> None:
        # Add a histogram in steps that need one.
        counted = exponents_of(tensor.detach()) if self.listener.is_counted else None
        for place in places if counted is not None else ():
            self.listener.count(place, counted)

    def _begun(self, running: int) -> bool:
        # Does the pass that has just started belong to ``backward()`` and not to ``autograd.grad``? The half of a split
        # backward that computes gradients of inputs counts as ``backward()``.
        frame = innermost_call(sys._getframe(1)) or innermost_call(sys._current_frames().get(self.thread))
        half = self.schedules.half
        if half == "inputs" or frame is None or frame.f_code.co_name != "grad":
            # a pass inside another pass does not count: a checkpoint runs it
            if frame is None or innermost_call(frame.f_back) is None:
                self.listener.passed()
                self.steps.uncleared.pass_began()
                if self.compiled.values.places:
                    self._add_compiled(self.compiled.values.take())
                    # what compiled code measures in this pass repeats earlier measurements of checkpoints
                    queue_callback(self.compiled.values.take)
                if self.options.clipping:
                    queue_last(self._left)
            return True
        if not half:  # the half for weights repeats what the half for inputs measured
            self.grad_passes.begin(running, frame)
        return False

    def _half_over(self) -> None:
        # Called when one half of a split backward has added to ``.grad``, after its pass.
        if self.options.clipping:
            self._left()

    def _left(self) -> None:
        # Called at the end of a pass, or of a half of one. Measure the gradients in ``.grad`` in a measured step.
        if self.listener.is_measured:
            self.steps.measure_gradients(self.parameters, BACKWARD, replaces=True)


def _has_numbers() -> bool:
    # Do the tensors of a call have real numbers? They do not inside transforms such as ``vmap``, or while code is
    # traced.
    return innermost_transform() is None and tracing_state() is None and not (dispatch_modes() and is_traced())
