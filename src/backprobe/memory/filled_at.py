"""Finds the line that stores an object in a variable, attribute or container, and rewrites it to store no graph."""

from __future__ import annotations

import ast
import copy
import itertools
import linecache
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from backprobe.memory.holders import Holder
from backprobe.record.source import Source

ADDS = frozenset({"append", "appendleft", "add", "extend", "insert", "put", "update", "setdefault", "put_nowait"})
"""Methods of Python's containers that store their argument in the container."""


def filled_at(
    holder: Holder, made: Source | None, without: str = "{}.detach()", *, is_carried: bool
) -> tuple[Source | None, str]:
    """The line that stores an object of an earlier step in its holder, and the line to write instead, or advice.

    If no such line is found, these are None and an empty text.

    The line is searched in the file that created the object, and then in the file of the variable. Of several lines,
    the nearest one to the creating line is taken, or the last one in the variable's function. ``without`` is the
    spelling of a value without its graph. If it is empty, the second text is empty as well.
    """
    is_error, files = "__traceback__" in holder.path, [*([made.file] if made is not None else []), holder.file]
    names = dict.fromkeys((holder.name, *re.findall(r"^\w+", holder.path)))
    for name, one in itertools.product(names, dict.fromkeys(files)):
        lines = linecache.getlines(one)
        try:
            found = [*_filling(ast.parse("".join(lines)), name)] if name else []
        except (SyntaxError, ValueError):
            continue
        if one == holder.file:
            found = [pair for pair in found if pair[0].lineno in holder.lines] or found
        adding = [pair for pair in found if not _is_binding(pair[0], name)] or found
        if adding:
            near = made.line if made is not None and made.file == one else adding[-1][0].lineno
            statement, value = min(adding, key=lambda pair: abs(pair[0].lineno - near))
            text = lines[statement.lineno - 1]
            is_inside = holder.path.count("[") > max(_depth(statement), 1)
            instead = _without_graph(text, value, name, is_carried, is_error, is_inside, without) if without else ""
            return Source(one, statement.lineno, text.strip()), instead
    return None, ""


def _filling(tree: ast.AST, name: str) -> Iterator[tuple[ast.Call | ast.AugAssign | ast.Assign, ast.expr]]:
    # The statements that store something under this name, each with the stored value; except those that store an empty
    # or constant one, unless by an augmented assignment or a ``with``.
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDS and node.args:
            if _last(node.func.value) == name and not _is_empty(node.args[-1]):
                yield node, node.args[-1]
        elif isinstance(node, ast.AugAssign) and _last(node.target) == name:
            yield node, node.value
        elif isinstance(node, ast.Assign):
            for target in _targets(node.targets):
                if _last(target) == name and not _is_empty(node.value):
                    yield node, node.value
        elif isinstance(node, ast.withitem) and any(_last(target) == name for target in _targets([node.optional_vars])):
            bound = ast.Assign([ast.Name(name)], node.context_expr)  # a ``with`` item binds a name like an assignment
            yield ast.copy_location(bound, node.context_expr), node.context_expr


def _is_empty(value: ast.expr) -> bool:
    # Is the stored value an initial one, to which nothing was added yet: an empty list or dict, or a constant?
    match value:
        case ast.List(elts=items) | ast.Dict(keys=items):
            return not items
    return isinstance(value, ast.Constant)


def _is_binding(node: ast.AST, name: str) -> bool:
    # Does the statement rebind the name to a new value, instead of adding something to its present one?
    if not isinstance(node, ast.Assign) or any(isinstance(one, ast.Subscript) for one in _targets(node.targets)):
        return False
    return not any(isinstance(one, ast.Name | ast.Attribute) and _last(one) == name for one in ast.walk(node.value))


def _targets(targets: Sequence[ast.expr | None]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _targets(target.elts)
        elif target is not None:
            yield target


def _items(node: ast.expr) -> Iterator[ast.expr]:
    # The expression itself. If it is an item, then also its container, and so on.
    while True:
        yield node
        match node:
            case ast.Subscript(value=inside) | ast.Call(func=ast.Attribute(value=inside, attr="setdefault" | "get")):
                node = inside
            case _:
                return


def _last(node: ast.expr) -> str:
    # The last name in the spelling of a container: ``history`` of ``self.history[k]``, and of
    # ``self.history.setdefault(k, [])``.
    *_, node = _items(node)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _depth(statement: ast.AST) -> int:
    # The number of nested containers between the named container and the place where a statement stores something.
    match statement:
        case ast.Call(func=ast.Attribute(value=filled)):
            return len([*_items(filled)])
        case ast.AugAssign(target=target) | ast.Assign(targets=[target]):
            return len([*_items(target)]) - 1
    return 1


def _without_graph(
    text: str, value: ast.expr, name: str, is_carried: bool, is_error: bool, is_inside: bool, without: str
) -> str:
    # The line, with the stored value detached from its graph; or advice, if the line cannot be rewritten like this.
    if is_carried and not isinstance(value, ast.BinOp):
        return f"{name} = {without.format(name)} before the next step uses it"
    if value.end_lineno != value.lineno or value.end_col_offset is None or not text.isascii():
        return f"{without.format(f'({ast.unparse(value)})')} there"
    begin, end = value.col_offset, value.end_col_offset
    instead = f"{ast.unparse(value)}.with_traceback(None)" if is_error else _detached(value, without)
    if is_inside and not isinstance(value, ast.Tuple | ast.Lambda):
        return f"{without.format('one')} for each tensor `one` of {ast.unparse(value)}"
    return (text[:begin] + instead + text[end:]).strip()


def put_into(name: str, made: Source | None, without: str) -> str:
    """Advice to detach a value before it is put into a container, for programs in which the line that does so is
    unknown. The value is named as at the line that made it.
    """
    statement = None
    with suppress(SyntaxError):
        statement = ast.parse(made.text).body[:1] if made is not None else None
    match statement:
        case [ast.Assign(targets=[ast.Name(id=own)])]:
            return f"{without.format(own)} where {own} is put into {name}"
    return f"{without.format('one')} where the tensor `one` is put into {name}"


def _detached(value: ast.expr, without: str) -> str:
    text = ast.unparse(value)
    if isinstance(value, ast.Lambda) and any(value.args.defaults):
        arguments = copy.deepcopy(value.args)
        arguments.defaults = [ast.Name(_detached(one, without)) for one in arguments.defaults]
        return ast.unparse(ast.Lambda(arguments, value.body))
    if isinstance(value, ast.Tuple):
        return f"({', '.join(_detached(one, without) for one in value.elts)})"
    # in a running sum, only the added term is detached
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return f"{ast.unparse(value.left)} + {_detached(value.right, without)}"
    return without.format(f"({text})" if isinstance(value, ast.BinOp) else text)
