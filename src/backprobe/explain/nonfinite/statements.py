"""Finds the expression of a value that a statement computes without an expression of its own.

Such values are in-place writes (``y[0] = torch.log(v)``, ``y[0] /= v``, ``v.div_(w)``) and items of a container that
the statement builds, as in ``[torch.log(v) for v in x]``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backprobe.cuts.operation_names import MODULES
from backprobe.cuts.parsed import parsed
from backprobe.record.entries import Entry
from backprobe.record.names import COUNT, scope_of, split, strip

ADDING = {"assign_add": ast.Add(), "assign_sub": ast.Sub()}
"""Methods that read and write a TensorFlow Variable."""


@dataclass(frozen=True)
class Computed:
    """The expression that gives a value. For a write, also its ``target`` and the ``index`` into it, if any."""

    value: ast.expr
    target: ast.expr | None = None
    index: ast.expr | None = None

    @property
    def names(self) -> set[str]:
        """The names and attributes that the expression and the target mention."""
        trees = [tree for tree in (self.value, self.target) if tree is not None]
        return {ast.unparse(node) for tree in trees for node in ast.walk(tree) if is_dotted(node)}


def computed(entry: Entry) -> Computed | None:
    """The expression that a statement evaluates for an entry, if the recording has none for the entry."""
    source = entry.source
    tree = None if source is None or source.expression else parsed(source.statement.strip())
    if not isinstance(tree, ast.Module) or len(tree.body) != 1:
        return None
    called = local_names(entry)
    found = _written(tree.body[0]) if entry.op else None
    if found is not None and found.target is not None:
        return found if ast.unparse(found.target) in called else None
    item = next((one for name in sorted(called) if (one := _item(tree.body[0], name)) is not None), None)
    return None if item is None else Computed(item)


def _written(statement: ast.stmt) -> Computed | None:
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=target, slice=index)], value=value):
            return Computed(value, target, index)
        case ast.AugAssign(target=ast.Subscript(value=target, slice=index), op=op, value=value):
            before = ast.Subscript(target, index, ast.Load())
            return Computed(ast.BinOp(before, op, value), target, index)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr="assign"), args=[value, *_])):
            return Computed(value, target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=name), args=[value, *_])) if name in ADDING:
            return Computed(ast.BinOp(target, ADDING[name], value), target)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name)) as call) if name.endswith("_"):
            return Computed(call, _written_by(call))
    return None


def _written_by(call: ast.Call) -> ast.expr:
    # The target of an in-place call: ``v`` in ``v.mul_(w).log_()`` and in ``torch.log_(v)``.
    target: ast.expr = call
    while isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute):
        is_of_module = ast.unparse(target.func.value).partition(".")[0] in MODULES and bool(target.args)
        target = target.args[0] if is_of_module else target.func.value
    return target


def _item(statement: ast.stmt, name: str) -> ast.expr | None:
    # The expression of one item: of ``pair.0`` in ``pair = [u, v]``, or of ``u`` in ``u, v = v, w``.
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            pairs = zip(map(ast.unparse, targets), values, strict=True)
            return next((value for target, value in pairs if target == name), None)
        case ast.Assign(targets=[target], value=value):
            base = ast.unparse(target)
        case ast.Return(value=ast.expr() as value):
            base = "return"
        case _:
            return None
    leaf = name.removeprefix(f"{base}.")
    match value:
        case ast.List(elts=items) | ast.Tuple(elts=items) if leaf.isdigit() and int(leaf) < len(items):
            return None if any(isinstance(one, ast.Starred) for one in items) else items[int(leaf)]
        case ast.Dict(keys=keys, values=items):
            named = [str(key.value) if isinstance(key, ast.Constant) else "" for key in keys]
            return items[named.index(leaf)] if named.count(leaf) == 1 else None
        case ast.ListComp(elt=each, generators=[_]) | ast.DictComp(value=each, generators=[_]) if leaf != name:
            return each
    return None


def parts_of(
    found: Computed, at: int, entries: Sequence[Entry], scopes: Sequence[str], inputs: Sequence[int]
) -> Mapping[str, int]:
    """Return the entry for each name that an expression mentions: an input of the value, or else the latest entry with
    that name.

    A name is left out if its bindings happened in another order than the computation of their values.
    """
    names, known = found.names, dict[str, list[tuple[int, int]]]()
    for place in range(at):
        for name in (entries[place].name, *entries[place].aliases):
            scope, local = split(name)
            spelled = strip(f":{name if local is None else local}")[1:]
            if spelled in names and (scope == "" or local is None or scope in (scopes[at], scope_of(entries[at].name))):
                count = COUNT.search(local or "")
                known.setdefault(spelled, []).append((int(count[1]) if count else 0, place))
    parts = {name: max(held)[1] for name, held in known.items() if sorted(held) == sorted(held, key=lambda one: one[1])}
    for name in names:
        flowing = [one for one in inputs if name in local_names(entries[one])]
        parts |= {name: flowing[0]} if len(flowing) == 1 else {}
    return parts


def local_names(entry: Entry) -> set[str]:
    """The local names of an entry and its aliases, without scopes and counts."""
    return {strip(name).rpartition(":")[2] for name in (entry.name, *entry.aliases)}


def is_dotted(node: ast.AST) -> bool:
    """Is the node a name, or an attribute path that begins with a name?"""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
