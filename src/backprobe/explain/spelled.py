"""The spelling of a value inside a container: by an index, a key, or an attribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backprobe.cuts.parsed import parsed
from backprobe.record.entries import Record


def as_written(record: Record, name: str) -> str:
    """Spell a dotted name as the recorded lines do: ``params['weight']`` if ``params`` is used with keys.

    If no line shows the spelling, a number is an index and anything else an attribute.
    """
    written, *steps = name.split(".")
    if "[" in name or not all(step.isidentifier() or step.isdecimal() for step in (written, *steps)):
        return name
    for step in steps:
        is_key = not step.isdecimal() and _is_key(record, written, step)
        written += f"[{step}]" if step.isdecimal() else f"[{step!r}]" if is_key else f".{step}"
    return written


def _is_key(record: Record, held: str, step: str) -> bool:
    # Is this item read by a key? A line with ``held[k]`` also counts, unless a line reads the attribute.
    uses = [node for tree in _lines(record, held) for node in ast.walk(tree)]
    attributes = {node.attr for node in uses if isinstance(node, ast.Attribute) and ast.unparse(node.value) == held}
    keys = [node.slice for node in uses if isinstance(node, ast.Subscript) and ast.unparse(node.value) == held]
    named = {key.value for key in keys if isinstance(key, ast.Constant)}
    return step in named or (step not in attributes and any(isinstance(key, ast.Name) for key in keys))


def _lines(record: Record, held: str) -> Iterator[ast.AST]:
    texts = {entry.source.statement for entry in record.entries if entry.source is not None}
    for text in sorted(text for text in texts if f"{held}[" in text):
        tree = parsed(text)
        if tree is not None:
            yield tree
