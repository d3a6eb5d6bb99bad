"""The sources of each entry: what it was computed from, by the graph and by its line, derivatives or not.

The graph knows only what is differentiated; the line spells the rest. If parts of an expression have entries of their
own (``sub()`` in ``log(x - y)``), those parts are the sources, and not what they read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from backprobe.cuts.mentions import NO_NUMBERS
from backprobe.cuts.usage import uses
from backprobe.record.entries import Entry, Record
from backprobe.record.graph import Graph, inverted
from backprobe.record.inputs import IndirectInput
from backprobe.record.names import split, strip
from backprobe.record.source import Source
from backprobe.source.sites import operation

COMPUTING = (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.Lambda)
LEAF = re.compile(r"(\.\w+)+")  # of a container: ``pair.0``

Place = tuple[str, int, str]
"""File and line of an expression, and the scope that it ran in."""


@dataclass(frozen=True)
class Sources:
    """For each entry: its sources, its consumers, and the names that its expression mentions and no entry holds."""

    direct: Sequence[tuple[int, ...]]
    unknown: Sequence[tuple[str, ...]]
    consumers: Sequence[Sequence[int]]
    parts: Sequence[Mapping[str, int]]  # by the text of a part of the expression
    scopes: Sequence[str]  # with all counts

    @classmethod
    def of(cls, record: Record) -> Sources:
        """Look through a record once, in the order of execution."""
        graph = Graph.of(record)
        scopes = [split(name)[0] for name in graph.full_names]
        made: dict[Place, dict[str, int]] = {}  # what each expression of a line computed last
        direct: list[tuple[int, ...]] = []
        unknown, every = [], []
        for at, entry in enumerate(record.entries):
            source = entry.source if entry.source is not None and entry.source.expression else None
            same_line = {} if source is None else made.setdefault((source.file, source.line, scopes[at]), {})
            parts = {} if source is None else {**{read.spelled: read.at for read in entry.reads}, **same_line}
            mentioned, unresolved = _mentioned(entry, parts)
            inputs = list(graph.inputs[at])
            items = _items(unresolved, [one for one in inputs if scopes[one] == scopes[at]], record.entries)
            parts, unresolved = {**parts, **items}, tuple(name for name in unresolved if name not in items)
            returned = _returned_unseen(entry, parts, {*inputs, *mentioned}, direct)
            passed = [way.at for way in entry.indirect if _gives_numbers(way)]
            direct.append(tuple(dict.fromkeys(one for one in (*inputs, *mentioned, *returned, *passed) if one != at)))
            unknown.append(unresolved)
            every.append(parts)
            if source is not None:
                same_line[source.expression] = at
        return cls(direct, unknown, inverted(direct), every, scopes)


def _mentioned(entry: Entry, parts: Mapping[str, int]) -> tuple[list[int], tuple[str, ...]]:
    """The positions that an expression mentions directly, and the names in it without an entry."""
    tree = None if entry.source is None else parsed(entry.source.expression)
    found: list[int] = []
    unknown = () if tree is None else dict.fromkeys(_walk(tree, parts, found, is_whole=True))
    return found, tuple(unknown)


def _items(names: Sequence[str], inputs: Sequence[int], entries: Sequence[Entry]) -> dict[str, int]:
    """The inputs that names without an entry mean: ``v`` of a comprehension, whose turns are ``v#0``, ``v#1``."""
    known = [strip(entries[one].name).rpartition(":")[2] for one in inputs]
    return {name: one for name, one in zip(known, inputs, strict=True) if name in names and known.count(name) == 1}


def _gives_numbers(way: IndirectInput) -> bool:
    """Is more than the dtype or shape of a value passed on?"""
    found = None if way.source is None else uses(way.source.expression or way.source.text, way.spelled)
    return found is None or any(use.kind != NO_NUMBERS for use in found)


def _returned_unseen(
    entry: Entry, parts: Mapping[str, int], found: set[int], direct: Sequence[tuple[int, ...]]
) -> list[int]:
    """Results of functions that the line called and the expression does not spell: ``vmap(f)(x)`` calls ``f``."""
    told = found.union(*(direct[one] for one in found if one < len(direct)))
    calls = [parts.get(read.spelled) for read in entry.reads if read.spelled.endswith("()")]
    return [at for at in calls if at is not None and at not in told]


@lru_cache(4096)
def parsed(expression: str) -> ast.expr | None:
    """The expression of a source as a tree; None where there is none."""
    try:
        return ast.parse(expression, mode="eval").body if expression else None
    except SyntaxError:  # such as part of a statement, which is not an expression by itself
        return None


