"""Runs what a program compiles with ``torch.compile`` as plain Python, so that it can be observed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from backprobe.backends.patching import listening
from backprobe.backends.user_lines import callers

CALLERS = tuple(os.path.join("_dynamo", name) for name in ("eval_frame.py", "external_utils.py"))
"""The files with the functions of Dynamo that call what was to be compiled."""

OPEN: list[ExitStack] = []
"""The open contexts in which nothing is compiled."""

OWN: list[Any] = []
"""The functions of PyTorch itself that run compiled now."""


def is_uncompiled() -> bool:
    """Do compiled functions and modules run as plain Python now?"""
    return bool(OPEN) and not OWN


def calls_plain_code(code: CodeType) -> bool:
    """Is this a function of Dynamo that now calls the program's own function?"""
    return is_uncompiled() and code.co_filename.endswith(CALLERS)


@contextmanager
def uncompiled() -> Iterator[None]:
    """Inside this context, what ``torch.compile`` returned runs the program's own code, and nothing is compiled.

    A compiled model is still an ``OptimizedModule``, with the same names. Operators that PyTorch itself compiles, such
    as ``torch.cond``, still are: as plain Python, they lose the gradients of what their branches read from outside.
    """
    with ExitStack() as eager:

        def compile_called(following: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if not begun:
                begin()
            made = following(*args, **kwargs)
            return _compiled(made) if args and _is_pytorchs(args[0], sys._getframe(1)) else made

        def begin() -> None:
            stance: Any = torch.compiler.set_stance
            eager.enter_context(stance("force_eager"))
            begun.append(True)

        begun: list[bool] = []
        OPEN.append(eager)
        eager.callback(OPEN.remove, eager)
        # PyTorch's compiler takes seconds to import, so only a program that uses it imports it
        eager.enter_context(listening(torch, "compile", compile_called))
        if "torch._dynamo" in sys.modules:
            begin()
        yield


def _is_pytorchs(function: Any, calling: FrameType) -> bool:
    # Does PyTorch compile a function of its own? ``Module.compile`` gives it a method, which calls the program's code.
    names = (frame.f_globals.get("__name__", "") for frame in callers(calling))
    # the decorator ``torch.compile(mode=...)`` calls ``torch.compile`` itself
    caller = next((name for name in names if name != "torch" and _package(name) != _package(__name__)), "")
    return isinstance(function, FunctionType) and _package(caller) == _package(function.__module__ or "") == "torch"


def _package(name: str) -> str:
    return name.partition(".")[0]


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        stance: Any = torch.compiler.set_stance
        OWN.append(function)
        try:
            with stance("default"):
                return function(*args, **kwargs)
        finally:
            OWN.remove(function)

    return run
