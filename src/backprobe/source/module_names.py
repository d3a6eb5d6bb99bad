"""Finds the names that the code of a module or notebook cell reads, binds and imports, without the code of its
functions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

SUSPENDING = (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def header_reads(statement: ast.stmt) -> tuple[str, ...]:
    """Return the names that a statement itself reads, without those in its inner statements."""
    return tuple(ModuleNames([statement], inside=False).read)


def find_suspended(tree: ast.Module) -> Any:
    """Return a node in a module's own code that is only allowed inside a function, or that needs an event loop. None if
    there is no such node.
    """
    return next((node for node in _evaluated(tree) if _is_suspended(node)), None)


def _is_suspended(node: ast.AST) -> bool:
    if isinstance(node, COMPREHENSIONS):
        return any(part.is_async for part in node.generators)
    return isinstance(node, SUSPENDING)


class ModuleNames:
    """The names that code reads before assigning them, and those that it assigns, in the order of evaluation.

    With ``inside``, they include names in inner statements, and names that are read after their assignment.
    """

    def __init__(self, statements: Iterable[ast.stmt], *, inside: bool = True) -> None:
        self.read: dict[str, None] = {}
        self.stored: dict[str, None] = {}
        self.imported: dict[str, None] = {}
        for node in (node for statement in statements for node in _evaluated(statement, inside)):
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    if inside or name not in self.stored:
                        self.read[name] = None
                case ast.Import(names=aliases):
                    self.imported |= {alias.name.split(".")[0]: None for alias in aliases}
                case ast.ImportFrom(module=module):
                    self.imported[(module or "").split(".")[0]] = None
            for name in _stored(node):
                self.stored.pop(name, None)
                self.stored[name] = None


def _stored(node: ast.AST) -> list[str]:
    # Return the names that a node itself binds, without those of its parts.
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return [alias.asname or alias.name.split(".")[0] for alias in aliases if alias.name != "*"]
    return []


def _evaluated(node: ast.AST, inside: bool = True) -> Iterator[ast.AST]:
    # Yield the nodes that code itself evaluates, in order of evaluation. Without ``inside``, inner statements are left
    # out.
    for part in _parts(node):
        if inside or not isinstance(part, ast.stmt):
            yield from _evaluated(part, inside)
    if isinstance(node, COMPREHENSIONS):
        own = {name.id for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        conditions = [inner for part in node.generators for inner in part.ifs]
        later = [part.iter for part in node.generators[1:]]
        for inner in (*later, *conditions, *elements):
            yield from (one for one in _evaluated(inner) if not (isinstance(one, ast.Name) and one.id in own))
    yield node


def _parts(node: Any) -> Iterable[ast.AST]:
    # Return the parts of a node that are evaluated, in order. For a function these are only its decorators and
    # defaults.
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            return [*getattr(node, "decorator_list", ()), *defaults]
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *node.keywords]
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return [node.generators[0].iter]  # evaluated before the comprehension's variables exist
        case ast.Assign(targets=targets, value=value):
            return [value, *targets]
        case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            return [] if value is None else [value, target]
        case ast.AugAssign(target=target, value=value):
            read = [ast.Name(target.id, ast.Load())] if isinstance(target, ast.Name) else []
            return [*read, value, target]
        case ast.For():
            return [node.iter, node.target, *node.body, *node.orelse]
    return ast.iter_child_nodes(node)
