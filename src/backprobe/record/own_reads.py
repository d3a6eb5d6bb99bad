"""The values that an operation itself reads, without values that another part of its line has used.

An expression mentions more than the operands of its outermost operation. A value that was passed to a called function
or module, or to a part of the line with its own entry, belongs to that entry instead. The counter of a loop reads
nothing, although its line mentions the items of the loop.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence, Set
from operator import eq

from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip
from backprobe.record.source import expression_of

LOOPS = ("for ", "async for ")
STEP = re.compile(r"""(?:\.\w+|\[["']\w+["']\]|\[\d+\])""")
"""A step from a container to one of its leaves, as programs write it."""


def own_reads(at: int, entries: Sequence[Entry], inputs: Iterable[int], before: Callable[[int], Set[int]]) -> set[int]:
    """The positions that an entry reads itself. ``inputs`` are its edges, and ``before`` returns all positions that
    flow into an earlier entry, directly or through others.
    """
    entry = entries[at]
    read = {one.at: one.spelled for one in entry.reads if one.at < len(entries) and one.at != at}
    if entry.status is GradStatus.NOT_TENSOR and _is_of_loop(entry):
        return set()
    text = expression_of(entry.source)
    read = {one: spelled for one, spelled in read.items() if not _is_of_other_leaf(text, spelled)}
    called = [one for one, spelled in read.items() if spelled.endswith("()")]
    parts = [one for one in {*inputs, *read} if one < at and _is_part(entries[one], entry)]
    modules = {call for call, _ in _module_calls(text, entries, inputs)}
    if not text or not (called or parts or modules):
        return set(read)
    for call in sorted(modules, key=len, reverse=True):
        text = text.replace(call, " ")
    for part in sorted(parts, key=lambda one: -len(expression_of(entries[one].source))):
        text = text.replace(expression_of(entries[part].source), " ")
    without = _without_calls(text, {read[one].removesuffix("()").rpartition(".")[2] for one in called})
    given = [before(one) for one in called] if without == text else []
    text = without
    return {
        one
        for one, spelled in read.items()
        if spelled.endswith("()") or _mentions(text, spelled) > sum(one in flowing for flowing in given)
    }


def given_to_modules(entry: Entry, entries: Sequence[Entry], inputs: Iterable[int]) -> list[tuple[int, int]]:
    """The values that a line passes to modules, each with the module's return value, which has no line of its own."""
    text = expression_of(entry.source)
    calls = _module_calls(text, entries, inputs)
    read = [one for one in entry.reads if not one.spelled.endswith("()") and not _is_of_other_leaf(text, one.spelled)]
    return [
        (one.at, module)
        for call, module in calls
        for one in read
        if one.at < module and _mentions(call.partition("(")[2], one.spelled)
    ]


def _module_calls(text: str, entries: Sequence[Entry], inputs: Iterable[int]) -> list[tuple[str, int]]:
    # The calls of modules in a text, each with the module's return value, if the name identifies the module.
    returned: dict[str, list[int]] = {}
    for one in inputs:
        if entries[one].source is None and ":" not in entries[one].name:
            returned.setdefault(re.findall(r"\w+", strip(entries[one].name))[-1], []).append(one)
    if not returned or "(" not in text:
        return []
    calls: dict[str, list[str]] = {}
    for function, call in _calls_in(text):
        words = re.findall(r"\w+", function)
        if words and words[-1] in returned:
            calls.setdefault(words[-1], []).append(call)
    return [
        (found[0], returned[name][0])
        for name, found in calls.items()
        if len(found) == len(returned[name]) == 1 and found[0]
    ]


def _without_calls(text: str, functions: Set[str]) -> str:
    # An expression without its calls of these functions, and the arguments of these calls.
    calls = [call for function, call in _calls_in(text) if function.rpartition(".")[2] in functions]
    for call in sorted(filter(None, calls), key=len, reverse=True):
        text = text.replace(call, " ")
    return text


def _calls_in(text: str) -> list[tuple[str, str]]:
    # The functions that an expression calls, each with the text of the call; none if the text is no expression.
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(ast.unparse(node.func), ast.get_source_segment(text.strip(), node) or "") for node in calls]


def _is_of_loop(entry: Entry) -> bool:
    return entry.source is not None and entry.source.text.strip().startswith(LOOPS)


def _is_part(part: Entry, whole: Entry) -> bool:
    # Is ``part`` an unnamed operation within the line of ``whole``?
    is_operation = strip(part.name).endswith("()") and part.source is not None and whole.source is not None
    text = expression_of(part.source)
    return is_operation and bool(text) and text != expression_of(whole.source) and text in expression_of(whole.source)


def _is_of_other_leaf(text: str, spelled: str) -> bool:
    # Does a text mention a container only by leaves other than this one?
    name = re.split(r"[.\[]", spelled)[0]
    return "." in spelled and not _mentions(text, spelled) and bool(_mentions(text, name))


def _mentions(text: str, spelled: str) -> int:
    # Return how often a text mentions a name, with any attribute or index. Mentions of another leaf of the same
    # container do not count, such as ``model.lin.weight`` for ``model.lin.bias``.
    name, *leaf = re.findall(r"\w+", spelled)
    chains = re.findall(rf"(?<![\w.]){re.escape(name)}\b({STEP.pattern}*)", text)
    return sum(all(map(eq, re.findall(r"\w+", chain), leaf)) for chain in chains)
