"""Expressions that create a leaf and compute with it, such as ``rand(4, requires_grad=True) * 2``.

The leaf in such a line has no name, so its gradient cannot be read.
"""

from __future__ import annotations

import ast

from backprobe.cuts.parsed import parsed_expression, with_parts

FLAG, METHOD, PARAMETER = "requires_grad", "requires_grad_", "Parameter"


def leaf_in(expression: str) -> str:
    """Return the part of an expression that creates a leaf; empty if there are none or several, or it is the whole.

    >>> leaf_in("torch.rand(4, requires_grad=True) * 0.1"), leaf_in("torch.rand(4, requires_grad=True)")
    ('torch.rand(4, requires_grad=True)', '')
    >>> leaf_in("torch.ones(3).requires_grad_().double()"), leaf_in("nn.Parameter(torch.ones(3)).cuda()")
    ('torch.ones(3).requires_grad_()', 'nn.Parameter(torch.ones(3))')
    """
    found = _leaf(parsed_expression(expression))
    return "" if found is None else ast.unparse(found)


def made_a_leaf(expression: str) -> str:
    """Return the expression rewritten so that the whole result becomes the leaf; empty if ``leaf_in`` finds no leaf.

    >>> made_a_leaf("torch.rand(4, requires_grad=True) * 0.1"), made_a_leaf("nn.Parameter(torch.ones(3)).cuda()")
    ('(torch.rand(4) * 0.1).requires_grad_()', 'nn.Parameter(torch.ones(3).cuda())')
    """
    tree = parsed_expression(expression)
    leaf = _leaf(tree)
    if tree is None or leaf is None:
        return ""
    whole = with_parts(tree, {leaf: _without(leaf)})
    if _name(leaf) == PARAMETER:
        return f"{ast.unparse(leaf.func)}({whole})"
    is_compound = not isinstance(tree, ast.Call | ast.Attribute | ast.Subscript | ast.Name)
    return f"{f'({whole})' if is_compound else whole}.{METHOD}()"


def _leaf(tree: ast.expr | None) -> ast.Call | None:
    # The only call in an expression that creates a leaf, unless that call is the whole expression.
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _makes_leaf(node)] if tree else []
    return found[0] if len(found) == 1 and found[0] is not tree else None


def _name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _makes_leaf(call: ast.Call) -> bool:
    return _name(call) in (METHOD, PARAMETER) or any(map(_is_flag, call.keywords))


def _is_flag(keyword: ast.keyword) -> bool:
    return keyword.arg == FLAG and isinstance(keyword.value, ast.Constant) and keyword.value.value is True


def _without(leaf: ast.Call) -> str:
    # The text of the expression that a call turns into a leaf; for a call with the flag, the call without the flag.
    if _name(leaf) == METHOD and isinstance(leaf.func, ast.Attribute):
        return ast.unparse(leaf.func.value)
    if _name(leaf) == PARAMETER and leaf.args:
        return ast.unparse(leaf.args[0])
    return ast.unparse(ast.Call(leaf.func, leaf.args, [one for one in leaf.keywords if not _is_flag(one)]))
