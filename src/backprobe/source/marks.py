"""Marks are pieces of source text, such as targets and calls, that an instruction may execute. They are found by the
position at which the text ends.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import itemgetter
from typing import Any

from backprobe.source.locate import FUNCTIONS, FunctionNode
from backprobe.source.none_checks import GRADIENT, MayBeNone, reads
from backprobe.source.sites import Origin, Site, augmented, captured, lines_of, names_read, operation, parameters

ALLOWING = "allow_unused"
"""The keyword with which a function such as ``grad`` returns None for inputs that are not connected."""

Place = tuple[int | None, int | None]
"""The line and column at which the text of an instruction ends. Both are None if no text belongs to the instruction."""


class Does(Enum):
    """The kind of effect that an instruction has."""

    BIND = auto()  # binds a name
    WALRUS = auto()  # binds a name in the middle of a statement
    EACH = auto()  # binds the variable of a comprehension
    AUGMENT = auto()  # computes ``u += …``, and may write to the value of ``u``
    STORE_AUGMENTED = auto()  # binds the result of ``u += …``
    EXPOSE = auto()  # reads ``u.data``, through which ``u`` may be written to
    READ_GRADIENT = auto()  # reads ``u.grad``, and the program uses the result
    SET_ATTRIBUTE = auto()
    SET_ITEM = auto()
    CALL = auto()
    END = auto()  # ends a statement that binds nothing
    DELETE = auto()
    READ = auto()
    RETURN = auto()
    RAISE = auto()
    OPEN = auto()  # a comprehension without a frame of its own starts to use a variable
    CLOSE = auto()  # a comprehension without a frame of its own has ended: the name has its old value again


@dataclass(frozen=True, eq=False)
class Mark:
    """A target in the text, with its site, the effect on it, and the positions of the statement or pattern
    around it.
    """

    does: Does
    site: int
    target: ast.expr
    start: Place
    end: Place

    def is_about(self, name: str, place: Place) -> bool:
        """Is the target this variable, and is this place inside the statement or pattern around the target?"""
        return None not in place and self.start <= place <= self.end and self.is_of(name)  # type: ignore[operator]

    def is_of(self, name: str) -> bool:
        """Is the target this variable? In a class, the compiler adds the class's name to a private name."""
        if not isinstance(self.target, ast.Name):
            return False
        written = self.target.id
        return written == name or (written.startswith("__") and name.startswith("_") and name.endswith(written))


@dataclass
class Marks:
    """The marks in the source of one function, class or module. The keys are the positions at which the pieces of text
    end.
    """

    sites: list[Site] = field(default_factory=list)
    arguments: list[tuple[str, int]] = field(default_factory=list)
    stores: dict[Place, Mark] = field(default_factory=dict)
    # Targets in ``match`` patterns. The instructions that store them may have any position in the pattern.
    captured: list[Mark] = field(default_factory=list)
    calls: dict[Place, ast.Call] = field(default_factory=dict)
    comprehensions: set[Place] = field(default_factory=set)
    augmented: dict[Place, ast.expr] = field(default_factory=dict)
    exposed: dict[Place, ast.expr] = field(default_factory=dict)
    gradients: dict[Place, MayBeNone] = field(default_factory=dict)  # reads of ``u.grad`` whose result is used
    allowing: set[Place] = field(default_factory=set)  # calls with ``allow_unused`` whose result is used
    ends: dict[Place, int] = field(default_factory=dict)
    returns: dict[Place, int] = field(default_factory=dict)
    only_return: int | None = None  # the site of a lambda's return value; its instruction has any position

    def stored(self, name: str, place: Place) -> Mark | None:
        """Return the target of an instruction at this position that stores a variable. None if the variable is not in
        the text, because the compiler also stores variables of its own.
        """
        mark = self.stores.get(place)
        if mark is not None and mark.is_of(name):
            return mark
        return next((mark for mark in self.captured if mark.is_about(name, place)), None)

    def stored_beside(self, name: str, place: Place) -> Mark | None:
        """Return the second target of an instruction that stores two variables; None if the text has none. The
        instruction has the position of the first.
        """
        around = [(end, mark) for end, mark in self.stores.items() if mark.is_about(name, place)]
        around += [(mark.end, mark) for mark in self.captured if mark.is_about(name, place)]
        innermost = max((mark.start for _, mark in around), default=None)  # type: ignore[type-var]
        inner = [(_distance(end, place), mark) for end, mark in around if mark.start == innermost]
        return min(inner, key=itemgetter(0))[1] if inner else None


def _distance(one: Place, other: Place) -> tuple[int, int]:
    return abs((one[0] or 0) - (other[0] or 0)), abs((one[1] or 0) - (other[1] or 0))


