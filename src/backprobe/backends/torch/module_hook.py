"""A forward hook on all modules. It costs a call for each module, so it is removed in steps that are not measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch.nn.modules.module import register_module_forward_hook

from backprobe.backends.torch.dynamo import start_callbacks


class ModuleHook:
    """A forward hook on all modules, inside this context. ``rest`` removes the hook, and ``wake`` installs it again.

    Dynamo traces the hook together with the code that it compiles, and does not check later whether a hook was added.
    Code that is compiled without the hook would never run it. So the hook is installed before Dynamo compiles, and
    stays until the context ends.
    """

    def __init__(self, hook: Callable[..., None]) -> None:
        self.hook = hook
        self.handle: Any = None
        self.is_open = False
        self.callbacks = start_callbacks()
        self.may_rest = self.callbacks is not None
        self.compiling = self._compiling  # stored, because each access creates a new bound method

    def __enter__(self) -> ModuleHook:
        if self.callbacks is not None:
            self.callbacks.append(self.compiling)
        self.is_open = True
        self._register()
        return self

    def __exit__(self, *error: object) -> None:
        if self.callbacks is not None:
            with suppress(ValueError):  # torch.compiler.reset() has removed the callback
                self.callbacks.remove(self.compiling)
        self.is_open = False
        self._remove()

    def rest(self) -> None:
        """Remove the hook until ``wake`` is called, unless it has to stay for compiled code."""
        if self.may_rest:
            self._remove()

    def wake(self) -> None:
        if self.callbacks is not None and self.may_rest and self.compiling not in self.callbacks:
            self.may_rest = False
        self._register()

    def _compiling(self, *args: Any) -> None:
        self.may_rest = False
        self._register()

    def _register(self) -> None:
        if self.handle is None and self.is_open:
            self.handle = register_module_forward_hook(self.hook)

    def _remove(self) -> None:
        if self.handle is not None:
            self.handle.remove()
            self.handle = None
