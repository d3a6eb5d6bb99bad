"""Finds the expression in a program's text that raised an error: a call, an attribute, or a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any

from backprobe.errors import NoSource
from backprobe.source.bytecode import is_rewritten
from backprobe.source.locate import is_module, locate_module, text_lines
from backprobe.source.scopes import SourceText
from backprobe.source.tracebacks import is_mistake_of_ours, steps
from backprobe.source.user_code import package

ANSWERING = ("__getattr__", "__getattribute__")
"""Methods that raise an error for a missing attribute. The error belongs to the code that reads the attribute, not to
them.
"""


def raising_step(error: BaseException) -> TracebackType | None:
    """Return the step of the traceback at which a line of the program raised; None if code outside of the program
    raised.
    """
    every = [] if error.__traceback__ is None or is_mistake_of_ours(error) else list(steps(error.__traceback__))
    while every and _passes_on(every[-1].tb_frame.f_code):
        every.pop()
    return every[-1] if every and package(every[-1].tb_frame.f_code.co_filename) is None else None


def _passes_on(code: CodeType) -> bool:
    # Does this frame only forward a call or a read of the program, as a frame of a probe does?
    return code.co_name in ANSWERING or package(code.co_filename) == "backprobe"


def expressions_at(step: TracebackType, text: SourceText) -> list[tuple[Any, ast.AST]]:
    """Return the expressions of a text that belong to the instruction of a traceback step, each with its parent node.

    Empty if the instruction has no exact position.
    """
    place = _place(step.tb_frame.f_code, step.tb_lasti)
    if place is None:
        return []
    parts = ((node, around) for around in ast.walk(text.tree) for node in ast.iter_child_nodes(around))
    return [(node, around) for node, around in parts if isinstance(node, ast.expr) and place in [*_places(node)]]


def statement_at(line: int, text: SourceText) -> ast.stmt | None:
    """Return the innermost statement of a text at a line; None if there is none."""
    found = [
        node
        for node in ast.walk(text.tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(found, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def text_of(frame: FrameType) -> SourceText | None:
    """Return the text of the file whose code runs in a frame; None if there is no text, or if it has changed since."""
    code = frame.f_code
    try:
        if is_module(code):
            tree, lines = locate_module(code)
            return SourceText(code.co_filename, lines, tree)
        lines = text_lines(code, is_rewritten=is_rewritten(code))
        return SourceText(code.co_filename, lines, ast.parse("".join(lines)))
    except (NoSource, SyntaxError, RecursionError):
        return None


Place = tuple[int | None, ...]
"""The first and last line, followed by the first and last column."""


def _place(code: CodeType, instruction: int) -> Place | None:
    place = next(islice(code.co_positions(), instruction // 2, None), (None,))
    return None if None in place else place


def _places(node: ast.expr) -> Iterator[Place]:
    # Yield the positions that the compiler may give to an expression. If a chain of calls has several lines, the
    # position may begin at the last name.
    end = node.end_lineno or 0, node.end_col_offset or 0
    yield node.lineno, end[0], node.col_offset, end[1]
    last = node.func if isinstance(node, ast.Call) else node
    if isinstance(last, ast.Attribute):
        line, column = last.end_lineno or 0, (last.end_col_offset or 0) - len(last.attr.encode())
        yield line, end[0], column, end[1]
