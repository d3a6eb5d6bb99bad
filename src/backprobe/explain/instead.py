"""Remedies for cuts: the program's own expression, edited so that it keeps the gradient."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backprobe.backends.dialects import dialect_of
from backprobe.cuts.operation_names import MODULES, POSITIONS
from backprobe.cuts.parsed import last_name, parsed_expression

SIDES = {"argmax": "max", "argmin": "min", "argsort": "sort"}
"""For functions that return positions, the functions that return the values at these positions."""
COPYING = frozenset({"tensor", "as_tensor", "asarray", "Tensor", "FloatTensor", "new_tensor"})
DIMENSIONS = ("dim", "axis")


def value_at(text: str, framework: str) -> str:
    """Return the expression for values instead of their positions: ``x.max()`` for ``x.argmax()``.

    The result is empty if there is no such expression.

    >>> value_at("h.argmin(dim=1)", "torch"), value_at("torch.topk(h, 2).indices", "torch")
    ('h.min(dim=1).values', 'torch.topk(h, 2).values')
    >>> value_at("jnp.argmax(h, axis=1)", "jax"), value_at("torch.searchsorted(edges, h)", "torch")
    ('jnp.max(h, axis=1)', '')
    """
    match parsed_expression(text):
        case ast.Attribute(value=ast.Call(func=function) as call, attr="indices") if last_name(function) in POSITIONS:
            return f"{ast.unparse(call)}.values"
        case ast.Subscript(value=ast.Call(func=function) as call, slice=ast.Constant(value=1)) if (
            last_name(function) in POSITIONS
        ):
            return f"{ast.unparse(call)}[0]"
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=words) if name in SIDES:
            dialect = dialect_of(framework)
            if dialect.extremes:
                return _over_first_axis(dialect.extremes[name], args, words)
            is_function = _is_library(owner)
            given = ", ".join(ast.unparse(one) for one in (*args, *words))
            along_one = len(args) > is_function or any(word.arg in DIMENSIONS for word in words)
            is_pair = dialect.gives_pairs and (along_one or name == "argsort")
            return f"{ast.unparse(owner)}.{SIDES[name]}({given})" + ".values" * is_pair
    return ""


def _over_first_axis(function: str, args: Sequence[ast.expr], words: Sequence[ast.keyword]) -> str:
    # Return a call of ``max`` or ``sort``. If the program gives no axis, ``max`` gets the first one, because argmax
    # works along the first axis by default, but max over all axes.
    kept = [word for word in words if word.arg in ("axis", "direction")]
    of_first = [ast.keyword("axis", ast.Constant(0))] * (not function.endswith("sort") and len(args) == 1 and not kept)
    given = ", ".join(ast.unparse(one) for one in (*args[:2], *kept, *of_first))
    return f"{function}({given})"


def drawn_smoothly(text: str) -> tuple[str, str] | None:
    """Return the distribution that an expression samples from, and the reparametrized call that has a gradient.

    None if the expression does not sample from a distribution object.

    >>> drawn_smoothly("policy.dist.sample((4,))"), drawn_smoothly("torch.randn(3)")
    (('policy.dist', 'policy.dist.rsample((4,))'), None)
    """
    match parsed_expression(text):
        case ast.Call(func=ast.Attribute(value=owner, attr="sample")) as call if not _is_library(owner):
            smooth = ast.Call(ast.Attribute(owner, "rsample"), call.args, call.keywords)
            return ast.unparse(owner), ast.unparse(smooth)
    return None


def joined(text: str, own: str, framework: str) -> str:
    """Return the expression that joins tensors into one, instead of an expression that copies their numbers.

    ``own`` is the name of one of these tensors. The result is empty if there is no such expression.

    >>> joined("torch.tensor([u[0], u[1]])", "u", "torch"), joined("torch.tensor(u)", "u", "torch")
    ('torch.stack([u[0], u[1]])', 'u.clone()')
    >>> joined("torch.tensor([u, 1.0])", "u", "torch")
    ''
    """
    stack = dialect_of(framework).stack
    match parsed_expression(text):
        case ast.Call(func=function, args=[given]) if stack and last_name(function) in COPYING:
            container, _, item = own.partition(".")
            if ast.unparse(given) == own:
                return f"{own}.clone()"
            return f"{stack}({container})" if item and ast.unparse(given) == container else _stacked(given, stack)
    return ""


def _stacked(node: ast.expr, stack: str) -> str:
    match node:
        case ast.ListComp(elt=inside) if not isinstance(inside, ast.List | ast.Tuple | ast.ListComp | ast.Constant):
            return f"{stack}({ast.unparse(node)})"
        case ast.List(elts=parts) | ast.Tuple(elts=parts) if parts:
            nested = [isinstance(part, ast.List | ast.Tuple | ast.ListComp) for part in parts]
            if any(nested) and not all(nested):
                return ""
            texts = [_stacked(part, stack) if all(nested) else _tensor(part) for part in parts]
            return f"{stack}([{', '.join(texts)}])" if all(texts) else ""
    return ""


def _tensor(node: ast.expr) -> str:
    # The text of a node that may be a tensor; empty for other nodes, such as numbers.
    return "" if isinstance(node, ast.Constant | ast.Starred | ast.UnaryOp) else ast.unparse(node)


def _is_library(owner: ast.expr) -> bool:
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in MODULES
