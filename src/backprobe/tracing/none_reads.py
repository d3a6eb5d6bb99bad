"""Observes where a program reads ``.grad`` of a tensor, to find reads that give None although the program uses the
gradient.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import CodeType, FrameType, MethodType
from typing import Any

from backprobe.backends.capabilities import KeptGradients
from backprobe.backends.user_lines import source_at
from backprobe.errors import NoSource
from backprobe.record.source import Source
from backprobe.source.by_code import by_code
from backprobe.source.followed_calls import plain_function
from backprobe.source.frames import UNKNOWN, value_in
from backprobe.source.locate import locate
from backprobe.source.none_checks import MayBeNone, checks
from backprobe.source.user_code import package

INPUTS = "inputs"
"""The name of the second parameter of functions such as ``grad``."""


def look(kept: KeptGradients, frame: FrameType, found: MayBeNone) -> None:
    """Record a read of ``.grad`` that is about to give None, unless it is passed to a function that tests for None.

    The gradient may be read from an item of a tensor. Such an item is a new tensor in each read.
    """
    read = found.node
    assert isinstance(read, ast.Attribute)
    tensor, is_item = value_in(frame, read.value), False
    if tensor is UNKNOWN and isinstance(read.value, ast.Subscript):
        tensor, is_item = value_in(frame, read.value.value), True
    if tensor is not UNKNOWN and kept.is_none(tensor, is_item) and not _is_asked_inside(frame, found):
        kept.none_read(tensor, ast.unparse(read), line_of(frame, read), is_item)


def look_at_clearing(kept: KeptGradients, frame: FrameType, call: ast.expr | None) -> None:
    """Record the line of a call by which the program clears gradients."""
    match call:
        case ast.Call(func=ast.Attribute(value=node)) if (owner := value_in(frame, node)) is not UNKNOWN:
            kept.clears(owner, line_of(frame, call))


def line_of(frame: FrameType, node: ast.expr) -> Source:
    return source_at(frame.f_code.co_filename, node.end_lineno or node.lineno)


def _is_asked_inside(frame: FrameType, read: MayBeNone) -> bool:
    # Is the gradient passed to a function of the program that allows for None (see ``checks``)?
    function = None if read.given_to is None else value_in(frame, read.given_to.func)
    plain = plain_function(function)
    if plain is None or package(plain.__code__.co_filename) is not None:
        return False
    definition = _definition(plain.__code__)
    parameter = "" if definition is None else read.parameter(definition, isinstance(function, MethodType))
    return definition is not None and bool(parameter) and checks(definition, parameter)


@by_code(256)
def _definition(code: CodeType) -> ast.AST | None:
    try:
        return locate(code).node
    except NoSource:
        return None


def texts_of_inputs(call: ast.Call) -> Sequence[str]:
    """Return the source text of each input in a call of a function such as ``grad``. An expression that is not a list
    or tuple counts as one input. Empty if the call does not show its inputs.

    >>> def texts(text):
    ...     return texts_of_inputs(ast.parse(text).body[0].value)
    >>> texts("grad(a, (x, self.w), allow_unused=True)"), texts("grad(a, inputs=x)"), texts("grad(a, parts)")
    (['x', 'self.w'], ['x'], ['parts'])
    """
    given = next((word.value for word in call.keywords if word.arg == INPUTS), None)
    if given is None and len(call.args) > 1 and not any(isinstance(one, ast.Starred) for one in call.args):
        given = call.args[1]
    if isinstance(given, ast.Tuple | ast.List):
        return [] if any(isinstance(one, ast.Starred) for one in given.elts) else [*map(ast.unparse, given.elts)]
    return [] if given is None else [ast.unparse(given)]


class Returning:
    """Receives the result of a function that may return None instead of some gradients."""

    def __init__(self, kept: KeptGradients, caller: FrameType, call: ast.Call) -> None:
        self.kept, self.texts = kept, texts_of_inputs(call)
        self.at = source_at(caller.f_code.co_filename, call.lineno)

    def step(self, frame: FrameType) -> None: ...

    def raised(self, error: BaseException) -> None: ...

    def left(self, frame: FrameType, value: Any) -> bool:
        if value is not None:  # the value is None if the function raised
            self.kept.gave(frame, value, self.texts, self.at)
        return True
