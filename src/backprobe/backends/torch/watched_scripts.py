"""Watches a script about which nothing is known: finds the models that it calls, and the optimizers that it created for
them.

PyTorch's hooks on all modules show which module is called from outside of all other modules, before it computes, so the
first step is measured completely. The optimizers of a model are those that own one of its parameters.

Some libraries wrap the model for each call, as solvers of differential equations do. Such a wrapper holds nothing but
the model, and got it after the optimizers of the model were created. The wrapped module then counts as the model. A
library may also call the model from a module without parameters that runs without gradients.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.nn import Module, Parameter
from torch.nn.modules import module as module_file
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_module_registration_hook,
)
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from backprobe.backends.patching import listening
from backprobe.backends.torch.dynamo import OptimizedModule, compiled_codes, is_rest
from backprobe.backends.torch.global_hooks import without_warning_of_hooks
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.own_calls import all_owners, around_calls_of
from backprobe.backends.torch.private import is_wrapped
from backprobe.backends.torch.read_backward import backward_read
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.watched_selection import unwrapped
from backprobe.backends.watches import ScriptListener
from backprobe.source.frames import name_in
from backprobe.source.user_code import package

T = TypeVar("T")

HOOKS: dict[int, Callable[..., Any]] = getattr(module_file, "_global_forward_pre_hooks", {})
"""PyTorch's hooks before the forwards of all modules. A call runs the hooks that existed when it started."""


