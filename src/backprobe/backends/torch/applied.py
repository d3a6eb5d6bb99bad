"""Finds the calls of ``apply()`` of custom ``autograd.Function``s that are running around a frame.

Up to PyTorch 2.13, ``Function.apply`` has a Python frame that holds its arguments. Since 2.14 it is written in C++.
Then only the function's ``forward`` has a frame, which appears to be called by the program's line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch.autograd import Function

from backprobe.backends.framework_code import unwrapped
from backprobe.backends.torch.private import FUNCTIONS_MADE, WRITTEN_IN_PYTHON
from backprobe.backends.user_lines import callers

APPLY: CodeType | None = getattr(Function.apply, "__code__", None)


@dataclass(frozen=True)
class Applied:
    """A running call of ``apply()``: its frame or, since PyTorch 2.14, that of ``forward``. ``caller`` is the frame
    that called ``forward``.
    """

    frame: FrameType

    @property
    def caller(self) -> FrameType:
        return self.frame if APPLY else self.frame.f_back or self.frame

    @property
    def is_asked(self) -> bool:
        """Does any tensor among the arguments of ``apply()`` require a gradient?"""
        code, held = self.frame.f_code, self.frame.f_locals
        if APPLY:
            return _require(held["args"])
        given = [held.get(name) for name in code.co_varnames[: code.co_argcount]]
        if given and isinstance(given[0], WRITTEN_IN_PYTHON):
            return any(given[0].needs_input_grad)
        return _require([*given, *held.get(_rest(code), ())])


def applied(frame: FrameType) -> Iterator[Applied]:
    """Return the calls of ``apply()`` around a frame, innermost first."""
    return (Applied(one) for one in callers(frame) if (one.f_code is APPLY if APPLY else _is_forward(one.f_code)))


def _require(given: Any) -> bool:
    return any(isinstance(one, Tensor) and one.requires_grad for one in given)


def _rest(code: CodeType) -> str:
    # Return the name of the parameter ``*args``; "" if there is none.
    has_rest = bool(code.co_flags & 4)  # inspect.CO_VARARGS
    return code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if has_rest else ""


_FORWARDS: dict[str, frozenset[CodeType]] = {}
"""The code of the ``forward``s of custom functions. The only key is PyTorch's count of custom functions, as text."""


def _is_forward(code: CodeType) -> bool:
    made = repr(FUNCTIONS_MADE)  # repr shows the count without advancing it
    if made not in _FORWARDS:
        _FORWARDS.clear()
        _FORWARDS[made] = frozenset(_codes(Function))
    return code in _FORWARDS[made]


def _codes(kind: type) -> Iterator[CodeType]:
    made: list[type] = kind.__subclasses__()
    for one in made:
        code = getattr(unwrapped(getattr(one, "forward", None)), "__code__", None)
        if code is not None:
            yield code
        yield from _codes(one)
