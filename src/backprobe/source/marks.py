"""Targets, calls and other pieces of source text that instructions belong to, by the place where each piece ends."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import itemgetter
from typing import Any

from backprobe.source.locate import FunctionNode
from backprobe.source.sites import Origin, Site, augmented, lines_of, names_read, operation

Place = tuple[int | None, int | None]
"""A line and a column, as instructions give them: both None where they belong to no text."""


class Does(Enum):
    """What an instruction does."""

    BIND = auto()  # to a name
    WALRUS = auto()  # the same, in the middle of a statement
    EACH = auto()  # the same, for the variable of a comprehension
    AUGMENT = auto()  # it computes ``u += …`` and may write to what ``u`` holds
    STORE_AUGMENTED = auto()  # the result of that gets its name
    EXPOSE = auto()  # it reads ``u.data``, a way to write behind the back of a framework
    SET_ATTRIBUTE = auto()
    SET_ITEM = auto()
    CALL = auto()
    END = auto()  # of a statement that binds nothing
    DELETE = auto()
    READ = auto()
    RETURN = auto()
    RAISE = auto()
    OPEN = auto()  # a comprehension that runs in the frame around it begins to use a variable of that name
    CLOSE = auto()  # it has ended, and the name is again what it was


@dataclass(frozen=True, eq=False)
class Mark:
    """A target: what happens to it, at which site, and the statement or pattern that it is part of."""

    does: Does
    site: int
    target: ast.expr
    start: Place
    end: Place

    def is_about(self, name: str, place: Place) -> bool:
        """Is it this variable, in a statement or pattern around this place?"""
        return None not in place and self.start <= place <= self.end and self.is_of(name)  # type: ignore[operator]

    def is_of(self, name: str) -> bool:
        """Is it this variable? In a class, the compiler writes the class's name before a private one."""
        if not isinstance(self.target, ast.Name):
            return False
        written = self.target.id
        return written == name or (written.startswith("__") and name.startswith("_") and name.endswith(written))


@dataclass
class Marks:
    """What stands in the source of one function, by the place where each piece of text ends."""

    sites: list[Site] = field(default_factory=list)
    arguments: list[tuple[str, int]] = field(default_factory=list)
    stores: dict[Place, Mark] = field(default_factory=dict)
    captured: list[Mark] = field(default_factory=list)  # by patterns: instructions anywhere in them store these
    calls: dict[Place, ast.Call] = field(default_factory=dict)
    comprehensions: set[Place] = field(default_factory=set)
    augmented: dict[Place, ast.expr] = field(default_factory=dict)
    exposed: dict[Place, ast.expr] = field(default_factory=dict)
    ends: dict[Place, int] = field(default_factory=dict)
    returns: dict[Place, int] = field(default_factory=dict)
    only_return: int | None = None  # of a lambda, wherever its code says that it stands

    def stored(self, name: str, place: Place) -> Mark | None:
        """The target that an instruction at this place is about which stores to a variable; the compiler stores some
        that are not written."""
        mark = self.stores.get(place)
        if mark is not None and mark.is_of(name):
            return mark
        return next((mark for mark in self.captured if mark.is_about(name, place)), None)

    def stored_beside(self, name: str, place: Place) -> Mark | None:
        """The same for an instruction that stores two variables, and stands where the first of them does."""
        around = [(end, mark) for end, mark in self.stores.items() if mark.is_about(name, place)]
        around += [(mark.end, mark) for mark in self.captured if mark.is_about(name, place)]
        innermost = max((mark.start for _, mark in around), default=None)  # type: ignore[type-var]
        inner = [(_distance(end, place), mark) for end, mark in around if mark.start == innermost]
        return min(inner, key=itemgetter(0))[1] if inner else None


def _distance(one: Place, other: Place) -> tuple[int, int]:
    return abs((one[0] or 0) - (other[0] or 0)), abs((one[1] or 0) - (other[1] or 0))


