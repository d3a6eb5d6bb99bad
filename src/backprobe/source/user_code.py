"""Distinguishes the user's own functions from those of installed packages."""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any

from backprobe.source.installed import in_folder, is_edited, recorded_package

STAND_INS = set[type]()
"""Types whose instances look like methods, but run something else, because a method is patched."""


def innermost(function: Any) -> FunctionType | None:
    """Return the plain function inside methods, partials and functions with ``__wrapped__``. None if there is none, as
    for other callables, or if a method is patched.
    """
    for _ in range(64):
        if type(function) in STAND_INS:
            return None
        if isinstance(function, MethodType):
            function = function.__func__
        elif isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, FunctionType) and hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return function if isinstance(function, FunctionType) else None


def is_of_program(file: str, home: str | None) -> bool:
    """Is a file the user's own, or one of the installed package ``home`` to which the program belongs?"""
    installed = package(file)
    return installed is None or (installed != "" and installed == home)


CONVERTED = "/__autograph_generated_file"
"""A part of the names of files that contain functions of the program which TensorFlow has converted."""
_OWN = __file__.removesuffix("source/user_code.py")


@lru_cache(1)
def _installed_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = [paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()]
    return tuple(dict.fromkeys(path + "/" for path in found))


@lru_cache(1)
def _pythons_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    archive = f"{os.path.dirname(paths['stdlib'])}/python{version}.zip"
    return tuple(dict.fromkeys(path + "/" for path in (paths["stdlib"], paths["platstdlib"], archive)))


@lru_cache(16384)
def package(file: str) -> str | None:
    """Return the installed package of a file, or "" for Python's own library. None for the user's own code."""
    if file.startswith(_OWN):
        return "backprobe"
    if file.startswith("<frozen"):
        return ""
    if CONVERTED in file:
        return "tensorflow"
    place = in_folder(file)
    if place is not None:
        return None if is_edited(*place) else place[1]
    for root in _installed_roots():
        if file.startswith(root):
            return file[len(root) :].split("/")[0]
    return "" if file.startswith(_pythons_roots()) else recorded_package(file)
