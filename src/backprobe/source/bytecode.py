"""What each instruction of a function's code does to the names of its source text.

A block that is running cannot be rewritten: it is watched, instruction by instruction. Only a few instructions matter,
those that store, delete or read a name, call, write in place, or end a statement. Each of them belongs to the piece of
source text that ends at the same place; from there on, names, lines and origins are those of the rewriter.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from types import CodeType
from typing import Any

from backprobe.errors import NoSource
from backprobe.source.locate import FunctionNode, is_class, is_module, locate, locate_class, locate_module
from backprobe.source.rewrite import MAY_WRITE
from backprobe.source.sites import Origin, Site, augmented, lines_of, names_read, operation

Place = tuple[int | None, int | None]
Mark = tuple["Does", int, ast.expr]
"""What happens to a target, and at which site."""
STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
LOADS = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FAST_CHECK")
DELETES = ("DELETE_FAST", "DELETE_NAME", "DELETE_GLOBAL", "DELETE_DEREF")
CALLS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW")


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


@dataclass(frozen=True, eq=False)
class Event:
    """One instruction that matters: what it does, at which site, to which variable or to what the node spells."""

    does: Does
    site: int = -1
    name: str = ""
    node: ast.expr | None = None
    flagged: bool = False  # a call with a keyword that says that it writes
    then: Event | None = None  # what the same instruction does next


@dataclass(frozen=True)
class Events:
    """The events of one code object by the offsets of their instructions, and the sites that they speak of."""

    sites: tuple[Site, ...]
    at: Mapping[int, Event]
    arguments: tuple[tuple[str, int], ...] = ()  # the parameters with their sites
    loads: Mapping[int, str] = field(default_factory=dict)  # the instructions that read a name


@lru_cache(4096)
def events(code: CodeType, around: CodeType, file: str) -> Events:
    """The events of the code of a function or module, or of a comprehension in it. Raises NoSource, StaleSource.

    ``around`` is the function's or module's code, and ``file`` tells equal ones of two files apart.
    """
    if is_rewritten(code):
        raise NoSource(
            f"{code.co_qualname} is already being probed", asked="a block in a function that a probe has rewritten",
            found="the code that reports to the probe outside, and not that of the source text",
            why="names are read from the source text of the code that runs",
            next="probe the function alone, or open the block around what calls it",
        )  # fmt: skip
    return _read(code, _marks(around, file))


def is_rewritten(code: CodeType) -> bool:
    """Is it the code of a function that reports to a probe by itself?"""
    return any(name.startswith("@") for name in code.co_freevars)


@lru_cache(1024)
def _marks(code: CodeType, file: str) -> Marks:
    if is_module(code):
        return _marked(*locate_module(code))
    if is_class(code):
        return _marked(*locate_class(code))
    definition = locate(code)
    return _marked(definition.node, definition.lines)


@dataclass
class Marks:
    """What stands in the source of one function, by the place where each piece of text ends."""

    sites: list[Site]
    stores: dict[Place, Mark]
    calls: dict[Place, ast.Call]
    augmented: dict[Place, ast.expr]
    ends: dict[Place, int]
    returns: dict[Place, int]
    arguments: list[tuple[str, int]]
    exposed: dict[Place, ast.expr] = field(default_factory=dict)
    captured: list[tuple[Place, Place, Mark]] = field(default_factory=list)  # with where their patterns begin and end
    only_return: int | None = None  # of a lambda, wherever its code says that it stands


def _marked(node: FunctionNode | ast.ClassDef | ast.Module, lines: Sequence[str]) -> Marks:
    marker = _Marker(lines)
    marker.function(node)
    return marker.marks


class _Marker(ast.NodeVisitor):
    """Collects the marks of one function; functions and classes inside it have their own."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.at: Any = None  # the statement or argument that is being read
        self.marks = Marks([], {}, {}, {}, {}, {}, [])

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
        start, end = (node.pattern.lineno, node.pattern.col_offset), _end(node.pattern)
        for part in ast.walk(node.pattern):
            name = getattr(part, "rest", None) or getattr(part, "name", None)
            if name is not None:
                mark = Does.BIND, self._site(name, Origin()), ast.Name(name)
                self.marks.captured.append((start, end, mark))
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
            self._mark(target, does, self._site(ast.unparse(target), origin), target)

    def _mark(self, place: Any, does: Does, site: int, target: ast.expr) -> None:
        self.marks.stores[_end(place)] = (does, site, target)

    def _site(self, local: str, origin: Origin) -> int:
        text, *below = lines_of(self.at, self.lines)
        self.marks.sites.append(Site(local, self.at.lineno, text, origin, tuple(below)))
        return len(self.marks.sites) - 1


def _end(node: Any) -> Place:
    return node.end_lineno, node.end_col_offset