def marked(node: FunctionNode | ast.ClassDef | ast.Module, lines: Sequence[str]) -> Marks:
    """The marks of a function, class or module, whose file has these lines."""
    marker = _Marker(lines)
    marker.function(node)
    return marker.marks


class _Marker(ast.NodeVisitor):
    """Collects the marks of one function; functions and classes inside it have their own."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.at: Any = None  # the statement or argument that is being read
        self.marks = Marks()

    def function(self, node: FunctionNode | ast.ClassDef | ast.Module) -> None:
        if isinstance(node, ast.Module | ast.ClassDef):
            self._statements(node.body)
            return
        given = node.args
        for argument in (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg):
            if argument is not None:
                self.at = argument
                self.marks.arguments.append((argument.arg, self._site(argument.arg, Origin())))
        if isinstance(node, ast.Lambda):
            self.at = node.body
            self.marks.only_return = self._site("return", Origin.of(node.body))
            self.visit(node.body)
        else:
            self._statements(node.body)

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def visit(self, node: ast.AST) -> None:
        outer = self.at
        if isinstance(node, ast.stmt):
            self.at = node
        super().visit(node)
        self.at = outer

    def _comprehension(self, node: Any) -> None:
        self.marks.comprehensions.add(_end(node))
        self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _own(self, node: Any) -> None:
        """What is evaluated here of a function or class inside: its decorators and defaults bind nothing."""

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _own

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._target(target, Origin.of(node.value), Does.BIND)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._target(node.target, Origin.of(node.value), Does.BIND)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.marks.augmented[_end(node)] = node.target
        self._target(node.target, augmented(node), Does.STORE_AUGMENTED)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._target(node.target, Origin.of(node.value), Does.WALRUS)
        self.generic_visit(node)

    def visit_For(self, node: Any) -> None:
        self._target(node.target, Origin(reads=names_read(node.iter)), Does.BIND)
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_withitem(self, node: ast.withitem) -> None:
        if node.optional_vars is not None:
            self._target(node.optional_vars, Origin(reads=names_read(node.context_expr)), Does.BIND)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._target(node.target, Origin(reads=names_read(node.iter)), Does.EACH)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        """What a pattern matches gets its names when all of it has matched, by instructions anywhere in the pattern."""
        for part in ast.walk(node.pattern):
            name = getattr(part, "rest", None) or getattr(part, "name", None)
            if name is not None:
                mark = Mark(
                    Does.BIND, self._site(name, Origin()), ast.Name(name), _start(node.pattern), _end(node.pattern)
                )
                self.marks.captured.append(mark)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.marks.ends[_end(node.value)] = self._site("", Origin(operation(node.value), names_read(node.value)))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.marks.returns[_end(node)] = self._site("return", Origin.of(node.value))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "data" and isinstance(node.ctx, ast.Load):
            self.marks.exposed[_end(node)] = node.value
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.marks.calls[_end(node)] = node
        self.generic_visit(node)

    def _target(self, target: ast.expr, origin: Origin, does: Does) -> None:
        """Mark a target of whatever kind, the parts of a tuple each with its own origin."""
        if isinstance(target, ast.Tuple | ast.List):
            starred = any(isinstance(element, ast.Starred) for element in target.elts)
            for at, element in enumerate(target.elts):
                self._target(element, origin.at(".*" if starred else f".{at}"), does)
        elif isinstance(target, ast.Starred):
            self._target(target.value, Origin(origin.op, origin.reads), does)
        else:
            site = self._site(ast.unparse(target), origin)
            self.marks.stores[_end(target)] = Mark(does, site, target, _start(self.at), _end(self.at))

    def _site(self, local: str, origin: Origin) -> int:
        text, *below = lines_of(self.at, self.lines)
        self.marks.sites.append(Site(local, self.at.lineno, text, origin, tuple(below)))
        return len(self.marks.sites) - 1


def _start(node: Any) -> Place:
    return node.lineno, node.col_offset


def _end(node: Any) -> Place:
    return node.end_lineno, node.end_col_offset
