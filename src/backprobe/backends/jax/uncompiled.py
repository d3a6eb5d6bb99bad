"""Runs a program without compiling its functions, so that they can be observed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import jax
import numpy

from backprobe.backends.jax import private
from backprobe.backends.patching import listening
from backprobe.backends.pure_calls import contents
from backprobe.source.user_code import package

LOOPS = ("while_loop", "scan")
"""The loops of ``jax.lax``. Its other loops call these."""

DATA = (int, float, complex, str, bytes, type(None), type, numpy.dtype, numpy.generic, numpy.ndarray, jax.Array)


@contextmanager
def uncompiled() -> Iterator[None]:
    """Inside this context functions and loops run as plain Python, except two kinds of loops.

    - Loops of JAX's own functions: JAX draws samples of a gamma distribution in a loop for each of them, which takes a
      minute for a hundred in Python.
    - ``while_loop`` inside a transformation: it has no reverse mode, and as plain Python it would have one. A program
      that fails with JAX's error has to fail in the same way here.
    """
    with jax.disable_jit(), ExitStack() as patches:
        for name in LOOPS:
            loop = getattr(jax.lax, name)
            for module in [one for key, one in sys.modules.items() if key.partition(".")[0] == "jax"]:
                if vars(module).get(name) is loop:
                    patches.enter_context(listening(module, name, partial(_looped, name)))
        yield


def _looped(name: str, following: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    functions = [one for one in (*args, *kwargs.values()) if callable(one)]
    is_compiled = all(map(_is_of_jax, functions)) or (name == "while_loop" and not private.is_untransformed())
    with jax.disable_jit(False) if is_compiled else nullcontext():  # else as the caller has it: a tape traces loops
        return following(*args, **kwargs)


def _is_of_jax(function: Any) -> bool:
    # Do the function, and all functions that it can call through its closure, belong to JAX?
    pending, seen = [function], set[int]()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        match one:
            case FunctionType():
                if package(one.__code__.co_filename) != "jax":
                    return False
                pending += map(contents, one.__closure__ or ())
            case MethodType():
                pending += [one.__func__, one.__self__]
            case partial():
                pending += [one.func, *one.args, *one.keywords.values()]
            case tuple() | list():
                pending += one
            case _ if not isinstance(one, DATA):
                inner = getattr(one, "__wrapped__", None)  # of a function that JAX has compiled
                if inner is None:
                    return False
                pending.append(inner)
    return True