@lru_cache(4096)
def names_loaded(code: CodeType) -> tuple[str, ...]:
    """The variables that a piece of code reads, and those of the comprehensions in it."""
    own = [i.argval for i in dis.get_instructions(code) if i.opname in LOADS]
    inside = [name for c in code.co_consts if isinstance(c, CodeType) for name in names_loaded(c)]
    return tuple(dict.fromkeys([*own, *inside]))


def _read(code: CodeType, marks: Marks) -> Events:
    found: dict[int, Event] = {}
    loads: dict[int, str] = {}
    for offsets, instruction in _instructions(code):
        positions = instruction.positions
        place = (positions.end_lineno, positions.end_col_offset) if positions is not None else (None, None)
        event = _event(instruction, place, marks)
        for offset in offsets:
            if event is not None:
                found[offset] = event
            elif instruction.opname in LOADS:
                loads[offset] = instruction.argval
    return Events(tuple(marks.sites), found, tuple(marks.arguments), loads)


def _instructions(code: CodeType) -> Iterator[tuple[list[int], dis.Instruction]]:
    """Each instruction with its offsets: those of the prefixes that widen its argument are its own."""
    offsets: list[int] = []
    for instruction in dis.get_instructions(code):
        offsets.append(instruction.offset)
        if instruction.opname != "EXTENDED_ARG":
            yield offsets, instruction
            offsets = []


def _event(instruction: dis.Instruction, place: Place, marks: Marks) -> Event | None:
    name = instruction.opname
    if name in CALLS:
        call = marks.calls.get(place)
        flagged = call is not None and any(k.arg is None or k.arg in MAY_WRITE for k in call.keywords)
        return Event(Does.CALL, node=call, flagged=flagged)
    if name == "BINARY_OP" and instruction.argrepr.endswith("="):
        target = marks.augmented.get(place)
        return None if target is None else Event(Does.AUGMENT, node=target)
    if name in ("POP_TOP", "PRINT_EXPR", "CALL_INTRINSIC_1"):
        return Event(Does.END, marks.ends[place]) if place in marks.ends else None
    if name in ("LOAD_ATTR", "LOAD_METHOD") and instruction.argval == "data":
        owner = marks.exposed.get(place)
        return None if owner is None else Event(Does.EXPOSE, node=owner)
    if name in DELETES:
        return Event(Does.DELETE, name=instruction.argval)
    if name in ("RETURN_VALUE", "RETURN_CONST"):
        site = marks.returns.get(place, marks.only_return)
        return None if site is None else Event(Does.RETURN, site)
    return _store(instruction, place, marks)


def _store(instruction: dis.Instruction, place: Place, marks: Marks) -> Event | None:
    mark, name = marks.stores.get(place), instruction.opname
    if name.startswith("STORE_") and name not in ("STORE_SUBSCR", "STORE_ATTR"):
        argument = instruction.argval
        mark = _mark_of(argument if isinstance(argument, str) else argument[0], mark, place, marks)
    if mark is None:
        return None
    if name == "STORE_FAST_STORE_FAST":  # from 3.13 on; it stands where the first of the two does
        first, second = instruction.argval
        other = _mark_of(second, _nearest(second, place, marks), place, marks)
        return _named(mark, first, None if other is None else _named(other, second))
    if name == "STORE_FAST_LOAD_FAST":
        return _named(mark, instruction.argval[0])
    if name in STORES:
        return _named(mark, instruction.argval)
    _, site, target = mark
    kind = {"STORE_SUBSCR": Does.SET_ITEM, "STORE_ATTR": Does.SET_ATTRIBUTE}.get(name)
    return None if kind is None else Event(kind, site, node=target)


def _mark_of(name: Any, mark: Mark | None, place: Place, marks: Marks) -> Mark | None:
    """The mark that an instruction is about which stores to a name: the compiler stores some that are not written."""
    if mark is not None and _is_name(mark[2], name):
        return mark
    for start, end, captured in marks.captured if None not in place else ():
        if start <= place <= end and _is_name(captured[2], name):  # type: ignore[operator]
            return captured
    return None


def _nearest(name: str, place: Place, marks: Marks) -> Mark | None:
    """The mark of a variable that stands next to a place: a target of the same statement, before it or after."""
    line, column = place
    ends = [end for end, (*_, target) in marks.stores.items() if _is_name(target, name)]
    if line is None or column is None or not ends:
        return None
    return marks.stores[min(ends, key=lambda end: (abs((end[0] or 0) - line), abs((end[1] or 0) - column)))]


def _is_name(target: ast.expr, name: str) -> bool:
    """Is it this variable? In a class, the compiler writes the class's name before a private one."""
    if not isinstance(target, ast.Name):
        return False
    return target.id == name or (target.id.startswith("__") and name.startswith("_") and name.endswith(target.id))


def _named(mark: Mark, name: str, then: Event | None = None) -> Event:
    return Event(mark[0], mark[1], name, then=then)
