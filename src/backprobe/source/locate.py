"""Finds the source text from which a code object was compiled."""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from types import CodeType
from typing import Any

from backprobe.errors import NoSource, StaleSource
from backprobe.source.module_code import Inner, module_code, path_to

FUTURE_FLAGS = reduce(int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))

EXECUTED = "<string>"
"""The file name of code made by ``exec``. From Python 3.13 on, ``linecache`` has the text of ``python -c`` under it."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.alias)
"""Nodes that contain no function. Most nodes of a syntax tree are of these types."""


@dataclass(frozen=True)
class Definition:
    """The definition of a function: its node, the classes around it (outermost first), and the lines of its file.

    With ``is_shared`` the node is part of a cached tree, and must not be changed.
    """

    node: FunctionNode
    classes: tuple[str, ...]
    lines: tuple[str, ...]
    is_shared: bool


Found = tuple[FunctionNode, tuple[str, ...]]
"""The node of a function, and the names of the classes around it."""


def locate(code: CodeType) -> Definition:
    """Find the definition of a code object. Raises NoSource or StaleSource.

    For an imported file, only the statement that defines the function is parsed, or the whole text if that fails.
    """
    lines = _lines(code)
    found = _in_statement(code, lines)
    if found is not None:
        return Definition(*found, lines, is_shared=False)
    functions = _parse(code.co_filename, lines)
    found = _matching(code, functions.get((code.co_name, code.co_firstlineno), ()))
    if found is None or not _is_fresh(code, lines):
        raise _stale(code)
    return Definition(*found, lines, is_shared=True)


def _in_statement(code: CodeType, lines: tuple[str, ...]) -> Found | None:
    # Find a function in the lines that the compiler recorded for its definition. Return None if these lines are not
    # enough.
    path = _path(code, lines)
    # Lambdas and comprehensions are part of the statement that defines the function or class around them.
    at = max((at for at, inner in enumerate(path) if not inner.code.co_name.startswith("<")), default=None)
    statement = None if at is None else _parse_alone(lines, path[at])
    if statement is None:
        return None
    classes = tuple(inner.code.co_name for inner in path[:at] if is_class(inner.code))
    return _matching(code, _functions(statement, classes))


def _path(code: CodeType, lines: tuple[str, ...]) -> tuple[Inner, ...]:
    module = module_code(code.co_filename, lines)
    return () if module is None else path_to(code, module)


def _parse_alone(lines: Sequence[str], inner: Inner) -> ast.stmt | None:
    # Return the definition of a function or class, parsed from its own lines only. None if these lines are not exactly
    # one definition, for example after a backslash or form feed.
    own = lines[inner.first - 1 : inner.last]
    head = "if 1:\n" if own[0][:1].isspace() else ""
    text = "\n" * (inner.first - 1 - len(head.splitlines())) + head + "".join(own)
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    if head:
        body = getattr(body[0], "body", [])
    is_it = len(body) == 1 and _place(body[0]) == (inner.code.co_name, inner.first) and body[0].end_lineno == inner.last
    return body[0] if is_it else None


def _place(node: ast.AST) -> tuple[str, int]:
    # Return the name and first line that the compiled code of a definition has.
    lines = [node, *getattr(node, "decorator_list", ())]
    return getattr(node, "name", "<lambda>"), min(getattr(line, "lineno", 0) for line in lines)


def _matching(code: CodeType, functions: Iterable[Found]) -> Found | None:
    # Return the function with this code; None if it is not among these. It is identified by name and line, and a lambda
    # also by its columns, its arguments and the lambdas in it.
    here = (found for found in functions if _place(found[0]) == (code.co_name, code.co_firstlineno))
    if code.co_name != "<lambda>":
        return next(here, None)
    candidates = [(node, classes) for node, classes in here if isinstance(node, ast.Lambda) and covers(node, code)]
    return min(candidates, key=lambda found: _span(found[0]), default=None)  # the innermost of nested lambdas


def _stale(code: CodeType) -> StaleSource:
    return StaleSource(
        f"the source of {code.co_qualname} has changed since it was imported",
        asked=f"the names in {code.co_qualname}",
        found=f"{code.co_filename}:{code.co_firstlineno} no longer compiles to the function that is running",
        why="names are read from the source text, and a changed text would give wrong names",
        next="restart Python, or reload the module",
    )


def is_class(code: CodeType) -> bool:
    """Is this the code of a class's body?"""
    return not code.co_flags & inspect.CO_OPTIMIZED and not is_module(code)


