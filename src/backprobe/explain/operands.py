"""A remedy for unknown causes: to insert a ``print`` before a line, which shows the values that the line uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.parsed import parsed
from backprobe.explain.text import say
from backprobe.record.source import Source, place_of
from backprobe.source.syntax_nodes import parents


def look_at(flow: Dataflow, line: Source | None) -> str:
    """The remedy to print the values that a line reads, spelled as in the line; or a recording, if none is known."""
    names = [] if line is None else [*dict.fromkeys([*_recorded(flow, line)] or [*_spelled(line)])]
    return say("look", names=", ".join(names)) if names else say("look_whole")


def _recorded(flow: Dataflow, line: Source) -> Iterator[str]:
    # Yield the names by which the line reads recorded values.
    for entry in flow.entries:
        if place_of(entry.source) == place_of(line):
            yield from (read.spelled for read in entry.reads if not read.spelled.endswith("()"))


def _spelled(line: Source) -> Iterator[str]:
    # Yield the variables in the line's text, in order, except names of functions and of objects whose methods are
    # called.
    tree = parsed(line.statement)
    above = {} if tree is None else parents(tree)
    names = [node for node in above if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for node in sorted(names, key=lambda node: (node.lineno, node.col_offset)):
        around = above[node]
        if not (isinstance(around, ast.Attribute) or (isinstance(around, ast.Call) and around.func is node)):
            yield node.id
