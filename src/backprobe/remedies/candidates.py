"""Edits of a line that may let a gradient through: the backend's replacements for operations that cut."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from backprobe.source.edits import Edit, Piece

Table = Mapping[str, Sequence[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef
ATOMS = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant)
WITH = "with "


@dataclass(frozen=True)
class FileText:
    """The text of a file, the values of its global names, and the replacements that may be tried in it."""

    file: str
    text: str
    names: Mapping[str, Any]
    table: Table

    @classmethod
    def read(cls, file: str, names: Mapping[str, Any], table: Table | None = None) -> FileText:
        """The text of a file as it is now. ``table`` has the replacements that may be tried in it."""
        linecache.checkcache(file)
        return cls(file, "".join(linecache.getlines(file)), names, table or {})

    def at(self, line: int, column: int) -> int:
        """The index of a character, given its line and byte as in the syntax tree."""
        lines = self.text.split("\n")
        return sum(len(one) + 1 for one in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())

    def start(self, node: Any) -> int:
        return self.at(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        return self.at(node.end_lineno, node.end_col_offset)


def candidates(text: FileText, line: int) -> Iterator[Edit]:
    """Possible edits of a line, the most likely first: of its expressions, then of modes that are set around it."""
    try:
        tree = ast.parse(text.text)
    except SyntaxError:
        return
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _covers(node, line)]
    if not around:
        return
    statement = max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0), node.col_offset))
    nodes = [node for node in _expressions(statement) if _instead(text, node)]
    at_line = [node for node in nodes if line in (node.lineno, node.end_lineno, _line_of_name(node))]
    inner: set[int] = set()
    for node in at_line or nodes:
        for way in () if id(node) in inner else _instead(text, node):
            pieces, within = _with_operands(text, node, way)
            inner |= within
            if isinstance(statement, ast.Expr) and statement.value is node and way == "{0}":
                pieces = _without(text, tree, statement)
            if pieces:
                yield Edit(text.file, _line_of_name(node), text.text, tuple(pieces), ast.unparse(node))
    for one in sorted(around, key=lambda node: -node.lineno):
        yield from _modes(text, one)


def _without(text: FileText, tree: ast.Module, statement: ast.stmt) -> list[Piece]:
    # Remove a statement; or replace it by ``pass``, if it is the only one in its body.
    instead = "" if _is_one_of_several(tree, statement) else "pass"
    return [(text.start(statement), text.end(statement), instead)]


def keeping(text: FileText, line: int) -> Iterator[Edit]:
    """Edits for a line with a call whose result is dropped: assign the result to a name that the call was given.

    Such a name is an argument, or the object whose method is called, unless it means a module or a type.
    """
    try:
        tree = ast.parse(text.text)
    except SyntaxError:
        return
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and _covers(node, line)]
    for statement in calls:
        if isinstance(called := statement.value, ast.Call):
            owner = [called.func.value] if isinstance(called.func, ast.Attribute) else []
            given = [one for one in (*owner, *called.args) if isinstance(one, ast.Name)]
            for name in dict.fromkeys(one.id for one in given if not isinstance(_meant(text, one), ModuleType | type)):
                start = text.start(statement)
                yield Edit(text.file, statement.lineno, text.text, ((start, start, f"{name} = "),), ast.unparse(called))


def _is_one_of_several(tree: ast.Module, statement: ast.stmt) -> bool:
    bodies = [body for node in ast.walk(tree) for _, body in ast.iter_fields(node) if isinstance(body, list)]
    return any(statement in body and len(body) > 1 for body in bodies)


def _covers(node: ast.stmt, line: int) -> bool:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return bool(first <= line <= (node.end_lineno or 0))


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    # The expressions of a statement, without those of inner statements. An expression comes before its own parts.
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr | ast.withitem):
            yield from (node for node in ast.walk(child) if isinstance(node, ast.expr))


def _line_of_name(node: ast.expr) -> int:
    # The line of the called function's name, or of the attribute.
    function = node.func if isinstance(node, ast.Call) else node
    return (function.end_lineno if isinstance(function, ast.Attribute) else None) or node.lineno


def _instead(text: FileText, node: ast.AST) -> Sequence[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner), args=args) if (
            ways := text.table.get(f".{name}()")
        ) and not isinstance(_meant(text, owner), ModuleType):
            return ways if not args else ways if ".rsample" in ways[0] else ()
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=[first, *_]) if not isinstance(
            first, ast.Starred
        ):
            return _of_function(text, function, first)
        case ast.Attribute(attr=name, value=owner, ctx=ast.Load()) if not isinstance(_meant(text, owner), ModuleType):
            return text.table.get(f".{name}", ())
    return ()


def _of_function(text: FileText, function: ast.expr, first: ast.expr) -> Sequence[str]:
    called = _meant(text, function)
    if called is None:
        return ()
    for key, ways in text.table.items():
        if key.startswith((".", WITH)):
            continue
        module, _, name = key.rpartition(".")
        if name == "*":
            own = getattr(called, "__name__", "")
            if own and getattr(sys.modules.get(module), own, None) is called:
                return [way.replace("*", own) for way in ways if _object(way.replace("*", own)) is not None]
        elif _object(key) is called:
            is_list = isinstance(first, ast.List | ast.Tuple | ast.ListComp)
            return [way for way in ways if not (is_list and way == "{1}")]
    return ()


def _object(dotted: str) -> Any:
    # The object with this dotted name; None if its module was not imported, or lacks it.
    parts = dotted.split(".")
    for many in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:many]))
        for part in parts[many:]:
            found = getattr(found, part, None)
        if found is not None:
            return found
    return None


def _meant(text: FileText, node: ast.expr) -> Any:
    # The value of a global name, or of an attribute of a module; None for other expressions.
    if isinstance(node, ast.Name):
        builtins = text.names.get("__builtins__", {})
        known = builtins if isinstance(builtins, dict) else vars(builtins)
        return text.names.get(node.id, known.get(node.id))
    if isinstance(node, ast.Attribute) and isinstance(owner := _meant(text, node.value), ModuleType):
        return getattr(owner, node.attr, None)
    return None


def _spelled(text: FileText, dotted: str) -> str:
    # A dotted name as the file would spell it; empty if the file lacks the necessary import.
    parts = dotted.split(".")
    for many in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:many]))
        name = next((name for name, value in text.names.items() if module is not None and value is module), "")
        if name:
            return ".".join([name, *parts[many:]])
    return ""


def _with_operands(text: FileText, node: ast.expr, way: str) -> tuple[list[Piece], set[int]]:
    # Return the pieces of an edit, and the identities of the edited nodes. Operands that must be edited as well are
    # included.
    own = _pieces(text, node, way)
    if own is None:
        return [], set()
    pieces, within = list(own), {id(node)}
    for operand in _operands(node):
        ways = _instead(text, operand)
        if ways:
            more, inside = _with_operands(text, operand, ways[0])
            pieces += more
            within |= inside
    return pieces, within


def _operands(node: ast.expr) -> Sequence[ast.expr]:
    match node:
        case ast.Call(func=ast.Attribute(value=owner), args=[]) | ast.Attribute(value=owner):
            return [owner]
        case ast.Call(args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]):
            return parts
        case ast.Call(args=[ast.ListComp(elt=part), *_]):
            return [part]
        case ast.Call(args=[first, *_]):
            return [first]
    return []


def _pieces(text: FileText, node: ast.expr, way: str) -> Sequence[Piece] | None:
    if way == "{0}":
        function = node.func if isinstance(node, ast.Call) else node
        assert isinstance(function, ast.Attribute)
        dot = text.text.rindex(".", 0, text.end(function) - len(function.attr))
        return [(dot, text.end(node), "")]
    if way.startswith("{0}."):
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        end, name = text.end(node.func), way.removeprefix("{0}.").removesuffix("()")
        return [(end - len(node.func.attr), end, name)]
    assert isinstance(node, ast.Call)
    first, start, end = node.args[0], text.start(node), text.end(node)
    open_ = text.text.index("(", text.end(node.func))
    rest = _rest(text, node)
    if "=" in way:
        is_there = any(word.arg == way.partition("=")[0] for word in node.keywords)
        return None if is_there else [(end - 1, end - 1, f", {way}")]
    if way != "{1}":
        name = _spelled(text, way)
        others = rest if way.endswith(".stack") else []
        return [(start, text.end(node.func), name), *others] if name else None
    if isinstance(first, ATOMS) and "\n" not in text.text[open_:end]:
        return [(start, open_ + 1, ""), (rest[0][0] if rest else end - 1, end, "")]
    return [(start, open_, ""), *rest]


def _rest(text: FileText, node: ast.Call) -> list[Piece]:
    # The edit that removes the text behind the first argument of a call; empty if there is no other argument.
    if len(node.args) + len(node.keywords) == 1:
        return []
    comma = text.text.index(",", text.end(node.args[0]))
    return [(comma, text.end(node) - 1, "")]


def _modes(text: FileText, statement: ast.stmt) -> Iterator[Edit]:
    # Edits of statements around a line that switch gradients off: a ``with`` statement, or the only decorator of a
    # function.
    if isinstance(statement, ast.With | ast.AsyncWith):
        for item in statement.items:
            for way in _mode(text, item.context_expr):
                spelled = _spelled(text, way)
                if spelled:
                    at = item.context_expr
                    piece = (text.start(at), text.end(at), spelled)
                    yield Edit(text.file, at.lineno, text.text, (piece,))
    if isinstance(statement, Function) and len(statement.decorator_list) == 1:
        one = statement.decorator_list[0]
        if _mode(text, one):
            sign = text.text.rindex("@", 0, text.start(one))
            name = _qualified(text, statement)
            yield Edit(text.file, one.lineno, text.text, ((sign, text.end(one), ""),), undecorated=name)


def _mode(text: FileText, node: ast.expr) -> Sequence[str]:
    called = _meant(text, node.func if isinstance(node, ast.Call) else node)
    modes = ((key.removeprefix(WITH), ways) for key, ways in text.table.items() if key.startswith(WITH))
    return next((ways for key, ways in modes if called is not None and _object(key) is called), ())


def _qualified(text: FileText, function: Function) -> str:
    # The qualified name of a function in a module or class.
    path: list[str] = []
    body: Sequence[ast.stmt] = ast.parse(text.text).body
    while True:
        around = next((one for one in body if _covers(one, function.lineno)), None)
        path += [around.name] if isinstance(around, Function | ast.ClassDef) else []
        if around is None or not isinstance(around, ast.ClassDef):
            return ".".join(path)
        body = around.body