def is_generated(code: CodeType) -> bool:
    """Is this the code of a method that ``dataclasses`` or attrs has generated?"""
    return code.co_qualname.startswith("__create_fn__") or code.co_filename.startswith("<attrs generated")


def is_type_expression(code: CodeType) -> bool:
    """Does the code evaluate a type alias, or the bound of a type parameter?"""
    kinds = tuple(
        getattr(ast, name) for name in ("TypeAlias", "TypeVar", "ParamSpec", "TypeVarTuple") if hasattr(ast, name)
    )
    try:
        tree = _tree(code.co_filename, _lines(code))
    except NoSource:
        return False
    named = (node for node in ast.walk(tree) if isinstance(node, kinds) and node.lineno == code.co_firstlineno)
    return any(getattr(node.name, "id", node.name) == code.co_name for node in named)


def locate_class(code: CodeType) -> tuple[ast.ClassDef, tuple[str, ...]]:
    """Return the definition of the class whose body has this code. Raises NoSource or StaleSource."""
    lines = _lines(code)
    path = _path(code, lines)
    alone = _parse_alone(lines, path[-1]) if path else None
    if isinstance(alone, ast.ClassDef):
        return alone, lines
    for node in ast.walk(_tree(code.co_filename, lines)):
        if isinstance(node, ast.ClassDef) and _place(node) == (code.co_name, code.co_firstlineno):
            if not _is_fresh(code, lines):
                break
            return node, lines
    raise _stale(code)


MODES: Mapping[type[ast.AST], str] = {ast.Interactive: "single", ast.Expression: "eval"}


def is_module(code: CodeType) -> bool:
    """Is this the code of a module, or of a statement in a notebook cell?"""
    return code.co_name == "<module>" or code.co_name.startswith("<cell line:")


def locate_module(code: CodeType) -> tuple[ast.Module, tuple[str, ...]]:
    """Return the syntax tree and the lines from which a module's code was compiled. Raises NoSource or StaleSource."""
    lines = _lines(code)
    tree = _tree(code.co_filename, lines)
    own = code.replace(co_name="<module>", co_qualname="<module>")
    # An interactive prompt compiles statements in another mode, so this is tried too.
    parts: list[ast.Module | ast.Interactive | ast.Expression] = [tree, ast.Interactive(tree.body)]
    parts += [ast.Module([statement], []) for statement in tree.body]
    if tree.body and isinstance(end := tree.body[-1], ast.Expr):  # a cell may compile its last value separately
        parts += [ast.Module(tree.body[:-1], []), ast.Expression(end.value)]
    for module in parts:
        mode = MODES.get(type(module), "exec")
        flags = code.co_flags & FUTURE_FLAGS
        if compile(module, code.co_filename, mode, flags=flags, dont_inherit=True) == own:
            return tree, lines
    raise StaleSource(
        f"the source of {code.co_filename} has changed since it was run",
        asked="the names in it",
        found="a text that does not compile to the code that is running",
        why="names are read from the source text, and a changed text would give wrong names",
        next="run it again",
    )


def text_lines(code: CodeType, *, is_rewritten: bool = False) -> tuple[str, ...]:
    """Return the lines of the text from which a code object was compiled. Raises NoSource or StaleSource.

    The text of rewritten code was checked when the code was rewritten, and is not compared again.
    """
    lines = _lines(code)
    if not is_rewritten and not _is_fresh(code, lines):
        raise _stale(code)
    return lines


def _lines(code: CodeType) -> tuple[str, ...]:
    file = code.co_filename
    if not file.startswith("<"):
        linecache.checkcache(file)
    lines = tuple(linecache.getlines(file)) if file != EXECUTED else ()
    if not lines:
        raise NoSource(
            f"there is no source text for {code.co_qualname}",
            asked=f"the names in {code.co_qualname}",
            found=f"its file is {file!r}, which cannot be read",
            why="names are read from the source text; code run by exec or typed at a prompt has none",
            next="put the function into a file and import it from there; IPython and notebooks keep what is typed",
        )
    return lines


