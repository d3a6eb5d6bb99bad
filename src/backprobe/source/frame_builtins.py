"""Replacements for ``locals()`` and similar functions in rewritten code, which see only the program's own names."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

LOOKS_AT_FRAME = (locals, vars, dir, eval, exec)


def seen_by(function: Any) -> Callable[..., Any]:
    """Return the replacement for ``locals``, ``vars``, ``dir``, ``eval`` or ``exec`` when rewritten code calls it."""
    seen: dict[Any, Callable[..., Any]] = {locals: _locals, vars: _vars, dir: _dir, eval: _eval, exec: _exec}
    return seen[function]


def _own(frame: FrameType | None) -> dict[str, Any]:
    # Return the local names of a frame, without those that rewriting has added. The added names begin with ``@``.
    assert frame is not None
    return {name: value for name, value in frame.f_locals.items() if not name.startswith("@")}


def _locals() -> dict[str, Any]:
    return _own(sys._getframe(1))


def _vars(*of: Any) -> Any:
    return builtins.vars(*of) if of else _own(sys._getframe(1))


def _dir(*of: Any) -> list[str]:
    return builtins.dir(*of) if of else sorted(_own(sys._getframe(1)))


def _eval(source: Any, globals: Any = None, locals: Any = None, /) -> Any:
    return builtins.eval(source, *_namespaces(sys._getframe(1), globals, locals))


def _exec(source: Any, globals: Any = None, locals: Any = None, /, **closure: Any) -> None:
    builtins.exec(source, *_namespaces(sys._getframe(1), globals, locals), **closure)


def _namespaces(frame: FrameType, globals: Any, locals: Any) -> tuple[Any, Any]:
    # Return the namespaces in which code runs: those that are given, or else those of the calling frame.
    if globals is None:
        return frame.f_globals, _own(frame) if locals is None else locals
    return globals, locals
