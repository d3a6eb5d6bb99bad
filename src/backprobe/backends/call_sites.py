"""Finds the statement of user code that contains an instruction, and the code around it that disables gradients."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from types import CodeType
from typing import NamedTuple

from backprobe.record.source import Source
from backprobe.record.training import ModuleCall
from backprobe.source.by_code import by_code
from backprobe.source.locate import covers
from backprobe.source.syntax_nodes import parents

Instruction = tuple[CodeType, int]
"""A code object, and the offset of its running instruction."""
Code = ast.stmt | ast.Lambda
"""A unit of code: a statement, or a lambda inside a statement. The lambda runs only when it is called."""
Switch = ast.With | ast.AsyncWith | ast.FunctionDef | ast.AsyncFunctionDef
SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")


class InstructionSite(NamedTuple):
    """A statement or lambda, the AST node in it that an instruction executes, and the parent of each node."""

    statement: Code
    node: ast.AST
    above: dict[ast.AST, ast.AST]


def call_site(instruction: Instruction) -> tuple[Source, str] | None:
    """Return the statement around an instruction and the text of the call in it; None if the source is not
    available.
    """
    site = site_at(*instruction)
    if site is None:
        return None
    return source_of(instruction[0].co_filename, site.statement), ast.unparse(site.node)


def mentions(code: CodeType, attribute: str) -> Iterator[ModuleCall]:
    """Yield the statements of a method that mention an attribute of its ``self``."""
    known = _parsed("".join(linecache.getlines(code.co_filename)))
    own = code.co_varnames[0] if code.co_argcount else ""
    tree, above = (known.tree, known.above) if known is not None else (ast.Module([], []), {})
    nodes = (
        node
        for function in ast.walk(tree)
        if _is_of(function, code)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
    )
    for node in nodes:
        statement = _statement(node, above) if ast.unparse(node) == f"{own}.{attribute}" else None
        if statement is not None:
            yield ModuleCall(source_of(code.co_filename, statement), ast.unparse(node))


def _is_of(function: ast.AST, code: CodeType) -> bool:
    # Does this function definition belong to the code object? Several lambdas may be on one line.
    first = code.co_firstlineno
    if isinstance(function, ast.Lambda):
        return code.co_name == "<lambda>" and function.lineno == first and covers(function, code)
    return isinstance(function, ast.FunctionDef) and first in range(_first_line(function), function.body[0].lineno + 1)


def _first_line(function: ast.FunctionDef) -> int:
    # Return the line of the first decorator if there is one, because code objects count from that line.
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


def _statement(node: ast.AST, above: dict[ast.AST, ast.AST]) -> Code | None:
    # Return the innermost statement or lambda that contains this node; None if there is none. A lambda counts, because
    # the rest of the statement around it need not run when the lambda runs.
    while node in above and not isinstance(node, Code):
        node = above[node]
    return node if isinstance(node, Code) else None


def switch(instructions: Sequence[Instruction]) -> Source | None:
    """Return the innermost line around these instructions that may have disabled gradients; None if there is none.

    The innermost instruction comes first.
    """
    sites = ((code.co_filename, site_at(code, at)) for code, at in instructions)
    found = (_switch(file, site) for file, site in sites if site is not None)
    return next((line for line in found if line is not None), None)


def switch_around(line: Source) -> Source | None:
    """Return the innermost line around a statement that may have disabled gradients; None if there is none. ``line`` is
    where the statement begins.
    """
    site = statement_at(line)
    return None if site is None else _switch(line.file, site)


def statement_at(line: Source) -> InstructionSite | None:
    """Return the statement that begins at a line; None if there is none, or if the file has changed since."""
    known = _parsed("".join(linecache.getlines(line.file)))
    if known is None or linecache.getline(line.file, line.line).strip() != line.text:  # the file has changed
        return None
    begun = (node for node in ast.walk(known.tree) if isinstance(node, ast.stmt) and node.lineno == line.line)
    found = next(begun, None)
    return None if found is None else InstructionSite(found, found, known.above)


def _switch(file: str, site: InstructionSite) -> Source | None:
    for node in _around(site):
        named = node.items if isinstance(node, ast.With | ast.AsyncWith) else node.decorator_list
        for one in named:
            if any(word in ast.unparse(one) for word in SWITCHES):
                line = one.context_expr.lineno if isinstance(one, ast.withitem) else one.lineno
                return Source(file, line, linecache.getline(file, line).strip())
    return None


def _around(site: InstructionSite) -> Iterator[Switch]:
    # Yield the ``with`` statements around a statement, and the function that contains it.
    #
    # For a lambda yield none of them, because it may run after the ``with`` statements have ended.
    node: ast.AST = site.statement
    while node in site.above and not isinstance(node, ast.Lambda):
        node = site.above[node]
        if isinstance(node, Switch):
            yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return


@by_code(1024)
def site_at(code: CodeType, at: int, kind: type[ast.AST] = ast.Call) -> InstructionSite | None:
    """Return the site of an instruction: the outermost node of this kind whose value is exactly the result of the
    instruction. Return None if there is no such node, or if the source is not available.
    """
    positions = list(code.co_positions())
    known = _parsed("".join(linecache.getlines(code.co_filename)))
    if known is None or not 0 <= at // 2 < len(positions) or None in positions[at // 2]:
        return None
    node = next((node for node in known.by_position.get(positions[at // 2], ()) if isinstance(node, kind)), None)
    statement = None if node is None else _statement(node, known.above)
    return None if node is None or statement is None else InstructionSite(statement, node, known.above)


def assigned_once(site: InstructionSite, name: str) -> ast.expr | None:
    """Return the expression assigned to a name in the function around a site; None if the name is bound more than once
    there, or other than by a plain assignment.
    """
    around: ast.AST = site.statement
    while around in site.above and not isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        around = site.above[around]
    stored = [
        node
        for node in ast.walk(around)
        if (isinstance(node, ast.arg) and node.arg == name)
        or (isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load))
    ]
    statement = site.above.get(stored[0]) if len(stored) == 1 else None
    return statement.value if isinstance(statement, ast.Assign) else None


class _Parsed:
    # A parsed source text, with the parent of each node, and with the nodes at each position, outermost first.
    def __init__(self, tree: ast.AST) -> None:
        self.tree, self.above = tree, parents(tree)

    @cached_property
    def by_position(self) -> dict[tuple[int | None, ...], list[ast.AST]]:
        found: dict[tuple[int | None, ...], list[ast.AST]] = {}
        placed = attrgetter("lineno", "end_lineno", "col_offset", "end_col_offset")
        for node in ast.walk(self.tree):
            if hasattr(node, "lineno"):
                found.setdefault(placed(node), []).append(node)
        return found


@lru_cache(16)
def _parsed(text: str) -> _Parsed | None:
    try:
        with warnings.catch_warnings():  # Python gave the warnings about this text when it was compiled
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _Parsed(tree)


def source_of(file: str, statement: Code) -> Source:
    """Return the source lines of a statement. Of a compound statement only the head is returned, of a lambda only its
    own text.
    """
    if isinstance(statement, ast.Lambda):
        text, *below = _text(file, statement)
        return Source(file, statement.lineno, text, below=tuple(below))
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    lines = range(statement.lineno, max(last, statement.lineno) + 1)
    texts = [linecache.getline(file, line).rstrip("\n") for line in lines]
    return Source(file, statement.lineno, texts[0].strip(), below=tuple(texts[1:]))


def _text(file: str, node: ast.expr) -> list[str]:
    # Return the lines of an expression without the text before and after it. AST columns count bytes, not characters.
    last = node.end_lineno or node.lineno
    lines = [linecache.getline(file, line).rstrip("\n").encode() for line in range(node.lineno, last + 1)]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][node.col_offset :]
    return [line.decode() for line in lines]
