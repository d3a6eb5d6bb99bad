"""Caches by code object: results that are computed once for each piece of code.

Equal functions in two files, such as a library's function and a copy of it, have equal code objects: Python compares
neither files nor texts. So results that depend on file or text are cached by file as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Concatenate, ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


def by_code(
    most: int,
) -> Callable[[Callable[Concatenate[CodeType, Given], Found]], Callable[Concatenate[CodeType, Given], Found]]:
    """A cache like ``functools.lru_cache`` for functions of a code object. Equal code in two files is cached twice.

    >>> here, there = (compile("1", file, "eval") for file in ("here.py", "there.py"))
    >>> here == there, by_code(8)(lambda code: code.co_filename)(there)
    (True, 'there.py')
    """

    def remembering(function: Callable[..., Found]) -> Callable[..., Found]:
        known = functools.lru_cache(most)(lambda file, code, *given: function(code, *given))

        @functools.wraps(function)
        def of(code: CodeType, *given: object) -> Found:
            return known(code.co_filename, code, *given)

        return of

    return remembering
