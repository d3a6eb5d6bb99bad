"""Provides the code of a file's module, as an import compiles it, and the lines that the compiler recorded for
functions.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from types import CodeType
from typing import NamedTuple

LOAD_CONST, EXTENDED_ARG = dis.opmap["LOAD_CONST"], dis.opmap["EXTENDED_ARG"]
CHECKED_HASH = 0b10


class Inner(NamedTuple):
    """A code object inside another one, and the first and last line of its text."""

    code: CodeType
    first: int
    last: int


@lru_cache(128)
def module_code(file: str, lines: tuple[str, ...]) -> CodeType | None:
    """Return the code that an import of the file would run. None if the file has another text, or cannot be read or
    compiled, as for a notebook cell.

    Reading the ``.pyc`` of a large file takes a hundredth of the time needed to compile it.
    """
    loader = _Loader("", file)
    try:
        text = decode_source(loader.get_data(file))
        is_the_same = text.rstrip("\n") == "".join(lines).rstrip("\n")  # linecache adds a line end to the last line
        return loader.get_code("") if is_the_same else None
    except (OSError, SyntaxError, ValueError):
        return None


class _Loader(SourceFileLoader):
    # Loads the code of a file from its ``.pyc`` file, if that is up to date. Unlike an import, it never writes a
    # ``.pyc`` file.
    def set_data(self, path: str, data: object, *, _mode: int = 0) -> None:
        pass

    def get_data(self, path: str) -> bytes:
        # Mark a ``.pyc`` file as one to be compared with its source. The file itself may say that this is not
        # necessary.
        data = super().get_data(path)
        is_unchecked = path != self.path and data[4:5] == b"\x01"
        return data[:4] + bytes([data[4] | CHECKED_HASH]) + data[5:] if is_unchecked else data


def path_to(code: CodeType, around: CodeType) -> tuple[Inner, ...]:
    """Return the chain of nested code objects inside ``around`` that leads to ``code``. ``code`` itself is the last.

    Empty if ``code`` is not found, because the text has changed, or because the compiler has omitted positions.
    """
    for inner in _inner(around):
        if inner.first <= code.co_firstlineno <= inner.last:
            if inner.code == code:
                return (inner,)
            below = path_to(code, inner.code)
            if below:
                return (inner, *below)
    return ()


@lru_cache(1024)
def _inner(code: CodeType) -> tuple[Inner, ...]:
    # Return the code objects directly inside another one, such as those of functions, classes and comprehensions.
    found, argument = [], 0
    for opcode, low, (_, last, _, _) in zip(code.co_code[::2], code.co_code[1::2], code.co_positions(), strict=True):
        argument = argument << 8 | low
        if opcode == LOAD_CONST and last is not None and isinstance(code.co_consts[argument], CodeType):
            made = code.co_consts[argument]
            found.append(Inner(made, made.co_firstlineno, last))
        if opcode != EXTENDED_ARG:
            argument = 0
    return tuple(found)
