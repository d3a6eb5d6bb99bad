"""Notes on errors of programs that ask for the number in a value which JAX only traces, or that keep such a value."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import jax

from backprobe.backends.facts import Advice
from backprobe.backends.jax.failed_calls import FailedCall
from backprobe.backends.user_lines import source_at
from backprobe.cuts.cutting_operations import parsed
from backprobe.record.brief import place
from backprobe.record.source import Source
from backprobe.source.user_code import package

VALUE_WANTED = (
    jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)  # fmt: skip

VALUE_IS_TRACED = "the program asks for the number in a value that JAX only traces, as under jax.grad"
INSTEAD_OF_VALUE = (
    "compute with the array itself (jnp.where instead of an if, jnp.sin instead of np.sin), and gradients flow;\n"
    "u.item() gives the number, without a gradient, except inside jit, scan, cond, vmap and checkpoint"
)
WITH_THE_ARRAY = (
    "compute with the array itself: jnp.where or jax.lax.cond instead of an if, jnp.maximum instead of max,\n"
    "& instead of and, | instead of or, ~ instead of not"
)
INDEX = (
    "for an index, an array in the place of a list: jnp.asarray(values)[i];\n"
    "for a shape or the length of a range, a Python number that is not an argument of the traced function"
)
MASK = "keep all elements: jnp.where(mask, x, 0), and jnp.sum(x, where=mask) to sum over some of them"

LEAKED = "a value is used after JAX has traced the function that computed it"
WHY_LEAKED = (
    "it exists while that function is traced, and cannot be kept in a variable from outside, a list or an attribute"
)
RETURNED = {
    "scan": "return it from the step beside the carry, `return carry, value`: jax.lax.scan stacks it, one a step",
    "jit": "return it from the jitted function",
    "grad": "return it from that function beside the loss, `return loss, value`, with has_aux=True",
}
RETURNED_OTHERWISE = "return it from that function"

TRACED_FOR = re.compile(r"traced for (\w+)")
WRAPPED_IN = re.compile(r"wrapped in a (\w+)")
FRAME = re.compile(r"^(.+?):(\d+)(?::\d+)? \(", re.MULTILINE)
OF_DERIVATIVES = ("JVPTracer", "LinearizeTracer", "GradTracer")


def value_wanted(error: BaseException) -> Advice:
    """A program asks for the number in a value."""
    failed = FailedCall.of(error)
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return Advice(VALUE_IS_TRACED, failed.line, _instead_of_truth(failed.line))
    if isinstance(error, jax.errors.TracerIntegerConversionError):
        return Advice(VALUE_IS_TRACED, failed.line, INDEX)
    if isinstance(error, jax.errors.NonConcreteBooleanIndexError):
        why = "how many elements a mask selects is not known while JAX traces"
        return Advice(VALUE_IS_TRACED, failed.line, MASK, why=why)
    return Advice(VALUE_IS_TRACED, failed.line, INSTEAD_OF_VALUE)


def _instead_of_truth(line: Source | None) -> str:
    # What to write in the place of the one part of a line that asks whether a value is true.
    tree = None if line is None else parsed(line.text)
    asking = [] if tree is None else [node for node in ast.walk(tree) if _asks(node)]
    return SPELLED[type(asking[0])](asking[0]) if len(asking) == 1 and not _negates(tree) else WITH_THE_ARRAY


def _negates(tree: ast.AST | None) -> bool:
    # Does a ``not`` ask as well?
    return tree is not None and any(isinstance(node, ast.Not) for node in ast.walk(tree))


def _asks(node: ast.AST) -> bool:
    return type(node) in SPELLED and not (isinstance(node, ast.Compare) and len(node.ops) < 2)


def _joined(node: ast.BoolOp) -> str:
    operator = " & " if isinstance(node.op, ast.And) else " | "
    return operator.join(f"({ast.unparse(value)})" for value in node.values)


def _chained(node: ast.Compare) -> str:
    sides = [node.left, *node.comparators]
    each = [ast.Compare(left, [op], [right]) for left, op, right in zip(sides, node.ops, sides[1:], strict=False)]
    return " & ".join(f"({ast.unparse(one)})" for one in each)


def _chosen(node: ast.IfExp) -> str:
    return f"jnp.where({', '.join(map(ast.unparse, (node.test, node.body, node.orelse)))})"


def _branched(node: ast.If) -> str:
    test = ast.unparse(node.test)
    return f"jnp.where({test}, new, old) for what the branch assigns, or jax.lax.cond({test}, f, g, x)"


def _looped(node: ast.While) -> str:
    return "jax.lax.scan or jax.lax.fori_loop over a fixed number of turns; jax.lax.while_loop has no gradient backward"


SPELLED: dict[type[ast.AST], Callable[..., str]] = {
    ast.BoolOp: _joined, ast.Compare: _chained, ast.IfExp: _chosen, ast.If: _branched, ast.While: _looped,
}  # fmt: skip


def leaked(error: BaseException) -> Advice:
    """A program goes on with a value that a traced function has left somewhere."""
    text = str(error)
    traced, wrapped = TRACED_FOR.search(text), WRAPPED_IN.search(text)
    kind = traced[1] if traced is not None else "grad" if wrapped is not None and wrapped[1] in OF_DERIVATIVES else ""
    made = [(file, int(line)) for file, line in FRAME.findall(text) if package(file.strip()) is None]
    found = ""
    if made and "was created" in text:
        source = source_at(made[-1][0].strip(), made[-1][1])
        found = f"a value of {place(source.file, source.line)}: {source.text}"
    return Advice(LEAKED, FailedCall.of(error).line, RETURNED.get(kind, RETURNED_OTHERWISE), found, WHY_LEAKED)
