"""Results without a history: cut off in the function given as ``of=``, or computed only from frozen values."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from types import FunctionType
from typing import Any

from backprobe.cuts.cutting_operations import uses
from backprobe.cuts.mentions import DIFFERENTIATED, NO_NUMBERS
from backprobe.cuts.missing_edges import HISTORY, Dataflow
from backprobe.errors import BackprobeError
from backprobe.explain.module_calls import of_call
from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import listed
from backprobe.findings.report import Finding
from backprobe.record.entries import GradStatus, Record
from backprobe.record.source import Source
from backprobe.record.training import ModuleCall
from backprobe.source.locate import locate
from backprobe.source.user_code import innermost


def cut_in_function(record: Record, function: Callable[..., Any]) -> Finding | None:
    """Make the finding about a function that returned a result without a history although its argument had one.

    Returns None if the argument had none, or the function's code is unknown.
    """
    flow, own = Dataflow.of(record, has_run=False), innermost(function)
    if own is None or not any(flow.has_history(at) for at in record.outputs):
        return None
    code = own.__code__
    found = _cutting(flow, own)
    if found is not None:
        return found
    line = Source(code.co_filename, code.co_firstlineno, linecache.getline(code.co_filename, code.co_firstlineno))
    return finding("cut_in_of", "return", line, record.framework, function=own.__name__)


def _cutting(flow: Dataflow, function: FunctionType) -> Finding | None:
    # If every use of the argument's numbers is a cut, return a finding at the first of them.
    try:
        node = locate(function.__code__).node
    except BackprobeError:
        return None
    argument = node.args.args[0].arg if node.args.args else ""
    statements: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
    known = [(one, uses(ast.unparse(one), argument)) for one in statements if _reads(one, argument)]
    if not known or any(found is None for _, found in known):
        return None
    numbers = [(one, use) for one, found in known for use in found or () if use.kind != NO_NUMBERS]
    if not numbers or any(use.kind in ("", DIFFERENTIATED) for _, use in numbers):
        return None
    line = Source(function.__code__.co_filename, getattr(numbers[0][0], "lineno", 1), ast.unparse(numbers[0][0]))
    return of_call(flow, argument, ModuleCall(line, argument))


def _reads(statement: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(statement))


def frozen_parts(record: Record) -> list[tuple[str, str]]:
    """The fact that no recorded leaf requires a gradient, and the remedy.

    Empty if some value has a history, or if no leaf is frozen.
    """
    leaves = [one.name for one in record.entries if one.status is GradStatus.FROZEN and one.name in record.names]
    if not leaves or any(one.status in HISTORY for one in record.entries):
        return []
    return [("frozen", say("none_requires", names=listed(leaves))), ("next", say("unfreeze"))]
