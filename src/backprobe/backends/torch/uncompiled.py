"""Runs what a program compiles as plain Python, so that it can be observed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType
from typing import Any

import torch

from backprobe.backends.patching import listening

CALLERS = tuple(os.path.join("_dynamo", name) for name in ("eval_frame.py", "external_utils.py"))
"""The files with the functions of Dynamo that call what was to be compiled."""

OPEN: list[ExitStack] = []
"""The open contexts in which nothing is compiled."""


def is_uncompiled() -> bool:
    """Do compiled functions and modules run as plain Python now?"""
    return bool(OPEN)


def calls_plain_code(code: CodeType) -> bool:
    """Is this a function of Dynamo that now calls the program's own function?"""
    return is_uncompiled() and code.co_filename.endswith(CALLERS)


@contextmanager
def uncompiled() -> Iterator[None]:
    """Inside this context, what ``torch.compile`` returned runs the program's own code, and nothing is compiled.

    A compiled model is still an ``OptimizedModule``, with the same names.
    """
    with ExitStack() as eager:

        def compile_called(following: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if not begun:
                begin()
            return following(*args, **kwargs)

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
