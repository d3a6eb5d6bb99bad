"""Factors that a recording does not contain: parameters in a plain block, and values that a step has overwritten."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

from backprobe.health.record_arrays import RecordArrays
from backprobe.record.entries import Entry
from backprobe.record.graph import reached
from backprobe.record.held import Lost
from backprobe.record.source import expression_of

LAYERS = ("Linear", "Bilinear", "Embedding", "Conv", "BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm")
"""Prefixes of the names of modules that multiply by their parameters.

The derivative of such a module is zero only if its parameters are zero.
"""
MULTIPLYING = frozenset(
    (
        "linear",
        "bilinear",
        "embedding",
        "conv1d",
        "conv2d",
        "conv3d",
        "batch_norm",
        "layer_norm",
        "group_norm",
        "instance_norm",
        "rms_norm",
        "matmul",
        "mm",
        "bmm",
        "mv",
        "dot",
        "einsum",
        "mul",
        "multiply",
        "add",
        "sub",
        "sum",
        "mean",
        "squeeze",
        "unsqueeze",
        "flatten",
        "view",
        "reshape",
        "transpose",
        "permute",
        "expand",
        "contiguous",
        "clone",
        "to",
        "float",
        "double",
        "half",
    )
)
ACTIVATIONS = frozenset(
    (
        "relu",
        "leakyrelu",
        "silu",
        "gelu",
        "elu",
        "selu",
        "celu",
        "softplus",
        "mish",
        "tanh",
        "sigmoid",
        "logsigmoid",
        "hardswish",
        "softmax",
        "logsoftmax",
    )
)
"""Functions whose derivative is not zero between 0 and LARGE in float32."""
LARGE = 6
ITEM = re.compile(r"\['?(\w+)'?\]")  # an item of a container, which a recording names ``p.a``
NOT_KNOWN = "?"  # a call that is known only from the expression


def may_begin_at_zero(arrays: RecordArrays, at: int, consumer: int) -> bool:
    """May a consumer have another factor that is zero, trained, and not recorded?

    No if the consumer's derivative may be zero at this value, because that already explains a zero gradient.
    """
    entry, value = arrays.entries[consumer], arrays.values[at]
    is_active = value is not None and bool(((value.real > 0) & (value.real < LARGE)).any())
    if not all(_multiplies(call) or (is_active and _is_active(call)) for call in _called(entry)):
        return False
    others = [one for one in arrays.graph.inputs[consumer] if one != at and arrays.has_gradient(one)]
    return _hides_one(entry) or any(_is_hidden_zero(arrays, one) for one in others)


def are_added(arrays: RecordArrays, first: int, second: int, consumer: int) -> bool:
    """Does the consumer's expression add or subtract the text for the first entry and the text for the second?"""
    reads = arrays.entries[consumer].reads
    spelled = [{read.spelled for read in reads if read.at == at} for at in (first, second)]
    both = [node for node in ast.walk(_parsed(arrays.entries[consumer])) if all(map(_spelled(node).__and__, spelled))]
    return bool(both) and isinstance(both[-1], ast.BinOp) and isinstance(both[-1].op, ast.Add | ast.Sub)


def _spelled(node: ast.AST) -> set[str]:
    # The names, attributes and items in an expression, as spelled in the source.
    inner = [one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute | ast.Subscript)]
    return {ITEM.sub(r".\1", ast.unparse(one)) for one in inner}


def _is_hidden_zero(arrays: RecordArrays, at: int) -> bool:
    # Was the factor overwritten, or is it zero and computed from parameters that were not recorded?
    if isinstance(arrays.entries[at].held, Lost):
        return True
    value, last = arrays.values[at], list(_called(arrays.entries[at]))[-1:]
    if value is None or value.any() or not all(map(_multiplies, last)):
        return False
    before = reached([at], lambda one: arrays.graph.inputs[one])
    return any(
        arrays.has_gradient(one)
        and arrays.entries[one].is_leaf is False
        and (not arrays.graph.inputs[one] or _hides_one(arrays.entries[one]))
        for one in before
    )


def _called(entry: Entry) -> Iterator[str]:
    # Yield the names of the functions that computed a value: resolved names, or else names from the expression.
    calls = calls_of(entry)
    yield from (call for call in calls if call != NOT_KNOWN)
    if NOT_KNOWN in calls:
        recorded = {read.spelled for read in entry.reads}
        for node in ast.walk(_parsed(entry)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = node.func.value
                # exclude names of libraries, such as ``torch`` in torch.relu(u)
                if not isinstance(of, ast.Name) or of.id in recorded:
                    yield node.func.attr


def calls_of(entry: Entry) -> list[str]:
    """The recorded calls of an entry's expression, by their last names: see ``Source.calls``."""
    return [] if entry.source is None else [call.rpartition(".")[2] for call in entry.source.calls]


def _multiplies(call: str) -> bool:
    return call in MULTIPLYING or call.startswith(LAYERS)


def _is_active(call: str) -> bool:
    # Is the call an activation, or a module that may contain activations and layers?
    return _is_activation(call) or call[:1].isupper()


def _is_activation(call: str) -> bool:
    return call.lower().replace("_", "") in ACTIVATIONS


def _hides_one(entry: Entry) -> bool:
    # Does the expression use a module that may have parameters, or a name that is not a recorded value?
    recorded = {read.spelled for read in entry.reads}
    return any(call[:1].isupper() and not _is_activation(call) for call in calls_of(entry)) or any(
        not _prefixes(name) & recorded for name in _mentioned(_parsed(entry))
    )


def _parsed(entry: Entry) -> ast.AST:
    with suppress(SyntaxError):
        return ast.parse(expression_of(entry.source).strip(), mode="eval")
    return ast.Module([], [])


def _mentioned(node: ast.AST) -> Iterator[ast.AST]:
    # Yield the names in an expression with their attributes, except the names of called functions.
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        base: ast.expr = node
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if isinstance(base, ast.Name):
            yield node
            return
    inner = [*node.args, *node.keywords] if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        inner = [*inner, *([] if isinstance(node.func.value, ast.Name) else [node.func.value])]
    for each in inner:
        yield from _mentioned(each)


def _prefixes(node: ast.AST) -> set[str]:
    found = {ast.unparse(node)}
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
        found.add(ast.unparse(node))
    return found