def marked(node: FunctionNode | ast.ClassDef | ast.Module, lines: Sequence[str]) -> Marks:
    """Return the marks of a function, class or module. ``lines`` are the lines of its file."""
    marker = _Marker(lines)
    marker.function(node)
    marker.tell_reads(node)
    return marker.marks


class _Marker:
    # Collects the marks of one function. Functions and classes inside it have marks of their own.
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.at: Any = None  # the statement or argument that is being read
        self.may_be_none: list[ast.expr] = []
        self.marks = Marks()

    def function(self, node: FunctionNode | ast.ClassDef | ast.Module) -> None:
        for self.at in parameters(node.args) if isinstance(node, FUNCTIONS) else ():
            self.marks.arguments.append((self.at.arg, self._site(self.at.arg, Origin())))
        if isinstance(node, ast.Lambda):
            self.at = node.body
            self.marks.only_return = self._site("return", Origin.of(node.body))
        for part in [node.body] if isinstance(node, ast.Lambda) else node.body:
            self._read(part)

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return
        outer = self.at
        if isinstance(node, ast.stmt):
            self.at = node
        for target, origin in _bindings(node):
            self._target(target, origin, BINDING.get(type(node), Does.BIND))
        self._mark(node)
        for part in ast.iter_child_nodes(node):
            self._read(part)
        self.at = outer

    def _mark(self, node: Any) -> None:
        # Mark the effects of a node, except those of targets that it binds.
        match node:
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.marks.comprehensions.add(_end(node))
            case ast.AugAssign(target=target):
                self.marks.augmented[_end(node)] = target
            case ast.Expr(value=value):
                self.marks.ends[_end(value)] = self._site("", Origin(operation(value), names_read(value)))
            case ast.Delete():
                for each in node.targets:
                    self.marks.ends[_end(each)] = self._site("", Origin(reads=names_read(each)))
            case ast.Return(value=ast.expr() as value):
                self.marks.returns[_end(node)] = self._site("return", Origin.of(value))
            case ast.Attribute(value=owner, attr="data", ctx=ast.Load()):
                self.marks.exposed[_end(node)] = owner
            case ast.Attribute(attr=name, ctx=ast.Load()) if name == GRADIENT:
                self.may_be_none.append(node)
            case ast.Call():
                self.marks.calls[_end(node)] = node
                if any(keyword.arg == ALLOWING for keyword in node.keywords):
                    self.may_be_none.append(node)
            case ast.match_case(pattern=pattern):
                self._captures(pattern)

    def tell_reads(self, function: ast.AST) -> None:
        # Mark expressions that may be None, if the function does more with their values than test them for None.
        for one in reads(function, self.may_be_none) if self.may_be_none else ():
            if isinstance(one.node, ast.Attribute):
                self.marks.gradients[_end(one.node)] = one
            else:
                self.marks.allowing.add(_end(one.node))

    def _captures(self, pattern: ast.pattern) -> None:
        # Mark the names in a pattern. They are bound after the whole pattern has matched, by instructions that may have
        # any position in it.
        for name in captured(pattern):
            site = self._site(name, Origin())
            self.marks.captured.append(Mark(Does.BIND, site, ast.Name(name), _start(pattern), _end(pattern)))

    def _target(self, target: ast.expr, origin: Origin, does: Does) -> None:
        # Mark a target of any kind. Each part of a tuple gets its own origin.
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


BINDING: dict[type[ast.AST], Does] = {
    ast.AugAssign: Does.STORE_AUGMENTED,
    ast.NamedExpr: Does.WALRUS,
    ast.comprehension: Does.EACH,
}
"""By type of node: the effect on its targets, if it is not a simple binding."""


def _bindings(node: ast.AST) -> list[tuple[ast.expr, Origin]]:
    # Return the targets that a node binds, each with the origin of its new value.
    match node:
        case ast.Assign(targets=targets, value=value):
            return [(target, Origin.of(value)) for target in targets]
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            return [(target, Origin.of(value))]
        case ast.AugAssign(target=target):
            return [(target, augmented(node))]
        case (
            ast.For(target=target, iter=given)
            | ast.AsyncFor(target=target, iter=given)
            | ast.comprehension(target=target, iter=given)
        ):
            return [(target, Origin.of_turn(given))]
        case ast.withitem(optional_vars=ast.expr() as target, context_expr=given):
            return [(target, Origin(reads=names_read(given)))]
    return []


def _start(node: Any) -> Place:
    return node.lineno, node.col_offset


def _end(node: Any) -> Place:
    return node.end_lineno, node.end_col_offset