MODES = frozenset({"no_grad", "enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_", "zero_grad"})
"""Functions with "grad" in their names that return no gradients."""


@lru_cache(4096)
def reads_gradients(source: Source) -> bool:
    """Does a line mention ``.grad``, or call a function with gradients in its name, as ``clip_grad_norm_``?"""
    tree = parsed(source.expression) or statement(source.text)
    nodes = list(ast.walk(tree)) if tree is not None else []
    called = {operation(node) for node in nodes if isinstance(node, ast.Call)} - MODES
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return "grad" in attributes or any("grad" in name for name in called)


LITERALS = ("inf", "nan", "Inf", "NaN", "infty")
WRITTEN = ("inf", "nan", "infinity")


def writes_nonfinite(source: Source) -> bool:
    """Does a line write NaN or Inf itself?"""
    tree = parsed(source.expression) if source.expression else statement(source.text)
    return tree is not None and any(
        (isinstance(node, ast.Constant) and str(node.value).lower().lstrip("+-") in WRITTEN)
        or (isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).split(".")[-1] in LITERALS)
        for node in ast.walk(tree)
    )


def statement(text: str) -> ast.Module | None:
    """A line of a source as a tree; None where it is not a whole statement."""
    try:
        return ast.parse(text.strip())
    except SyntaxError:
        return None


def _walk(node: ast.AST, parts: Mapping[str, int], found: list[int], *, is_whole: bool = False) -> Iterator[str]:
    """Add the positions of the parts that have an entry to ``found``; yields the names that have none."""
    if isinstance(node, ast.expr) and not is_whole:
        known = _known(node, parts)
        if known:
            found += known
            return
    if isinstance(node, ast.expr) and _is_dotted(node):
        yield ast.unparse(node)
    elif isinstance(node, ast.Call):
        called = _returned(node, parts)
        found += called
        if not called:
            yield from _walk_callee(node.func, parts, found)
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield from _walk(argument, parts, found)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _walk(child, parts, found)


def _walk_callee(function: ast.expr, parts: Mapping[str, int], found: list[int]) -> Iterator[str]:
    """In ``x.sqrt``, the object of the method; ``torch.sqrt`` mentions no value."""
    owner = function.value if isinstance(function, ast.Attribute) else None
    if owner is not None and _is_dotted(owner):
        found += _known(owner, parts)
    elif owner is not None:
        yield from _walk(owner, parts, found)


def _is_dotted(node: ast.expr) -> bool:
    """Is it a name, or attributes of one?"""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _known(node: ast.expr, parts: Mapping[str, int]) -> list[int]:
    text = ast.unparse(node)
    if text in parts:
        return [parts[text]]
    return [
        at for spelled, at in parts.items() if spelled.startswith(text + ".") and LEAF.fullmatch(spelled, len(text))
    ]


def _returned(node: ast.Call, parts: Mapping[str, int]) -> list[int]:
    """The result of a function that was followed, which a read spells ``func()``."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [at for spelled, at in parts.items() if spelled == f"{name}()" or spelled.startswith(f"{name}().")]
    return []


def applied_to(expression: str, parts: Mapping[str, int]) -> tuple[list[int], list[str]] | None:
    """What an expression of one operation is applied to: positions of entries, and names that no entry holds.

    None where it computes more than that, and so where nothing is known of what is in between.
    """
    tree, found = parsed(expression), list[int]()
    named = [keyword.value for keyword in tree.keywords] if isinstance(tree, ast.Call) else []
    given = [*operands(expression, parts), *named]
    if any(_computes(node, parts) for node in given):
        return None
    unknown = [name for node in given for name in _walk(node, parts, found)]
    return found, unknown


def _computes(node: ast.AST, parts: Mapping[str, int]) -> bool:
    """Is something computed in a part of an expression that has no entry?"""
    if isinstance(node, ast.expr) and _known(node, parts):
        return False
    if isinstance(node, ast.Call):
        return not _returned(node, parts)
    is_literal = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    return (isinstance(node, COMPUTING) and not is_literal) or any(
        _computes(child, parts) for child in ast.iter_child_nodes(node)
    )


def operands(expression: str, parts: Mapping[str, int]) -> list[ast.expr]:
    """What the outermost operation of an expression is applied to: of a method, its object first."""
    match parsed(expression):
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Subscript(value=value):
            return [value]
        case ast.Call(func=ast.Attribute(value=owner), args=args) if not _is_dotted(owner) or _known(owner, parts):
            return [owner, *args]
        case ast.Call(args=args):
            return list(args)
    return []
