"""What a call may do to the memory of its arguments, read off the function that is called.

PyTorch's own rule is followed: a method or function whose name ends in one underscore writes to its first argument,
``out=`` names what is written, ``inplace=True`` means the input. Everything outside PyTorch is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.base import Effect
from backprobe.structure import leaves

EXPOSING = {"numpy", "__array__", "data_ptr", "untyped_storage", "__dlpack__", "set_"}
NOT_WRITING = {"requires_grad_", "retain_grad", "register_hook"}
INPLACE_OPERATORS = {"__setitem__", "__set__"} | {
    f"__i{name}__" for name in
    ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")
}  # fmt: skip
HARMLESS = frozenset({
    print, len, range, enumerate, zip, isinstance, getattr, hasattr, id, repr, min, max, sum, abs, int, float, bool,
    complex, str, list, tuple, dict, set, type, super, reversed, sorted,
})  # fmt: skip


def effect(function: Any, flagged: bool) -> Effect:
    """What calling ``function`` may do; ``flagged`` if it is called with ``out=``, ``inplace=`` or ``**kwargs``."""
    if flagged:
        return Effect.WRITES
    if isinstance(function, BuiltinFunctionType) or type(function).__name__ in ("method-wrapper", "wrapper_descriptor"):
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Tensor):
            return Effect.WRITES if _writes(function.__name__) or function.__name__ in EXPOSING else Effect.READS
        if function in HARMLESS:
            return Effect.READS
        if (getattr(function, "__module__", None) or "").startswith("torch") or _is_torch_builtin(owner):
            return Effect.WRITES if _writes(function.__name__) else Effect.READS
        return Effect.UNKNOWN
    if isinstance(function, torch.nn.Module):
        return Effect.WRITES if _module_inplace(function) else Effect.UNKNOWN
    if isinstance(function, MethodType) and isinstance(function.__self__, Tensor):
        return Effect.WRITES if _writes(function.__name__) else Effect.UNKNOWN
    if isinstance(function, FunctionType):
        return _function_effect(function)
    if isinstance(function, type):
        return Effect.READS if function in HARMLESS else Effect.UNKNOWN
    return Effect.UNKNOWN


def targets(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that this call may write to."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    found: list[Any] = [kwargs.get("out")]
    if _writes(name) or name in EXPOSING:
        found.append(owner if isinstance(owner, Tensor) else args[:1])
    elif isinstance(function, torch.nn.Module):
        found += [args, kwargs] if _module_inplace(function) else []
    elif kwargs.get("inplace") or _positional_inplace(function, args):
        found.append(args[:1] or kwargs.get("input"))
    return [leaf for value in found for _, leaf in leaves(value) if isinstance(leaf, Tensor)]


def _writes(name: str) -> bool:
    if name in INPLACE_OPERATORS:
        return True
    return name.endswith("_") and not name.endswith("__") and name not in NOT_WRITING


def _is_torch_builtin(owner: Any) -> bool:
    """Builtin functions of torch belong to ``torch._C._VariableFunctions`` and its neighbours."""
    return (getattr(owner, "__module__", None) or "").startswith("torch") or getattr(owner, "__name__", "").startswith(
        "torch"
    )


@lru_cache(1024)
def _function_effect(function: FunctionType) -> Effect:
    if not (function.__module__ or "").startswith("torch"):
        return Effect.UNKNOWN
    if _writes(function.__name__) or "inplace" in function.__code__.co_varnames[: function.__code__.co_argcount]:
        return Effect.WRITES
    return Effect.UNKNOWN


def _positional_inplace(function: Any, args: tuple[Any, ...]) -> bool:
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    names = code.co_varnames[: code.co_argcount]
    return "inplace" in names and names.index("inplace") < len(args) and bool(args[names.index("inplace")])


def _module_inplace(module: torch.nn.Module) -> bool:
    return any(getattr(inner, "inplace", False) for inner in module.modules())
