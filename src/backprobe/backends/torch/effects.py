"""The effect of a call on the memory of its arguments, determined from the called function.

This follows PyTorch's own conventions: a function whose name ends in one underscore writes to its first argument,
``out=`` is the tensor that is written, and ``inplace=True`` means that the input is written. Functions outside of
PyTorch are unknown, except Python's operators and some builtins.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from operator import methodcaller
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backprobe.backends.facts import Effect
from backprobe.backends.torch.private import TensorBase
from backprobe.backends.torch.structure import structure
from backprobe.record.containers import leaves

PYTHONS = (
    FunctionType,
    MethodType,
    BuiltinFunctionType,
    type,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
EXPOSING = {"numpy", "__array__", "data_ptr", "untyped_storage", "__dlpack__", "set_"}
FLAGS = {"out", "inplace"}
NOT_WRITING = {"requires_grad_", "retain_grad", "register_hook"}
THROUGH_OTHERS = {"max_norm", "running_mean", "distance_function"}
"""Names of arguments with which a function may write to tensors besides its own results: to a weight, to statistics, or
to anything that a function of the user writes to.
"""
INPLACE = methodcaller("get", "inplace")
INPLACE_OPERATORS = {"__setitem__", "__set__"} | {
    f"__i{name}__"
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
        "matmul",
    )
}
HARMLESS = frozenset(
    {
        print,
        len,
        range,
        enumerate,
        zip,
        isinstance,
        getattr,
        hasattr,
        id,
        repr,
        min,
        max,
        sum,
        abs,
        int,
        float,
        bool,
        complex,
        str,
        list,
        tuple,
        dict,
        set,
        type,
        super,
        reversed,
        sorted,
    }
)


def effect(function: Any, flagged: bool) -> Effect:
    """Return the possible effect of calling ``function``. ``flagged`` says that it is called with ``out=``,
    ``inplace=`` or ``**kwargs``.
    """
    if type(function) is FunctionType:
        code = function.__code__
        found = _of_function(code, code.co_filename, function.__module__, function.__name__)
        return (Effect.AS_ASKED if found in (Effect.READS, Effect.AS_ASKED) else Effect.WRITES) if flagged else found
    if isinstance(function, partial):
        return effect(function.func, flagged or not function.keywords.keys().isdisjoint(FLAGS))
    if isinstance(function, torch.nn.Module):
        return effects_of(function)[function]
    found = _of_other(function)
    return found if not flagged else Effect.AS_ASKED if found is Effect.READS else Effect.WRITES


def _of_other(function: Any) -> Effect:
    # Return the effect of calling a callable that is not a plain function, without an argument such as ``out=`` that
    # would make it write.
    if not (isinstance(function, PYTHONS) or type(function).__module__.startswith("torch")):
        # an object of the user, whose attributes are not read, because that might run the program's code
        return Effect.UNKNOWN
    compiled = not isinstance(function, FunctionType | MethodType | type)
    if is_torchs(function):
        name = _name(function)
        if _writes(name) or name in EXPOSING or _inplace_position(function) is not None:
            return Effect.WRITES
        return Effect.READS if compiled and name != "requires_grad_" else Effect.UNKNOWN
    if isinstance(function, BuiltinFunctionType | type) and function in HARMLESS:
        return Effect.READS
    return Effect.UNKNOWN


@lru_cache(4096)
def _of_function(code: CodeType, file: str, module: str | None, name: str) -> Effect:
    # Return the effect of a function written in Python. PyTorch's own functions may write if their name or an argument
    # ``inplace`` says so.
    #
    # With few exceptions, functions of ``torch.nn.functional`` write to nothing else. Other functions are unknown.
    if not (isinstance(module, str) and module.startswith(("torch", "_operator"))):
        return Effect.UNKNOWN
    named, takes = name.partition(".")[0], code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if _writes(named) or named in EXPOSING:
        return Effect.WRITES
    is_its_own = file == functional.__file__  # a wrapper of a function may have the same module and name
    is_pure = is_its_own and THROUGH_OTHERS.isdisjoint(takes)
    if "inplace" in takes:
        return Effect.AS_ASKED if is_pure else Effect.WRITES
    return Effect.READS if is_pure else Effect.UNKNOWN


def targets(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Mapping[torch.nn.Module, Effect]
) -> list[Tensor]:
    """Return the tensors to which this call may write or whose memory it exposes, given the effects of some modules."""
    if isinstance(function, partial):
        return targets(function.func, (*function.args, *args), {**function.keywords, **kwargs}, known)
    name = _name(function)
    owner = getattr(function, "__self__", None)
    found: list[Any] = [kwargs["out"]] if "out" in kwargs else []
    if _writes(name) or name in EXPOSING:
        found.append(owner if isinstance(owner, Tensor) else args[:1])
    elif isinstance(function, torch.nn.Module):
        found += [args, kwargs] if (known.get(function) or effects_of(function)[function]) is Effect.WRITES else []
    else:
        position = _inplace_position(function)
        if kwargs.get("inplace") or (position is not None and len(args) > position and args[position]):
            found.append(args[:1] or kwargs.get("input"))
    return [leaf for value in found for _, leaf in leaves(value) if isinstance(leaf, Tensor)]


def _name(function: Any) -> str:
    # Return the plain name: ``mul_`` for a function, method, or ``torch.ops`` overload (``mul_.Tensor``), and
    # ``__imul__`` for operator.imul.
    name = str(getattr(function, "__name__", "")).partition(".")[0]
    dunder = f"__{name}__"
    return dunder if dunder in INPLACE_OPERATORS and getattr(function, "__module__", None) == "_operator" else name


def is_torchs(function: Any) -> bool:
    """Is the function PyTorch's own, or an operator of Python? A builtin function of torch belongs to an object of
    torch.
    """
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Tensor) or getattr(function, "__objclass__", None) is TensorBase:
        return True
    homes = (
        getattr(function, "__module__", None),
        getattr(owner, "__module__", None),
        getattr(owner, "__name__", None),
    )
    for home in homes:  # noqa: SIM110  # a generator is called once for each
        if isinstance(home, str) and home.startswith(("torch", "_operator")):
            return True
    return False


def _writes(name: str) -> bool:
    if name in INPLACE_OPERATORS:
        return True
    return name.endswith("_") and not name.endswith("__") and name not in NOT_WRITING


def _inplace_position(function: Any) -> int | None:
    # Return the position of the parameter ``inplace`` of a Python function of torch; None if it has none.
    code = getattr(function, "__code__", None)
    return None if code is None else _position(code, "inplace")


@lru_cache(1024)
def _position(code: CodeType, name: str) -> int | None:
    names = code.co_varnames[: code.co_argcount]
    return names.index(name) if name in names else None


def effects_of(module: torch.nn.Module) -> dict[torch.nn.Module, Effect]:
    """Return the possible effect of calling a module and each module inside it, by module: WRITES if the module or one
    inside it works in place, else UNKNOWN.
    """
    found: dict[torch.nn.Module, Effect] = {}
    modules = structure(module).modules
    kinds = {*map(type, modules)}
    if not (any(map(INPLACE, map(vars, modules))) or any(hasattr(kind, "inplace") for kind in kinds)):  # nearly always
        return dict.fromkeys(modules, Effect.UNKNOWN)
    for part in reversed(modules):  # inner modules come before outer ones
        held = vars(part)  # hasattr is slow for a missing attribute of a module
        writes = bool(held["inplace"] if "inplace" in held else getattr(type(part), "inplace", False) and part.inplace)
        for child in part._modules.values():
            writes = writes or (child is not None and found.get(child) is Effect.WRITES)
        found[part] = Effect.WRITES if writes else Effect.UNKNOWN
    return found
