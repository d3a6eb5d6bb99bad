"""A module to be called again: a copy of it without its hooks, whose parameters are given anew for each call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import stateless

from backprobe.backends.patching import listening
from backprobe.backends.pure_calls import contents
from backprobe.record.containers import leaves, refilled
from backprobe.record.quoted_errors import first_line
from backprobe.record.reasons import Reason

BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs", *BACKWARD_HOOKS,
)  # fmt: skip
"""The attributes that hold a module's hooks. These may do anything, and were called when the module itself was."""

GLOBAL_HOOKS = ("_global_forward_", "_global_backward_")
"""How the names start under which PyTorch keeps the hooks of every module."""


class Buffers:
    """The buffers of a module and of those in it, as they were at first: calls may put others in their places."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.parts = [(part, dict(part._buffers)) for part in module.modules()]
        self.first = {id(own): own.clone() for _, held in self.parts for own in held.values() if own is not None}

    def put_back(self, double: bool) -> None:
        for part, held in self.parts:
            filled = {name: None if own is None else self._filled(own, double) for name, own in held.items()}
            part._buffers.clear()
            part._buffers.update(filled)

    def _filled(self, own: Tensor, double: bool) -> Tensor:
        # The very tensor, which the module may hold elsewhere too; another where a call has made that a result.
        first = self.first[id(own)]
        dtype = torch.float64 if double and first.is_floating_point() else first.dtype
        if own.grad_fn is not None:
            return first.to(dtype, copy=True)
        if own.shape == first.shape and own.dtype == dtype:
            return own.copy_(first)
        own.data = first.to(dtype, copy=True)
        return own


class ModuleCopy:
    """A copy of a module, taken before it was called."""

    def __init__(self, original: torch.nn.Module, module: torch.nn.Module) -> None:
        self.module = module
        self.own: dict[int, Tensor] = {
            id(of): own for of, own in zip(original.parameters(), module.parameters(), strict=True)
        }
        self.buffers, self.double = Buffers(module), False
        self.dtypes = {path: held.dtype for path, held in module.named_parameters()}

    @classmethod
    def of(cls, original: torch.nn.Module) -> ModuleCopy | Reason:
        """A copy, or the reason why there can be none."""
        memo: dict[int, Any] = {}
        for part in original.modules():
            for name in HOOKS:
                hooks = vars(part).get(name)
                if hooks is not None:
                    memo[id(hooks)] = OrderedDict()
        try:
            module = deepcopy(original, memo)
        except Exception as error:  # noqa: BLE001  # whatever is in it may refuse to be copied
            return Reason("module_not_copied", {"error": first_line(error)})
        for parameter in module.parameters():
            parameter.grad = None
        return cls(original, module)

    def become(self, double: bool) -> None:
        """Compute in double precision, or in its own."""
        self.double = double
        with torch.no_grad():
            for path, held in self.module.named_parameters():
                if held.is_floating_point():
                    held.data = held.data.to(torch.float64 if double else self.dtypes[path])

    def fill(self, values: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Put these values into the parameters, and the buffers back as they were. Returns the parameters.

        All are by identity of the original's parameters.
        """
        filled = {key: own for key, own in self.own.items() if key in values}
        with torch.no_grad():
            for key, own in filled.items():
                own.copy_(values[key])
            self.buffers.put_back(self.double)
        return filled

    def call(self, held: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class Lent:
    """The modules that a repetition reaches through its arguments, or through what a function of them closes over.

    While this context lasts each holds copies of its tensors, in the wanted precision, and no hooks; afterwards all of
    them are as they were. A module that this thread calls is lent before its forward runs, wherever it comes from, and
    no more than its forward runs: no global hook is called.
    """

    def __init__(self, given: Any, double: bool) -> None:
        self.given, self.double = given, double
        self.before: dict[int, tuple[torch.nn.Module, dict[str, Any]]] = {}
        self.own: set[int] = set()  # of modules that are copies already

    @contextmanager
    def while_called(self) -> Iterator[None]:
        try:
            swapping = listening(stateless, "_reparametrize_module", self._swapping)
            with listening(torch.nn.Module, "__call__", self._called), swapping:
                for module in reached(self.given):
                    self.lend(module)
                yield
        finally:
            for module, held in self.before.values():
                vars(module).clear()
                vars(module).update(held)
            self.before.clear()

    def _called(self, following: Any, module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        self.lend(module)
        return module.forward(*args, **kwargs)

    def _swapping(self, following: Any, module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        # ``functional_call`` puts tensors into the copies, and takes them out of these again.
        self.lend(module)
        return following(module, *args, **kwargs)

    def keep(self, module: torch.nn.Module) -> None:
        """This module and those in it are copies already."""
        self.own.update(map(id, module.modules()))

    def lend(self, module: torch.nn.Module) -> None:
        """Put copies into a module and all that are in it."""
        if id(module) in self.before or id(module) in self.own:
            return
        copies: dict[int, Tensor] = {}
        for part in list(module.modules()):
            if id(part) not in self.before and id(part) not in self.own:
                if any(leaf.grad_fn is not None for leaf in part._parameters.values() if leaf is not None):
                    raise RuntimeError("it puts tensors into a module that is not among its arguments")
                held = dict(vars(part))
                self.before[id(part)] = part, held
                vars(part).update({name: self._lent(name, value, copies) for name, value in held.items()})

    def _lent(self, name: str, value: Any, copies: dict[int, Tensor]) -> Any:
        if name in HOOKS:
            return OrderedDict()
        if name == "_modules" or not isinstance(value, dict | list | tuple | Tensor):
            return value
        return refilled(value, lambda leaf: self._copy(leaf, copies))

    def _copy(self, leaf: Any, copies: dict[int, Tensor]) -> Any:
        if not isinstance(leaf, Tensor) or leaf.grad_fn is not None:
            return leaf
        if id(leaf) not in copies:
            copy = leaf.detach().clone()
            copies[id(leaf)] = copy.double() if self.double and copy.is_floating_point() else copy
        return copies[id(leaf)]


def reached(given: Any) -> Iterator[torch.nn.Module]:
    """The modules among the arguments of a call, and those that functions among them belong to or close over."""
    for _, leaf in leaves(given):
        if isinstance(leaf, partial):
            yield from reached((leaf.func, leaf.args, leaf.keywords))
            continue
        cells = getattr(leaf, "__closure__", None) or () if isinstance(leaf, FunctionType) else ()
        for one in (leaf, getattr(leaf, "__self__", None), *map(contents, cells)):
            if isinstance(one, torch.nn.Module):
                yield one
