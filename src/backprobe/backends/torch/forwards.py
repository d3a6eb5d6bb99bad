"""The code of a module's forward, and the statements that mention an attribute of the module."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getattr_static
from types import CodeType

from torch.nn import Module

from backprobe.backends.call_sites import mentions
from backprobe.record.training import ModuleCall
from backprobe.source.user_code import innermost, package

IDLE: CodeType = Module.forward.__code__
"""The code of the forward of a module that defines none, such as a ModuleList."""


def forward_code(module: Module) -> CodeType:
    code: CodeType = getattr(type(module).forward, "__code__", IDLE)
    return code


def mentioned_by(module: Module, attribute: str) -> Iterator[ModuleCall]:
    """Yield the statements in a module's forward, and in methods and properties that it uses, that mention one of the
    module's attributes.
    """
    pending, seen = [forward_code(module)], set[CodeType]()
    for code in pending:  # the list grows during the loop
        seen.add(code)
        yield from mentions(code, attribute)
        used = (getattr_static(type(module), name, None) for name in code.co_names)
        functions = (innermost(getattr(one, "fget", None) or getattr(one, "func", None) or one) for one in used)
        new = dict.fromkeys(one.__code__ for one in functions if one is not None and one.__code__ not in seen)
        pending += [one for one in new if package(one.co_filename) is None]
