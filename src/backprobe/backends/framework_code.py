"""Recognises functions of a framework by the module that defines them.

Other libraries wrap a framework's functions. So ``torch.autograd.backward`` may be a wrapper with variables of its own,
which calls the framework's function.
"""

from __future__ import annotations

import functools
from types import CodeType, FunctionType, ModuleType
from typing import Any

from backprobe.backends.patching import Patched


class CodeOf:
    """The code objects of functions of one module, by the functions' qualified names.

    >>> import json
    >>> json.dumps.__code__ in CodeOf(json, "dumps", "dump"), json.loads.__code__ in CodeOf(json, "dumps")
    (True, False)
    """

    def __init__(self, module: ModuleType, *names: str) -> None:
        self.file, self.names = module.__file__, frozenset(names)

    def __contains__(self, code: CodeType) -> bool:
        return code.co_qualname in self.names and code.co_filename == self.file


class FrameworkFunctions:
    """Functions of a framework, recognised with and without the wrappers that other libraries put around them."""

    def __init__(self, *functions: Any) -> None:
        self.own = [unwrapped(function) for function in functions]

    def __contains__(self, function: Any) -> bool:
        own = unwrapped(function)
        return any(own is known for known in self.own)


def unwrapped(function: Any) -> Any:
    """Return the function inside the wrappers that other libraries, and backprobe itself, have put around it.

    >>> import functools, json
    >>> unwrapped(functools.wraps(json.dumps)(lambda *given: None)) is json.dumps
    True
    """
    for _ in range(64):
        if isinstance(function, FunctionType | Patched) and "__wrapped__" in vars(function):
            function = vars(function)["__wrapped__"]
        elif isinstance(function, functools.partial) and not (function.args or function.keywords):
            function = function.func
        else:
            break
    return function
