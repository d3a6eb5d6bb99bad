"""A script as the module ``__main__``: with the arguments and the path that ``python script.py`` would give it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType


@contextmanager
def as_main(arguments: Sequence[str]) -> Iterator[ModuleType]:
    """Within this context the module that is given is ``__main__``; the first of the arguments is its file."""
    file, main = arguments[0], ModuleType("__main__")
    main.__file__ = os.path.abspath(file)
    before = sys.argv, list(sys.path), sys.modules["__main__"]
    sys.argv, sys.modules["__main__"] = [*arguments], main
    sys.path.insert(0, str(Path(file).resolve().parent))
    try:
        yield main
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = before


def compiled(main: ModuleType) -> CodeType:
    """The code of a script that is ``__main__``."""
    file = str(main.__file__)
    return compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
