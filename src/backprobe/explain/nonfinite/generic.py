"""Remedies that fit any operation. They are tried if the table has no remedy, and proposed only if they help."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backprobe.backends.dialects import dialect_of
from backprobe.cuts.parsed import with_parts

EPSILON = {"float16": 9.77e-4, "bfloat16": 7.8e-3, "float64": 2.22e-16}


def epsilon_of(dtype: str) -> str:
    """Return the relative rounding error of a dtype as text for a remedy.

    >>> epsilon_of("float32")
    '1.19e-07'
    """
    return f"{EPSILON.get(dtype, 1.19e-7):.3g}"


def ways(expression: str, framework: str, dtype: str) -> Iterator[tuple[str, str]]:
    """Yield possible rewrites: pairs of a part of the expression and the text to write instead of it.

    >>> list(ways("torch.special.bessel_y0(r)", "torch", "float32"))[0]
    ('torch.special.bessel_y0(r)', 'torch.special.bessel_y0(torch.where(r > 1.19e-07, r, 1.19e-07))')
    """
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return
    dialect = dialect_of(framework)
    eps = epsilon_of(dtype)
    for operand in _operands(tree):
        text = ast.unparse(operand)
        if dtype in ("float16", "bfloat16"):
            yield ast.unparse(tree), with_parts(tree, {operand: dialect.float32.format(text)})
        yield ast.unparse(tree), with_parts(tree, {operand: f"{dialect.prefix}where({text} > {eps}, {text}, {eps})"})
        below = f"1 - {eps}"
        instead = f"{dialect.prefix}where({text} < {below}, {text}, {below})"
        yield ast.unparse(tree), with_parts(tree, {operand: instead})


def nudges(statement: str, dtype: str, eps: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield calls with one argument increased by a rounding error: the call, the changed call, and the argument.

    Only the outermost calls of a statement are changed. The change is so small that the results need no comparison with
    those that were finite before. ``eps`` is added in place of the rounding error of the dtype.

    >>> list(nudges("h = standardised(x, var, axis=1)", "float32"))[1]
    ('standardised(x, var, axis=1)', 'standardised(x, var + 1.19e-07, axis=1)', 'var')
    """
    try:
        tree = ast.parse(statement.strip())
    except SyntaxError:
        return
    eps = eps or epsilon_of(dtype)
    for call in _outermost(tree):
        for given in (*call.args, *(word.value for word in call.keywords)):
            if isinstance(given, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp) and not _is_written(given):
                text = ast.unparse(given)
                yield ast.unparse(call), with_parts(call, {given: f"{text} + {eps}"}), text


def _outermost(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child
        else:
            yield from _outermost(child)


def _operands(tree: ast.expr) -> list[ast.expr]:
    # Return computed operands that may be at a pole. A literal number, as in a mask, is intended and therefore
    # excluded.
    return [one for one in _parts(tree) if not _is_written(one)]


def _is_written(node: ast.expr) -> bool:
    # Is this a literal number or a named constant of a library, with or without a sign?
    match node:
        case ast.UnaryOp(operand=inside):
            return _is_written(inside)
        case ast.Call(func=ast.Name(id="float"), args=[inside]):
            return _is_written(inside)
        case ast.Attribute(attr="inf" | "nan" | "pi" | "e"):
            return True
    return isinstance(node, ast.Constant)


def _parts(tree: ast.expr) -> list[ast.expr]:
    # Return the operands to try: the divisor of a division, both operands of another binary operation, or the arguments
    # of a call beginning with the last, followed by the object of a method. The object is left out if it is a name or
    # attribute, which may be a library, and there are arguments.
    match tree:
        case ast.BinOp(op=ast.Div(), right=right):
            return [right]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=owner), args=args):
            own = [] if isinstance(owner, ast.Name | ast.Attribute) and args else [owner]
            return [*reversed(args), *own]
        case ast.Call(args=args):
            return [*reversed(args)]
    return []
