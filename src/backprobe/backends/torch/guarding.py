"""Reports to a guard the calls of a model, and the backward passes that reach their outputs.

A call is kept alive by hooks on the nodes of its outputs, so it lives as long as the program keeps its graph. A guard
around a whole training therefore keeps nothing of a finished step.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.nn import Module
from torch.nn.modules import module as module_file
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from backprobe.backends.captures import under
from backprobe.backends.guarding import GuardedPass, PassGuarding, part_ended
from backprobe.backends.guards import BlockGuards, GuardListener, Guards, Over
from backprobe.backends.torch.backward_call import BackwardCall, innermost_call
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.global_hooks import without_warning_of_hooks
from backprobe.backends.torch.graph import all_nodes, leaves
from backprobe.backends.torch.guarded_calls import (
    COMPILED,
    Before,
    CallState,
    GuardedModule,
    TorchGuardedCall,
    floating,
)
from backprobe.backends.torch.loss_scalers import is_handled, scales_noted
from backprobe.backends.torch.nonfinite import unfit
from backprobe.backends.torch.own_calls import around_own_calls
from backprobe.backends.torch.parameter_updates import held_now
from backprobe.backends.torch.pipelines import schedules
from backprobe.backends.torch.private import current_pass, queue_last
from backprobe.backends.torch.structure import parts
from backprobe.backends.torch.tensors import grad_of
from backprobe.backends.user_lines import users_frames
from backprobe.record.nonfinite import Update


@dataclass(eq=False)
class EnginePass(GuardedPass[TorchGuardedCall]):
    """A pass of the engine: whether ``backward()`` started it, its roots, and, if failing steps are captured, the
    parameters that had no gradient.
    """

    is_backward: bool = True
    roots: Sequence[Tensor] = ()
    fresh: Collection[str] = ()


WITH_KEYWORDS: dict[int, bool] = getattr(module_file, "_global_forward_hooks_with_kwargs", {})
"""PyTorch's table of global hooks that take keywords."""

PENDING = 16  # the most passes that are remembered as unfinished, for example because they raised


