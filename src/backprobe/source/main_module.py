"""Runs a script or module as ``__main__``, like ``python script.py`` or ``python -m module``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

_last: list[ModuleType] = []
# The program that ran last. Python frees a program's variables at exit, after the ``atexit`` functions. This list keeps
# them until then; otherwise they would be freed when the program ends. That is too early with DistributedDataParallel:
# gloo's thread may still hold Python objects and wait for the interpreter's lock, while PyTorch waits for that thread.


@contextmanager
def as_main(arguments: Sequence[str], spec: ModuleSpec | None = None) -> Iterator[ModuleType]:
    """Inside this context a new module is ``__main__``. Its file is the first of the arguments.

    With a ``spec``, it is set up as by ``python -m``: imports are searched first in the current folder.
    """
    file, main = arguments[0], ModuleType("__main__")
    main.__file__ = os.path.abspath(file)
    if spec is not None:
        vars(main).update(__spec__=spec, __loader__=spec.loader, __package__=spec.parent, __cached__=spec.cached)
    _last[:] = [main]
    before = sys.argv, list(sys.path), sys.modules["__main__"]
    sys.argv, sys.modules["__main__"] = [*arguments], main
    sys.path.insert(0, str(Path(file).resolve().parent) if spec is None else os.getcwd())
    try:
        yield main
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = before


@contextmanager
def main_kept() -> Iterator[None]:
    """After this context, the program that counts as the last one is the same as before the context."""
    before = [*_last]
    try:
        yield
    finally:
        _last[:] = before


def compiled(file: str) -> CodeType:
    """Return the compiled code of a script."""
    return compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
