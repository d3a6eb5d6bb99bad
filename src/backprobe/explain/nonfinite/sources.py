"""The sources of each entry: what it was computed from, by the graph and by its line, differentiable or not.

The graph shows only differentiable sources; the text of the line shows the rest. If a part of an expression has an
entry of its own, like ``sub()`` in ``log(x - y)``, this part is the source, instead of the values that it reads.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from backprobe.cuts.mentions import mentions_of
from backprobe.cuts.operation_names import MODULES
from backprobe.cuts.parsed import parsed_expression
from backprobe.explain.nonfinite.statements import computed, is_dotted, local_names, parts_of
from backprobe.explain.nonfinite.states import Badness
from backprobe.findings.phrasing import uncommented
from backprobe.record.entries import Entry, Record
from backprobe.record.graph import Graph, kept
from backprobe.record.names import split, strip
from backprobe.record.source import Source
from backprobe.source.sites import operation

COMPUTING = (
    ast.BinOp,
    ast.UnaryOp,
    ast.IfExp,
    ast.ListComp,
    ast.GeneratorExp,
    ast.SetComp,
    ast.DictComp,
    ast.Lambda,
    ast.Call,
)
LEAF = re.compile(r"(\.\w+)+")  # the path of a leaf in a container, such as the ``.0`` of ``pair.0``

Parts = Mapping[str, int]
"""The entries of the parts of an expression, by the texts of these parts."""


@dataclass(frozen=True)
class Sources:
    """For each entry: its sources (``direct``), the names in its expression without an entry (``unknown``), and the
    entries of the parts of its expression.
    """

    direct: Sequence[tuple[int, ...]]
    unknown: Sequence[Sequence[str]]
    parts: Sequence[Parts]

    @classmethod
    def of(cls, record: Record) -> Sources:
        """The sources of a record, cached as long as the record lives."""
        return kept(record, cls, lambda: cls._of(record))

    @classmethod
    def _of(cls, record: Record) -> Sources:
        # Compute all sources in one pass over the record, in execution order.
        graph = Graph.of(record)
        scopes = graph.scopes
        computing = _computing(record, scopes)
        made: dict[tuple[str, int, str], dict[str, int]] = {}  # the latest entry of each expression on a line
        direct: list[tuple[int, ...]] = []
        held = _held_by_attributes(record.entries)
        unknown, every = [], []
        for at, entry in enumerate(record.entries):
            inputs, source = list(graph.inputs[at]), entry.source
            parts, found, unresolved = dict[str, int](), list[int](), list[str]()
            same_line = made.setdefault(_line(entry, computing[at]), {})
            if source is not None and source.expression:
                parts, found, unresolved = _expression(record.entries, at, inputs, scopes, same_line, held)
                same_line[source.expression] = at
            returned = _returned_unseen(entry, parts, {*inputs, *found}, direct)
            by_statement = computed(entry)
            if by_statement is not None:
                parts = {**same_line, **parts_of(by_statement, at, record.entries, scopes, inputs)}
                found, _ = mentioned(walk(by_statement.value, parts))
            sources = (*inputs, *found, *returned, *_passed(at, entry))
            direct.append(tuple(dict.fromkeys(one for one in sources if one != at)))
            unknown.append(unresolved)
            every.append(parts)
        return cls(direct, unknown, every)


def _line(entry: Entry, computing: str) -> tuple[str, int, str]:
    # The key of an entry's line: its file, its line and the scope that computes it.
    return ("", 0, computing) if entry.source is None else (entry.source.file, entry.source.line, computing)


def _expression(
    entries: Sequence[Entry],
    at: int,
    inputs: Sequence[int],
    scopes: Sequence[str],
    same_line: Parts,
    held: Mapping[str, Sequence[int]],
) -> tuple[dict[str, int], list[int], list[str]]:
    # Return the entries of the parts of an expression, the entries that it mentions, and the names in it without an
    # entry.
    entry = entries[at]
    tree = None if entry.source is None else parsed_expression(entry.source.expression)
    parts = {**{read.spelled: read.at for read in entry.reads}, **same_line}
    parts |= _called_objects(tree, parts, entry)
    found, unresolved = mentioned([] if tree is None else walk(tree, parts, is_whole=True))
    items = _items(unresolved, [one for one in inputs if scopes[one] == scopes[at]], entries)
    items |= _attributes(set(unresolved) - items.keys(), inputs, {*parts.values()}, at, held, entries)
    turns = _turns(set(unresolved) - items.keys(), inputs, entries)
    bound = set() if tree is None else bound_within(tree)
    unresolved = [name for name in unresolved if name not in items and name not in bound]
    return {**parts, **items, **turns}, [*found, *items.values()], unresolved


def _passed(at: int, entry: Entry) -> list[int]:
    # The values that an entry received in ways that no edge shows, except a return from a helper function.
    numbers = {mention.source for mention in mentions_of(at, entry)} if entry.indirect else ()
    return [way.at for way in entry.indirect if way.at in numbers and (way.at < at or entry.axes)]


def _called_objects(tree: ast.expr | None, parts: Parts, entry: Entry) -> dict[str, int]:
    # Find the call of an object, such as ``net(x)``, for a read that was recorded by its class, ``Net()``. This
    # requires exactly one such call and one such read.
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    spelled = {f"{operation(call)}()" for call in calls}
    returned = {read.at for read in entry.reads if read.spelled.endswith("()") and read.spelled not in spelled}
    own = [call for call in calls if is_dotted(call.func) and _is_of_program(ast.unparse(call.func), parts)]
    objects = [call for call in own if f"{operation(call)}()" not in parts]
    return {ast.unparse(objects[0]): returned.pop()} if len(objects) == len(returned) == 1 else {}


def _is_of_program(function: str, parts: Parts) -> bool:
    # Is the called function neither a library's nor Python's own, nor a method of a value?
    owner, _, _ = function.rpartition(".")
    return function.partition(".")[0] not in MODULES and function not in vars(builtins) and not _held(owner, parts)


def _computing(record: Record, scopes: Sequence[str]) -> Sequence[str]:
    # Return the scope whose line computed each value. A value returned by a function was computed by that function, not
    # by the caller.
    found = list(scopes)
    for name, at in record.names.items():
        scope = split(name)[0]
        if strip(name).endswith(":return") and len(scope) > len(found[at]):
            found[at] = scope
    return found


def _items(names: Sequence[str], inputs: Sequence[int], entries: Sequence[Entry]) -> dict[str, int]:
    # Return inputs to which a comprehension variable is bound, if there is only one. The variable ``v`` has the entries
    # ``v#0``, ``v#1`` in turn.
    found = {name: [one for one in inputs if name in local_names(entries[one])] for name in names}
    return {name: held[0] for name, held in found.items() if len(held) == 1}


def _turns(names: Set[str], inputs: Sequence[int], entries: Sequence[Entry]) -> dict[str, int]:
    # Return all inputs to which a comprehension variable is bound, one for each iteration: ``v#0``, ``v#1``.
    found: dict[str, int] = {}
    for name in names:
        same = sorted(one for one in inputs if name in local_names(entries[one]))
        found |= {f"{name}#{turn}": one for turn, one in enumerate(same)}
    return found


def _held_by_attributes(entries: Sequence[Entry]) -> Mapping[str, Sequence[int]]:
    # The entries that were bound to attributes in any method, by the attribute's name.
    found: dict[str, list[int]] = {}
    for at, entry in enumerate(entries):
        for local in local_names(entry):
            if "." in local:
                found.setdefault(local, []).append(at)
    return found


def _attributes(
    names: set[str],
    inputs: Sequence[int],
    taken: set[int],
    at: int,
    held: Mapping[str, Sequence[int]],
    entries: Sequence[Entry],
) -> dict[str, int]:
    # Return the entries to which attributes refer. They were bound in another method, or belong to a Variable that has
    # no name in the program.
    found: dict[str, int] = {}
    free = [one for one in inputs if one not in taken]
    for name in names:
        before = [one for one in held.get(name, ()) if one < at]
        flowing = [one for one in before if one in free]
        if flowing or len({entries[one].name.rpartition(":")[0] for one in before}) == 1:
            found[name] = (flowing or before)[-1]
    dotted = [name for name in names - found.keys() if "." in name]
    unnamed = [one for one in free if one not in found.values() and entries[one].source is None]
    return {**found, dotted[0]: unnamed[0]} if len(dotted) == len(unnamed) == 1 else found


def _returned_unseen(entry: Entry, parts: Parts, found: set[int], direct: Sequence[tuple[int, ...]]) -> list[int]:
    # Return results of functions that the line called although its expression does not show the call: ``vmap(f)(x)``
    # calls ``f``.
    told = found.union(*(direct[one] for one in found if one < len(direct)))
    calls = [parts.get(read.spelled) for read in entry.reads if read.spelled.endswith("()")]
    return [at for at in calls if at is not None and at not in told]


GRADIENTS = re.compile(r"\.grad\b|\b(?!(?:(?:no|enable|zero)_grad|set_grad_enabled|requires_grad_?)\()\w*grad\w*\(")
"""Matches text that reads gradients: ``.grad``, and calls such as ``clip_grad_norm_(``."""
NONFINITE = re.compile(r"\b(?:inf|nan|infty|infinity)\b(?!\s*=[^=])", re.IGNORECASE)
"""Matches NaN or Inf as a program writes it, but not a keyword argument of that name."""


def reads_gradients(source: Source) -> bool:
    """Does a line mention ``.grad``, or call a function with "grad" in its name, other than ``no_grad()`` and such?"""
    return GRADIENTS.search(source.expression or source.text) is not None


def written_kinds(of: Source | str) -> set[Badness]:
    """The kinds of constants, NaN or Inf, that a line or an expression contains.

    >>> written_kinds("x.masked_fill(m, float('-inf'))")
    {<Badness.INF: 2>}
    """
    text = of if isinstance(of, str) else of.expression or uncommented(of)
    return {Badness.NAN if word.lower() == "nan" else Badness.INF for word in NONFINITE.findall(text)}


# Functions that visit an expression down to the parts with entries.

Walked = tuple[ast.AST, Sequence[int]]
"""A node of an expression, and the entries that hold its value."""


def walk(node: ast.AST, parts: Parts, *, is_whole: bool = False) -> Iterator[Walked]:
    """Yield the nodes of an expression, without descending into nodes that have entries."""
    held = [] if is_whole or not isinstance(node, ast.expr) else _held(ast.unparse(node), parts)
    if isinstance(node, ast.Call) and not held:  # the read of a function's return value is recorded as ``func()``
        held = _held(f"{operation(node)}()", parts)
    yield node, held
    if not held and not is_dotted(node):
        for child in _inside(node, parts):
            yield from walk(child, parts)


def _inside(node: ast.AST, parts: Parts) -> Iterable[ast.AST]:
    # The child nodes of a node that are values; for a call, its operands.
    match node:
        case ast.Subscript(value=ast.Attribute(value=base, attr="at"), slice=index) if _held(ast.unparse(base), parts):
            return [base, index]  # the operands of JAX's x.at[0]
    return _given(node, parts) if isinstance(node, ast.Call) else ast.iter_child_nodes(node)


def _given(call: ast.Call, parts: Parts) -> list[ast.expr]:
    # The arguments of a call, preceded by the object of a method. In ``torch.sqrt`` the owner is not a value.
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    match call.func:
        case ast.Attribute(value=owner) if not is_dotted(owner) or _held(ast.unparse(owner), parts):
            return [owner, *given]
    return given


def bound_within(tree: ast.AST) -> set[str]:
    """The variables that comprehensions in an expression bind. They are not values from outside."""
    targets = [turns.target for node in ast.walk(tree) for turns in getattr(node, "generators", ())]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def mentioned(walked: Iterable[Walked]) -> tuple[list[int], list[str]]:
    """The entries that expressions mention, and the names in them that have no entry."""
    found, unknown = list[int](), dict[str, None]()
    for node, held in walked:
        found += held
        if not held and is_dotted(node):
            unknown[ast.unparse(node)] = None
    return found, list(unknown)


def _held(text: str, parts: Parts) -> list[int]:
    # The entries of a part of an expression: its own entry, or those of its leaves if it is a container.
    if text in parts:
        return [parts[text]]
    return [
        at for spelled, at in parts.items() if spelled.startswith(text + ".") and LEAF.fullmatch(spelled, len(text))
    ]


def applied_to(expression: str, parts: Parts) -> tuple[list[int], list[str]] | None:
    """Return the operands of an expression with a single operation: entries, and names without an entry.

    The result is None if the expression computes more than that, or contains something unknown.
    """
    walked = [part for node in operands(expression, parts) for part in walk(node, parts)]
    return None if any(not held and _computes(node) for node, held in walked) else mentioned(walked)


def _computes(node: ast.AST) -> bool:
    is_literal = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    return isinstance(node, COMPUTING) and not is_literal


def operands(expression: str, parts: Parts) -> list[ast.expr]:
    """The operands of the outermost operation of an expression, if it is an operator, an index or a call.

    For an index, only the indexed value. For a method, its object comes first.
    """
    match parsed_expression(expression):
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=value) | ast.Subscript(value=value):
            return [value]
        case ast.Call() as call:
            return _given(call, parts)
    return []


def taken(expression: str, parts: Parts) -> set[int]:
    """Return the entries that are direct operands of the outermost operation.

    >>> sorted(taken("torch.where(c, u[0], v)", {"c": 0, "u": 1, "v": 2}))
    [0, 2]
    """
    return {at for node in operands(expression, parts) for at in _held(ast.unparse(node), parts)}