class TorchGuarding(PassGuarding[EnginePass]):
    """Observes the outermost calls of one model's modules, in one thread, by hooks on all modules."""

    unfit = staticmethod(unfit)

    def __init__(self, model: Module, listener: GuardListener) -> None:
        super().__init__(listener)
        self.model, self.thread = model, threading.get_ident()
        self.known: dict[Module, str] = {}
        self.foreign: WeakSet[Module] = WeakSet()  # modules that did not belong to the model when they first ran
        self.has_looked = False  # were foreign modules searched for since a part of the model last ran?
        self.guarded: dict[Module, GuardedModule] = {}  # the modules that were called since the last walk
        self.running: tuple[Module, CallState, Before | None] | None = None  # the outermost call that is running
        self.calls: WeakSet[TorchGuardedCall] = WeakSet()
        self.passes: dict[int, EnginePass] = {}  # by the engine's number of a pass
        self.handles: list[Any] = []
        self.schedules = schedules()
        self._look()

    def listen(self) -> None:
        self.handles += [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, with_kwargs=True, always_call=True),
        ]

    def around(self, following: Callable[..., Any], module: Module, /, *args: Any, **kwargs: Any) -> Any:
        """Observe a call of a module whose class may bypass hooks. If hooks report the same call, it counts once."""
        self._before(module, args)
        try:
            output = following(module, *args, **kwargs)
        except BaseException:
            self._after(module, args)
            raise
        self._after(module, args, kwargs, output)
        return output

    def rest(self) -> None:
        for handle in self.handles:
            handle.remove()
            WITH_KEYWORDS.pop(handle.id, None)  # removing a handle does not remove this mark
        self.handles.clear()

    def stop(self) -> None:
        self.rest()
        for call in list(self.calls):
            call.forget()

    def _look(self) -> None:
        self.guarded.clear()
        for path, part in parts(self.model):
            self.known.setdefault(part, path)

    # Methods for the forward pass.

    def _before(self, module: Module, args: Any) -> None:
        if self.running is not None or self.is_repeating or self.schedules.is_inferring:
            return  # true for nearly all calls
        # Dynamo traces hooks, and the graph would break at the next condition.
        if is_dynamo_compiling() or threading.get_ident() != self.thread:
            return
        if module not in self.known and not (module in self.foreign and self.has_looked):
            self.foreign.add(module)
            self.has_looked = True
            self._look()
        if module in self.known:
            self.has_looked = False
            of = self._guarded(module)
            self.running = module, CallState(of), Before(of, sys._getframe(1)) if self.listener.captures else None
        if type(module).__name__ == COMPILED:
            self._stand_aside(module)

    def _guarded(self, module: Module) -> GuardedModule:
        if module not in self.guarded:
            self.guarded[module] = GuardedModule(module, self.known[module])
        return self.guarded[module]

    def _after(self, module: Module, args: Any, *rest: Any) -> None:
        # Called after each call of a module. If the call raised an error, PyTorch passes no keywords and None as its
        # output.
        running = self.running
        if running is None or module is not running[0]:
            return
        if is_dynamo_compiling() or threading.get_ident() != self.thread:
            return
        self.running = None
        if len(rest) == 2 and not torch.compiler.is_compiling():
            call = TorchGuardedCall(self._guarded(module), running[1], (args, rest[0]))
            self._over(call, rest[1], running[2])

    def _over(self, call: TorchGuardedCall, returned: Any, before: Before | None) -> None:
        outputs = floating(returned)
        if before is not None:
            call.keep(before, outputs)
        self.ended(call, outputs)
        self.calls.add(call)
        for path, tensor in outputs.items():
            node, number = tensor.grad_fn, tensor.output_nr
            if node is not None:
                call.handles.append(node.register_prehook(partial(self._come, call, path, number)))

    def _stand_aside(self, compiled: Module) -> None:
        # Remove the hooks while a compiled module runs. With global hooks present, Dynamo would compile it again
        # together with them.
        def over(module: Module, args: Any, *rest: Any) -> None:
            handle.remove()
            self.listen()
            self._after(module, args, *rest)

        self.rest()
        handle = compiled.register_forward_hook(over, with_kwargs=True, always_call=True)

    # Methods for the backward pass.

    def _come(self, call: TorchGuardedCall, path: str, number: int, gradients: Sequence[Tensor | None]) -> None:
        # Called when a pass has reached an output of a call.
        gradient, running = gradients[number], current_pass()
        if gradient is None or self.is_repeating or running < 0:
            return
        if running not in self.passes:
            self.passes[running] = self._begun(running)
        if self.passes[running].is_backward:
            self.passes[running].come(call, path, gradient)

    def _begun(self, running: int) -> EnginePass:
        # Begin a pass that has reached the first of its calls.
        for one in [*self.passes][:-PENDING]:
            del self.passes[one]
        frame = innermost_call(sys._getframe(1)) or innermost_call(sys._current_frames().get(self.thread))
        call = BackwardCall() if frame is None else BackwardCall.of(frame)
        is_backward = not call.is_grad or self.schedules.half == "inputs"
        if is_backward:
            queue_last(partial(self._ended, running))
        fresh = self._fresh() if self.listener.captures else ()
        return EnginePass(is_backward=is_backward, roots=call.roots, fresh=fresh)

    def _fresh(self) -> set[str]:
        # Return the parameters of the called modules that have no gradient yet.
        named = [(of.path, name, one) for of in self.guarded.values() for name, one in of.parameters]
        return {under(path, name) for path, name, one in named if grad_of(one) is None}

    def _ended(self, running: int) -> None:
        # End a pass. This runs after the callbacks that others have queued, because a callback may first average the
        # gradients of several processes.
        ended = self.passes.pop(running, None)
        if ended is None:
            return
        try:
            if self.handles:
                self.passed(ended)
        finally:
            ended.forget()

    def left_by(self, ended: EnginePass) -> Iterator[tuple[str, Tensor]]:
        for of in {call.of: None for call in ended.calls}:
            for name, parameter in of.parameters:
                gradient = grad_of(parameter)
                if gradient is not None:
                    yield under(of.path, name), gradient

    def is_handled(self, ended: EnginePass) -> bool:
        return is_handled(ended.roots)

    def keep(self, ended: EnginePass, left: Mapping[str, Any]) -> None:
        for call in ended.calls:
            call.fresh = ended.fresh


class TorchBlockGuards(BlockGuards):
    """Implements ``BlockGuards`` for PyTorch."""

    def scaling(self, scaled: Callable[[Callable[[], bool]], None]) -> AbstractContextManager[None]:
        return scales_noted(scaled)

    def held(self) -> Sequence[Update]:
        return held_now(list(users_frames(sys._getframe(1))))

    def needed(self, tape: Any, captures: Sequence[Capture], tensors: Sequence[Any]) -> int:
        held = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
        nodes = set(all_nodes([tensor.grad_fn for tensor in held if tensor.grad_fn is not None]))
        return sum(one.edge is not None and one.edge.node in nodes for one in captures)

    def after_backward(self, roots: Sequence[Tensor], over: Over) -> None:
        found = leaves(all_nodes([root.grad_fn for root in roots if root.grad_fn is not None]))

        def ended() -> None:
            gradients = {str(at): leaf.grad for at, leaf in enumerate(found) if leaf.grad is not None}
            began_at = {str(at): root.detach() for at, root in enumerate(roots)}
            part_ended(began_at, gradients, unfit, partial(is_handled, roots), over)

        queue_last(ended)


class TorchGuards(Guards):
    """Implements ``Guards`` for PyTorch."""

    blocks = TorchBlockGuards

    @contextmanager
    def listening(self, model: Module, listener: GuardListener) -> Iterator[None]:
        guarding = TorchGuarding(model, listener)
        with scales_noted(), without_warning_of_hooks():
            guarding.listen()
            try:
                with around_own_calls(guarding.known, guarding.around), guarding.schedules.listening():
                    yield
            finally:
                guarding.stop()
