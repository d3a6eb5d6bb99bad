"""Finds how a function uses the result of a call, or a parameter, by reading the source. Nothing is run.

Only uses that the text proves are reported. A name is followed from statement to statement until each of its uses takes
the value out of the graph. If one use may pass the value on, no use is reported; for a result, only its call is.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from types import CodeType

from backprobe.backends.call_sites import (
    SWITCHES,
    Code,
    Instruction,
    InstructionSite,
    mentions,
    site_at,
    source_of,
    switch,
)
from backprobe.cuts.cutting_operations import use_of, uses
from backprobe.record.source import Source
from backprobe.record.training import ModuleCall
from backprobe.source.by_code import by_code
from backprobe.source.user_code import package

MOST = 8  # the most names that are followed
NOT_PASSED_ON = (
    "shape",
    "detach",
    "data",
    "number",
    "numpy",
    "copied",
    "parameter",
    "index",
    "integer",
    "comparison",
    "count",
)
LOOPS = ast.For | ast.AsyncFor | ast.While
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def uses_of_result(instruction: Instruction) -> tuple[ModuleCall, ...]:
    """Return the statements that take the result of a call out of the graph. If they are not known, return the
    statement with the call itself; if its source is not available, return nothing.
    """
    site = site_at(*instruction)
    if site is None:
        return ()
    file = instruction[0].co_filename
    call = ModuleCall(source_of(file, site.statement), ast.unparse(site.node))
    use = use_of(call.source.statement, call.text)
    if use is None or use.kind:
        return (call,)
    if _is_unread(site):
        return (replace(call, is_unread=True),)
    return _followed(file, site, MOST) or (call,)


def dropped(instructions: Iterable[Instruction]) -> ModuleCall | None:
    """Return, of these nested calls, the one whose result no statement uses; None if there is none. The innermost call
    comes first, and calls that are directly returned are skipped.
    """
    for instruction in instructions:
        site = site_at(*instruction)
        if site is None:
            return None
        is_alone = isinstance(site.statement, ast.Expr) and site.statement.value is site.node
        if is_alone or _is_unread(site):
            return ModuleCall(
                source_of(instruction[0].co_filename, site.statement), ast.unparse(site.node), is_unread=True
            )
        returned = (
            site.statement.body if isinstance(site.statement, ast.Lambda) else getattr(site.statement, "value", None)
        )
        if not isinstance(site.statement, ast.Return | ast.Lambda) or returned is not site.node:
            return None
    return None


@by_code(1024)
def dropping(code: CodeType) -> frozenset[int]:
    """Return the offsets of the instructions whose result the program's code drops immediately, as in an expression
    statement.
    """
    if package(code.co_filename) is not None:
        return frozenset()
    pairs = pairwise(dis.get_instructions(code))
    return frozenset(
        {
            offset
            for one, after in pairs
            if after.opname == "POP_TOP"
            # while a Python function runs, its caller's offset is at the end of the call instruction
            for offset in range(one.offset, after.offset, 2)
        }
    )


def uses_of_parameter(code: CodeType, name: str) -> tuple[ModuleCall, ...]:
    """Return the statements of a module's forward that mention its parameter, if all of them take its value out of the
    graph.
    """
    found = tuple(mentions(code, name))
    known = [use_of(one.source.statement, one.text) for one in found]
    return found if all(use is not None and use.kind in NOT_PASSED_ON for use in known) else ()


def call_under_mode(instruction: Instruction, mode: str) -> tuple[ModuleCall, ...]:
    """Return the statement of a call that ran with gradients disabled, and the ``with`` around it that disabled them,
    if there is one.
    """
    site = site_at(*instruction)
    if site is None:
        return ()
    source = source_of(instruction[0].co_filename, site.statement)
    return (ModuleCall(source, ast.unparse(site.node), mode, switch([instruction])),)


def _followed(file: str, site: InstructionSite, most: int) -> tuple[ModuleCall, ...]:
    # Return the statements that take out of the graph the value which a statement binds; empty if one of the later
    # statements may pass the value on.
    name = _bound(site.statement)
    after = _after(site.statement, name, site.above) if name and most else None
    if after is None:
        return ()
    ways = _Ways(file, name, site.above, most)
    for statements in after:
        if ways.through(statements):
            break
    return tuple(ways.ends) if not ways.is_open else ()


def _is_unread(site: InstructionSite) -> bool:
    name = _bound(site.statement)
    after = _after(site.statement, name, site.above) if name else None
    if after is None:
        return False
    return not any(_is_mentioned(one, name) for statements in after for one in statements)


class _Ways:
    # Follows the value of a name through the statements of a function.
    def __init__(self, file: str, name: str, above: dict[ast.AST, ast.AST], most: int) -> None:
        self.file, self.name, self.above, self.most = file, name, above, most
        self.ends: list[ModuleCall] = []
        self.is_open = False  # may one of the statements pass the value on?

    def through(self, statements: Sequence[ast.AST]) -> bool:
        # Follow the statements in order. Return whether the name is bound to another value after them.
        return any(self._is_over(statement) for statement in statements)

    def _is_over(self, statement: ast.AST) -> bool:
        if isinstance(statement, ast.stmt) and self.name in names_in(statement):
            ends = _ends(self.file, statement, self.name, self.above, self.most)
            self.is_open |= ends is None
            self.ends += ends or ()
        inside = statements_of(statement, "body")
        if isinstance(statement, ast.With):
            return self.through(inside)
        if inside:  # the text does not show whether this body runs
            self.is_open |= any(self.name in names_in(one) for one in ast.walk(statement) if isinstance(one, ast.stmt))
        return isinstance(statement, ast.stmt) and _bound(statement) == self.name


def _ends(
    file: str, statement: ast.stmt, name: str, above: dict[ast.AST, ast.AST], most: int
) -> list[ModuleCall] | None:
    # Return the uses by which a statement takes the value of a name out of the graph; None if the statement may pass
    # the value on.
    source, around = source_of(file, statement), _switched(file, statement, above)
    if around is not None:
        return [ModuleCall(source, name, "torch.no_grad()", around)]
    found = uses(source.statement, name)
    if found is None:
        return None
    passing = [use for use in found if use.kind not in NOT_PASSED_ON]
    if not passing:
        return [ModuleCall(source, name)] if any(use.kind != "shape" for use in found) else []
    further = _followed(file, InstructionSite(statement, statement, above), most - 1)
    return [*further] if further else None


def _switched(file: str, statement: ast.stmt, above: dict[ast.AST, ast.AST]) -> Source | None:
    # Return the innermost ``with`` in the same function that disables gradients for a statement; None if there is none.
    node: ast.AST = statement
    while node in above and not isinstance(node, FUNCTIONS):
        node = above[node]
        if isinstance(node, ast.With) and any(_switches(ast.unparse(item.context_expr)) for item in node.items):
            return source_of(file, node)
    return None


def _switches(context: str) -> bool:
    return any(word in context for word in SWITCHES) and "True" not in context


def _bound(statement: Code) -> str:
    # Return the name to which an assignment with a single target binds its value; "" for other statements and targets.
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _after(statement: Code, name: str, above: dict[ast.AST, ast.AST]) -> list[Sequence[ast.AST]] | None:
    # Return the statements after the one that binds a name, and after each compound statement around it.
    #
    # Return None inside a loop, where earlier statements also run later, and if nested functions may read the name.
    found: list[Sequence[ast.AST]] = []
    node: ast.AST = statement
    while node in above and not isinstance(node, FUNCTIONS):
        node, child = above[node], node
        if isinstance(node, LOOPS | ast.Try | ast.ClassDef):
            return None
        for block in BLOCKS:
            statements = statements_of(node, block)
            if child in statements:
                found.append(statements[statements.index(child) + 1 :])
    is_shared = any(
        name in one.names if isinstance(one, ast.Global | ast.Nonlocal) else _is_mentioned(one, name)
        for one in ast.walk(node)
        if one is not node and isinstance(one, (ast.Global, ast.Nonlocal, *FUNCTIONS))
    )
    return None if is_shared else found


def _is_mentioned(inside: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(inside))


def names_in(statement: ast.stmt) -> set[str]:
    """Return the names that a statement itself reads, without those read in its body."""
    nested = {id(inner) for block in BLOCKS for one in statements_of(statement, block) for inner in ast.walk(one)}
    nodes = [node for node in ast.walk(statement) if id(node) not in nested and isinstance(node, ast.Name)]
    updated = isinstance(statement, ast.AugAssign)
    return {node.id for node in nodes if isinstance(node.ctx, ast.Load) or updated}


def statements_of(statement: ast.AST, block: str) -> Sequence[ast.AST]:
    """Return the statements in a block of a compound statement, such as its ``body``."""
    found = getattr(statement, block, None)
    return found if isinstance(found, list) else ()
