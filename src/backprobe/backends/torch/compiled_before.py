"""Code that was compiled before a watch began. It runs without the watch, because Dynamo does not check for new
hooks.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from types import FunctionType
from typing import Any

from torch.nn import Module

from backprobe.backends.pure_calls import contents
from backprobe.backends.torch.dynamo import WRAPPED_FORWARD, OptimizedModule, compiled_codes, has_compiled
from backprobe.backends.torch.tensors import grad_of
from backprobe.backends.torch.watched_selection import watched_parts


class CompiledBefore:
    """The code that Dynamo had compiled when this object was created. ``torch.compiler.reset()`` discards such code."""

    def __init__(self) -> None:
        self.codes = set(compiled_codes())
        self.well: frozenset[tuple[int, bool]] = frozenset()  # parts that were examined and ran no such code

    def around(self, model: Module, heard: Collection[Module]) -> str | None:
        """Return the name of a module or function, compiled earlier, that ran a part of a model in which no module was
        observed; None if there is none.

        This searches all objects of the process. It is not repeated for the same parts in later steps, because objects
        created later cannot have run before the watch.
        """
        self.codes = {code for code in self.codes if has_compiled(code)}
        if not self.codes:
            return None
        silent = {module: path for path, module in watched_parts(model) if _ran_unheard(module, heard)}
        doubted = frozenset((id(module), module in heard) for module in silent)
        if doubted <= self.well:
            return None
        wrapped = {id(one._orig_mod) for one in _living(OptimizedModule)}
        for module, path in silent.items():
            is_compiled = module._compiled_call_impl is not None or id(module) in wrapped
            if is_compiled and not self.codes.isdisjoint({_code(module.forward), WRAPPED_FORWARD}):
                return repr(path) if path else f"the model ({type(module).__name__})"
        known = {id(module) for module in silent if module not in heard}
        for function in _living(FunctionType):
            if function.__code__ in self.codes and any(id(one) in known for one in _reached(function)):
                return f"{function.__qualname__}() ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"
        self.well |= doubted
        return None


def _ran_unheard(module: Module, heard: Collection[Module]) -> bool:
    # Does a parameter of the module have a gradient, although none of its submodules was observed?
    if any(part in heard for part in module.modules() if part is not module):
        return False
    return any(grad_of(parameter) is not None for parameter in module.parameters())


def _living(kind: type) -> Iterator[Any]:
    return (one for one in gc.get_objects() if type(one) is kind)


def _code(forward: Callable[..., Any]) -> Any:
    return getattr(getattr(forward, "__func__", forward), "__code__", None)


def _reached(function: FunctionType) -> Iterator[Any]:
    # Return the objects behind the global and free names in a function's code; None for a name without an object.
    free = map(contents, function.__closure__ or ())
    return map(_unwrapped, chain(free, map(function.__globals__.get, function.__code__.co_names)))


def _unwrapped(value: Any) -> Any:
    return value._orig_mod if type(value) is OptimizedModule else value
