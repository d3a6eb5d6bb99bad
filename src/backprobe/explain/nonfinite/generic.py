"""Remedies that fit any operation. They are tried if the table has none, and proposed only if they cure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backprobe.backends.dialects import dialect_of

EPSILON = {"float16": 9.77e-4, "bfloat16": 7.8e-3, "float64": 2.22e-16}


def ways(expression: str, framework: str, dtype: str) -> Iterator[tuple[str, str]]:
    """Possible rewrites: pairs of a part of the expression and the text to write in its place.

    >>> list(ways("torch.special.bessel_y0(r)", "torch", "float32"))[0]
    ('torch.special.bessel_y0(r)', 'torch.special.bessel_y0(torch.where(r > 1.19e-07, r, 1.19e-07))')
    """
    try:
        tree = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return
    dialect = dialect_of(framework)
    eps = f"{EPSILON.get(dtype, 1.19e-7):.3g}"
    for operand in _operands(tree):
        text = ast.unparse(operand)
        if dtype in ("float16", "bfloat16"):
            yield ast.unparse(tree), _with(tree, operand, dialect.float32.format(text))
        yield ast.unparse(tree), _with(tree, operand, f"{dialect.prefix}where({text} > {eps}, {text}, {eps})")
        below = f"1 - {eps}"
        yield ast.unparse(tree), _with(tree, operand, f"{dialect.prefix}where({text} < {below}, {text}, {below})")


def _operands(tree: ast.expr) -> list[ast.expr]:
    # Parts that may lie at a pole and are computed. A literal number, as in a mask, is intended.
    return [one for one in _parts(tree) if not _is_written(one)]


def _is_written(node: ast.expr) -> bool:
    # Is it a literal number, or a named constant of a library, with or without a sign?
    match node:
        case ast.UnaryOp(operand=inside):
            return _is_written(inside)
        case ast.Call(func=ast.Name(id="float"), args=[inside]):
            return _is_written(inside)
        case ast.Attribute(attr="inf" | "nan" | "pi" | "e"):
            return True
    return isinstance(node, ast.Constant)


def _parts(tree: ast.expr) -> list[ast.expr]:
    # The operands to try: divisors, and arguments beginning with the last.
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


def _with(tree: ast.expr, operand: ast.expr, instead: str) -> str:
    # The expression with one operand replaced.
    other = ast.parse(instead, mode="eval").body

    class PutNumber(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return other if node is there else super().generic_visit(node)

    copy = ast.parse(ast.unparse(tree), mode="eval").body  # parse again, so that no tree is shared
    there = list(ast.walk(copy))[list(ast.walk(tree)).index(operand)]
    return ast.unparse(PutNumber().visit(copy))
