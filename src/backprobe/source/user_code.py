"""Telling the user's own functions from those of installed packages."""

from __future__ import annotations

import functools
import site
import sysconfig
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any


def innermost(function: Any) -> FunctionType | None:
    """The plain function below methods, partials and decorators; None where there is none."""
    for _ in range(64):
        if isinstance(function, MethodType):
            function = function.__func__
        elif isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, FunctionType) and hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return function if isinstance(function, FunctionType) else None


CONVERTED = "/__autograph_generated_file"
"""In the names of the files to which TensorFlow writes what it has made of the user's functions."""
_OWN = __file__.removesuffix("source/user_code.py")


@lru_cache(1)
def _library_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    installed = [paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()]
    return tuple(dict.fromkeys(path + "/" for path in [*installed, paths["stdlib"], paths["platstdlib"]]))


@lru_cache(4096)
def package(file: str) -> str | None:
    """The installed package that a file belongs to, "" for Python's own library; None for the user's own code."""
    if file.startswith(_OWN):
        return "backprobe"
    if file.startswith("<frozen"):
        return ""
    if CONVERTED in file:
        return "tensorflow"
    for root in _library_roots():
        if file.startswith(root):
            installed = root.endswith("-packages/")
            return file[len(root) :].split("/")[0] if installed else ""
    return None
