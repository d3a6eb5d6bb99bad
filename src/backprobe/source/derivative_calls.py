"""Finds calls in a program's text that differentiate one of its functions, such as ``jax.grad(f)(x)``."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

JACOBIANS = "jac"
"""The first letters of the names of functions that differentiate outputs with more than one number, such as
``jacrev``.
"""


@dataclass(frozen=True)
class DerivativeCall:
    """A call that differentiates a function: its name, line and text, and the texts of the function and of its
    arguments.
    """

    name: str
    line: int
    text: str
    function: str
    arguments: str

    @property
    def probed(self) -> str:
        """The code of a probe of the same function. If the function may return several numbers, the code probes their
        sum.
        """
        of = ", of=lambda out: out.sum()" if self.name.rpartition(".")[2].startswith(JACOBIANS) else ""
        return f"bp.probe({self.function if self.function.isidentifier() else 'f'}{of})({self.arguments or 'x'})"


def derivative_calls(nodes: Iterable[ast.AST], package: str, names: Collection[str]) -> list[DerivativeCall]:
    """Return the calls with arguments of a package's functions that have these names, in line order. A function may
    also be called by its bare name, if the code imports this name.
    """
    every = [part for node in nodes for part in ast.walk(node)]
    bare = {*_imported(every, package, names)}
    around = {id(call.func): call for call in every if isinstance(call, ast.Call)}
    found = [
        _call(part, around.get(id(part)), f"{package}.{name}")
        for part in every
        if isinstance(part, ast.Call) and (name := _name(part.func, package, names, bare)) and part.args
    ]
    return sorted(found, key=lambda one: one.line)


def block_at(file: str, line: int) -> ast.AST | None:
    """Return the innermost ``with`` statement whose first lines contain this line; None if there is none, or if the
    text cannot be parsed.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    heads = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith) and node.lineno <= line <= node.body[0].lineno
    ]
    return max(heads, key=lambda node: node.lineno, default=None)


def _imported(nodes: Sequence[ast.AST], package: str, names: Collection[str]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (one.name for one in node.names if one.name in names and not one.asname)


def _name(function: ast.expr, package: str, names: Collection[str], bare: Collection[str]) -> str:
    # Return the name of the function if it is one of ``names`` in the package; empty for other functions.
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == package:
        return function.attr if function.attr in names else ""
    return function.id if isinstance(function, ast.Name) and function.id in bare else ""


def _call(call: ast.Call, outer: ast.Call | None, name: str) -> DerivativeCall:
    # Return the facts about a call. If the function that it returns is called immediately, ``outer`` is that second
    # call.
    function, *rest = call.args
    given = outer.args if outer is not None else _primals(rest, name)
    whole = call if outer is None else outer
    return DerivativeCall(
        name, call.lineno, ast.unparse(whole), ast.unparse(function), ", ".join(map(ast.unparse, given))
    )


def _primals(given: Sequence[ast.expr], name: str) -> Sequence[ast.expr]:
    # Return the arguments at which the derivative is taken, from those that follow the function. ``jvp`` receives them
    # as one tuple.
    first = given[0] if given and name.endswith(".jvp") else None
    return first.elts if isinstance(first, ast.Tuple | ast.List) else given