def _tree(file: str, lines: tuple[str, ...]) -> ast.Module:
    try:
        return ast.parse("".join(lines))
    except SyntaxError as error:
        raise NoSource(
            f"{file} does not parse as Python",
            found=str(error),
            why="names are read from the source text; a notebook cell with magics in it has none",
            next="put the function into a cell or file of plain Python",
        ) from error


@lru_cache(128)
def _parse(file: str, lines: tuple[str, ...]) -> dict[tuple[str, int], list[Found]]:
    # Return the functions of a whole file, by name and first line.
    functions: dict[tuple[str, int], list[Found]] = {}
    for node, classes in _functions(_tree(file, lines)):
        functions.setdefault(_place(node), []).append((node, classes))
    return functions


def _functions(tree: ast.AST, classes: tuple[str, ...] = ()) -> Iterator[Found]:
    # Yield every function of a tree, with the names of the classes around it.
    pending = [(tree, classes)]
    while pending:
        node, classes = pending.pop()
        if isinstance(node, FUNCTIONS):
            yield node, classes
        elif isinstance(node, ast.ClassDef):
            classes = (*classes, node.name)
        pending += [(child, classes) for child in ast.iter_child_nodes(node) if not isinstance(child, LEAVES)]


def _span(node: FunctionNode) -> tuple[int, int]:
    lines = (node.end_lineno or 0) - node.lineno
    return lines, (node.end_col_offset or 0) - node.col_offset if not lines else 0


def covers(node: ast.Lambda, code: CodeType) -> bool:
    """Does the code object belong to this lambda? Several lambdas may be on one line, or nested. So the columns, the
    arguments and the number of lambdas inside are compared.
    """
    arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if arguments != list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        return False
    if sum(isinstance(part, ast.Lambda) for part in ast.walk(node)) != _count_lambdas(code):
        return False
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    places = [p for p in code.co_positions() if None not in p and (p[2], p[3]) != (0, 0)]
    return all(start <= (p[0] or 0, p[2] or 0) and (p[1] or 0, p[3] or 0) <= end for p in places)


def _count_lambdas(code: CodeType) -> int:
    # Return the number of lambdas in a code object, including itself.
    inside = sum(_count_lambdas(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return inside + (code.co_name == "<lambda>")


def _is_fresh(code: CodeType, lines: tuple[str, ...]) -> bool:
    # Does the text still compile to the same code? A notebook compiles each statement of a cell separately.
    place, flags = (code.co_name, code.co_firstlineno), code.co_flags & FUTURE_FLAGS
    whole = _compile_all(lines, code.co_filename, flags, False).get(place, ())
    # Pytest compiles assert statements differently, so only the outlines of the code are compared in this case.
    rewritten_by_pytest = any("@py" in name for name in code.co_names + code.co_varnames)
    if code in whole or (rewritten_by_pytest and _outline(code) in map(_outline, whole)):
        return True
    return code in _compile_all(lines, code.co_filename, flags, True).get(place, ())


def _outline(code: CodeType) -> tuple[Any, ...]:
    own = {name for name in code.co_varnames if not name.startswith("@")}
    return own, code.co_argcount, code.co_freevars


@lru_cache(128)
def _compile_all(
    lines: tuple[str, ...], file: str, flags: int, apart: bool
) -> dict[tuple[str, int], tuple[CodeType, ...]]:
    # Return all code objects of a file by name and first line. With ``apart``, each statement is compiled separately.
    found: dict[tuple[str, int], tuple[CodeType, ...]] = {}
    modules = [ast.Module([statement], []) for statement in ast.parse("".join(lines)).body] if apart else []
    pending = [compile(module, file, "exec", flags=flags, dont_inherit=True) for module in modules]
    if not apart:
        text = "".join(lines)
        pending.append(module_code(file, lines) or compile(text, file, "exec", flags=flags, dont_inherit=True))
    while pending:
        code = pending.pop()
        key = (code.co_name, code.co_firstlineno)
        found[key] = (*found.get(key, ()), code)
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found
