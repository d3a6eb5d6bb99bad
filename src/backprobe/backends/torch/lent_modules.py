"""Modules during a repeated call. While the call runs, each module holds copies of its tensors, and no hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.nn.utils import stateless

from backprobe.backends.kept import Kept, assign
from backprobe.backends.patching import listening
from backprobe.backends.pure_calls import contents
from backprobe.record.containers import leaves, refilled

BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    *BACKWARD_HOOKS,
)
"""The attributes that hold a module's hooks. Hooks are not repeated, because they may have any effect, and were called
in the original call.
"""

GLOBAL_HOOKS = ("_global_forward_", "_global_backward_")
"""Prefixes of the names under which PyTorch keeps the hooks that run for every module."""


class ModuleState:
    """A module and its parts in their current state, so that calls can be repeated after they have changed."""

    def __init__(self, module: Module | None = None) -> None:
        copies: dict[int, Tensor] = {}
        parts = [] if module is None else list(module.modules())
        self.held = {id(part): {name: self._copy(one, copies) for name, one in vars(part).items()} for part in parts}

    def of(self, part: Module) -> dict[str, Any]:
        """Return the saved attributes of a module. A module that was not saved gives its current attributes."""
        return self.held.get(id(part)) or dict(vars(part))

    def _copy(self, value: Any, copies: dict[int, Tensor]) -> Any:
        if not isinstance(value, dict | list | tuple | Tensor):
            return value
        return refilled(value, lambda leaf: self._tensor(leaf, copies))

    def _tensor(self, leaf: Any, copies: dict[int, Tensor]) -> Any:
        # Tensors that require a gradient are not copied, because each repetition receives numbers for them.
        if not isinstance(leaf, Tensor) or leaf.requires_grad:
            return leaf
        return copies.setdefault(id(leaf), leaf.detach().clone())


class Lent:
    """The modules that a repetition reaches through its arguments, or through the closures of functions among them.

    Inside its context each module holds copies of its tensors, in the wanted precision, and no hooks; afterwards all
    modules are restored. Any other module that this thread calls is prepared before its forward runs. Only its forward
    runs, without global hooks. ``given`` replaces tensors, by id, by other tensors.
    """

    def __init__(self, reaching: Any, double: bool, state: ModuleState, given: Mapping[int, Tensor]) -> None:
        self.reaching, self.double, self.state = reaching, double, state
        self.copies, self.kept = dict(given), Kept()

    @contextmanager
    def while_called(self) -> Iterator[None]:
        try:
            swapping = listening(stateless, "_reparametrize_module", self._swapping)
            with listening(Module, "__call__", self._called), swapping:
                for module in reached(self.reaching):
                    self.lend(module)
                yield
        finally:
            self.kept.put_back()

    def _called(self, following: Callable[..., Any], module: Module, /, *args: Any, **kwargs: Any) -> Any:
        self.lend(module)
        return module.forward(*args, **kwargs)

    def _swapping(self, following: Callable[..., Any], module: Module, /, *args: Any, **kwargs: Any) -> Any:
        # Called instead of PyTorch's function with which ``functional_call`` replaces tensors of a module. The module
        # gets its copies first, so the tensors are put into the copies.
        self.lend(module)
        return following(module, *args, **kwargs)

    def lend(self, module: Module) -> None:
        """Put copies into a module and all modules inside it, if that has not been done yet. Raises RuntimeError if the
        program has put a computed tensor in the place of a parameter.
        """
        if (id(module), "") in self.kept.known:
            return
        for part in list(module.modules()):
            if self.kept.is_new(part):
                if any(leaf.grad_fn is not None for leaf in part._parameters.values() if leaf is not None):
                    raise RuntimeError("it puts tensors into a module that is not among its arguments")
                own = vars(part)
                self.kept.undo.append(partial(assign, own, dict(own)))
                assign(own, {name: self._lent(name, value) for name, value in self.state.of(part).items()})

    def _lent(self, name: str, value: Any) -> Any:
        if name in HOOKS:
            return OrderedDict()
        if name == "_modules" or not isinstance(value, dict | list | tuple | Tensor):
            return value
        return refilled(value, self._copy)

    def _copy(self, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.grad_fn is not None:
            return leaf
        if id(leaf) not in self.copies:
            copy = leaf.detach().clone()
            self.copies[id(leaf)] = copy.double() if self.double and copy.is_floating_point() else copy
        return self.copies[id(leaf)]


def reached(given: Any) -> Iterator[Module]:
    """Yield the modules among the arguments of a call, and those to which functions among the arguments belong or
    refer.
    """
    for _, leaf in leaves(given):
        if isinstance(leaf, partial):
            yield from reached((leaf.func, leaf.args, leaf.keywords))
            continue
        cells = getattr(leaf, "__closure__", None) or () if isinstance(leaf, FunctionType) else ()
        for one in (leaf, getattr(leaf, "__self__", None), *map(contents, cells)):
            if isinstance(one, Module):
                yield one
