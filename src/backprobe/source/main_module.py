"""A script or module as ``__main__``: as ``python script.py`` or ``python -m module`` would run it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType


@contextmanager
def as_main(arguments: Sequence[str], spec: ModuleSpec | None = None) -> Iterator[ModuleType]:
    """Within this context the module that is given is ``__main__``; the first of the arguments is its file.

    With a ``spec`` it is a module that ``python -m`` was given: imports begin in the current folder.
    """
    file, main = arguments[0], ModuleType("__main__")
    main.__file__ = os.path.abspath(file)
    if spec is not None:
        vars(main).update(
            __spec__=spec, __loader__=spec.loader, __package__=spec.parent, __cached__=spec.cached
        )  # fmt: skip
    before = sys.argv, list(sys.path), sys.modules["__main__"]
    sys.argv, sys.modules["__main__"] = [*arguments], main
    sys.path.insert(0, str(Path(file).resolve().parent) if spec is None else os.getcwd())
    try:
        yield main
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = before


def compiled(main: ModuleType) -> CodeType:
    """The code of a script that is ``__main__``."""
    file = str(main.__file__)
    return compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