class WatchedScript:
    """Observes one script, in the thread in which it runs."""

    def __init__(self, listener: ScriptListener) -> None:
        self.listener = listener
        self.thread = threading.get_ident()
        self.optimizers: list[weakref.ref[Optimizer]] = []
        self.scalers: list[weakref.ref[GradScaler]] = []
        self.known: weakref.WeakSet[Module] = weakref.WeakSet()  # models that were found, and all modules inside them
        self.given: weakref.WeakKeyDictionary[Module, int] = weakref.WeakKeyDictionary()
        """How many optimizers existed when a module got its last part. Modules that got none since the first optimizer
        was created are not in it.
        """
        self.running: list[Module] = []
        self.outermost: int | None = None  # the index in ``running`` of the first module called with gradients on
        self.again: Module | None = None  # a module that is being called again, because it was just found
        self.owners: set[type] = set()  # classes that define their own ``__call__``
        self.installed = ExitStack()
        self.is_open = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside this context the models of the script are observed."""
        with self.installed as installed:
            installed.enter_context(without_warning_of_hooks())
            installed.enter_context(listening(Optimizer, "__init__", self._optimizer_made))
            installed.enter_context(listening(GradScaler, "__init__", self._scaler_made))
            installed.enter_context(backward_read(self._backward))
            installed.enter_context(listening(Module, "compile", self._compiled))
            installed.callback(self._leave)
            for handle in (
                register_module_forward_pre_hook(self._before),
                register_module_forward_hook(self._after, always_call=True),
                register_module_module_registration_hook(self._part_given),
            ):
                installed.callback(handle.remove)
            yield

    def _leave(self) -> None:
        self.is_open = False
        own = [code for code in compiled_codes() if package(code.co_filename) is None and not is_rest(code)]
        self.listener.compiled(sorted(own, key=lambda code: (code.co_filename, code.co_firstlineno)))

    def _optimizer_made(self, following: Callable[..., Any], instance: Optimizer, *args: Any, **kwargs: Any) -> Any:
        # The classes of the script's models exist by now. A class with its own ``__call__`` may not run the hooks, so
        # its calls are wrapped.
        new = all_owners() - self.owners
        self.owners |= new
        self.installed.enter_context(around_calls_of(new, self._own_call))
        self.optimizers.append(weakref.ref(instance))
        return following(instance, *args, **kwargs)

    def _scaler_made(self, following: Callable[..., Any], instance: GradScaler, *args: Any, **kwargs: Any) -> Any:
        self.scalers.append(weakref.ref(instance))
        return following(instance, *args, **kwargs)

    def _part_given(self, module: Module, name: str, part: Module | None) -> None:
        if not torch.compiler.is_compiling() and self.optimizers:
            self.given[module] = len(self.optimizers)

    def _own_call(self, following: Callable[..., Any], module: Module, /, *args: Any, **kwargs: Any) -> Any:
        if self.again is module:
            self.again = None
            return following(module, *args, **kwargs)
        known = len(self.known)
        self._before(module, args)
        try:
            if len(self.known) > known:  # the model has just been found: call it through its new watch
                self.again = module
                return module(*args, **kwargs)
            return following(module, *args, **kwargs)
        finally:
            self._after(module, args, None)

    def _compiled(self, following: Callable[..., Any], module: Module, *args: Any, **kwargs: Any) -> None:
        # After ``module.compile()``, a call runs only hooks that were compiled, so the call itself is wrapped.
        following(module, *args, **kwargs)
        call = getattr(module, "_compiled_call_impl", None)
        if call is None:
            return

        def heard(*args: Any, **kwargs: Any) -> Any:
            if not self.is_open or torch.compiler.is_compiling():
                return call(*args, **kwargs)
            self._before(module, args)
            try:
                return call(*args, **kwargs)
            finally:
                self._after(module, args, None)

        module._compiled_call_impl = heard

    def _before(self, module: Module, args: Any) -> None:
        if torch.compiler.is_compiling() or threading.get_ident() != self.thread:
            return
        self.running.append(module)
        if self.outermost is not None or not torch.is_grad_enabled():
            return
        self.outermost = len(self.running) - 1
        if not any(_has_parameters(each) for each in self.running[:-1]) and not self._is_known(module):
            before = {*HOOKS}
            self._look(module)
            # hooks that were added only now, for example by a guard of the model, do not run in this call
            for hook in [hook for number, hook in HOOKS.items() if number not in before]:
                _called(hook, module, args, name_in(sys._getframe(1), "kwargs"))

    def _after(self, module: Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or threading.get_ident() != self.thread or module not in self.running:
            return
        while self.running.pop() is not module:
            pass
        if self.outermost is not None and len(self.running) <= self.outermost:
            self.outermost = None

    def _is_known(self, module: Module) -> bool:
        return module in self.known or self._wrapped(module) in self.known

    def _look(self, module: Module) -> None:
        # Report the model if an optimizer owns a parameter of it. If none does so far, the model is examined again at
        # a later call, because an optimizer may be created by then.
        wrapper, module = module, self._wrapped(module)
        own = set(module.parameters())
        held = _training(own, self.optimizers)
        if held and not own <= {one for each in self.known for one in each._parameters.values()}:
            self.known.update(module.modules())
            self.known.update(wrapper.modules())
            scalers = self._scalers()
            self.listener.found(module, held, scalers[-1] if scalers else None)

    def _wrapped(self, module: Module) -> Module:
        # Return the program's own model, without wrappers that compile it, average its gradients, or got it after its
        # optimizers did.
        while True:
            parts = [*module._modules.values()]
            if isinstance(module, OptimizedModule):
                module = unwrapped(module)
            elif isinstance(module, DistributedDataParallel):
                module = module.module
            elif len(parts) == 1 and parts[0] and not module._parameters and self._is_later(module):
                module = parts[0]
            else:
                return module

    def _is_later(self, module: Module) -> bool:
        # Did a module get its part after all optimizers that train it were created?
        if module not in self.given:
            return False
        return not _training({*module.parameters()}, self.optimizers[self.given[module] :])

    def _backward(self, tensor: Tensor) -> None:
        # The program may read ``backward`` without calling it, as hasattr(x, "backward") does. So the tensor may be
        # inside a transform, or require no gradient.
        with quiet():
            if not is_wrapped(tensor) and tensor.requires_grad and tensor.numel() == 1 and not self._scalers():
                self.listener.lost(tensor.detach())

    def _scalers(self) -> list[GradScaler]:
        return [one for one in _there(self.scalers) if one.is_enabled()]


def _has_parameters(module: Module) -> bool:
    return next(module.parameters(), None) is not None


def _training(held: set[Parameter], optimizers: Iterable[weakref.ref[Optimizer]]) -> list[Optimizer]:
    # Return the optimizers that own one of these parameters.
    return [optimizer for optimizer in _there(optimizers) if not held.isdisjoint(parameters(optimizer))]


def _called(hook: Callable[..., Any], module: Module, args: Any, kwargs: Any) -> None:
    # Call a hook as PyTorch does, because a guard reads the call's arguments from the frame that calls its hook.
    hook(module, args)


def _there(made: Iterable[weakref.ref[T]]) -> list[T]:
    return [one for one in (reference() for reference in made) if one is not None]
